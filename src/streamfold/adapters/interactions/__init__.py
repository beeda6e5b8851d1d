"""Google's Interactions API: requests and answers."""

from ..google_usage import INTERACTIONS_USAGE
from .adapter import InteractionsAdapter
from .decode import STATUSES
from .errors import interactions_error_body
