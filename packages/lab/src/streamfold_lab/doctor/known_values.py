"""Creates random codes and filler texts for prompts, and finds these codes in requests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

from .values import ProbeRequest, ProbeResponse

GREET = "Say hello in one short sentence."
CODE_TOKENS = 400  # the token limit for a response with codes after some reasoning
BOTH = "What are the first code and the last code? Answer with the two codes only."
_WORDS = ("amber", "birch", "cedar", "delta", "ember", "flint", "grove", "heron", "ivory", "jade", "karst", "linden")
CODE = re.compile(rf"\b(?:{'|'.join(_WORDS).upper()})-[1-9]\d{{3}}\b")
_TOLD = re.compile(rf"The (\w+) code is ({CODE.pattern})")


def with_random_values(make: Callable[[Random], ProbeRequest]) -> ProbeRequest:
    """Returns the request that `make` creates. Each repetition calls `make` again, for other random values."""
    return replace(make(Random(0)), fresh=make)  # noqa: S311 - these values are never sent


def code(rng: Random) -> str:
    """Returns a random code, such as HERON-4821."""
    return f"{rng.choice(_WORDS).upper()}-{rng.randrange(1000, 10_000)}"


def codes(rng: Random, count: int) -> list[str]:
    """Returns several random codes, all with different words and numbers."""
    words, numbers = rng.sample(_WORDS, count), rng.sample(range(1000, 10_000), count)
    return [f"{word.upper()}-{number}" for word, number in zip(words, numbers, strict=True)]


def filler(rng: Random, characters: int) -> str:
    """Returns a text of simple English sentences that has at least `characters` characters."""
    subjects = ("The river", "A traveller", "The old town", "The market", "A quiet street", "The library")
    verbs = ("follows", "describes", "crosses", "changes", "forgets", "admires")
    things = ("the long winter", "a narrow bridge", "the light of evening", "a slow conversation", "the green hills")
    written: list[str] = []
    size = 0
    while size < characters:
        sentence = (
            f"{rng.choice(subjects)} {rng.choice(verbs)} {rng.choice(things)} in year {rng.randrange(1000, 2000)}."
        )
        written.append(sentence)
        size += len(sentence) + 1
    return " ".join(written)


def two_codes(rng: Random, between: str) -> str:
    """Returns a text that begins with one code and ends with another."""
    first, last = codes(rng, 2)
    return f"The first code is {first}. {between} The last code is {last}."


def told_codes(text: str) -> dict[str, str]:
    """Finds the random codes that a prompt tells the model. Returns each code by its name, such as "first".

    >>> told_codes("The first code is HERON-4821. The last code is IVORY-1234.")
    {'first': 'HERON-4821', 'last': 'IVORY-1234'}
    """
    return dict(_TOLD.findall(text))


def prompts_of(seen: ProbeResponse) -> list[str]:
    """Returns the texts of all user messages in a request."""
    body = seen.sent
    found: list[str] = []
    for message in body.get("messages") or body.get("input") or body.get("contents") or ():
        if message.get("role") != "user":
            continue
        content = message.get("content") or message.get("parts")
        parts = [{"text": content}] if isinstance(content, str) else content or ()
        found.append("".join(part.get("text", "") for part in parts if isinstance(part, Mapping)))
    return found


def prompt_of(seen: ProbeResponse) -> str:
    """Returns the text of the last user message in a request."""
    return next(reversed(prompts_of(seen)), "")


def sent_text(seen: ProbeResponse) -> str:
    """Returns the body of a request as JSON text."""
    return json.dumps(seen.sent, ensure_ascii=False)


def as_json(value: Any) -> str:
    """Returns a value as JSON text, for a prompt."""
    return json.dumps(value, ensure_ascii=False)
