"""The facts of a conversation: everything in it that must not be lost on the way, each with its place."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

from streamfold.jsontext import join_surrogates
from streamfold.requests import Options, Request, ResponseFormat, read_response_format
from streamfold.types import MediaPart, Message, TextPart, Tool, ToolCall

__all__ = ["Fact", "FactKind", "facts_of"]

FactKind: TypeAlias = Literal[
    "text",  # what somebody says, a refusal and a tool's result among it
    "reasoning",
    "data",  # bytes, as a data URL
    "value",  # a URL, a name, any other member
    "call",  # a call as a whole
    "result",  # which call a result answers
    "extra",  # what only one provider can read
    "flag",
    "tool",
    "choice",
    "option",
]


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that a conversation says.

    Attributes:
        path: its place, as in `messages[1].tool_calls[0].id`.
        role: whose message it is in; None for what is in no message.
    """

    path: str
    kind: FactKind
    value: Any
    role: str | None = None

    @property
    def shown(self) -> str:
        """The value on one line, fit for a terminal."""
        match self.value:
            case str(text):
                pass
            case ToolCall() as call:
                text = f"{call.name}({call.raw_arguments or call.arguments}) {call.id}"
            case Tool() as tool:
                text = tool.description
            case ResponseFormat() as wanted:
                text = json.dumps(wanted.schema or "json", ensure_ascii=False)
            case value:
                text = repr(value)
        text = text if len(text) <= 60 else f"{text[:50]}... ({len(text)} characters)"
        return "".join(char if char.isprintable() else repr(char)[1:-1] for char in join_surrogates(text))


def facts_of(request: Request) -> list[Fact]:
    """All facts of a request, in its order: messages, tools, choice, options."""
    found: list[Fact] = []
    for at, message in enumerate(request.messages):
        where = f"messages[{at}]"
        if isinstance(message, Message):
            found += _of_message(message, where)
        else:
            found += _of_dict(message, where)
    for tool in request.tools:
        found.append(Fact(f"tools.{tool.name}", "tool", tool))
    if request.tools:
        found.append(Fact("tool_choice", "choice", request.tool_choice))
    return found + list(_of_options(request.options))


def _of_message(message: Message, where: str) -> Iterator[Fact]:
    role = message.role
    yield from _of_content(message.content, where, role)
    if message.error:
        yield Fact(f"{where}.error", "flag", True, role)
    if message.partial:
        yield Fact(f"{where}.partial", "flag", True, role)
    if message.reasoning is not None:
        yield Fact(f"{where}.reasoning", "reasoning", message.reasoning, role)
    if message.refusal:
        yield Fact(f"{where}.refusal", "text", message.refusal, role)
    if message.name:
        yield Fact(f"{where}.name", "value", message.name, role)
    for number, call in enumerate(message.tool_calls):
        yield Fact(f"{where}.tool_calls[{number}]", "call", call, role)
        if call.extra:
            yield Fact(f"{where}.tool_calls[{number}].extra", "extra", call.extra, role)
    if message.tool_call_id is not None:
        yield Fact(f"{where}.tool_call_id", "result", message.tool_call_id, role)
    for name, value in message.extras.items():
        yield Fact(f"{where}.{name}", "extra", value, role)


def _of_content(content: Any, where: str, role: str) -> Iterator[Fact]:
    if isinstance(content, str):
        if content:
            yield Fact(f"{where}.content", "text", content, role)
        return
    for at, part in enumerate(content or ()):
        place = f"{where}.content[{at}]"
        if isinstance(part, TextPart):
            if part.text:
                yield Fact(place, "text", part.text, role)
        elif isinstance(part, Mapping):
            yield from _of_members(part, place, role)
        else:
            yield from _of_media(part, place, role)


def _of_media(part: MediaPart, where: str, role: str) -> Iterator[Fact]:
    if part.data is not None:
        yield Fact(where, "data", part.data_url, role)
    else:
        yield Fact(where, "value", part.url if part.url is not None else part.file_id, role)
    for name in ("media_type", "name", "detail"):
        value = getattr(part, name, None)
        if value is not None and not (name == "media_type" and part.data is not None):  # it is part of a data URL
            yield Fact(f"{where}.{name}", "value", value, role)


def _of_members(value: Any, where: str, role: str) -> Iterator[Fact]:
    """Every value in some JSON data, but for the words that name its form."""
    match value:
        case Mapping():
            for name, member in value.items():
                if name not in ("type", "status", "role"):
                    yield from _of_members(member, f"{where}.{name}", role)
        case list() | tuple():
            for at, member in enumerate(value):
                yield from _of_members(member, f"{where}[{at}]", role)
        case None | "":
            return
        case _:
            is_text = where.endswith((".text", ".refusal", ".output", ".content"))
            yield Fact(where, "text" if is_text else "value", value, role)


def _of_dict(message: Mapping[str, Any], where: str) -> Iterator[Fact]:
    role = str(message.get("role") or "")
    if not role:
        yield from _of_item(message, where)
        return
    yield from _of_content(message.get("content"), where, role)
    for name, value in message.items():
        place = f"{where}.{name}"
        if name in ("role", "content", "type") or value in (None, "", [], {}):
            continue
        if name == "tool_calls":
            yield from _of_entries(value, place, role)
        elif name == "tool_call_id":
            yield Fact(place, "result", value, role)
        elif name in ("reasoning_content", "reasoning"):
            yield Fact(place, "reasoning", value, role)
        else:
            yield from _of_members(value, place, role)


def _of_item(item: Mapping[str, Any], where: str) -> Iterator[Fact]:
    """An item of the Responses API that is no message."""
    known: tuple[str, ...] = ()
    if item.get("type") == "function_call":
        known = ("call_id", "name", "arguments")
        yield Fact(where, "call", ToolCall(item["call_id"], item["name"], {}, item.get("arguments") or ""), "assistant")
    elif item.get("type") == "function_call_output":
        known = ("call_id",)
        yield Fact(f"{where}.call_id", "result", item["call_id"], "tool")
    role = {"function_call_output": "tool", "function_call": "assistant"}.get(str(item.get("type")), "")
    yield from _of_members({name: value for name, value in item.items() if name not in known}, where, role)


def _of_entries(entries: Any, where: str, role: str) -> Iterator[Fact]:
    for number, entry in enumerate(entries):
        function = entry.get("function") or {}
        if entry.get("type") == "custom":
            yield from _of_members(entry, f"{where}[{number}]", role)
            continue
        written = function.get("arguments")
        raw, arguments = (written or "", {}) if not isinstance(written, Mapping) else ("", dict(written))
        call = ToolCall(entry["id"], function["name"], arguments, raw)
        yield Fact(f"{where}[{number}]", "call", call, role)
        rest = {name: value for name, value in entry.items() if name not in ("id", "type", "function", "index")}
        yield from (Fact(f"{where}[{number}].{name}", "extra", value, role) for name, value in rest.items())
        more = {name: value for name, value in function.items() if name not in ("name", "arguments")}
        yield from (Fact(f"{where}[{number}].function.{name}", "extra", value, role) for name, value in more.items())


def _of_options(options: Options) -> Iterator[Fact]:
    for option in fields(options):
        value = getattr(options, option.name)
        if option.name == "extra_body":
            yield from (Fact(f"extra_body.{name}", "option", member) for name, member in value.items())
        elif option.name == "response_format":
            if (read := read_response_format(value)) is not None:
                yield Fact(option.name, "option", read)
        elif value is not None and (value is not False or option.name == "parallel_tool_calls"):
            yield Fact(option.name, "option", value)
