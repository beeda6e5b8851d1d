"""Sends the rows of a job in batches of the provider, which are answered within hours and often for half the price."""

from .runner import ProviderBatchBackend
from .submit import BatchStore
