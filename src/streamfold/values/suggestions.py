"""Parts of messages: suggestions for misspelled words, and lists that may be long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

_MOST = 20  # items of a list


def join_limited(items: Sequence[str], between: str = ", ", rest: str = "more") -> str:
    """Returns a list as text; of a long one the beginning, and how many more there are.

    >>> listed([f"tools[{at}]" for at in range(22)])[-21:]
    'tools[19], and 2 more'
    """
    more = len(items) - _MOST
    return between.join([*items[:_MOST], *([f"and {more} {rest}"] if more > 0 else [])])


def did_you_mean(word: str, words: Iterable[str]) -> str:
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
