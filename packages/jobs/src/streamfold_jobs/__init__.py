"""Batch jobs: send many rows to a model and store the answers, so that a killed job can be continued.

Provisional: a minor version may change or remove a name without a deprecation.
"""

from .answers import ANSWER_COLUMNS, Answer, JobSummary
from .job import BatchJob, batch
from .ledger import Ledger
from .output import check_output, export
from .provider_batches import BatchStore
from .rows import Rows
from .settings import JobPausedError, schema_check

__all__ = ["Answer", "BatchJob", "JobPausedError", "JobSummary", "batch"]

BatchJob.__module__ = JobPausedError.__module__ = __name__  # the module from which users import them
