"""Google's Interactions API: requests and answers, and the same for a server that speaks it to clients."""

from .adapter import InteractionsAdapter
from .decode import STATUSES
from .errors import interactions_error_body
