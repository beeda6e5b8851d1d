"""Parses a tool call's arguments. Text that isn't a JSON object becomes `{"_raw": text, "_error": "invalid_json"}`.

The parser repairs only unambiguous damage that servers are known to cause. The reply has a warning for each repair.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import dropwhile, pairwise
from typing import Any, NamedTuple

from .parsing import join_surrogates, object_or_none, parse_object, parse_values

_EMPTY = ("", "{}", "null", "[]", '""')


class ParsedArguments(NamedTuple):
    """Parsed arguments of a tool call.

    Attributes:
        raw: the text that was parsed.
        repair: describes the repair, if the arguments were repaired.
        has_conflict: true if the joined fragments and the complete text differ.
    """

    value: dict[str, Any]
    raw: str
    repair: str | None = None
    has_conflict: bool = False

    @property
    def valid(self) -> bool:
        return "_error" not in self.value or self.value != invalid_arguments(self.raw)


def read_arguments(pieces: Sequence[str], wholes: Sequence[str] = (), *, repair: bool = True) -> ParsedArguments:
    """Parses a tool call's arguments from their fragments, and from complete texts that the server sent in addition.

    The result is the first of these that exists:

    1. The last complete text that is an object with fields (vllm-project/vllm#42683).
    2. The joined fragments, if they are an object with fields.
    3. A text that isn't an object, except the beginning of an empty object. The program can't run such a tool call.
    4. An empty object. It comes after 3, so that an empty complete text never replaces damaged fragments.
    5. Another empty value, such as `[]`.

    Args:
        repair: true to repair damage that servers are known to cause. False for arguments that the model wrote into its
            text, because servers don't change such arguments.
    """
    joined = join_surrogates("".join(pieces))
    if not wholes or list(wholes) == [joined]:
        return _read(joined, pieces, repair=repair)
    readings = [_read(join_surrogates(whole), [whole], repair=repair) for whole in reversed(wholes)]
    damaged = [reading for reading in readings if not reading.valid]
    if joined:
        readings.append(_read(joined, pieces, repair=repair))
        damaged += readings[-1:] if not (readings[-1].valid or is_empty_wrapper(joined)) else []
    full = (reading for reading in readings if reading.valid and reading.value)
    empty = (reading for reading in readings if reading.valid)
    chosen = next(full, None) or next(iter(damaged), None) or next(empty, readings[0])
    return chosen._replace(has_conflict=len(readings) > 1)


def is_empty(arguments: str) -> bool:
    """Returns whether the arguments contain no text, or only an empty value such as `{}`."""
    return len(arguments) < 100 and "".join(arguments.split()) in _EMPTY


def is_empty_wrapper(arguments: str) -> bool:
    """Returns whether a text is an empty value such as `{}`. Also accepts `}`, because only `}` is left of an empty
    object if an SSE event was lost."""
    text = "".join(arguments.split()) if len(arguments) < 100 else arguments
    return any(_is_left_of(empty, text) for empty in _EMPTY)


def _is_left_of(whole: str, text: str) -> bool:
    rest = iter(whole)
    return all(char in rest for char in text)


def invalid_arguments(raw: str) -> dict[str, Any]:
    """Returns the dict that replaces arguments that aren't a JSON object."""
    return {"_raw": raw, "_error": "invalid_json"}


def _read(raw: str, pieces: Sequence[str], *, repair: bool = True) -> ParsedArguments:
    if not raw.strip():
        return ParsedArguments({}, raw)
    try:
        value = parse_object(raw)
    except ValueError:
        repaired = (_repeated(raw) or _cumulative(pieces)) if repair else None
        return repaired or ParsedArguments(invalid_arguments(raw), raw)
    if isinstance(value, dict):
        return ParsedArguments(value, raw)
    if value is None:
        return ParsedArguments({}, raw)
    if repair and isinstance(value, str) and (inner := object_or_none(value)) is not None:  # vllm-project/vllm#54964
        return ParsedArguments(inner, value, "the arguments were JSON-encoded twice")
    return ParsedArguments(invalid_arguments(raw), raw)


def _repeated(raw: str) -> ParsedArguments | None:
    """Parses an object that the server sent several times, or after empty objects. Bedrock starts with `{}`."""
    try:
        values = parse_values(raw)
    except ValueError:
        return None
    full = list(dropwhile(lambda pair: pair[0] == {}, values)) or values
    different = {json.dumps(value, sort_keys=True) for value, _ in full}  # `==` would take true for 1
    if len(values) < 2 or len(different) > 1 or not isinstance(full[0][0], dict):
        return None
    repair = (
        "repeated arguments were dropped" if len(full) > 1 else "an empty object in front of the arguments was dropped"
    )
    return ParsedArguments(full[0][0], full[0][1], repair)


def _cumulative(pieces: Sequence[str]) -> ParsedArguments | None:
    """Parses fragments if each fragment repeats all previous text (lobehub/lobehub#13506)."""
    texts = [piece for piece in pieces if piece]
    if len(texts) < 2 or not all(after.startswith(before) for before, after in pairwise(texts)):
        return None
    value = object_or_none(texts[-1])
    if value is None:
        return None
    return ParsedArguments(value, texts[-1], "each delta repeated the previous arguments")
