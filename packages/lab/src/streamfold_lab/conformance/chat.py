"""The documented rules for streams of the Chat Completions API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from .rules import Rule, Stream, error_with_message, event_stream_type, rule_maker, wrong_sum

CHAT: list[Rule] = []
rule = rule_maker("chat", "https://platform.openai.com/docs/api-reference/chat-streaming", CHAT)

_REASONS = ("stop", "length", "tool_calls", "content_filter", "function_call")
_DONE = "[DONE]"


def _choices(stream: Stream) -> list[Mapping[str, Any]]:
    return [choice for chunk in stream.objects for choice in chunk.get("choices") or () if isinstance(choice, Mapping)]


def _deltas(stream: Stream) -> list[Mapping[str, Any]]:
    return [choice["delta"] for choice in _choices(stream) if isinstance(choice.get("delta"), Mapping)]


def _entries(stream: Stream) -> list[Mapping[str, Any]]:
    return [entry for delta in _deltas(stream) for entry in delta.get("tool_calls") or () if isinstance(entry, Mapping)]


def _reasons(stream: Stream) -> list[Any]:
    return [choice["finish_reason"] for choice in _choices(stream) if choice.get("finish_reason")]


def _usages(stream: Stream) -> list[Mapping[str, Any]]:
    return [chunk["usage"] for chunk in stream.objects if isinstance(chunk.get("usage"), Mapping)]


def _has_whole_calls(stream: Stream) -> bool:
    return bool(_entries(stream)) and "length" not in _reasons(stream)


def _has_chosen_calls(stream: Stream) -> bool:
    return _has_whole_calls(stream) and stream.seen.sent.get("tool_choice", "auto") in ("auto", "required")


def _asked_for_usage(stream: Stream) -> bool:
    return bool((stream.seen.sent.get("stream_options") or {}).get("include_usage"))


rule("content-type", "A stream has the content type text/event-stream.")(event_stream_type)


@rule("json", "Every event except the last one, [DONE], is a JSON object.")
def _json(stream: Stream) -> Iterator[str]:
    for number, event in enumerate(stream.events, 1):
        if not isinstance(event.payload, Mapping) and event.payload != _DONE:
            yield f"event {number} is {str(event.payload)[:60]!r}"


@rule("done", "The stream ends with data: [DONE], and nothing follows it.")
def _done(stream: Stream) -> Iterator[str]:
    marks = [number for number, event in enumerate(stream.events, 1) if event.payload == _DONE]
    if marks != [len(stream.events)]:
        yield f"{len(stream.events)} events, and [DONE] is " + (f"event {marks[0]}" if marks else "not among them")


@rule("no-names", 'No event has an "event:" line.')
def _no_names(stream: Stream) -> Iterator[str]:
    if names := sorted({event.name for event in stream.events if event.name}):
        yield f"events are called {', '.join(names)}"


@rule("members", "Every chunk has id, object, created, model and choices.")
def _members(stream: Stream) -> Iterator[str]:
    kinds: dict[str, type] = {"id": str, "object": str, "created": int, "model": str, "choices": list}
    for number, chunk in enumerate(stream.objects, 1):
        wrong = [name for name, kind in kinds.items() if not isinstance(chunk.get(name), kind)]
        if wrong and "error" not in chunk:
            yield f"chunk {number}: {', '.join(wrong)}"
            return


@rule("object", 'The object of every chunk is "chat.completion.chunk".')
def _object(stream: Stream) -> Iterator[str]:
    if others := {str(chunk.get("object")) for chunk in stream.objects} - {"chat.completion.chunk"}:
        yield f"the object is {', '.join(sorted(others))}"


@rule("one-id", "All chunks of a response have the same id and the same creation time.")
def _one_id(stream: Stream) -> Iterator[str]:
    for name in ("id", "created"):
        values = {str(chunk.get(name)) for chunk in stream.objects if name in chunk}
        if len(values) > 1:
            yield f"{len(values)} values of {name}"


@rule("choice", "Every choice has index, delta and finish_reason. The finish_reason is null except in the last choice.")
def _choice(stream: Stream) -> Iterator[str]:
    for choice in _choices(stream):
        missing = [name for name in ("index", "delta", "finish_reason") if name not in choice]
        if missing:
            yield f"a choice has no {', '.join(missing)}"
            return


@rule("role-first", "The first delta has the role, and no other delta has it.")
def _role_first(stream: Stream) -> Iterator[str]:
    with_role = [number for number, delta in enumerate(_deltas(stream), 1) if delta.get("role")]
    if with_role != [1]:
        yield f"the role is in {'no delta' if not with_role else f'the deltas {with_role[:5]}'}"


@rule("one-finish", "Exactly one choice has a finish reason, which is one of the documented values.")
def _one_finish(stream: Stream) -> Iterator[str]:
    reasons = _reasons(stream)
    if len(reasons) != 1:
        yield f"{len(reasons)} finish reasons"
    elif reasons[0] not in _REASONS:
        yield f"the finish reason is {reasons[0]!r}"


@rule("nothing-after-finish", "No text and no tool call follows the finish reason.")
def _nothing_after_finish(stream: Stream) -> Iterator[str]:
    finished = False
    for choice in _choices(stream):
        delta = choice.get("delta") or {}
        if finished and any(delta.get(name) for name in ("content", "tool_calls", "refusal")):
            yield "a delta with content follows the finish reason"
            return
        finished = finished or bool(choice.get("finish_reason"))


@rule("call-opening", "The first delta of a tool call has index, id, type and function.name.", about=_entries)
def _openings(stream: Stream) -> Iterator[str]:
    seen: set[Any] = set()
    for entry in _entries(stream):
        function = entry.get("function") or {}
        if "index" not in entry:
            yield "a tool call delta has no index"
            return
        if entry["index"] in seen:
            continue
        seen.add(entry["index"])
        missing = [name for name in ("id", "type") if not entry.get(name)]
        missing += [] if function.get("name") else ["function.name"]
        if missing:
            yield f"call {entry['index']}: no {', '.join(missing)}"


@rule("call-rest", "Later deltas of a tool call repeat neither its id nor its name.", about=_entries)
def _repetitions(stream: Stream) -> Iterator[str]:
    seen: set[Any] = set()
    for entry in _entries(stream):
        again = ["id"] if entry.get("id") else []
        again += ["name"] if (entry.get("function") or {}).get("name") else []
        if entry.get("index") in seen and again:
            yield f"call {entry.get('index')}: {', '.join(again)} again"
            return
        seen.add(entry.get("index"))


@rule("call-numbers", "Tool calls have the indexes 0, 1, 2, ... in the order in which they begin.", about=_entries)
def _call_numbers(stream: Stream) -> Iterator[str]:
    numbers = list(dict.fromkeys(entry.get("index") for entry in _entries(stream)))
    if numbers != list(range(len(numbers))):
        yield f"{numbers}, not {list(range(len(numbers)))}"


@rule("call-arguments", "The argument deltas of a tool call, when joined, are valid JSON.", about=_has_whole_calls)
def _broken_arguments(stream: Stream) -> Iterator[str]:
    texts: dict[Any, str] = {}
    for entry in _entries(stream):
        piece = (entry.get("function") or {}).get("arguments")
        texts[entry.get("index")] = texts.get(entry.get("index"), "") + (piece if isinstance(piece, str) else "")
    for index, text in texts.items():
        try:
            json.loads(text)
        except ValueError:
            yield f"call {index}: {text[:60]!r}"


@rule(
    "call-finish",
    'If the model decided to call tools, the finish reason is "tool_calls".',
    about=_has_chosen_calls,
)
def _call_finish(stream: Stream) -> Iterator[str]:
    if _reasons(stream) != ["tool_calls"]:
        yield f"{_reasons(stream)}, not ['tool_calls']"


@rule("usage-last", "With include_usage, the last chunk has the usage and no choices.", about=_asked_for_usage)
def _last_usage(stream: Stream) -> Iterator[str]:
    last = stream.objects[-1] if stream.objects else {}
    if not last.get("usage"):
        yield "the last chunk has no usage"
    elif last.get("choices"):
        yield "the chunk with the usage has choices"


@rule("usage-null", "With include_usage, every other chunk has usage: null.", about=_asked_for_usage)
def _other_usages(stream: Stream) -> Iterator[str]:
    odd = [number for number, chunk in enumerate(stream.objects[:-1], 1) if chunk.get("usage", "none") is not None]
    if odd:
        yield f"{len(odd)} of {len(stream.objects) - 1} chunks don't have usage: null"


@rule(
    "usage-sum",
    "The usage has prompt_tokens, completion_tokens and total_tokens. The total is the sum of the other two.",
    about=_usages,
)
def _usage_sum(stream: Stream) -> Iterator[str]:
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    return wrong_sum([_usages(stream)[-1].get(name) for name in names])


rule("error-object", "A rejected request gets a 4xx status, and an error object with message and type.", errors=True)(
    error_with_message
)
