"""Asks about the rows of a Ray Dataset. Needs the extra `ray`.

ask           `Ask`, the class for `map_batches`: one in each worker
dataset       `ask`, which gives `map_batches` the settings that make it safe
answer_cache  answers that outlive a worker
"""

from .ask import Ask, AskStoppedError
from .dataset import ask

__all__ = ["Ask", "AskStoppedError", "ask"]
