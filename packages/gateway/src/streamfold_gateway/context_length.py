"""Prompts that are too long for a model, as clients of the Messages API understand it.

Claude Code compacts a conversation when it reads `prompt is too long: 130000 tokens > 128000 maximum`. In any other
words the same error is the end of its turn. How each server says it is in `providers/facts/errors.toml`.
"""

from __future__ import annotations

from streamfold.types import ErrorInfo

_PHRASE = "prompt is too long"


def prompt_too_long(info: ErrorInfo) -> str | None:
    """Returns the message for clients of the Messages API if an error says that the prompt is too long, else None.

    Numbers are only repeated, never made up: without both of them, the message has the server's own words.

    >>> prompt_too_long(ErrorInfo("Your request exceeded model token limit: 262144 (requested: 300000)"))
    'prompt is too long: 300000 tokens > 262144 maximum'
    >>> prompt_too_long(ErrorInfo("There is no such model"))
    """
    meaning = info.meaning()
    if meaning is None or meaning.kind != "context_length":
        return None
    if _PHRASE in info.message.lower():
        return info.message
    known = meaning.tokens and meaning.limit
    said = f"{meaning.tokens} tokens > {meaning.limit} maximum" if known else info.message
    return f"{_PHRASE}: {said}"
