"""The AG-UI protocol (CopilotKit and others): parses a client's `RunAgentInput`, and writes the protocol's events.

    from streamfold_integrations import agui

    @app.post("/agent")
    async def agent(request: Request) -> StreamingResponse:
        received = agui.read_request(await request.json())
        run = received.run(model, [get_weather], external=received.tools)
        return StreamingResponse(agui.stream(run, received), headers=agui.HEADERS)

Each response of the model is one assistant message. The writer sends `TOOL_CALL_END` only after the response is
complete. In the next request, the provider needs data such as signatures. The client gets this data in the
`encryptedValue` of the message or tool call, and sends it back: https://docs.ag-ui.com/concepts/events.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, get_args

from pydantic_core import from_json

from streamfold import ChatStream, ConfigError, Message, Reply, Tool, ToolCall, ToolResult, ToolRun
from streamfold.config import allowed_values_hint
from streamfold.serving import SSE_HEADERS, ObjectReader, json_text, parse_object, to_base64, tool_result_content
from streamfold.tools import PendingCall
from streamfold.types import AudioPart, CallKind, ContentPart, FilePart, ImagePart, TextPart

from .hosted_tools import HostedCall, HostedStep
from .ui_events import OnError, OnPause, UIEvent, UIWriter, error_text, run_events, server_sent
from .ui_requests import (
    Decision,
    ExternalResult,
    Signatures,
    UIRequest,
    checked_decisions,
    client_extras,
    close_open_calls,
    is_shown_as,
    last_calls,
    media_part,
    without_provider_approvals,
)

__all__ = [
    "HEADERS",
    "AGUIWriter",
    "AgentRequest",
    "Decision",
    "ExternalResult",
    "error_text",
    "read_messages",
    "read_request",
    "stream",
]


HEADERS = SSE_HEADERS
_PROTOCOL = "1.0"
_ROLES = ("developer", "system", "user", "assistant", "tool", "reasoning", "activity")
_STATUSES = ("resolved", "cancelled")
_MEDIA = ("image", "audio", "document")
_REASONING = "-reasoning-"  # between the id of a message and the number of its reasoning
_DECISION = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["approved"],
}


# --- requests ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AgentRequest(UIRequest):
    """A request from an AG-UI client. The attribute `id` is the id of the client's thread.

    Attributes:
        run_id: the id that the client gave to this run.
        tools: the tools that the client runs itself. Pass them to `run` as `external`.
        context: descriptions and values that the client sends for the model to read.
        state: the state of the client's application.
        forwarded: further values of the client's application, from `forwardedProps`.
    """

    run_id: str = field(default="", kw_only=True)
    tools: tuple[Tool, ...] = field(default=(), kw_only=True)
    context: tuple[tuple[str, str], ...] = field(default=(), kw_only=True)
    state: Any = field(default=None, kw_only=True)
    forwarded: Any = field(default=None, kw_only=True)


def read_request(body: Any, *, secret: str | None = None, owner: str = "", trust_client: bool = False) -> AgentRequest:
    """Parses a client's `RunAgentInput`.

    Args:
        secret: the secret that you pass to `stream`. Each decision of the user must then have a signature that `stream`
            made for this owner, conversation, tool call and its arguments.
        owner: the user or tenant who sent the request, as identified by your application. The stored data of a run is
            separate for each owner. By default, all requests have the same owner.
        trust_client: true: accept a user's decisions without checking signatures. The client can then call the tools
            with any arguments.

    Raises:
        ConfigError: the body is invalid, or the signature of a decision is missing or invalid. The error message
            contains the position in the body.
    """
    given = ObjectReader(body, "the request")
    messages, thread = read_messages(given.must("messages", list)), given.string("threadId")
    calls = last_calls(messages)
    signatures = None if secret is None else Signatures(secret, owner, thread)
    return AgentRequest(
        id=thread,
        run_id=given.string("runId"),
        messages=tuple(messages),
        decisions=checked_decisions(_decisions(_entries(given, "resume"), calls), calls, signatures, "resume"),
        results=tuple(_results(messages)),
        tools=tuple(map(_tool, _entries(given, "tools"))),
        context=tuple((each.string("description"), each.string("value")) for each in _entries(given, "context")),
        state=body.get("state"),
        forwarded=body.get("forwardedProps"),
        body=body,
        owner=owner,
        signed=secret is not None,
        trust_client=trust_client,
    )


def read_messages(messages: Iterable[Any]) -> list[Message]:
    """Parses the messages of an AG-UI thread. Raises ConfigError with the position of an invalid message."""
    given = list(messages)
    owned = _owned_reasoning(given)
    read: list[Message] = []
    before: str | None = None  # reasoning of other agents, which comes before their message
    for at, message in enumerate(given):
        where = f"messages[{at}]"
        role = ObjectReader(message, where).string("role")
        if role not in _ROLES:
            raise ConfigError(f"{where}.role is {role!r}{allowed_values_hint(role, _ROLES)}")
        if role == "reasoning":
            if _owner(message) not in owned:
                before = (before or "") + (ObjectReader(message, where).text("content") or "")
        elif role != "activity":
            read += _message(role, message, owned.get(_id(message), before), where)
            before = None
    return without_provider_approvals(close_open_calls(read), keep_last=True)


def _owned_reasoning(messages: list[Any]) -> dict[Any, str]:
    """Returns the reasoning that `AGUIWriter` wrote, by the id of the message to which the reasoning belongs.

    A reasoning message may come after the message to which it belongs, because clients sort messages by the time of
    their first event.
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
    return str(message.get("id")).rpartition(_REASONING)[0]


def _message(role: Any, message: Mapping[str, Any], reasoning: str | None, where: str) -> Iterator[Message]:
    if role == "assistant":
        fields = ObjectReader(message, where)
        text, given = fields.text("content") or "", fields.items("toolCalls") or []
        calls = tuple(_call(call, f"{where}.toolCalls[{at}]") for at, call in enumerate(given))
        if text or calls:
            kept = _kept(message)
            extras, prefix = kept.get("extras"), kept.get("prefix")
            known = client_extras(extras) if isinstance(extras, dict) else {}
            prefix = prefix if isinstance(prefix, str) else None
            yield Message("assistant", text or None, calls, reasoning=reasoning, extras=known, prefix=prefix)
    elif role == "tool":
        fields = ObjectReader(message, where)
        error = fields.text("error") or ""
        content = _content(message.get("content"), where) or error
        yield Message("tool", content, tool_call_id=fields.string("toolCallId"), error=bool(error))
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
    """Returns the data that streamfold has put into `encryptedValue`, or an empty dict if another program wrote the
    value."""
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


def _entries(request: ObjectReader, name: str) -> Iterator[ObjectReader]:
    """Yields the objects of a list in the request."""
    for at, entry in enumerate(request.items(name) or ()):
        yield ObjectReader(entry, f"{name}[{at}]")


def _tool(fields: ObjectReader) -> Tool:
    schema = fields.mapping("parameters") or {"type": "object", "properties": {}}
    return Tool(fields.string("name"), fields.text("description") or "", schema)


def _decisions(entries: Iterable[ObjectReader], calls: Mapping[str, ToolCall]) -> Iterator[Decision]:
    for fields in entries:
        interrupt, metadata = fields.string("interruptId"), fields.object("metadata")
        signature = metadata.text("signature") if metadata else None
        call_id, _, approval_id = interrupt.rpartition(".")  # see `_interrupt`
        if interrupt in calls or not call_id:
            call_id = interrupt
        status = fields.string("status")
        if status not in _STATUSES:
            raise ConfigError(f"{fields.at('status')} is {status!r}. Allowed: {', '.join(_STATUSES)}")
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


# --- events -----------------------------------------------------------------------------------------------------------


def stream(
    source: ToolRun | ChatStream,
    request: AgentRequest,
    *,
    reasoning: bool = True,
    secret: str | None = None,
    on_pause: OnPause | None = None,
    on_end: OnPause | None = None,
    on_error: OnError | None = None,
) -> AsyncIterator[bytes]:
    """Returns the HTTP response body for a run or a stream. Send the body with the headers `HEADERS`.

    If the run fails, the function logs the error and sends a `RUN_ERROR` event; it raises no exception. If you stop the
    iteration early, the function closes the connection to the provider.

    Args:
        request: the request that the run answers.
        reasoning: true if the client gets the model's reasoning.
        secret: the secret with which `stream` signs the tool calls that need approval. Pass the same secret and owner
            to `read_request`, which checks the signatures. The client must send an interrupt's `metadata` back with the
            user's decision. The run's journal accepts each approval only once.
        on_pause: called with a run that pauses for an approval or a result, before the client gets the last event. Save
            the run's state here. Also called with a run that failed because its journal was unavailable; you can resume
            such a run with the same decisions. The function may be async. If it raises an exception, the client gets an
            error event.
        on_end: called with a run that is complete. Delete the run's saved state here. The function may be async. Its
            exceptions are logged.
        on_error: returns the error message for the user. The default, `error_text`, hides errors of your server.
    """
    writer = AGUIWriter(
        request.id,
        request.run_id,
        reasoning=reasoning,
        known_calls=(call.id for message in request.messages for call in message.tool_calls),
        open_calls=last_calls(request.messages),
    )
    signatures = None if secret is None else Signatures(secret, request.owner, request.id)
    return server_sent(run_events(source, writer, on_error, signatures, on_pause, on_end))


@dataclass(slots=True)
class _Begun:
    """A tool call whose first event was sent, and the number of argument characters that were sent."""

    id: str
    written: int = 0


class AGUIWriter(UIWriter):
    """Writes the events of one AG-UI run.

    Args:
        thread_id, run_id: the ids of the thread and of the run, from the client's request.
        reasoning: true if the client gets the model's reasoning.
        known_calls: the ids of the conversation's earlier tool calls. If a new tool call has one of these ids, the
            writer gives it a different id, because ids must be unique in a thread.
        open_calls: the ids of the tool calls in the last response. The run may begin with their results.
    """

    def __init__(
        self,
        thread_id: str,
        run_id: str,
        *,
        reasoning: bool = True,
        known_calls: Iterable[str] = (),
        open_calls: Iterable[str] = (),
    ) -> None:
        self._run = {"threadId": thread_id, "runId": run_id}
        self._reasoning = reasoning
        self._known = set(known_calls)
        self._open = tuple(open_calls)
        self._calls: dict[str, _Begun] = {}  # of this turn
        self._turns = self._thoughts = self._results = 0
        self._speaking = self._thinking = False
        self._usage: list[dict[str, Any]] = []

    def start(self) -> Iterator[UIEvent]:
        yield {"type": "RUN_STARTED", **self._run, "protocolVersion": _PROTOCOL}

    def turn(self) -> Iterator[UIEvent]:
        """Returns no events, because an AG-UI message begins with its first text."""
        self._turns += 1
        self._calls, self._open = {}, ()
        yield from ()

    def text(self, text: str) -> Iterator[UIEvent]:
        yield from self._stop_thinking()
        if not self._speaking:
            self._speaking = True
            yield {"type": "TEXT_MESSAGE_START", "messageId": self._message, "role": "assistant"}
        yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": self._message, "delta": text}

    def reasoning(self, text: str) -> Iterator[UIEvent]:
        if not self._reasoning:
            return
        if not self._thinking:
            self._thinking, self._thoughts = True, self._thoughts + 1
            yield {"type": "REASONING_START", "messageId": self._thought}
            yield {"type": "REASONING_MESSAGE_START", "messageId": self._thought, "role": "reasoning"}
        yield {"type": "REASONING_MESSAGE_CONTENT", "messageId": self._thought, "delta": text}

    def call_piece(self, call_id: str, name: str, text: str) -> Iterator[UIEvent]:
        yield from self._stop_thinking()
        if (begun := self._calls.get(call_id)) is None:
            begun = self._calls[call_id] = _Begun(self._unused(call_id))
            head = {"toolCallId": begun.id, "toolCallName": name}
            yield {"type": "TOOL_CALL_START", **head, "parentMessageId": self._message}
        if text:
            begun.written += len(text)
            yield {"type": "TOOL_CALL_ARGS", "toolCallId": begun.id, "delta": text}

    def call(self, call: ToolCall, text: str) -> Iterator[UIEvent]:
        begun = self._calls.get(call.id)
        yield from self.call_piece(call.id, call.name, text[begun.written :] if begun else text)
        shown = self.client_call_id(call.id)
        yield {"type": "TOOL_CALL_END", "toolCallId": shown}
        kept: dict[str, Any] = {"extra": call.extra} if call.extra is not None else {}
        if call.kind != "function":
            kept["kind"] = call.kind
        if kept:
            yield from _encrypted("tool-call", shown, kept)

    def hosted(self, step: HostedStep) -> Iterator[UIEvent]:
        """Returns an activity event for a call or result of a tool that the provider runs, because AG-UI has no other
        event for such tools.
        """
        yield from self._stop_thinking()
        call = step if isinstance(step, HostedCall) else step.call
        content: dict[str, Any] = {"name": call.name, "input": call.input}
        if not isinstance(step, HostedCall):
            content |= {"error": step.error} if step.error else {"output": step.output}
        yield self._activity(call.part.kind, call.id, content)

    def _activity(self, kind: str, name: str, content: dict[str, Any]) -> UIEvent:
        about = {"messageId": f"{self._message}-{name}", "activityType": kind}
        return {"type": "ACTIVITY_SNAPSHOT", **about, "content": content, "replace": True}

    def turn_end(self, reply: Reply) -> Iterator[UIEvent]:
        yield from self._stop_thinking()
        if reply.refusal:
            yield from self.text(reply.refusal)
        yield from self._stop_speaking()
        if reply.citations:
            cited = [_given(asdict(citation)) for citation in reply.citations]
            yield self._activity("citations", "citations", {"citations": cited})
        if reply.files:
            datas = [None if file.data is None else to_base64(file.data) for file in reply.files]
            files = [_given(asdict(file) | {"data": data}) for file, data in zip(reply.files, datas, strict=True)]
            yield self._activity("files", "files", {"files": files})
        if reply.extras and (reply.text or reply.tool_calls):
            prefix = {"prefix": reply.prefix} if reply.prefix else {}
            yield from _encrypted("message", self._message, {"extras": dict(reply.extras), **prefix})
        self._usage += _usage(reply)

    def result(self, result: ToolResult) -> Iterator[UIEvent]:
        self._results += 1
        content: Any = tool_result_content(result.message)
        if isinstance(content, tuple):
            content = [*map(_serialize_part, content)]
        yield {
            "type": "TOOL_CALL_RESULT",
            "messageId": f"{self._run['runId']}-result-{self._results}",
            "toolCallId": self.client_call_id(result.call.id),
            "content": "" if content is None else content,
            "role": "tool",
        }

    def end(self, pending: tuple[PendingCall, ...], signatures: Mapping[str, str] | None = None) -> Iterator[UIEvent]:
        """Returns the last event of the run. If a user must approve a tool call, the event contains an interrupt."""
        outcome: dict[str, Any] = {"type": "success"}
        interrupts = [
            _interrupt(waiting, self.client_call_id(waiting.call.id), (signatures or {}).get(waiting.call.id))
            for waiting in pending
            if waiting.waits_for == "approval"
        ]
        if interrupts:
            outcome = {"type": "interrupt", "interrupts": interrupts}
        elif pending:
            outcome["pendingToolCallIds"] = [self.client_call_id(waiting.call.id) for waiting in pending]
        yield {"type": "RUN_FINISHED", **self._run, "outcome": outcome, **self._spent()}

    def abort(self) -> Iterator[UIEvent]:
        yield from self._stop_thinking()
        yield from self._stop_speaking()
        yield {"type": "RUN_FINISHED", **self._run, "outcome": {"type": "cancelled"}, **self._spent()}

    def fail(self, error: Exception, text: str) -> Iterator[UIEvent]:
        """Returns the error event. Open messages and tool calls get no end event, because they are incomplete."""
        yield {"type": "RUN_ERROR", "message": text, "code": type(error).__name__, **self._spent()}

    @property
    def _message(self) -> str:
        return f"{self._run['runId']}-message-{self._turns}"

    @property
    def _thought(self) -> str:
        return f"{self._message}{_REASONING}{self._thoughts}"  # `_owner` parses it

    def _stop_speaking(self) -> Iterator[UIEvent]:
        if self._speaking:
            self._speaking = False
            yield {"type": "TEXT_MESSAGE_END", "messageId": self._message}

    def _stop_thinking(self) -> Iterator[UIEvent]:
        if self._thinking:
            self._thinking = False
            yield {"type": "REASONING_MESSAGE_END", "messageId": self._thought}
            yield {"type": "REASONING_END", "messageId": self._thought}

    def client_call_id(self, call_id: str) -> str:
        """Returns the id that a tool call has in the client."""
        if begun := self._calls.get(call_id):
            return begun.id
        return next((shown for shown in self._open if is_shown_as(call_id, shown)), call_id)

    def _unused(self, call_id: str) -> str:
        shown, copies = call_id, 1
        while shown in self._known:
            copies += 1
            shown = f"{call_id}~{copies}"
        self._known.add(shown)
        return shown

    def _spent(self) -> dict[str, Any]:
        return {"usage": self._usage} if self._usage else {}


def _encrypted(subtype: str, entity: str, value: Mapping[str, Any]) -> Iterator[UIEvent]:
    yield {
        "type": "REASONING_ENCRYPTED_VALUE",
        "subtype": subtype,
        "entityId": entity,
        "encryptedValue": json_text({"streamfold": value}),
    }


def _interrupt(waiting: PendingCall, shown: str, signature: str | None) -> dict[str, Any]:
    # Clients always send back the id, but the metadata only if the application does. The id identifies this approval
    # unless a signature identifies it.
    call = waiting.call
    return {
        "id": shown if signature or waiting.approval_id is None else f"{shown}.{waiting.approval_id}",
        "reason": "tool_call",
        "message": f"Run {call.name} with {call.raw_arguments or '{}'}?",
        "toolCallId": shown,
        "responseSchema": _DECISION,
        **({"metadata": {"signature": signature}} if signature else {}),
    }


def _given(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _usage(reply: Reply) -> list[dict[str, Any]]:
    if reply.usage is None:
        return []
    counts = {
        "provider": reply.provider,
        "model": reply.model,
        "inputTokens": reply.usage.input_tokens,
        "outputTokens": reply.usage.output_tokens,
        "totalTokens": reply.usage.total_tokens,
        "reasoningTokens": reply.usage.reasoning_tokens,
        "cachedInputTokens": reply.usage.cached_tokens,
        "cacheWriteInputTokens": reply.usage.cache_write_tokens,
    }
    return [_given(counts)]


def _serialize_part(part: Any) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    kinds = {ImagePart: "image", AudioPart: "audio", FilePart: "document"}
    known = {} if part.media_type is None else {"mimeType": part.media_type}
    if part.data is not None:
        source = {"type": "data", "value": to_base64(part.data), **known}
    else:
        source = {"type": "url", "value": part.url, **known} if part.url else {"type": "file", "value": part.file_id}
    return {"type": kinds[type(part)], "source": source}
