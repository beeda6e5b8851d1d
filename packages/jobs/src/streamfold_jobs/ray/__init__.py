"""Asks about the rows of a Ray Dataset. Needs the extra `ray`.

actor    `Ask`, the class for `map_batches`: one in each worker
dataset  `ask`, which gives `map_batches` the settings that make it safe
table    batches, their rows, and the columns of the answers
kept     answers that outlive a worker
sealed   what may travel to the workers: no keys
"""

from .actor import Ask, AskStoppedError
from .dataset import ask

__all__ = ["Ask", "AskStoppedError", "ask"]
