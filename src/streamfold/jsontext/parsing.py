"""Parses and serializes JSON text, joins the halves of surrogate pairs, and checks fields of untrusted JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from pydantic_core import from_json, to_json

# `pydantic_core.from_json` is about twice as fast as `json`, which is the fallback where it is more lenient.


def parse_event(data: str) -> Any:
    """Parses the data of an SSE event as JSON. Raises ValueError for invalid JSON.

    Integers of more than 4,300 digits become None. Accepts half of a surrogate pair (`"\\ud83d"`), because some servers
    split a character over two events (fixtures/aimock/unicode).
    """
    try:
        return from_json(data)
    except (ValueError, TypeError):  # TypeError: the str contains half of a surrogate pair
        pass
    try:
        return _LENIENT.decode(data)
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc


def parse_object(text: str) -> Any:
    """Parses JSON by RFC 8259. Raises ValueError for NaN, Infinity, raw control characters and other invalid JSON.

    Also rejects a number that is too large for a float (`1e999`), because no JSON writer could write this number again.
    """
    try:
        value = from_json(text, allow_inf_nan=False)
        is_flat = type(value) is dict and _FINITE.issuperset(map(type, value.values()))  # 20 times faster to check
        if is_flat or not _MAYBE_INFINITE.search(text):
            return value
    except (ValueError, TypeError):
        pass
    try:
        return clean_json(_STRICT.decode(text))
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc


def object_or_none(text: str) -> dict[str, Any] | None:
    """Returns the JSON object in a text, or None if `parse_object` rejects the text or returns a value that isn't an
    object.
    """
    try:
        value = parse_object(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def parse_or_text(data: str) -> Any:
    """Parses JSON as `parse_event` does. If the text isn't JSON, returns it unchanged."""
    try:
        return from_json(data)  # nearly every event
    except (ValueError, TypeError):
        pass
    try:
        return parse_event(data)
    except ValueError:
        return data


def dump_compact(value: Any) -> str:
    """Returns a parsed value as compact JSON text. NaN becomes `NaN`, which strict JSON parsers reject."""
    try:
        return to_json(value, inf_nan_mode="constants").decode()
    except ValueError:  # nested deeper than `to_json` supports
        return _COMPACT.encode(value)


def is_truncated_json(text: str) -> bool:
    """Returns whether the text is truncated JSON. Returns False for complete JSON and for invalid JSON."""
    try:
        _LENIENT.raw_decode(text.lstrip())
        return False  # a complete value, and perhaps more text after it
    except (ValueError, RecursionError):
        pass
    try:
        from_json(text, allow_partial=True)
    except (ValueError, TypeError):
        return False
    return True


def partial_value(text: str, *, ended: bool = False) -> Any:
    """Parses truncated JSON. If the text's last string is incomplete, the result contains the beginning of that string.
    Returns None if nothing can be parsed yet.

    Args:
        ended: true if no more text follows, so that a number at the end is complete.

    >>> partial_value('{"a": [1, 23], "b": "Hel'), partial_value('{"a": [1, 23')
    ({'a': [1, 23], 'b': 'Hel'}, {'a': [1]})
    """
    try:
        if not ended and (number := _OPEN_NUMBER.search(text)) and '"' not in _STRING.sub("", text):
            text = text[: number.start()]
        return clean_json(_beginning(text))
    except (ValueError, TypeError):
        return None


def partial_event(data: str) -> Any:
    r"""Parses the truncated data of an SSE event. Returns None if nothing can be parsed. Keeps halves of surrogate
    pairs.

    >>> partial_event('{"text": "Hel'), partial_event('{"text": "\\ud83d", "at') == {"text": "\ud83d"}
    ({'text': 'Hel'}, True)
    """
    try:
        return _beginning(data)
    except (ValueError, TypeError):
        return None


def _beginning(text: str) -> Any:
    """Raises ValueError or TypeError if nothing can be parsed."""
    if not _LONE_HALF.search(text):
        return from_json(text, allow_partial="trailing-strings")
    # `from_json` rejects halves, so they are written as U+0000 and their digits, and back.
    marked = _ESCAPE.sub(lambda found: f"\\u0000{found[1]}" if found[1] else found[0], text)
    whole = json.dumps(from_json(marked, allow_partial="trailing-strings"))
    return json.loads(_MARKED.sub(lambda found: f"\\u{found[1]}" if found[1] else found[0], whole))


def parse_values(text: str) -> list[tuple[Any, str]]:
    """Parses JSON texts that directly follow each other. Returns each value with its JSON text. Raises ValueError
    for invalid JSON."""
    found: list[tuple[Any, str]] = []
    at = 0
    try:
        while at < len(text):
            if text[at] in " \t\r\n":
                at += 1
                continue
            value, end = _STRICT.raw_decode(text, at)
            found.append((clean_json(value), text[at:end]))
            at = end
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc
    return found


def replace_non_finite(value: Any) -> Any:
    """Replaces NaN and Infinity with None. Returns the same object if it contains neither.

    >>> replace_non_finite({"score": float("nan"), "of": [1, float("inf")]})
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
    """Joins the two halves of each surrogate pair to one character. A half without its other half becomes U+FFFD.

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
    """Joins surrogate pairs as `join_surrogates` does, but drops half of a pair at the end of the text, because its
    other half may follow.

    >>> whole_characters("a\\ud83d"), whole_characters("a\\ud83d\\udc4b") == "a\\U0001f44b"
    ('a', True)
    """
    return join_surrogates(text[:-1] if "\ud800" <= text[-1:] <= "\udbff" else text)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:40]} is a number that is too large")
    return value


def _integer(text: str) -> int | None:
    return int(text) if len(text) < _LONGEST_INTEGER else None


_OPEN_NUMBER = re.compile(r"(?:^|(?<=[\s,:\[]))-?[0-9][0-9.eE+-]*$")  # 1 may be the beginning of 18
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)  # if a quote remains after these are removed, a string is open
_LONE_HALF = re.compile(r"\\u[dD][89a-fA-F]")  # or a pair
_FIRST, _SECOND = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
# A pair, or a half at the end of the text; a lone half; any other escape.
_ESCAPE = re.compile(
    rf"{_FIRST}(?:{_SECOND}|(?:\\(?:u[0-9a-fA-F]{{0,3}})?)?\Z)|\\u([dD][89a-fA-F][0-9a-fA-F]{{2}})|\\.", re.S
)
_MARKED = re.compile(r"\\u0000([dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL)
_LONGEST_INTEGER = 4300  # characters that `int` accepts, see sys.set_int_max_str_digits
_MAYBE_INFINITE = re.compile(r"[0-9][eE]\+?[0-9]{2}|[0-9]{300}")
_FINITE = frozenset([str, int, bool, type(None)])  # types whose values can't be infinite
_STRICT = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_LENIENT = json.JSONDecoder(parse_int=_integer)


def clean_json(value: Any) -> Any:
    """Applies `join_surrogates` to all strings in a JSON value. Returns the same object if there is nothing to join.
    Raises ValueError if the value is nested too deeply."""
    if type(value) is str:
        return join_surrogates(value)
    try:
        to_json(value)  # fails for halves of surrogate pairs
        return value
    except ValueError:
        pass
    try:
        return _joined(value)
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc


def _joined(value: Any) -> Any:
    if isinstance(value, str):
        return join_surrogates(value)
    if isinstance(value, list):
        return [_joined(item) for item in value]
    if isinstance(value, dict):
        return {join_surrogates(key): _joined(item) for key, item in value.items()}
    return value


def canonical_json(value: Any, *, sort: bool = True) -> str:
    """Returns JSON text in which numbers are formatted as in JavaScript: 1.0 becomes `1`.

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


# Fields that may contain an error's message, besides `error`.
ERROR_KEYS = ("message", "msg", "detail", "error_message", "error_msg", "errors")


def is_done(data: str) -> bool:
    """Returns whether the data of an SSE event is `[DONE]`. Also accepts `[done]` and `"[DONE]"` (some servers)."""
    return data[:1] != "{" and data.strip().strip('"').upper() == "[DONE]"


def int_or_none(value: Any) -> int | None:
    """Converts a value to an integer as `whole_number` does, but a negative number to None."""
    number = value if type(value) is int else whole_number(value)
    return number if number is not None and number >= 0 else None


def whole_number(value: Any) -> int | None:
    """Converts an integer, a string or a float with an integer value to an integer, and any other value to None."""
    if type(value) is int:
        return value
    if isinstance(value, str):
        return int(value) if value.removeprefix("-").isdecimal() and len(value) < 20 else None
    return int(value) if isinstance(value, float) and value.is_integer() else None


def str_or_none(value: Any) -> str | None:
    """Returns a string unchanged and an integer as a string, to use as an id or a name. Returns None for any other
    value and for an empty string."""
    if value is None:
        return None
    if type(value) is str:
        return (value if value.isascii() else join_surrogates(value)) or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


_TOO_LARGE = 10**12


def amount(value: Any) -> float | None:
    """Returns a number that is at least 0 and less than 10^12. Returns None for any other value, also for a string or a
    bool."""
    return value if type(value) in (int, float) and 0 <= value < _TOO_LARGE else None


def as_count(value: Any) -> int | None:
    """Returns a number without its fraction. Returns None for a value for which `amount` returns None.

    >>> [as_count(value) for value in (7, 7.0, -1, float("nan"), True, "7", 10**12)]
    [7, 7, None, None, None, None, None]
    """
    number = amount(value)
    return None if number is None else int(number)


def count_or_none(numbers: Mapping[str, Any], *names: str) -> int | None:
    """Returns the first valid count among the fields `names` of `numbers`."""
    return next((found for name in names if (found := as_count(numbers.get(name))) is not None), None)


def count_or_zero(numbers: Mapping[str, Any], name: str) -> int | None:
    """Returns the count in a field of `numbers`. Returns 0 if the field is missing, None if its value isn't a count."""
    return 0 if numbers.get(name) is None else count_or_none(numbers, name)
