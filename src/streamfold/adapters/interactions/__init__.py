"""The adapter for Google's Interactions API."""

from ..google_usage import INTERACTIONS_USAGE
from .adapter import InteractionsAdapter
from .decode import STATUSES
from .errors import interactions_error_body
