"""The rows of a job asked by batches of the provider, which are answered within hours and often cost half as much."""

from .asker import BatchAsker
from .store import BatchStore
