"""A cache of turns: what clients leave out of earlier turns (reasoning, signatures, encrypted items) is given back.

turns     which turn is which, and what a turn that came back has lost
cache     keeps them in a store (`streamfold.stores`), and `answer` is the stream that uses it

Provisional: a minor version may change or remove a name without a deprecation.
"""

from .answer import RememberedAnswer
from .cache import Recalled, TurnCache, TurnStore, read_turn_cache

__all__ = ["Recalled", "TurnCache", "TurnStore"]
