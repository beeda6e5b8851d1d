"""The documented rules for streams of the Responses API."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from streamfold.adapters import join_surrogates

from .rules import Rule, Stream, error_with_message, event_stream_type, named_by_type, rule_maker, wrong_sum

RESPONSES: list[Rule] = []
rule = rule_maker("responses", "https://platform.openai.com/docs/api-reference/responses-streaming", RESPONSES)

_ENDS = ("response.completed", "response.incomplete", "response.failed")
_TEXT = "response.output_text"
_ARGUMENTS = "response.function_call_arguments"


def _done_items(stream: Stream) -> list[Mapping[str, Any]]:
    items = (payload.get("item") for payload in stream.of("response.output_item.done"))
    return [item if isinstance(item, Mapping) else {} for item in items]


def _whole_calls(stream: Stream) -> list[Mapping[str, Any]]:
    calls = [item for item in _done_items(stream) if item.get("type") == "function_call"]
    return [] if stream.of("response.incomplete") else calls


def _has_text(stream: Stream) -> bool:
    return bool(stream.of(f"{_TEXT}.delta"))


def _limit_was_sent(stream: Stream) -> bool:
    return isinstance(stream.seen.sent.get("max_output_tokens"), int)


rule("content-type", "A stream has the content type text/event-stream.")(event_stream_type)
rule("names", "Every event has an event: line, which is its type.")(named_by_type)


@rule("sequence", "Every event has a sequence_number, which is one higher than in the previous event.")
def _sequence(stream: Stream) -> Iterator[str]:
    numbers = [payload["sequence_number"] for payload in stream.objects if "sequence_number" in payload]
    missing = len(stream.objects) - len(numbers)
    if missing:
        yield f"{missing} of {len(stream.objects)} events have no sequence_number"
    elif any(after - before != 1 for before, after in pairwise(numbers)):
        yield f"the numbers are {numbers[:12]}"


@rule("created-first", "The first event is response.created, with a response that is in progress.")
def _created_first(stream: Stream) -> Iterator[str]:
    first = stream.objects[0] if stream.objects else {}
    response = first.get("response")
    if first.get("type") != "response.created":
        yield f"the first event is {first.get('type')!r}"
    elif not isinstance(response, Mapping) or response.get("status") not in ("in_progress", "queued"):
        yield "response.created has no response in progress"


@rule("response", "The response has id, object, created_at, model, status and output.")
def _response(stream: Stream) -> Iterator[str]:
    for payload in stream.of("response.created", *_ENDS):
        response = payload.get("response") or {}
        names = ("id", "object", "created_at", "model", "status", "output")
        if missing := [name for name in names if name not in response]:
            yield f"{payload['type']}: no {', '.join(missing)}"


@rule("end", "The last event is response.completed, response.incomplete or response.failed.")
def _end(stream: Stream) -> Iterator[str]:
    last = stream.events[-1].payload if stream.events else None
    kind = last.get("type") if isinstance(last, Mapping) else last
    if kind not in _ENDS:
        yield f"the last event is {kind!r}"


@rule("end-status", "The type of the last event matches the status of the response.")
def _end_status(stream: Stream) -> Iterator[str]:
    for payload in stream.of(*_ENDS):
        status = (payload.get("response") or {}).get("status")
        if payload["type"] != f"response.{status}":
            yield f"{payload['type']} with the status {status!r}"


@rule("cut", 'A response that is truncated by max_output_tokens has the status "incomplete".', about=_limit_was_sent)
def _cut(stream: Stream) -> Iterator[str]:
    limit = stream.seen.sent["max_output_tokens"]
    for payload in stream.of("response.completed"):
        used = ((payload.get("response") or {}).get("usage") or {}).get("output_tokens")
        if used == limit:
            yield f"response.completed, although the response has {used} of {limit} allowed tokens"


@rule("items", "Every output item is added once and done once, with the same output_index and id.")
def _items(stream: Stream) -> Iterator[str]:
    added = Counter(map(_place, stream.of("response.output_item.added")))
    done = Counter(map(_place, stream.of("response.output_item.done")))
    if any("no output_index" in place for place in [*added, *done]):
        yield "an item has no output_index"
    elif added != done or any(count > 1 for count in added.values()):
        yield f"added: {sorted(added.elements())}; done: {sorted(done.elements())}"


def _place(payload: Mapping[str, Any]) -> str:
    item = payload.get("item") or {}
    return f"{payload.get('output_index', 'no output_index')} {item.get('type')} {item.get('id')}"


@rule("indexes", "Output items have the indexes 0, 1, 2, ... in the order in which they are added.")
def _indexes(stream: Stream) -> Iterator[str]:
    numbers = [payload.get("output_index") for payload in stream.of("response.output_item.added")]
    if numbers != list(range(len(numbers))):
        yield f"the numbers are {numbers}"


@rule("places", "Every delta has item_id and output_index. A text delta also has content_index.")
def _places(stream: Stream) -> Iterator[str]:
    for payload in stream.of(f"{_TEXT}.delta", f"{_ARGUMENTS}.delta"):
        names = ["item_id", "output_index", *(["content_index"] if payload["type"].startswith(_TEXT) else [])]
        if missing := [name for name in names if name not in payload]:
            yield f"{payload['type']}: no {', '.join(missing)}"
            return


@rule("parts", "Every content part is added before its first text delta, and done after its last one.", about=_has_text)
def _part_order(stream: Stream) -> Iterator[str]:
    order = [payload["type"] for payload in stream.of("response.content_part.added", f"{_TEXT}.delta",
                                                      "response.content_part.done")]  # fmt: skip
    if order[0] != "response.content_part.added":
        yield "no response.content_part.added precedes the first text delta"
    if order[-1] != "response.content_part.done":
        yield "no response.content_part.done follows the last text delta"


@rule("text", "response.output_text.done contains the joined text deltas.", about=_has_text)
def _text(stream: Stream) -> Iterator[str]:
    return _wholes(stream, _TEXT, "text")


@rule("arguments", "response.function_call_arguments.done contains the joined argument deltas.", about=_whole_calls)
def _arguments(stream: Stream) -> Iterator[str]:
    return _wholes(stream, _ARGUMENTS, "arguments")


def _wholes(stream: Stream, kind: str, member: str) -> Iterator[str]:
    pieces: dict[Any, str] = {}
    for payload in stream.of(f"{kind}.delta"):
        pieces[payload.get("item_id")] = pieces.get(payload.get("item_id"), "") + str(payload.get("delta", ""))
    wholes = {payload.get("item_id"): payload.get(member) for payload in stream.of(f"{kind}.done")}
    pieces = {item: join_surrogates(text) for item, text in pieces.items()}
    if not pieces and not wholes:
        yield f"there are no {kind} events"
    elif pieces and pieces != wholes:
        yield f"deltas: {str(list(pieces.values()))[:60]}; done: {str(list(wholes.values()))[:60]}"


@rule("calls", "A function_call item has id, call_id, name, and arguments that are valid JSON.", about=_whole_calls)
def _calls(stream: Stream) -> Iterator[str]:
    for call in _whole_calls(stream):
        if missing := [name for name in ("id", "call_id", "name", "arguments") if not call.get(name)]:
            yield f"no {', '.join(missing)}"
            continue
        try:
            json.loads(call["arguments"])
        except (TypeError, ValueError):
            yield f"the arguments are {str(call['arguments'])[:60]!r}"


@rule("output", "The output in the last event lists the items that were done, in the same order.")
def _output(stream: Stream) -> Iterator[str]:
    done = [item.get("id") for item in _done_items(stream)]
    for payload in stream.of("response.completed", "response.incomplete"):
        listed = [item.get("id") for item in (payload.get("response") or {}).get("output") or ()]
        if listed != done:
            yield f"done: {done}; listed: {listed}"


@rule("usage", "The last event has a usage. Its total_tokens is the sum of input_tokens and output_tokens.")
def _usage(stream: Stream) -> Iterator[str]:
    for payload in stream.of("response.completed", "response.incomplete"):
        usage = (payload.get("response") or {}).get("usage") or {}
        yield from wrong_sum([usage.get(name) for name in ("input_tokens", "output_tokens", "total_tokens")])


rule("error-object", "A rejected request gets a 4xx status, and an error object with message and type.", errors=True)(
    error_with_message
)
