"""What the generators of call streams share: calls, the texts of their arguments, how these are cut, and what is right.

A generator knows which call each fragment belongs to, because it made the fragment. What is right is put together here
from that knowledge alone: the first id and name that are not empty, all text joined, parsed once at the end.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

P = TypeVar("P")

NAMES = ("get_weather", "get_time", "f", "g", "write_file", "search")
STRINGS = (
    *(
        "",
        "a",
        "Oslo",
        "}{",
        '"',
        "\\",
        '{"a":1}',
        "[]",
        "{}",
        "\n",
        "肩部",
        "😀",
        "👩‍🚀",
        "é\u2028x",
        "null",
        "\\u0041",
    ),
    *("data: [DONE]", "</tool_call>", '","b":"', "}}", "1e5", " ", "a" * 40),
)
KEYS = ("a", "b", "city", "", "arguments", "name", "id", "{", "肩")
NOT_OBJECTS = ("[]", '[{"a":1}]', '"text"', "5", "true", "[1,2]")
BROKEN = (
    *(
        '{"a":1,}',
        "{'a':1}",
        '{"a":1}}',
        '{"a":NaN}',
        '{"a":1e999}',
        '{"a":"\n"}',
        '"a":1}',
        '{"a":1}</tool_call>',
        "{a}",
    ),
    *('{"a":1}{"b":2}', "}", "{{}}"),
)
BLANK = (" ", "\n", " \n\t ")


class Declined(Exception):
    """Raised by a deviation that would make the stream ambiguous, or that finds nothing to change."""


@dataclass(frozen=True)
class Deviation(Generic[P]):
    """One thing that a server does differently: changes the plan of a stream."""

    name: str
    phase: int
    weight: float
    group: str
    apply: Callable[[P, random.Random], None]


@dataclass
class Deviations(Generic[P]):
    """The deviations of one API. At most one of each group is in a stream."""

    all: dict[str, Deviation[P]] = field(default_factory=dict)

    def add(
        self, phase: int, weight: float = 1, group: str = ""
    ) -> Callable[[Callable[[P, random.Random], None]], Callable[[P, random.Random], None]]:
        """Registers a function under its own name."""

        def register(apply: Callable[[P, random.Random], None]) -> Callable[[P, random.Random], None]:
            name = apply.__name__
            self.all[name] = Deviation(name, phase, weight, group or name, apply)
            return apply

        return register

    def draw(self, rng: random.Random, count: int) -> tuple[str, ...]:
        """Up to `count` deviations of different groups."""
        left = list(self.all.values())
        drawn: list[Deviation[P]] = []
        while left and len(drawn) < count:
            drawn.append(rng.choices(left, [each.weight for each in left])[0])
            left = [each for each in left if each.group != drawn[-1].group]
        return tuple(each.name for each in drawn)

    def apply(self, names: tuple[str, ...], plan: P, seed: str) -> tuple[str, ...]:
        """Applies these to the plan in the order in which they are defined; returns those that had a place in it."""
        used = []
        for each in self.all.values():
            if each.name not in names:
                continue
            try:
                each.apply(plan, random.Random(f"{seed}:{each.name}"))
            except Declined:
                continue
            used.append(each.name)
        return tuple(used)


@dataclass
class Want:
    """A call that has to be handed out."""

    id: str | None  # None: the server never said one, so it has to be made up
    name: str
    text: str
    exact: bool = True  # raw_arguments is this text; False: a repair made it

    @property
    def parsed(self) -> tuple[dict[str, Any], str | None]:
        """The arguments, and the error."""
        return parse(self.text)


@dataclass
class Expected:
    """What is right for a stream."""

    error: str | None = None  # the class of the error
    calls: list[Want] = field(default_factory=list)
    finish: str | None = None  # None: not said by the documentation
    warnings: set[str] = field(default_factory=set)
    ordered: bool = True
    text: str | None = None
    safe: bool = False  # ambiguous: only what must never happen is checked
    clean: bool = False  # nothing deviates, so there is no warning


@dataclass
class Stream:
    """The bytes of an answer, how they end, and what is right."""

    body: bytes
    interrupted: str | None
    expected: Expected
    used: tuple[str, ...]


def parse(text: str) -> tuple[dict[str, Any], str | None]:
    """Arguments and error of a call with this text: strict JSON, an object; nothing at all is an object too."""
    if not text.strip() or text.strip() == "null":
        return {}, None
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except ValueError:
        value = None
    if isinstance(value, dict):
        return value, None
    return {"_raw": text, "_error": "invalid_json"}, "invalid_json"


def whole(text: str) -> bool:
    """Whether a text is a whole JSON object."""
    return text.strip() not in ("", "null") and parse(text)[1] is None


def full(text: str) -> bool:
    """Whether a text is a whole JSON object with something in it."""
    return whole(text) and parse(text)[0] != {}


def joined(parts: list[str]) -> str:
    """Parts of a text as one; halves of a surrogate pair are joined, one that stays alone is U+FFFD."""
    return "".join(parts).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def value(rng: random.Random, depth: int = 2) -> Any:
    """A random JSON value."""
    kind = rng.random()
    if depth and kind < 0.25:
        return {rng.choice(KEYS): value(rng, depth - 1) for _ in range(rng.randint(0, 3))}
    if depth and kind < 0.4:
        return [value(rng, depth - 1)] * rng.randint(0, 3)
    if kind < 0.8:
        return rng.choice(STRINGS)
    return rng.choice((0, -1, 1.5, True, None, 10**20))


def an_object(rng: random.Random) -> str:
    """The text of a JSON object with at least one member, written in one of several ways."""
    members = {rng.choice(KEYS): value(rng) for _ in range(rng.randint(1, 3))}
    separators = rng.choice(((",", ":"), (", ", ": "), (" ,\n", " : ")))
    return json.dumps(members, ensure_ascii=rng.random() < 0.4, separators=separators)


def arguments(rng: random.Random) -> str:
    """The text of the arguments of a call, of every kind that models write."""
    kind = rng.random()
    text = an_object(rng)
    if kind < 0.67:
        return text
    if kind < 0.70:  # each piece of it looks like the text so far
        key = rng.choice(KEYS)
        depth = rng.randint(2, 4)
        return json.dumps({key: None}).replace("null}", "") * depth + "{}" + "}" * depth
    if kind < 0.74:
        return rng.choice((" ", "\n", "")) + text + rng.choice((" ", "\n\n"))
    if kind < 0.78:
        return text[: rng.randrange(1, len(text))]
    if kind < 0.85:
        return ""
    if kind < 0.90:
        return "{}"
    return rng.choice(((*BLANK, "null"), NOT_OBJECTS, BROKEN)[rng.randrange(3)])


def cut(text: str, rng: random.Random, halves: bool = False) -> list[str]:
    """The text in pieces: whole, one character each, at its JSON tokens, or anywhere; `halves` cuts surrogate pairs."""
    if halves:
        units = text.encode("utf-16-le", "surrogatepass")
        text = "".join(units[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(units), 2))
    kind = rng.random()
    if not text or kind < 0.2:
        return [text] if text else []
    if kind < 0.35 and len(text) <= 60:
        return list(text)
    if kind < 0.4:
        return re.findall(r"[^:]*:|[^:]+$", text)
    if kind < 0.6:
        tokens = [token for token in re.split(r'([{}\[\],:]|"(?:[^"\\]|\\.)*")', text) if token]
        return _some_joined(tokens, rng)
    cuts = sorted(rng.randrange(1, len(text)) for _ in range(rng.randint(1, 5))) if len(text) > 1 else []
    return [part for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True) if (part := text[start:end])]


def _some_joined(tokens: list[str], rng: random.Random) -> list[str]:
    parts = tokens[:1]
    for token in tokens[1:]:
        if rng.random() < 0.5:
            parts[-1] += token
        else:
            parts.append(token)
    return parts


def interleaved(lists: list[list[P]], rng: random.Random) -> list[P]:
    """The lists merged into one; each keeps its own order."""
    queues = [list(reversed(each)) for each in lists if each]
    merged = []
    how = rng.random()
    turn = 0
    while queues:
        turn += 1
        queue = queues[turn % len(queues)] if how < 0.4 else rng.choice(queues)
        merged.append(queue.pop())
        if how > 0.7 and queue and rng.random() < 0.5:
            merged.append(queue.pop())
        queues = [each for each in queues if each]
    return merged


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _finite(number: str) -> float:
    if abs(float(number)) == float("inf"):
        raise ValueError(number)
    return float(number)
