"""Parses and writes JSON text, joins halves of surrogate pairs, reads members of foreign JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from pydantic_core import from_json, to_json

# JSON texts to values: leniently for what a server frames, strictly for what a model wrote.
# `pydantic_core.from_json` does the work, about twice as fast as `json`; `json` is asked where the two disagree in
# favour of the sender.


def parse_event(data: str) -> Any:
    """The value of an event's payload. Raises ValueError if it has none.

    An integer too long for Python to convert (more than 4,300 digits) becomes None; the rest of the event is read.

    Half a surrogate pair (`"\\ud83d"`) is accepted: some servers cut a character in two when they cut an answer into
    pieces, and the other half comes in the next event (fixtures/aimock/unicode).
    """
    try:
        return from_json(data)
    except (ValueError, TypeError):  # TypeError: a str that holds the half itself
        pass
    try:
        return _LENIENT.decode(data)
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc


def parse_object(text: str) -> Any:
    """A value by the rules of RFC 8259: no NaN, no Infinity, no raw control characters. Raises ValueError.

    A number that is too large for a float (`1e999`) is refused as well: no JSON writer could send it back.
    """
    try:
        value = from_json(text, allow_inf_nan=False)
        if round_trips(value) or not _MAYBE_INFINITE.search(text):
            return value
    except (ValueError, TypeError):
        pass
    try:
        return without_surrogates(_STRICT.decode(text))
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc


def dump_compact(value: Any) -> str:
    """A value that was parsed as JSON text without blanks. What JSON does not have, NaN, stands in it as it came."""
    try:
        return to_json(value, inf_nan_mode="constants").decode()
    except ValueError:  # nested deeper than it goes
        return _COMPACT.encode(value)


def round_trips(value: Any) -> bool:
    """Whether a parsed value is an object that `parse_object` surely reads again from what `dump_compact` writes.

    >>> round_trips({"a": 1, "b": None}), round_trips({"a": float("inf")}), round_trips([])
    (True, False, False)
    """
    return type(value) is dict and _SMALL.issuperset(map(type, value.values()))


def is_truncated_json(text: str) -> bool:
    """Whether the text is the beginning of a JSON text: cut off, rather than wrong, or whole with more behind it."""
    try:
        _STRICT.raw_decode(text.lstrip())
        return False
    except (ValueError, RecursionError):
        pass
    try:
        json.JSONDecoder().raw_decode(text)
        return False  # a whole value, and something after it
    except (ValueError, RecursionError):
        pass
    try:
        from_json(text, allow_partial=True)
    except (ValueError, TypeError):
        return False
    return True


def partial_value(text: str, *, ended: bool = False) -> Any:
    """The value of the beginning of a JSON text, as far as it goes; None if there is none. Strings are cut off.

    Args:
        ended: nothing more will come, so that a number at the end is complete.

    >>> partial_value('{"a": [1, 23], "b": "Hel'), partial_value('{"a": [1, 23')
    ({'a': [1, 23], 'b': 'Hel'}, {'a': [1]})
    """
    try:
        if not ended and (number := _OPEN_NUMBER.search(text)) and '"' not in _STRING.sub("", text):
            text = text[: number.start()]
        return without_surrogates(_beginning(text))
    except (ValueError, TypeError):
        return None


def partial_event(data: str) -> Any:
    """The value of the beginning of an event's payload, as far as it goes; None if there is none.

    Halves of surrogate pairs stay, because the other half may be in another event.

    >>> partial_event('{"text": "Hel'), partial_event('{"text": "\\\\ud83d", "at') == {"text": "\\ud83d"}
    ({'text': 'Hel'}, True)
    """
    try:
        return _beginning(data)
    except (ValueError, TypeError):
        return None


def _beginning(text: str) -> Any:
    """Parses the beginning of a JSON text. Raises ValueError or TypeError if there is none."""
    if not _LONE_HALF.search(text):
        return from_json(text, allow_partial="trailing-strings")
    # `from_json` refuses a half: it is written as U+0000 and its digits, and back.
    marked = _ESCAPE.sub(lambda found: f"\\u0000{found[1]}" if found[1] else found[0], text)
    whole = json.dumps(from_json(marked, allow_partial="trailing-strings"))
    return json.loads(_MARKED.sub(lambda found: f"\\u{found[1]}" if found[1] else found[0], whole))


def parse_values(text: str) -> list[tuple[Any, str]]:
    """The values of JSON texts in a row, each with its own text. Raises ValueError if anything else is there."""
    found: list[tuple[Any, str]] = []
    at = 0
    try:
        while at < len(text):
            if text[at] in " \t\r\n":
                at += 1
                continue
            value, end = _STRICT.raw_decode(text, at)
            found.append((without_surrogates(value), text[at:end]))
            at = end
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc
    return found


def replace_non_finite(value: Any) -> Any:
    """The value with None for every NaN and Infinity, which JSON does not have; the same object if it has none.

    >>> finite({"score": float("nan"), "of": [1, float("inf")]})
    {'score': None, 'of': [1, None]}
    """
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            made: Any = {key: replace_non_finite(item) for key, item in value.items()}
            changed = any(made[key] is not item for key, item in value.items())
        case list():
            made = [replace_non_finite(item) for item in value]
            changed = any(new is not item for new, item in zip(made, value, strict=True))
        case _:
            return value
    return made if changed else value


def join_surrogates(text: str) -> str:
    """Text that can be encoded: halves of a surrogate pair are joined, a half that is alone becomes U+FFFD.

    >>> join_surrogates("\\ud83d\\udc4b") == "\\U0001f44b"
    True
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def whole_characters(text: str) -> str:
    """Text that grows, fit to be shown: as `join_surrogates`, but half a character at its end waits for the other half.

    >>> whole_characters("a\\ud83d"), whole_characters("a\\ud83d\\udc4b") == "a\\U0001f44b"
    ('a', True)
    """
    return join_surrogates(text[:-1] if "\ud800" <= text[-1:] <= "\udbff" else text)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:40]} is too large a number")
    return value


def _integer(text: str) -> int | None:
    return int(text) if len(text) < _LONGEST_INTEGER else None


_OPEN_NUMBER = re.compile(r"(?:^|(?<=[\s,:\[]))-?[0-9][0-9.eE+-]*$")  # 1 may be the beginning of 18
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)  # behind those that are complete, a quote begins another one
_LONE_HALF = re.compile(r"\\u[dD][89a-fA-F]")  # or a pair
_FIRST, _SECOND = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
# A pair; a half at the end, of which the other may come; a half that is alone; any other escape.
_ESCAPE = re.compile(
    rf"{_FIRST}(?:{_SECOND}|(?:\\(?:u[0-9a-fA-F]{{0,3}})?)?\Z)|\\u([dD][89a-fA-F][0-9a-fA-F]{{2}})|\\.", re.S
)
_MARKED = re.compile(r"\\u0000([dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL)
_LONGEST_INTEGER = 4300  # characters: beyond them `int` refuses, see sys.set_int_max_str_digits
_MAYBE_INFINITE = re.compile(r"[0-9][eE]\+?[0-9]{2}|[0-9]{300}")
_SMALL = frozenset([str, int, bool, type(None)])  # what holds no number that is too large for a float
_STRICT = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_LENIENT = json.JSONDecoder(parse_int=_integer)


def without_surrogates(value: Any) -> Any:
    """The value with halves of surrogate pairs joined or replaced; the same object where there are none."""
    if type(value) is str:
        return join_surrogates(value)
    try:
        to_json(value)  # in a language that has no such halves
        return value
    except ValueError:
        return _joined(value)


def _joined(value: Any) -> Any:
    if isinstance(value, str):
        return join_surrogates(value)
    if isinstance(value, list):
        return [_joined(item) for item in value]
    if isinstance(value, dict):
        return {join_surrogates(key): _joined(item) for key, item in value.items()}
    return value


def canonical_json(value: Any, *, sort: bool = True) -> str:
    """Returns JSON text as JavaScript would write it, as far as arguments are concerned: 1.0 is 1 there.

    >>> canonical_json({"b": 1.0, "a": "é"})
    '{"a":"é","b":1}'
    """
    return json.dumps(_as_numbers(value), ensure_ascii=False, separators=(",", ":"), sort_keys=sort)


def _as_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _as_numbers(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_as_numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else value


# Where servers put the words of an error that is not under `error`.
ERROR_KEYS = ("message", "msg", "detail", "error_message", "error_msg", "errors")


def is_done(data: str) -> bool:
    """Whether the payload is `[DONE]`, or as seen in the field `[done]` or `"[DONE]"`, with blanks around."""
    return data[:1] != "{" and data.strip().strip('"').upper() == "[DONE]"


def int_or_none(value: Any) -> int | None:
    """The position of a choice or item, also as a string or a float. None for anything else."""
    number = value if type(value) is int else whole_number(value)
    return number if number is not None and number >= 0 else None


def whole_number(value: Any) -> int | None:
    """A whole number, also as a string or a float. None for anything else."""
    if type(value) is int:
        return value
    if isinstance(value, str):
        return int(value) if value.removeprefix("-").isdecimal() and len(value) < 20 else None
    return int(value) if isinstance(value, float) and value.is_integer() else None


def str_or_none(value: Any) -> str | None:
    """An id or a name; None for `""`."""
    if value is None:
        return None
    if type(value) is str:
        return (value if value.isascii() else join_surrogates(value)) or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


_TOO_LARGE = 10**12


def amount(value: Any) -> float | None:
    """Returns a number from a server if it can be counted: finite, not negative and below 10^12; else None.

    Nothing else from a server is added up, charged or reported: a negative number would give money back, and an
    infinite one never ends. A string, true and false aren't numbers.
    """
    return value if type(value) in (int, float) and 0 <= value < _TOO_LARGE else None


def as_count(value: Any) -> int | None:
    """Returns a number from a server as a count, without its fraction; None if it can't be one: see `amount`.

    >>> [as_count(value) for value in (7, 7.0, -1, float("nan"), True, "7", 10**12)]
    [7, 7, None, None, None, None, None]
    """
    number = amount(value)
    return None if number is None else int(number)


def count_or_none(numbers: Mapping[str, Any], *names: str) -> int | None:
    """Returns the first of these members that is a count: see `as_count`."""
    return next((found for name in names if (found := as_count(numbers.get(name))) is not None), None)


def count_or_zero(numbers: Mapping[str, Any], name: str) -> int | None:
    """Returns a count that is 0 where the server left it out; None if it sent something that isn't a count."""
    return 0 if numbers.get(name) is None else count_or_none(numbers, name)


def non_empty(value: Any) -> Any:
    """A value as it came, except that all of it can be encoded. Raises ValueError if it is too deep for that."""
    try:
        return without_surrogates(value)
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc
