"""The documented rules for streams of the Messages API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from .rules import Rule, Stream, error_with_message, event_stream_type, named_by_type, rule_maker

MESSAGES: list[Rule] = []
rule = rule_maker("messages", "https://docs.anthropic.com/en/docs/build-with-claude/streaming", MESSAGES)

_DELTAS = {
    "text": ("text_delta", "citations_delta"),
    "thinking": ("thinking_delta", "signature_delta"),
    "tool_use": ("input_json_delta",),
}
_REASONS = ("end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal")


def _blocks(stream: Stream) -> dict[Any, Mapping[str, Any]]:
    return {start.get("index"): start.get("content_block") or {} for start in stream.of("content_block_start")}


def _calls(stream: Stream) -> dict[Any, Mapping[str, Any]]:
    return {index: block for index, block in _blocks(stream).items() if block.get("type") == "tool_use"}


def _whole_calls(stream: Stream) -> bool:
    return bool(_calls(stream)) and _stop_reason(stream) != "max_tokens"


def _stop_reason(stream: Stream) -> Any:
    ends = stream.of("message_delta")
    return (ends[-1].get("delta") or {}).get("stop_reason") if ends else None


rule("content-type", "A stream has the content type text/event-stream.")(event_stream_type)
rule("names", "Every event has an event: line, which is its type.")(named_by_type)


@rule("start", "The first event is message_start, with an empty assistant message that has a usage.")
def _start(stream: Stream) -> Iterator[str]:
    first = stream.objects[0] if stream.objects else {}
    message = first.get("message")
    if first.get("type") != "message_start" or not isinstance(message, Mapping):
        yield f"the first event is {first.get('type')!r}"
        return
    names = ("id", "type", "role", "content", "model", "usage")
    if missing := [name for name in names if message.get(name) is None]:
        yield f"the message has no {', '.join(missing)}"
    elif message["content"] != [] or message["role"] != "assistant":
        yield "the message isn't an empty assistant message"


@rule("order", "Content blocks follow each other: start, deltas, stop. Their indexes are 0, 1, 2, ...")
def _order(stream: Stream) -> Iterator[str]:
    open_block: Any = None
    count = 0
    for payload in stream.of("content_block_start", "content_block_delta", "content_block_stop"):
        index, kind = payload.get("index"), payload["type"]
        if kind == "content_block_start":
            if open_block is not None or index != count:
                inside = "" if open_block is None else f", inside block {open_block}"
                yield f"block {index} begins as number {count}{inside}"
                return
            open_block, count = index, count + 1
        elif index != open_block:
            yield f"{kind} of block {index} while block {open_block} is open"
            return
        elif kind == "content_block_stop":
            open_block = None
    if open_block is not None:
        yield f"block {open_block} is never stopped"


@rule("delta-types", "The types of a content block's deltas match the type of the block.")
def _delta_types(stream: Stream) -> Iterator[str]:
    blocks = _blocks(stream)
    for payload in stream.of("content_block_delta"):
        block, delta = blocks.get(payload.get("index"), {}), payload.get("delta") or {}
        allowed = _DELTAS.get(str(block.get("type")))
        if allowed and delta.get("type") not in allowed:
            yield f"{delta.get('type')} in a block of the type {block.get('type')}"
            return


@rule("tool-use", "A tool_use block begins with id, name and an empty input.", about=_calls)
def _tool_use(stream: Stream) -> Iterator[str]:
    for call in _calls(stream).values():
        missing = [name for name in ("id", "name") if not call.get(name)]
        if missing or call.get("input") != {}:
            yield f"no {', '.join(missing)}" if missing else f"the input is {call.get('input')!r}"


@rule("input", "The input deltas of a tool call, when joined, are valid JSON.", about=_whole_calls)
def _input(stream: Stream) -> Iterator[str]:
    texts = dict.fromkeys(_calls(stream), "")
    for payload in stream.of("content_block_delta"):
        if payload.get("index") in texts:
            texts[payload["index"]] += str((payload.get("delta") or {}).get("partial_json", ""))
    for index, text in texts.items():
        try:
            json.loads(text or "{}")
        except ValueError:
            yield f"block {index}: {text[:60]!r}"


@rule("stop-reason", "Exactly one message_delta has a stop reason, which is one of the documented values.")
def _one_reason(stream: Stream) -> Iterator[str]:
    reasons = [(payload.get("delta") or {}).get("stop_reason") for payload in stream.of("message_delta")]
    if len([reason for reason in reasons if reason]) != 1:
        yield f"the stop reasons are {reasons}"
    elif _stop_reason(stream) not in _REASONS:
        yield f"the stop reason is {_stop_reason(stream)!r}"


@rule("stop-tool-use", 'A response with tool calls has the stop reason "tool_use".', about=_calls)
def _stop_tool_use(stream: Stream) -> Iterator[str]:
    if (reason := _stop_reason(stream)) not in ("tool_use", "max_tokens"):
        yield f"the stop reason is {reason!r}"


@rule("usage", "Every message_delta has a usage with output_tokens.")
def _usage(stream: Stream) -> Iterator[str]:
    for payload in stream.of("message_delta"):
        if not isinstance((payload.get("usage") or {}).get("output_tokens"), int):
            yield "message_delta has no output_tokens"
            return


@rule("stop", "The last event is message_stop.")
def _stop(stream: Stream) -> Iterator[str]:
    last = stream.events[-1].payload if stream.events else None
    kind = last.get("type") if isinstance(last, Mapping) else last
    if kind != "message_stop":
        yield f"the last event is {kind!r}"


@rule(
    "error-object",
    'A rejected request gets a 4xx status and {"type": "error", "error": {type, message}}.',
    errors=True,
)
def _error_object(stream: Stream) -> Iterator[str]:
    if isinstance(stream.error, Mapping) and stream.error.get("type") != "error":
        yield f"the type is {stream.error.get('type')!r}"
    else:
        yield from error_with_message(stream)
