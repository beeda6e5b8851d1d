"""`streamfold swap-check`: shows the requests that streamfold would send to several providers for the same
conversation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from streamfold import ConfigError, Message, Preview, Provider, WarningCode
from streamfold.adapters import Request
from streamfold.config import allowed_values_hint, read_config, shown_url
from streamfold.terminal import File, console, escape_control_characters, print_json, read_json, reported_errors
from streamfold.types import Profile

_LONGEST = 300  # the maximum length of each text in a shown body, in characters
_KEYS = ("messages", "tools", "tool_choice", "options")
_LOSSES: tuple[WarningCode, ...] = ("reasoning_dropped", "provider_data_dropped", "option_dropped")


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The request that streamfold would send to one provider, or the reason why it can't send the request."""

    spec: str
    url: str
    preview: Preview | None = None
    error: str | None = None

    @property
    def fine(self) -> bool:
        return self.preview is not None and not any(one.code in _LOSSES for one in self.preview.warnings)

    @property
    def summary(self) -> str:
        if self.preview is None:
            return "refused"
        count = len(self.preview.warnings)
        return f"{count} warning{'s' * (count != 1)}" if count else "nothing is changed"


def swap_check(
    conversation: Annotated[
        Path,
        typer.Argument(
            exists=True,
            dir_okay=False,
            help="A JSON file: a list of messages, or an object with messages, tools, tool_choice and options.",
        ),
    ],
    provider: Annotated[list[str], typer.Option("-p", "--provider", help="PROVIDER or PROVIDER:MODEL. Repeatable.")],
    config: File = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON for each provider.")] = False,
) -> None:
    """Show the requests that several providers would get.

    Nothing is sent, and no API key is needed. The output contains a warning for each change to the request that a
    provider needs. The exit code is 1 if a provider doesn't support the request, or if a part of the request is
    dropped.
    """
    with reported_errors(as_json):
        arguments = read_conversation(read_json(conversation), str(conversation))
        read = read_config(config)
        outcomes = [_preview(spec, read.profile(spec), arguments) for spec in provider]
    for outcome in outcomes:
        if as_json:
            print_json(_data(outcome))
        else:
            _print(outcome)
    if not as_json:
        for outcome in outcomes:
            console().print(Text(f"{escape_control_characters(outcome.spec)}: {outcome.summary}"), soft_wrap=True)
    if not all(outcome.fine for outcome in outcomes):
        raise typer.Exit(1)


def read_conversation(data: Any, where: str) -> dict[str, Any]:
    """Returns the arguments for `Provider.preview`: `messages`, `tools`, `tool_choice` and the options.

    Each message in `data` is a dict, either from `Message.to_dict` or in the format of Chat Completions.

    Raises:
        ConfigError: `data` has the wrong form, or contains an invalid message. The error message begins with `where`.
    """
    if isinstance(data, list):
        data = {"messages": data}
    if not isinstance(data, Mapping):
        raise ConfigError(f"{where} must be a list of messages, or an object with messages")
    for key in data:
        if key not in _KEYS:
            raise ConfigError(f"{where}: unknown key {key!r}{allowed_values_hint(str(key), _KEYS)}")
    for key, kind, allowed in (("messages", list, "a list"), ("tools", list, "a list"), ("options", dict, "an object")):
        if not isinstance(data.get(key, kind()), kind):
            raise ConfigError(f"{where}: {key} must be {allowed}")
    messages = [_read_message(message, f"messages[{at}]") for at, message in enumerate(data.get("messages", []))]
    tools, choice, options = data.get("tools", []), data.get("tool_choice", "auto"), data.get("options", {})
    known = {name: value for name, value in options.items() if name not in ("model", "repair_history")}
    Request.read("any", messages, tools, choice, known)  # reports an error once, instead of for each provider
    return {"messages": messages, "tools": tools, "tool_choice": choice, **options}


def _read_message(data: Any, where: str) -> Message | dict[str, Any]:
    try:
        return Message.from_dict(data, where=where)
    except ConfigError:
        if isinstance(data, Mapping) and _written_by_us(data):
            raise
        return data  # type: ignore[no-any-return]  # `Request.read` checks a Chat Completions dict


def _written_by_us(data: Mapping[str, Any]) -> bool:
    """Returns whether a message has fields that only `Message.to_dict` writes."""
    parts, calls = data.get("content"), data.get("tool_calls")
    inner = [*(parts if isinstance(parts, list) else ()), *(calls if isinstance(calls, list) else ())]
    own = {name for one in inner if isinstance(one, Mapping) for name in one} & {"part", "raw_arguments"}
    return bool(own or {"extras", "origin", "error"} & data.keys())


def _preview(spec: str, profile: Profile, arguments: Mapping[str, Any]) -> _Outcome:
    if not (arguments.get("model") or profile.model):
        raise ConfigError(f'no model for "{profile.name}": write "{profile.name}:MODEL"')
    given = {"model": profile.model, **arguments}  # the output shows a ${NAME} unresolved
    try:
        preview = Provider(profile).preview(**given)
    except ConfigError as exc:
        return _Outcome(spec, shown_url(profile.base_url), error=str(exc))
    return _Outcome(spec, preview.url, preview)


def _data(outcome: _Outcome) -> dict[str, Any]:
    preview = outcome.preview
    return {
        "provider": outcome.spec,
        "method": preview.method if preview else None,
        "url": outcome.url,
        "fine": outcome.fine,
        "error": outcome.error,
        "warnings": [asdict(warning) for warning in preview.warnings] if preview else [],
        "headers": dict(preview.headers) if preview else None,
        "body": preview.json() if preview else None,
    }


def _print(outcome: _Outcome) -> None:
    target = console()
    target.print(Text(escape_control_characters(outcome.spec), "bold"), soft_wrap=True)
    if preview := outcome.preview:
        target.print(Text(escape_control_characters(f"{preview.method} {preview.url}")), soft_wrap=True)
        body = json.dumps(_shortened(preview.json()), ensure_ascii=False, indent=2)
        target.print(Text(escape_control_characters(body)), soft_wrap=True)
        for warning in preview.warnings:
            text = escape_control_characters(f"{warning.code}: {warning.detail}")
            target.print(Text.assemble(("warning ", "yellow"), text), soft_wrap=True)
    else:
        target.print(Text.assemble(("refused ", "red"), escape_control_characters(outcome.error or "")), soft_wrap=True)
    target.print()


def _shortened(value: Any) -> Any:
    match value:
        case str() if len(value) > _LONGEST:
            return f"{value[:60]}... ({len(value)} characters)"
        case dict():
            return {name: _shortened(member) for name, member in value.items()}
        case list():
            return [_shortened(member) for member in value]
        case _:
            return value
