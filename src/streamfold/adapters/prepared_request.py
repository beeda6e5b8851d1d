"""`PreparedRequest`: a request in the format of the provider's API, ready to be sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from ..jsontext import as_count, join_surrogates
from ..types import ReplyWarning

if TYPE_CHECKING:
    from ..requests import Request

_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """An HTTP request without the base URL and the API key, which `Provider` adds.

    Attributes:
        request: the request as `Adapter.rewrite` adapted it. The engine needs its tools, `names` and `answer_tool` to
            decode the response.
        path: the path below the base URL, which may contain a query.
        headers: the headers that the API requires.
        warnings: warnings about the request, such as changed or dropped parts.
        prefix: the value for `Message.prefix` of the response.
    """

    request: Request
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    warnings: tuple[ReplyWarning, ...] = ()
    prefix: str | None = None


def without_none(**members: Any) -> dict[str, Any]:
    """Returns the arguments whose value isn't None, as the fields of a JSON object."""
    return {name: value for name, value in members.items() if value is not None}


def rename_members(body: dict[str, Any], names: Mapping[str, str | None]) -> dict[str, Any]:
    """Renames the fields of a request body. The fields stay in their order. A field whose new name is None is
    removed."""
    renamed = ((names.get(name, name), value) for name, value in body.items())
    return {name: value for name, value in renamed if name is not None} if names else body


def deep_merged(body: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Merges two request bodies recursively. If both bodies have a field, the value in `extra` is used."""
    out = dict(body)
    for name, value in extra.items():
        mine = out.get(name)
        out[name] = deep_merged(mine, value) if isinstance(mine, Mapping) and isinstance(value, Mapping) else value
    return out


def encode_body(body: Mapping[str, Any], extra: Mapping[str, Any]) -> tuple[bytes, list[ReplyWarning]]:
    """Encodes a request body as JSON. Returns the JSON, and a warning if a text contains an unpaired surrogate.

    Args:
        extra: the caller's `extra_body`. If it contains the invalid value, the error message says so.

    Raises:
        ConfigError: JSON can't represent a value in the body. The error message contains the value's path.
    """
    try:
        text = _JSON.encode(body)
    except (TypeError, ValueError, RecursionError) as exc:
        where = _not_json({"extra_body": extra}, "") or _not_json(body, "") or str(exc)
        raise ConfigError(f"the request can't be written as JSON: {where}") from exc
    whole = text if text.isascii() else join_surrogates(text)
    if whole.count("\ufffd") == text.count("\ufffd"):
        return whole.encode(), []
    detail = "the request contains half of a surrogate pair, which JSON can't represent: sent as U+FFFD"
    return whole.encode(), [ReplyWarning("invalid_utf8", detail)]


def required_count(body: Any, name: str) -> int:
    """Returns the token count in a field of a JSON response. Raises ValueError if the field isn't a valid count."""
    found = as_count(body.get(name)) if isinstance(body, Mapping) else None
    if found is None:
        raise ValueError(f"the response has no valid count {name!r}")
    return found


def _not_json(value: Any, where: str, depth: int = 0) -> str | None:
    if depth > 100:
        return f"{where} is nested too deeply"
    match value:
        case Mapping():
            members = ((f"{where}.{name}" if where else str(name), member) for name, member in value.items())
        case list() | tuple():
            members = ((f"{where}[{at}]", member) for at, member in enumerate(value))
        case str() | None | bool() | int():
            return None
        case float():
            return f"{where} is {value}" if value != value or value in (float("inf"), float("-inf")) else None
        case _:
            return f"{where} is of the type {type(value).__name__}"
    return next(filter(None, (_not_json(member, place, depth + 1) for place, member in members)), None)
