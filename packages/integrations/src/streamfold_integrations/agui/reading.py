"""A request of an AG-UI client as a conversation: https://docs.ag-ui.com/sdk/js/core/types#runagentinput."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from pydantic_core import from_json

from streamfold import ConfigError, Message, Tool, ToolCall
from streamfold.config import did_you_mean
from streamfold.serving import ObjectReader, parse_object
from streamfold.types import CallKind, ContentPart, TextPart

from ..ui import (
    Decision,
    ExternalResult,
    Signatures,
    UIRequest,
    checked_decisions,
    client_extras,
    close_open_calls,
    last_calls,
    media_part,
    without_provider_approvals,
)

_ROLES = ("developer", "system", "user", "assistant", "tool", "reasoning", "activity")
REASONING = "-reasoning-"  # between the id of a message and the number of its reasoning
_STATUSES = ("resolved", "cancelled")
_MEDIA = ("image", "audio", "document")


@dataclass(frozen=True, slots=True)
class AgentRequest(UIRequest):
    """A request of an AG-UI client; `id` is its thread.

    Attributes:
        run_id: identifies this run.
        tools: the tools that the client runs itself: pass them as `external`.
        context: what the client wants the model to know: descriptions and values.
        state: the state of the application.
        forwarded: further values of the application.
    """

    run_id: str = field(default="", kw_only=True)
    tools: tuple[Tool, ...] = field(default=(), kw_only=True)
    context: tuple[tuple[str, str], ...] = field(default=(), kw_only=True)
    state: Any = field(default=None, kw_only=True)
    forwarded: Any = field(default=None, kw_only=True)


def read_request(body: Any, *, secret: str | None = None, owner: str = "", trust_client: bool = False) -> AgentRequest:
    """Reads a `RunAgentInput`.

    Args:
        secret: with which `stream` signed the calls: then only these can be approved or denied, by the same owner, with
            these arguments, each once.
        owner: the user or tenant who sent it, as your application knows them. Nothing that is kept of the run is found
            by another one. By default all requests have one owner.
        trust_client: the client may call the tools with any arguments: its decisions are not checked.

    Raises:
        ConfigError: it is something else; the error names the place. Or a decision is not signed.
    """
    given = ObjectReader(body, "the request")
    messages, thread = read_messages(given.must("messages", list)), given.string("threadId")
    calls = last_calls(messages)
    signatures = None if secret is None else Signatures(secret, owner, thread)
    return AgentRequest(
        id=thread,
        run_id=given.string("runId"),
        messages=tuple(messages),
        decisions=checked_decisions(_decisions(given.items("resume") or [], calls), calls, signatures, "resume"),
        results=tuple(_results(messages)),
        tools=tuple(_tools(given.items("tools") or [])),
        context=tuple(_context(given.items("context") or [])),
        state=body.get("state"),
        forwarded=body.get("forwardedProps"),
        body=body,
        owner=owner,
        signed=secret is not None,
        trust_client=trust_client,
    )


def read_messages(messages: Iterable[Any]) -> list[Message]:
    """Reads the messages of a thread. Raises ConfigError that names the place of anything else."""
    given = list(messages)
    owned = _owned_reasoning(given)
    read: list[Message] = []
    before: str | None = None  # reasoning of other agents stands before what came of it
    for at, message in enumerate(given):
        where = f"messages[{at}]"
        role = ObjectReader(message, where).string("role")
        if role not in _ROLES:
            raise ConfigError(f"{where}.role is {role!r}{did_you_mean(role, _ROLES)}. Allowed: {', '.join(_ROLES)}")
        if role == "reasoning":
            if _owner(message) not in owned:
                before = (before or "") + (ObjectReader(message, where).text("content") or "")
        elif role != "activity":
            read += _message(role, message, owned.get(_id(message), before), where)
            before = None
    return without_provider_approvals(close_open_calls(read), keep_last=True)


def _owned_reasoning(messages: list[Any]) -> dict[Any, str]:
    """Returns the reasoning that the writer wrote, by the ids of the messages that it belongs to.

    Clients keep messages in the order in which they began, and a model may say a word before it thinks.
    """
    owned: dict[Any, str] = {}
    known = {_id(message) for message in messages if isinstance(message, Mapping)}
    for message in messages:
        owner = _owner(message) if isinstance(message, Mapping) and message.get("role") == "reasoning" else ""
        if owner and owner in known:
            owned[owner] = owned.get(owner, "") + str(message.get("content") or "")
    return owned


def _id(message: Mapping[str, Any]) -> str | None:
    found = message.get("id")
    return found if isinstance(found, str) else None


def _owner(message: Mapping[str, Any]) -> str:
    return str(message.get("id")).rpartition(REASONING)[0]


def _message(role: Any, message: Mapping[str, Any], reasoning: str | None, where: str) -> Iterator[Message]:
    if role == "assistant":
        fields = ObjectReader(message, where)
        text, given = fields.text("content") or "", fields.items("toolCalls") or []
        calls = tuple(_call(call, f"{where}.toolCalls[{at}]") for at, call in enumerate(given))
        if text or calls:
            extras = _kept(message).get("extras")
            known = client_extras(extras) if isinstance(extras, dict) else {}
            yield Message("assistant", text or None, calls, reasoning=reasoning, extras=known)
    elif role == "tool":
        error = ObjectReader(message, where).text("error") or ""
        content = _content(message.get("content"), where)
        yield Message(
            "tool", content or error, tool_call_id=ObjectReader(message, where).string("toolCallId"), error=bool(error)
        )
    else:
        yield Message(role, _content(message.get("content"), where))


def _call(call: Any, where: str) -> ToolCall:
    fields = ObjectReader(call, where)
    call_id, function = fields.string("id"), fields.inner("function")
    name, raw = function.string("name"), function.text("arguments") or ""
    try:
        arguments = parse_object(raw) if raw.strip() else {}
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        arguments = {"_raw": raw, "_error": "invalid_json"}
    extra = _kept(call).get("extra")
    kind: CallKind = next((kind for kind in get_args(CallKind) if kind == _kept(call).get("kind")), "function")
    if kind == "custom":
        raw = str(arguments.get("input") or "")
    return ToolCall(call_id, name, arguments, raw, extra if isinstance(extra, dict) else None, kind)


def _kept(entity: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the writer left in `encryptedValue`; that of others is not ours to read."""
    try:
        found = from_json(entity.get("encryptedValue") or "{}")  # stops where values are nested too deeply
    except (ValueError, TypeError):
        return {}
    kept = found.get("streamfold") if isinstance(found, dict) else None
    return kept if isinstance(kept, dict) else {}


def _content(content: Any, where: str) -> str | tuple[ContentPart, ...]:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise ConfigError(f"{where}.content must be text or a list of parts, not {type(content).__name__}")
    return tuple(_part(part, f"{where}.content[{at}]") for at, part in enumerate(content))


def _part(part: Any, where: str) -> ContentPart:
    fields = ObjectReader(part, where)
    kind = fields.string("type")
    if kind == "text":
        return TextPart(fields.string("text"))
    if kind not in _MEDIA:
        raise ConfigError(f"{where}.type is {kind!r}. Allowed: text, {', '.join(_MEDIA)}")
    source = fields.inner("source")
    value, media_type, kept = source.string("value"), source.text("mimeType"), source.any("type")
    match kept:
        case "data":
            return media_part(where, kind, media_type, data=value)
        case "url":
            return media_part(where, kind, media_type, url=value)
        case "file":
            return media_part(where, kind, media_type, file_id=value)
    raise ConfigError(f"{where}.source.type is {kept!r}. Allowed: data, url, file")


def _tools(given: list[Any]) -> Iterator[Tool]:
    for at, entry in enumerate(given):
        tool = ObjectReader(entry, f"tools[{at}]")
        schema = tool.mapping("parameters") or {"type": "object", "properties": {}}
        yield Tool(tool.string("name"), tool.text("description") or "", schema)


def _context(given: list[Any]) -> Iterator[tuple[str, str]]:
    for at, entry in enumerate(given):
        fields = ObjectReader(entry, f"context[{at}]")
        yield fields.string("description"), fields.string("value")


def _decisions(given: list[Any], calls: Mapping[str, ToolCall]) -> Iterator[Decision]:
    for at, entry in enumerate(given):
        fields = ObjectReader(entry, f"resume[{at}]")
        interrupt, metadata = fields.string("interruptId"), fields.object("metadata")
        signature = metadata.text("signature") if metadata else None
        call_id, _, approval_id = interrupt.rpartition(".")  # see `_interrupt` of `writing.py`
        if interrupt in calls or not call_id:
            call_id = interrupt
        status = fields.string("status")
        if status not in _STATUSES:
            raise ConfigError(f"resume[{at}].status is {status!r}. Allowed: {', '.join(_STATUSES)}")
        if status == "cancelled":
            yield Decision(call_id, False, "cancelled", signature, approval_id)
        else:
            payload = fields.inner("payload")
            approved = payload.must("approved", bool)
            yield Decision(call_id, approved, payload.text("reason"), signature, approval_id)


def _results(messages: list[Message]) -> Iterator[ExternalResult]:
    for message in reversed(messages):
        if message.role != "tool":
            return
        content = list(message.content) if isinstance(message.content, tuple) else message.content
        yield ExternalResult(message.tool_call_id or "", content, message.error)
