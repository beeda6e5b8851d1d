"""A run as a UI message stream.

The protocol: https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol#data-stream-protocol. Every answer of the model is a
step of one assistant message. A call is `tool-input-available` only after the answer has ended in order, and
what only the provider can read travels in `data-streamfold` parts, which user interfaces ignore and send back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from streamfold import ChatStream, Reply, ToolCall, ToolResult, ToolRun
from streamfold.serving import to_base64
from streamfold.tools import PendingCall
from streamfold.types import AudioPart, FilePart, ImagePart, MediaPart, TextPart

from ..hosted_steps import HostedCall, HostedStep
from ..ui import OnError, OnPause, Signatures, UIEvent, UIWriter, run_events, server_sent
from .tool_metadata import argument_metadata

HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "content-type": "text/event-stream",
        "cache-control": "no-cache, no-transform",  # a proxy that compresses a stream also holds it back
        "x-vercel-ai-ui-message-stream": "v1",
        "x-accel-buffering": "no",
    }
)

_REASONS = {"tool_calls": "tool-calls", "content_filter": "content-filter", "unknown": "other"}

_PARTS = (TextPart, ImagePart, FilePart, AudioPart)

Metadata = Callable[[ToolRun | ChatStream], Mapping[str, Any] | None]


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
    """Returns a run or an answer as the body of a response with `HEADERS`.

    A failure is an `error` event, so that nothing is raised: what went wrong is logged. Leaving the iteration closes
    the connection to the provider.

    Args:
        message_id: the id of the assistant message. To continue one, pass `UIRequest.message_id`.
        reasoning: whether reasoning is sent.
        metadata: called at the end with the source; returns the metadata of the message.
        secret: signs the calls that a person must approve, for `read_request` with the same secret and owner. Each
            approval is good once: the journal of the run keeps that.
        on_pause: called with a run that waits for an approval or a result, before the client is told, so that its state
            can be saved; also with a run that failed because its journal's store could not be used, which can then be
            resumed with the same decisions. May be async. If it raises, the client gets an error and is asked nothing.
        on_end: called with a run that has ended with an answer, so that its saved state can be deleted; with it nothing
            can be approved any more. May be async. What it raises is logged.
        on_error: returns what the user interface shows of an error. Default: `error_text`, the provider's message, and
            no more than "see its log" for errors of the server itself.
    """
    writer = UIMessageWriter(
        message_id,
        reasoning=reasoning,
        metadata=metadata and (lambda: metadata(source)),
    )
    signatures = None
    if secret is not None and isinstance(source, ToolRun):
        signatures = Signatures(secret, source.owner, source.chat_id)
    return server_sent(run_events(source, writer, on_error, signatures, on_pause, on_end), b"data: [DONE]\n\n")


class UIMessageWriter(UIWriter):
    """Writes the chunks of a UI message stream. For the arguments see `stream`."""

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
        self._begun: set[str] = set()  # calls of this step of which pieces were written
        self._open: str | None = None  # "text" or "reasoning", the part that grows
        self._parts = 0
        self._turns = 0
        self._reason: str | None = None

    def start(self) -> Iterator[UIEvent]:
        """Returns the `start` of the message."""
        yield {"type": "start"} | ({"messageId": self._message_id} if self._message_id else {})

    def turn(self) -> Iterator[UIEvent]:
        """Returns the start of a step, and the end of the one before."""
        yield from self._end_step()
        self._in_step = True
        yield {"type": "start-step"}

    def text(self, text: str) -> Iterator[UIEvent]:
        """Returns the events of a piece of text."""
        yield from self._say("text", text)

    def reasoning(self, text: str) -> Iterator[UIEvent]:
        """Returns the events of a piece of reasoning."""
        if self._reasoning:
            yield from self._say("reasoning", text)

    def call_piece(self, call_id: str, name: str, text: str) -> Iterator[UIEvent]:
        """Returns the events of a call that is being written: its part is `input-streaming`, which nobody runs."""
        yield from self._close()
        if call_id not in self._begun:
            self._begun.add(call_id)
            yield {"type": "tool-input-start", "toolCallId": call_id, "toolName": name}
        yield {"type": "tool-input-delta", "toolCallId": call_id, "inputTextDelta": text}

    def call(self, call: ToolCall, text: str) -> Iterator[UIEvent]:
        """Returns the event of a whole call."""
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
        """Returns the event of a step of a tool that the provider runs."""
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
        """Returns the end of an answer. Its step goes on: the results of its calls belong to it."""
        yield from self._close()
        yield from _sources(reply)
        if reply.refusal:
            yield from self._say("text", reply.refusal)
            yield from self._close({"refusal": True})
        self._turns += 1
        self._begun = set()
        self._reason = _REASONS.get(reply.finish_reason, reply.finish_reason)
        if kept := _carried(reply):
            yield {"type": "data-streamfold", "id": f"turn-{self._turns}", "data": kept}

    def result(self, result: ToolResult) -> Iterator[UIEvent]:
        """Returns the event of the result of a call."""
        call: UIEvent = {"toolCallId": result.call.id}
        if result.denied:
            yield {"type": "tool-output-denied", **call}
        elif result.message.error:
            yield {"type": "tool-output-error", **call, "errorText": str(result.value)}
        else:
            yield {"type": "tool-output-available", **call, "output": _output(result.value)}

    def end(self, pending: tuple[PendingCall, ...], signatures: Mapping[str, str] | None = None) -> Iterator[UIEvent]:
        """Returns the requests for approvals, and the end of the message."""
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
        """Returns the end of a message that was stopped on the server."""
        yield {"type": "abort"}

    def fail(self, error: Exception, text: str) -> Iterator[UIEvent]:
        """Returns the error. Parts that are open stay open: they are not whole."""
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
    """Yields the sources that an answer names, each once, and the files that can be shown."""
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


_UNKNOWN = "application/octet-stream"


def _carried(reply: Reply) -> dict[str, Any]:
    """Returns what only the provider can read of a turn. Not its origin: addresses are nothing for a browser."""
    return {"extras": dict(reply.extras)} if reply.extras else {}


def _output(value: Any) -> Any:
    """Returns the value of a tool as JSON data; parts in the shape of the AI SDK's own content of results."""
    if not isinstance(value, list) or not any(isinstance(part, _PARTS) for part in value):
        return value
    return {"type": "content", "value": [_output_part(part) for part in value]}


def _output_part(part: str | TextPart | MediaPart) -> dict[str, Any]:
    if isinstance(part, str | TextPart):
        return {"type": "text", "text": part if isinstance(part, str) else part.text}
    if part.data is not None:
        return {"type": "file-data", "data": to_base64(part.data), "mediaType": part.media_type}
    if part.url is not None:
        return {"type": "file-url", "url": part.url} | ({"mediaType": part.media_type} if part.media_type else {})
    return {"type": "file-id", "fileId": part.file_id}
