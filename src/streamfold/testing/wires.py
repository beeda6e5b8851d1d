"""Steps to the bytes of an answer, as a server that behaves well sends them: one event for each piece.

What is written here is read by the library's own adapters: a script takes the way of any answer, and says nothing that
could not come over a wire.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from ..values import ConfigError, Usage
from .failures import Fail
from .script import Finish, Pause, Said, Step, ToolCallStep

__all__ = ["error_body", "write_events", "writer_for"]

_CREATED = 1_700_000_000  # the same every time, as everything in a test


class Writer(Protocol):
    """One wire format, for one answer."""

    def begin(self) -> Iterator[bytes]:
        """What comes before the first step."""
        ...

    def said(self, step: Said) -> Iterator[bytes]: ...

    def call(self, step: ToolCallStep) -> Iterator[bytes]: ...

    def error(self, error: dict[str, Any]) -> bytes:
        """The event by which the server gives up."""
        ...

    def end(self, reason: str, usage: Usage | None) -> Iterator[bytes]: ...


def writer_for(adapter: str, model: str, number: int, next_id: Callable[[str], str]) -> Writer:
    """The writer for what an adapter reads. Raises ConfigError with the adapters there are.

    Args:
        number: of the answer; its id is made of it.
        next_id: gives the id of the next call, by the name of the tool.
    """
    if adapter not in _WRITERS:
        raise ConfigError(
            f"a script can't be written for the adapter {adapter!r}: there are {', '.join(_WRITERS)}. Play recordings"
            " of that wire instead"
        )
    return _WRITERS[adapter](model, number, next_id)


def write_events(steps: Sequence[Step], writer: Writer) -> list[tuple[float, bytes]]:
    """The events of an answer that begins, each with the seconds to wait before it."""
    events = [(0.0, event) for event in writer.begin()]
    wait, reason, counted = 0.0, "", None
    for step in [*steps, None]:
        made: list[bytes] = []
        match step:
            case Said():
                made = list(writer.said(step))
            case ToolCallStep():
                made, reason = list(writer.call(step)), reason or "tool_calls"
            case Pause(seconds) if seconds == math.inf:
                return [*events, (seconds, b": never\n\n")]
            case Pause(seconds):
                wait += seconds
            case Finish(word):
                reason = word
            case Usage():
                counted = step
            case Fail():
                events += [(wait, event) for event in _failed(step, writer)]
                return events
            case None:
                made = list(writer.end(reason or "stop", counted))
        if made:
            events += [(wait, made[0]), *((0.0, event) for event in made[1:])]
            wait = 0.0
    return events


def _failed(step: Fail, writer: Writer) -> Iterator[bytes]:
    match step.how:
        case "event":
            yield writer.error(_error(step))
        case "garbage":
            yield b"data: {" + json.dumps(step.message).encode() + b"\n\n"
        case _:
            yield b": nothing more\n\n"  # what is waited for before the body ends


def error_body(step: Fail) -> bytes:
    """The body of an answer whose status is an error."""
    return json.dumps({"error": _error(step)}, ensure_ascii=False).encode()


def _error(step: Fail) -> dict[str, Any]:
    members = {"message": step.message, "type": step.kind, "code": step.code or step.status}
    return {name: value for name, value in members.items() if value is not None}


def _event(payload: dict[str, Any], name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    try:
        return f"{head}data: {json.dumps(payload, ensure_ascii=False)}\n\n".encode()
    except UnicodeEncodeError:  # half a character: a script that cuts one in two, as some servers do
        return f"{head}data: {json.dumps(payload)}\n\n".encode()


def _usage(counted: Usage, given: str, made: str) -> dict[str, Any]:
    total = counted.total_tokens
    if total is None and counted.input_tokens is not None and counted.output_tokens is not None:
        total = counted.input_tokens + counted.output_tokens
    members: dict[str, Any] = {given: counted.input_tokens, made: counted.output_tokens, "total_tokens": total}
    if counted.cached_tokens is not None:
        members[f"{given}_details"] = {"cached_tokens": counted.cached_tokens}
    if counted.reasoning_tokens is not None:
        members[f"{made}_details"] = {"reasoning_tokens": counted.reasoning_tokens}
    return {name: value for name, value in members.items() if value is not None}


class _Chat:
    """Chat Completions: https://platform.openai.com/docs/api-reference/chat-streaming."""

    _MEMBERS = {"say": "content", "think": "reasoning_content", "refuse": "refusal"}  # noqa: RUF012 - never changed

    def __init__(self, model: str, number: int, next_id: Callable[[str], str]) -> None:
        self._head = {
            "id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": _CREATED, "model": model,
        }  # fmt: skip
        self._next_id = next_id
        self._calls = 0

    def begin(self) -> Iterator[bytes]:
        yield self._chunk({"role": "assistant", "content": ""})

    def said(self, step: Said) -> Iterator[bytes]:
        for piece in step.pieces:
            yield self._chunk({self._MEMBERS[step.kind]: piece})

    def call(self, step: ToolCallStep) -> Iterator[bytes]:
        index, self._calls = self._calls, self._calls + 1
        function = {"name": step.name, "arguments": ""}
        call_id = self._next_id(step.name) if step.call_id is None else step.call_id
        yield self._chunk({"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": function}]})
        for piece in step.pieces:
            yield self._chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})

    def error(self, error: dict[str, Any]) -> bytes:
        return _event({"error": error})

    def end(self, reason: str, usage: Usage | None) -> Iterator[bytes]:
        if reason != "unknown":
            yield self._chunk({}, reason)
        if usage is not None:
            counts = _usage(usage, "prompt_tokens", "completion_tokens")
            yield _event({**self._head, "choices": [], "usage": counts})
        yield b"data: [DONE]\n\n"

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> bytes:
        return _event({**self._head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})


class _Responses:
    """The Responses API: https://platform.openai.com/docs/api-reference/responses-streaming."""

    _PARTS = {"say": ("output_text", "text"), "refuse": ("refusal", "refusal")}  # noqa: RUF012 - never changed
    _ENDS = {  # noqa: RUF012 - never changed
        "stop": None, "tool_calls": None, "length": "max_output_tokens", "content_filter": "content_filter",
    }  # fmt: skip

    def __init__(self, model: str, number: int, next_id: Callable[[str], str]) -> None:
        self._response = {"id": f"resp_{number}", "object": "response", "created_at": _CREATED, "model": model}
        self._next_id = next_id
        self._number = number
        self._sent = 0
        self._items: list[dict[str, Any]] = []

    def begin(self) -> Iterator[bytes]:
        yield self._say("created", response={**self._response, "status": "in_progress", "output": []})

    def said(self, step: Said) -> Iterator[bytes]:
        if step.kind == "think":
            yield from self._thought(step)
            return
        kind, member = self._PARTS[step.kind]
        item = {"type": "message", "id": self._item_id("msg"), "role": "assistant"}
        place = {"output_index": len(self._items), "item_id": item["id"], "content_index": 0}
        part = {"type": kind, member: step.text, **({"annotations": []} if kind == "output_text" else {})}
        yield self._added({**item, "status": "in_progress", "content": []})
        yield self._say("content_part.added", **place, part={**part, member: ""})
        for piece in step.pieces:
            yield self._say(f"{kind}.delta", **place, delta=piece)
        yield self._say(f"{kind}.done", **place, **{member: step.text})
        yield self._say("content_part.done", **place, part=part)
        yield self._done({**item, "status": "completed", "content": [part]})

    def call(self, step: ToolCallStep) -> Iterator[bytes]:
        call_id = self._next_id(step.name) if step.call_id is None else step.call_id
        item = {"type": "function_call", "id": self._item_id("fc"), "call_id": call_id, "name": step.name}
        place = {"output_index": len(self._items), "item_id": item["id"]}
        yield self._added({**item, "status": "in_progress", "arguments": ""})
        for piece in step.pieces:
            yield self._say("function_call_arguments.delta", **place, delta=piece)
        yield self._say("function_call_arguments.done", **place, arguments=step.arguments)
        yield self._done({**item, "status": "completed", "arguments": step.arguments})

    def error(self, error: dict[str, Any]) -> bytes:
        return self._say("failed", response={**self._response, "status": "failed", "error": error, "output": []})

    def end(self, reason: str, usage: Usage | None) -> Iterator[bytes]:
        if reason not in self._ENDS:
            raise ConfigError(f"finish({reason!r}): the Responses API ends with {', '.join(self._ENDS)}")
        why = self._ENDS[reason]
        response: dict[str, Any] = {**self._response, "status": "completed", "output": self._items}
        if why:
            response.update(status="incomplete", incomplete_details={"reason": why})
        if usage is not None:
            response["usage"] = _usage(usage, "input_tokens", "output_tokens")
        yield self._say(str(response["status"]), response=response)

    def _thought(self, step: Said) -> Iterator[bytes]:
        item = {"type": "reasoning", "id": self._item_id("rs")}
        place = {"output_index": len(self._items), "item_id": item["id"], "summary_index": 0}
        part = {"type": "summary_text", "text": step.text}
        yield self._added({**item, "summary": []})
        if step.text:
            yield self._say("reasoning_summary_part.added", **place, part={**part, "text": ""})
            for piece in step.pieces:
                yield self._say("reasoning_summary_text.delta", **place, delta=piece)
            yield self._say("reasoning_summary_text.done", **place, text=step.text)
            yield self._say("reasoning_summary_part.done", **place, part=part)
        yield self._done({**item, "summary": [part] if step.text else []})

    def _item_id(self, kind: str) -> str:
        return f"{kind}_{self._number}_{len(self._items)}"

    def _added(self, item: dict[str, Any]) -> bytes:
        return self._say("output_item.added", output_index=len(self._items), item=item)

    def _done(self, item: dict[str, Any]) -> bytes:
        self._items.append(item)
        return self._say("output_item.done", output_index=len(self._items) - 1, item=item)

    def _say(self, name: str, **members: Any) -> bytes:
        number, self._sent = self._sent, self._sent + 1
        return _event({"type": f"response.{name}", "sequence_number": number, **members}, f"response.{name}")


_WRITERS: dict[str, Callable[[str, int, Callable[[str], str]], Writer]] = {
    "chat": _Chat,
    "kimi": _Chat,
    "responses": _Responses,
}
