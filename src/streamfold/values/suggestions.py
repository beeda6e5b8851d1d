"""Words that errors share: what was probably meant, and pydantic's complaints as somebody would say them.

No text here quotes a value: in a configuration it may be a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

__all__ = ["in_words", "nearest"]

_SAYS = {
    "missing": "must be given",
    "string_type": "must be a string",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "dict_type": "must be a mapping",
    "dataclass_type": "must be a mapping or {class_name}(...)",
    "tuple_type": "must be a list",
    "greater_than_equal": "must not be less than {ge}",
    "literal_error": "must be {expected}",
    "value_error": "{error}",
}


def nearest(word: str, words: Iterable[str]) -> str:
    """The word that was probably meant, as a question; empty if none comes near.

    >>> nearest("chatt", ["chat", "kimi"])
    " (did you mean 'chat'?)"
    """
    words = list(words)
    by_small = {known.lower(): known for known in reversed(words)}
    close = by_small.get(word.lower()) or next(iter(get_close_matches(word, words, n=1)), None)
    return f" (did you mean {close!r}?)" if close else ""


def in_words(error: Mapping[str, Any]) -> str:
    """One of pydantic's errors: what the value must be."""
    says: str = _SAYS.get(error["type"], error["msg"])
    return says.format(**error.get("ctx", {})) if error["type"] in _SAYS else says
