"""The rows of a job asked by batches of the provider, which are answered within hours and often cost half as much."""

from .runner import BatchAsker
from .store import BatchStore
