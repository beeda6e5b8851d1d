"""The rows of a job asked by batches of the provider, which are answered within hours and often cost half as much."""

from .runner import ProviderBatchBackend
from .submit import BatchStore
