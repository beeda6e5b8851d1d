"""Suggestions for misspelled words in error messages."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, words: Iterable[str]) -> str:
    """Returns the word that was probably meant, as a question; empty if no word is similar.

    >>> nearest("chatt", ["chat", "kimi"])
    " (did you mean 'chat'?)"
    >>> nearest("nope", ["openai"])  # three letters in common are not enough
    ''
    """
    words = list(words)
    by_small = {known.lower(): known for known in reversed(words)}
    close = by_small.get(word.lower()) or next(iter(get_close_matches(word, words, n=1, cutoff=0.66)), None)
    return f" (did you mean {close!r}?)" if close else ""
