"""The AI SDK's UI message stream: parses requests of `useChat`, and writes the protocol's events.

    from streamfold_integrations import aisdk

    @app.post("/api/chat")
    async def chat(request: Request) -> StreamingResponse:
        received = aisdk.read_request(await request.json())
        return StreamingResponse(aisdk.stream(received.run(model, [get_weather])), headers=aisdk.HEADERS)

In a request, an assistant message contains all responses of a run, with a `step-start` part between them. The part for
a tool call also contains the tool's result and the user's decision:
https://ai-sdk.dev/docs/reference/ai-sdk-core/ui-message.

In the stream, each response of the model is a step of one assistant message. The writer sends `tool-input-available`
only after the response is complete. In the next request, the provider needs data such as signatures. User interfaces
get this data in `data-streamfold` parts, which they ignore and send back:
https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol#data-stream-protocol.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from streamfold import ChatStream, ConfigError, Message, Reply, ToolCall, ToolResult, ToolRun, tool_result
from streamfold.config import allowed_values_hint
from streamfold.serving import SSE_HEADERS, ObjectReader, to_base64
from streamfold.tools import PendingCall
from streamfold.types import AudioPart, ContentPart, FilePart, ImagePart, MediaPart, TextPart

from .hosted_tools import HostedCall, HostedStep
from .provider_data import argument_metadata, read_call
from .ui_events import OnError, OnPause, UIEvent, UIWriter, error_text, run_events, server_sent
from .ui_requests import (
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

__all__ = [
    "HEADERS",
    "ChatRequest",
    "Decision",
    "ExternalResult",
    "UIMessageWriter",
    "error_text",
    "read_messages",
    "read_request",
    "stream",
]


HEADERS: Mapping[str, str] = MappingProxyType({**SSE_HEADERS, "x-vercel-ai-ui-message-stream": "v1"})
_ROLES = ("system", "user", "assistant")
_DENIED = "not run: the call was denied"
_UNFINISHED = ("input-streaming", None)
_REASONS = {"tool_calls": "tool-calls", "content_filter": "content-filter", "unknown": "other"}
_PARTS = (TextPart, ImagePart, FilePart, AudioPart)
_UNKNOWN = "application/octet-stream"
Metadata = Callable[[ToolRun | ChatStream], Mapping[str, Any] | None]


# --- requests ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChatRequest(UIRequest):
    """A request from `useChat`, the AI SDK's hook.

    Attributes:
        message_id: the id of the assistant message that the response continues; None if the response is a new message.
    """

    message_id: str | None = field(default=None, kw_only=True)


def read_request(body: Any, *, secret: str | None = None, owner: str = "", trust_client: bool = False) -> ChatRequest:
    """Parses the body that the AI SDK's `DefaultChatTransport` sends.

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
    fields = ObjectReader(body, "the request")
    given, chat = fields.must("messages", list), fields.text("id") or ""
    turns = _MessageReader(given)
    signatures = None if secret is None else Signatures(secret, owner, chat)
    last = given[-1] if given else None
    continued = last.get("id") if isinstance(last, Mapping) and last.get("role") == "assistant" else None
    return ChatRequest(
        id=chat,
        messages=tuple(turns.messages),
        decisions=checked_decisions(turns.decisions, last_calls(turns.messages), signatures, "messages"),
        results=tuple(turns.results),
        body=body,
        owner=owner,
        signed=secret is not None,
        trust_client=trust_client,
        message_id=continued,
    )


def read_messages(messages: Iterable[Any]) -> list[Message]:
    """Parses the AI SDK's UI messages. Raises ConfigError with the position of an invalid message."""
    return _MessageReader(list(messages)).messages


class _MessageReader:
    """Converts UI messages, and collects the user's decisions about the tool calls of the last response."""

    def __init__(self, given: list[Any]) -> None:
        self.decisions: list[Decision] = []
        self.results: list[ExternalResult] = []
        read: list[Message] = []
        for at, message in enumerate(given):
            read += self._message(message, f"messages[{at}]")
            if read and read[-1].role == "user":
                self.decisions = []  # the person wrote a new message instead
        self.messages = without_provider_approvals(close_open_calls(read), keep_last=True)

    def _message(self, message: Any, where: str) -> Iterator[Message]:
        fields = ObjectReader(message, where)
        role, parts = fields.string("role"), fields.must("parts", list)
        if role not in _ROLES:
            raise ConfigError(f"{where}.role is {role!r}{allowed_values_hint(role, _ROLES)}")
        if role == "assistant":
            yield from self._steps(parts, where)
        elif role == "system":
            texts = [text.text for text in _contents(parts, where) if isinstance(text, TextPart)]
            yield Message("system", "".join(texts))
        else:
            contents = list(_contents(parts, where))
            single = contents[0] if len(contents) == 1 else None
            yield Message("user", single.text if isinstance(single, TextPart) else tuple(contents))

    def _steps(self, parts: list[Any], where: str) -> Iterator[Message]:
        step = _StepReader()
        for at, part in enumerate(parts):
            kind = ObjectReader(part, f"{where}.parts[{at}]").string("type")
            if kind == "step-start":
                yield from self._turn(step)
                step = _StepReader()
            else:
                step.add(kind, part, f"{where}.parts[{at}]")
        yield from self._turn(step)

    def _turn(self, step: _StepReader) -> Iterator[Message]:
        if not (step.text or step.calls or step.refusal):
            return
        self.decisions, self.results = step.decisions, step.results
        yield Message(
            "assistant",
            step.text or None,
            tuple(step.calls),
            reasoning=step.reasoning,
            refusal=step.refusal,
            extras=step.extras,
            prefix=step.prefix,
        )
        yield from step.answers


class _StepReader:
    """Converts the parts of one step of an assistant message, which is one response of the model."""

    def __init__(self) -> None:
        self.text = ""
        self.reasoning: str | None = None
        self.refusal: str | None = None
        self.extras: dict[str, Any] = {}
        self.prefix: str | None = None
        self.calls: list[ToolCall] = []
        self.answers: list[Message] = []
        self.decisions: list[Decision] = []
        self.results: list[ExternalResult] = []

    def add(self, kind: str, part: Mapping[str, Any], where: str) -> None:
        """Adds a part to the step. Ignores sources, files and the application's own data."""
        if kind == "text":
            text = ObjectReader(part, where).string("text")
            if _kept(part, "providerMetadata").get("refusal"):
                self.refusal = (self.refusal or "") + text
            else:
                self.text += text
        elif kind == "reasoning":
            self.reasoning = (self.reasoning or "") + ObjectReader(part, where).string("text")
        elif kind == "data-streamfold":
            data = ObjectReader(part, where).inner("data")
            self.extras |= client_extras(data.mapping("extras") or {})
            self.prefix = data.text("prefix")
        elif kind == "dynamic-tool":
            self._call(ObjectReader(part, where).string("toolName"), part, where)
        elif kind.startswith("tool-"):
            self._call(kind.removeprefix("tool-"), part, where)

    def _call(self, name: str, part: Mapping[str, Any], where: str) -> None:
        state = part.get("state")
        if part.get("providerExecuted"):  # the message's extras contain the call for the provider
            return
        if state in _UNFINISHED or part.get("preliminary"):  # its arguments are incomplete
            return
        value = part["input"] if part.get("input") is not None else part.get("rawInput")
        kept = _kept(part, "callProviderMetadata") or _kept(part, "resultProviderMetadata")
        call = read_call(ObjectReader(part, where).string("toolCallId"), name, {} if value is None else value, kept)
        self.calls.append(call)
        approval = ObjectReader(part, where).object("approval") or ObjectReader({}, f"{where}.approval")
        if state == "approval-responded":
            approved, given = approval.must("approved", bool), approval.any("reason")
            reason = given if isinstance(given, str) else None
            signature, approval_id = approval.text("signature"), approval.text("id")
            self.decisions.append(Decision(call.id, approved, reason, signature, approval_id))
        elif state == "output-available":
            output = part.get("output")
            match output:
                case {"type": "content", "value": list(items)}:
                    output = [_result_part(item, f"{where}.output.value[{at}]") for at, item in enumerate(items)]
            self._answer(call, output, error=False)
        elif state == "output-error":
            self._answer(call, ObjectReader(part, where).string("errorText"), error=True)
        elif state == "output-denied":
            given = approval.any("reason")
            self.answers.append(tool_result(call, f"{_DENIED}: {given}" if given else _DENIED, error=True))

    def _answer(self, call: ToolCall, content: Any, *, error: bool) -> None:
        self.answers.append(tool_result(call, content, error=error))
        self.results.append(ExternalResult(call.id, content, error))


def _kept(part: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Returns the data that streamfold has stored in a part's metadata."""
    metadata = part.get(name)
    found = metadata.get("streamfold") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


def _contents(parts: list[Any], where: str) -> Iterator[ContentPart]:
    for at, part in enumerate(parts):
        place = f"{where}.parts[{at}]"
        fields = ObjectReader(part, place)
        kind = fields.string("type")
        if kind == "text":
            yield TextPart(fields.string("text"))
        elif kind == "file":
            media_type, name = fields.string("mediaType"), fields.text("filename")
            yield media_part(place, _kind(media_type), media_type, url=fields.string("url"), name=name)


def _result_part(item: Any, where: str) -> ContentPart:
    match item:
        case {"type": "text", "text": str(text)}:
            return TextPart(text)
        case {"type": "file-data" | "image-data" | "media", "data": str(data), "mediaType": str(media_type)}:
            return media_part(where, _kind(media_type), media_type, data=data)
        case {"type": "file-url" | "image-url", "url": str(url), **rest}:
            media_type = ObjectReader(rest, where).text("mediaType") or ("image" if item["type"] == "image-url" else "")
            return media_part(where, _kind(media_type), media_type, url=url)
        case {"type": "file-id", "fileId": str(file_id)}:
            return media_part(where, "document", None, file_id=file_id)
    raise ConfigError(f"{where} is not a valid part of a tool result: {item!r:.80}")


def _kind(media_type: str) -> str:
    return media_type.partition("/")[0].lower()


# --- events -----------------------------------------------------------------------------------------------------------


def stream(
    source: ToolRun | ChatStream,
    *,
    message_id: str | None = None,
    reasoning: bool = True,
    metadata: Metadata | None = None,
    secret: str | None = None,
    on_pause: OnPause | None = None,
    on_end: OnPause | None = None,
    on_error: OnError | None = None,
) -> AsyncIterator[bytes]:
    """Returns the HTTP response body for a run or a stream. Send the body with the headers `HEADERS`.

    If the run or the stream fails, the function logs the error and sends an `error` event; it raises no exception. If
    you stop the iteration early, the function closes the connection to the provider.

    Args:
        message_id: the id of the assistant message. To continue a message, pass `ChatRequest.message_id`.
        reasoning: true if the client gets the model's reasoning.
        metadata: called with `source` at the end of the response; returns the metadata of the message.
        secret: the secret with which `stream` signs the tool calls that need approval. Pass the same secret and owner
            to `read_request`, which checks the signatures. The run's journal accepts each approval only once.
        on_pause: called with a run that pauses for an approval or a result, before the client gets the last event. Save
            the run's state here. Also called with a run that failed because its journal was unavailable; you can resume
            such a run with the same decisions. The function may be async. If it raises an exception, the client gets an
            error event.
        on_end: called with a run that is complete. Delete the run's saved state here. The function may be async. Its
            exceptions are logged.
        on_error: returns the error message for the user. The default, `error_text`, hides errors of your server.
    """
    writer = UIMessageWriter(message_id, reasoning=reasoning, metadata=metadata and (lambda: metadata(source)))
    signatures = None
    if secret is not None and isinstance(source, ToolRun):
        signatures = Signatures(secret, source.owner, source.chat_id)
    return server_sent(run_events(source, writer, on_error, signatures, on_pause, on_end), b"data: [DONE]\n\n")


class UIMessageWriter(UIWriter):
    """Writes the events of an AI SDK UI message stream. For the arguments, see `stream`."""

    whole_calls_replace = True

    def __init__(
        self,
        message_id: str | None = None,
        *,
        reasoning: bool = True,
        metadata: Callable[[], Mapping[str, Any] | None] | None = None,
    ) -> None:
        self._message_id = message_id
        self._reasoning = reasoning
        self._metadata = metadata
        self._in_step = False
        self._begun: set[str] = set()  # calls of this step with events
        self._open: str | None = None  # "text" or "reasoning": the open part
        self._parts = 0
        self._turns = 0
        self._reason: str | None = None

    def start(self) -> Iterator[UIEvent]:
        yield {"type": "start"} | ({"messageId": self._message_id} if self._message_id else {})

    def turn(self) -> Iterator[UIEvent]:
        """Returns the end event of the previous step, and the start event of a new step."""
        yield from self._end_step()
        self._in_step = True
        yield {"type": "start-step"}

    def text(self, text: str) -> Iterator[UIEvent]:
        yield from self._say("text", text)

    def reasoning(self, text: str) -> Iterator[UIEvent]:
        if self._reasoning:
            yield from self._say("reasoning", text)

    def call_piece(self, call_id: str, name: str, text: str) -> Iterator[UIEvent]:
        """Returns the events of an unfinished tool call, whose state is `input-streaming`."""
        yield from self._close()
        if call_id not in self._begun:
            self._begun.add(call_id)
            yield {"type": "tool-input-start", "toolCallId": call_id, "toolName": name}
        yield {"type": "tool-input-delta", "toolCallId": call_id, "inputTextDelta": text}

    def call(self, call: ToolCall, text: str) -> Iterator[UIEvent]:
        yield from self._close()
        head: UIEvent = {"toolCallId": call.id, "toolName": call.name}
        kept = argument_metadata(call)
        if call.extra is not None:
            kept["extra"] = call.extra
        tail = _metadata(kept)
        if call.error:
            problem = f"the arguments of {call.name} are not a JSON object"
            yield {"type": "tool-input-error", **head, "input": call.raw_arguments, "errorText": problem, **tail}
        else:
            yield {"type": "tool-input-available", **head, "input": call.arguments, **tail}

    def hosted(self, step: HostedStep) -> Iterator[UIEvent]:
        yield from self._close()
        call = step if isinstance(step, HostedCall) else step.call
        at: UIEvent = {"toolCallId": call.id, "providerExecuted": True, "dynamic": True}
        if isinstance(step, HostedCall):
            yield {"type": "tool-input-available", **at, "toolName": call.name, "input": call.input}
        elif step.error:
            yield {"type": "tool-output-error", **at, "errorText": step.error}
        else:
            yield {"type": "tool-output-available", **at, "output": step.output}

    def turn_end(self, reply: Reply) -> Iterator[UIEvent]:
        """Returns the events at the end of a response. The step ends later, because it also contains the tools'
        results.
        """
        yield from self._close()
        yield from _sources(reply)
        if reply.refusal:
            yield from self._say("text", reply.refusal)
            yield from self._close({"refusal": True})
        self._turns += 1
        self._begun = set()
        self._reason = _REASONS.get(reply.finish_reason, reply.finish_reason)
        # The provider needs the extras in the next request. `Message.origin` contains a URL that browsers mustn't get.
        if reply.extras:
            data = {"extras": dict(reply.extras)} | ({"prefix": reply.prefix} if reply.prefix else {})
            yield {"type": "data-streamfold", "id": f"turn-{self._turns}", "data": data}

    def result(self, result: ToolResult) -> Iterator[UIEvent]:
        call: UIEvent = {"toolCallId": result.call.id}
        if result.denied:
            yield {"type": "tool-output-denied", **call}
        elif result.message.error:
            yield {"type": "tool-output-error", **call, "errorText": str(result.value)}
        else:
            output = result.value
            if isinstance(output, list) and any(isinstance(part, _PARTS) for part in output):
                output = {"type": "content", "value": [*map(_serialize_part, output)]}
            yield {"type": "tool-output-available", **call, "output": output}

    def end(self, pending: tuple[PendingCall, ...], signatures: Mapping[str, str] | None = None) -> Iterator[UIEvent]:
        """Returns the approval requests for pending tool calls, and the end event of the message."""
        for waiting in pending:
            if waiting.waits_for == "approval":
                call_id = waiting.call.id
                signed = {"signature": signatures[call_id]} if signatures and call_id in signatures else {}
                asked = {"approvalId": waiting.approval_id or call_id, "toolCallId": call_id}
                yield {"type": "tool-approval-request", **asked, **signed}
        yield from self._end_step()
        last: UIEvent = {"type": "finish"} | ({"finishReason": self._reason} if self._reason else {})
        if self._metadata is not None and (found := self._metadata()) is not None:
            last["messageMetadata"] = dict(found)
        yield last

    def abort(self) -> Iterator[UIEvent]:
        yield {"type": "abort"}

    def fail(self, error: Exception, text: str) -> Iterator[UIEvent]:
        """Returns the error event. Open parts get no end event, because they are incomplete."""
        yield {"type": "error", "errorText": text}

    def _end_step(self) -> Iterator[UIEvent]:
        if self._in_step:
            yield {"type": "finish-step"}
        self._in_step = False

    def _say(self, kind: str, text: str) -> Iterator[UIEvent]:
        if not text:
            return
        if self._open != kind:
            yield from self._close()
            self._open, self._parts = kind, self._parts + 1
            yield {"type": f"{kind}-start", "id": str(self._parts)}
        yield {"type": f"{kind}-delta", "id": str(self._parts), "delta": text}

    def _close(self, kept: Mapping[str, Any] | None = None) -> Iterator[UIEvent]:
        if self._open is not None:
            yield {"type": f"{self._open}-end", "id": str(self._parts), **_metadata(kept)}
        self._open = None


def _metadata(kept: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"providerMetadata": {"streamfold": dict(kept)}} if kept else {}


def _sources(reply: Reply) -> Iterator[UIEvent]:
    """Yields an event for each source that a reply cites, and for each file that a browser can display."""
    for number, cited in enumerate(dict.fromkeys((one.kind, one.url, one.title) for one in reply.citations), 1):
        kind, url, title = cited
        named = {"title": title} if title else {}
        if url:
            yield {"type": "source-url", "sourceId": f"source-{number}", "url": url, **named}
        else:
            named = {"title": title or kind, **({"filename": title} if title and kind == "file" else {})}
            yield {"type": "source-document", "sourceId": f"source-{number}", "mediaType": _UNKNOWN, **named}
    for file in reply.files:
        media_type = file.media_type or _UNKNOWN
        if file.data is not None:
            yield {"type": "file", "mediaType": media_type, "url": f"data:{media_type};base64,{to_base64(file.data)}"}
        elif file.url:
            yield {"type": "file", "mediaType": media_type, "url": file.url}


def _serialize_part(part: str | TextPart | MediaPart) -> dict[str, Any]:
    if isinstance(part, str | TextPart):
        return {"type": "text", "text": part if isinstance(part, str) else part.text}
    if part.data is not None:
        return {"type": "file-data", "data": to_base64(part.data), "mediaType": part.media_type}
    if part.url is not None:
        return {"type": "file-url", "url": part.url} | ({"mediaType": part.media_type} if part.media_type else {})
    return {"type": "file-id", "fileId": part.file_id}
