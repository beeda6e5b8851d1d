"""Google's Interactions API: requests and answers."""

from .adapter import InteractionsAdapter
from .decode import STATUSES
from .errors import interactions_error_body
