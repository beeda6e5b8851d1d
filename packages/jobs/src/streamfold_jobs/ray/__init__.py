"""Sends the rows of a Ray Dataset to a model. Needs the extra `ray`.

ask           `Ask`, the class for `map_batches`, one object in each worker
dataset       `ask`, which calls `map_batches` with safe settings
answer_cache  stored answers that outlive a worker
"""

from .ask import Ask, AskStoppedError
from .dataset import ask

__all__ = ["Ask", "AskStoppedError", "ask"]
