"""A request as it would be sent: read, checked, made fit for its provider, and written; nothing is sent here."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..adapters import Adapter, DoesWithout, StatesRules
from ..config import Profile
from ..requests import HistoryRules, Request, check_history, describe_missing, missing
from ..values import ConfigError, ProtocolWarning, join_surrogates, shown_url

__all__ = ["Prepared", "checked_headers", "prepared"]

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # https://www.rfc-editor.org/rfc/rfc9110#name-tokens


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request in the form of its provider.

    Attributes:
        body: what is sent, as JSON.
        warnings: what was changed, left out or found doubtful.
    """

    request: Request
    body: bytes
    warnings: list[ProtocolWarning]


def prepared(profile: Profile, adapter: Adapter, asked: Request, *, repair: bool = False) -> Prepared:
    """The request as this provider would get it.

    Args:
        repair: mend a conversation that it would refuse.

    Raises:
        ConfigError: it can't be sent as it is.
    """
    asked = replace(
        asked,
        origin=f"{profile.adapter} {shown_url(profile.base_url)}",
        capabilities=profile.capabilities_of(asked.model),
    )
    _refuse_impossible(profile, adapter, asked)
    # Adapters of other packages need not state any rules.
    rules = adapter.history_rules(asked) if isinstance(adapter, StatesRules) else HistoryRules()
    messages, found = check_history(asked.messages, rules, repair=repair)
    request, changes = adapter.prepare(replace(asked, messages=messages))
    body, replaced = _written(adapter.encode(request), request.options.extra_body)
    return Prepared(request, body, [*found, *changes, *replaced])


def _refuse_impossible(profile: Profile, adapter: Adapter, asked: Request) -> None:
    """Raises ConfigError if the request needs what its model can't, and nothing else can be sent instead."""
    made_up = adapter.does_without(asked) if isinstance(adapter, DoesWithout) else ()
    needs = [need for need in missing(asked.capabilities, asked) if need.capability not in made_up]
    if needs:
        others = {need.capability: profile.models_with(need.capability) for need in needs}
        raise ConfigError(f'provider "{profile.name}": {describe_missing(needs, asked.model, others)}')


def checked_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Headers that can be sent. Raises ConfigError that names the one that can't, and never quotes a value."""
    if headers is not None and not isinstance(headers, Mapping):
        raise ConfigError(f"extra_headers is a mapping of names to texts, not {type(headers).__name__}")
    given: Mapping[Any, Any] = headers or {}
    for name, value in given.items():
        if not isinstance(name, str) or not _HEADER.fullmatch(name):
            raise ConfigError(f"extra_headers: {name!r} can't be the name of a header")
        if not isinstance(value, str):
            raise ConfigError(f"extra_headers.{name} must be a string, not {type(value).__name__}")
        if not value.isascii() or (value and not value.isprintable()):
            raise ConfigError(f"extra_headers.{name}: has a character that a header can't carry")
    return dict(given)


def _written(body: Mapping[str, Any], extra: Mapping[str, Any]) -> tuple[bytes, list[ProtocolWarning]]:
    try:
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as exc:
        where = _not_json({"extra_body": extra}, "") or _not_json(body, "") or str(exc)
        raise ConfigError(f"the request can't be written as JSON: {where}") from exc
    whole = join_surrogates(text)
    if whole.count("\ufffd") == text.count("\ufffd"):
        return whole.encode(), []
    detail = "a text of the request has half of a character in it, which no JSON text can carry: sent as U+FFFD"
    return whole.encode(), [ProtocolWarning("invalid_utf8", detail)]


def _not_json(value: Any, where: str) -> str | None:
    """The first value that JSON has no word for, and its place."""
    match value:
        case Mapping():
            found = [_not_json(member, f"{where}.{name}" if where else str(name)) for name, member in value.items()]
        case list() | tuple():
            found = [_not_json(member, f"{where}[{at}]") for at, member in enumerate(value)]
        case str() | None | bool() | int():
            return None
        case float():
            return f"{where} is {value}" if value != value or value in (float("inf"), float("-inf")) else None
        case _:
            return f"{where} is of the type {type(value).__name__}"
    return next(filter(None, found), None)
