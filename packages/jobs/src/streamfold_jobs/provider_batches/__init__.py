"""Sends the rows of a job through the provider's batch API, which may take hours and often costs half the price."""

from .runner import ProviderBatchBackend
from .submit import BatchStore
