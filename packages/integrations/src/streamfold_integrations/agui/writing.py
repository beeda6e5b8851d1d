"""A run as the events of AG-UI: https://docs.ag-ui.com/concepts/events.

Every answer of the model is one assistant message. A call is closed by `TOOL_CALL_END` only after the answer has ended
in order. What only the provider can read is the `encryptedValue` of its message or call, which clients send back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any

from streamfold import ChatStream, GeneratedFile, Message, Reply, ToolCall, ToolResult, ToolRun
from streamfold.serving import json_text, to_base64, tool_result_content
from streamfold.tools import PendingCall
from streamfold.types import AudioPart, FilePart, ImagePart, TextPart

from ..hosted_steps import HostedCall, HostedStep
from ..ui import OnError, OnPause, Signatures, UIEvent, UIWriter, is_shown_as, last_calls, run_events, server_sent
from .reading import REASONING, AgentRequest

HEADERS: Mapping[str, str] = MappingProxyType(
    {"content-type": "text/event-stream", "cache-control": "no-cache, no-transform", "x-accel-buffering": "no"}
)

PROTOCOL = "1.0"
_DECISION = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["approved"],
}


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
    """Returns a run or an answer as the body of a response with `HEADERS`.

    A failure is a `RUN_ERROR`, so that nothing is raised: what went wrong is logged. Leaving the iteration closes the
    connection to the provider.

    Args:
        request: the request that is answered.
        reasoning: whether reasoning is sent.
        secret: signs the calls that a person must approve, for `read_request` with the same secret and owner. The
            client sends the `metadata` of an interrupt back with its answer, a denial too. An approval is good once:
            the run's journal keeps that.
        on_pause: called with a run that waits for an approval or a result, before the client is told, so that its state
            can be saved; also with a run that failed because its journal's store could not be used, which can then be
            resumed with the same decisions. May be async. If it raises, the client gets an error and is asked nothing.
        on_end: called with a run that has ended with an answer, so that its saved state can be deleted; with it nothing
            can be approved any more. May be async. What it raises is logged.
        on_error: returns what the user interface shows of an error. Default: `error_text`, the provider's message, and
            no more than "see its log" for errors of the server itself.
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
    """A call of which events were written: its id as the client knows it, and the length of what was written."""

    id: str
    written: int = 0


class AGUIWriter(UIWriter):
    """Writes the events of one AG-UI run.

    Args:
        thread_id, run_id: of the request.
        reasoning: whether reasoning is sent.
        known_calls: the ids of the calls of the conversation. They are unique in a thread: a call whose id comes again
            gets another one.
        open_calls: those of the last turn, whose results may come first.
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
        """Returns the start of the run."""
        yield {"type": "RUN_STARTED", **self._run, "protocolVersion": PROTOCOL}

    def turn(self) -> Iterator[UIEvent]:
        """Returns nothing: a message begins with its first word."""
        self._turns += 1
        self._calls, self._open = {}, ()
        yield from ()

    def text(self, text: str) -> Iterator[UIEvent]:
        """Returns the events of a piece of text."""
        yield from self._stop_thinking()
        if not self._speaking:
            self._speaking = True
            yield {"type": "TEXT_MESSAGE_START", "messageId": self._message, "role": "assistant"}
        yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": self._message, "delta": text}

    def reasoning(self, text: str) -> Iterator[UIEvent]:
        """Returns the events of a piece of reasoning."""
        if not self._reasoning:
            return
        if not self._thinking:
            self._thinking, self._thoughts = True, self._thoughts + 1
            yield {"type": "REASONING_START", "messageId": self._thought}
            yield {"type": "REASONING_MESSAGE_START", "messageId": self._thought, "role": "reasoning"}
        yield {"type": "REASONING_MESSAGE_CONTENT", "messageId": self._thought, "delta": text}

    def call_piece(self, call_id: str, name: str, text: str) -> Iterator[UIEvent]:
        """Returns the events of a call that is being written."""
        yield from self._stop_thinking()
        if (begun := self._calls.get(call_id)) is None:
            begun = self._calls[call_id] = _Begun(self._unused(call_id))
            head = {"toolCallId": begun.id, "toolCallName": name}
            yield {"type": "TOOL_CALL_START", **head, "parentMessageId": self._message}
        if text:
            begun.written += len(text)
            yield {"type": "TOOL_CALL_ARGS", "toolCallId": begun.id, "delta": text}

    def call(self, call: ToolCall, text: str) -> Iterator[UIEvent]:
        """Returns the events of the rest of a call, and its end."""
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
        """Returns the activity that shows what a tool of the provider does: the protocol has no such tools."""
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
        """Returns the end of an answer."""
        yield from self._stop_thinking()
        if reply.refusal:
            yield from self.text(reply.refusal)
        yield from self._stop_speaking()
        if reply.citations:
            cited = [_given(asdict(citation)) for citation in reply.citations]
            yield self._activity("citations", "citations", {"citations": cited})
        if reply.files:
            yield self._activity("files", "files", {"files": [*map(_file, reply.files)]})
        if reply.extras and (reply.text or reply.tool_calls):
            yield from _encrypted("message", self._message, {"extras": dict(reply.extras)})
        self._usage += _usage(reply)

    def result(self, result: ToolResult) -> Iterator[UIEvent]:
        """Returns the event of the result of a call."""
        self._results += 1
        yield {
            "type": "TOOL_CALL_RESULT",
            "messageId": f"{self._run['runId']}-result-{self._results}",
            "toolCallId": self.client_call_id(result.call.id),
            "content": _content(result.message),
            "role": "tool",
        }

    def end(self, pending: tuple[PendingCall, ...], signatures: Mapping[str, str] | None = None) -> Iterator[UIEvent]:
        """Returns the end of the run: an interrupt if somebody must approve a call."""
        outcome: dict[str, Any] = {"type": "success"}
        if approvals := [waiting for waiting in pending if waiting.waits_for == "approval"]:
            asked = [
                _interrupt(one, self.client_call_id(one.call.id), (signatures or {}).get(one.call.id))
                for one in approvals
            ]
            outcome = {"type": "interrupt", "interrupts": asked}
        elif pending:
            outcome["pendingToolCallIds"] = [self.client_call_id(waiting.call.id) for waiting in pending]
        yield {"type": "RUN_FINISHED", **self._run, "outcome": outcome, **self._spent()}

    def abort(self) -> Iterator[UIEvent]:
        """Returns the end of a run that was stopped on the server."""
        yield from self._stop_thinking()
        yield from self._stop_speaking()
        yield {"type": "RUN_FINISHED", **self._run, "outcome": {"type": "cancelled"}, **self._spent()}

    def fail(self, error: Exception, text: str) -> Iterator[UIEvent]:
        """Returns the error. What is open stays open: it is not whole."""
        yield {"type": "RUN_ERROR", "message": text, "code": type(error).__name__, **self._spent()}

    @property
    def _message(self) -> str:
        return f"{self._run['runId']}-message-{self._turns}"

    @property
    def _thought(self) -> str:
        return f"{self._message}{REASONING}{self._thoughts}"  # `reading.py` knows by it where it belongs

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
        """Returns the id of a call as the client knows it."""
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
    # Clients send back its id, and the metadata only if the application does. The id has what tells this approval from
    # all others, unless the signature has it.
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


def _file(file: GeneratedFile) -> dict[str, Any]:
    data = None if file.data is None else to_base64(file.data)
    return _given({**asdict(replace(file, data=None)), "data": data})


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


def _content(message: Message) -> str | list[dict[str, Any]]:
    content = tool_result_content(message)
    if content is None or isinstance(content, str):
        return content or ""
    return [_part(part) for part in content]


def _part(part: Any) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    kinds = {ImagePart: "image", AudioPart: "audio", FilePart: "document"}
    known = {} if part.media_type is None else {"mimeType": part.media_type}
    if part.data is not None:
        source = {"type": "data", "value": to_base64(part.data), **known}
    else:
        source = {"type": "url", "value": part.url, **known} if part.url else {"type": "file", "value": part.file_id}
    return {"type": kinds[type(part)], "source": source}
