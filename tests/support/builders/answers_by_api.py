"""An answer, and how each of four APIs says it: written from their documentation, and not from how they are read.

`told` makes a random answer into the events of a random server; the tests then break the stream in their own ways.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

APIS = ("chat", "responses", "anthropic", "gemini")
Event = dict[str, Any]
Calls = tuple[tuple[str, str, dict[str, Any]], ...]
WORDS = ("Oslo", "two\nlines", "日本", "👋🏽", '"quoted"', "\\", "<tool_call>", "data: x", "[DONE]", "\u2028", "", "}{")


@dataclass(frozen=True)
class Answer:
    """What a model says.

    Attributes:
        text: the pieces of its text.
        calls: id, name and arguments of each.
    """

    text: tuple[str, ...]
    calls: Calls


@dataclass(frozen=True)
class Stream:
    """How a server says it.

    Attributes:
        events: in their bytes.
        end: which of them says how the answer ended; nothing of the answer comes after it.
        shown: for each event, the text of the answer in it.
    """

    events: tuple[bytes, ...]
    end: int
    shown: tuple[str, ...]

    @property
    def body(self) -> bytes:
        return b"".join(self.events)

    def text_before(self, event: int) -> str:
        return "".join(self.shown[:event])


def random_answer(rng: random.Random, *, calls: int | None = None) -> Answer:
    """Some text, and up to three calls, with contents that are hard to cut."""
    number = rng.randint(0, 3) if calls is None else calls
    said = tuple(rng.choice(WORDS[:-2]) for _ in range(rng.randint(0 if number else 1, 4)))
    return Answer(said, tuple((f"id-{at}", rng.choice("fg"), arguments(rng)) for at in range(number)))


def arguments(rng: random.Random) -> dict[str, Any]:
    """Arguments of a call."""
    values: list[Any] = [*WORDS, 0, -1.5, True, None, [], {}, {"deep": [{"x": "}"}]}]
    return {f"k{at}": rng.choice(values) for at in range(rng.randint(1, 3))}


def told(api: str, answer: Answer, rng: random.Random, *, limit: bool = False) -> Stream:
    """The stream of an answer.

    Args:
        limit: it ended because the limit of tokens was reached.
    """
    made = list(_APIS[api](answer, rng, limit))
    end = next(at for at, (_, _, is_end) in enumerate(made) if is_end)
    return Stream(tuple(_bytes(api, event) for event, _, _ in made), end, tuple(shown for _, shown, _ in made))


def error_event(api: str, message: str) -> bytes:
    """What a server says when it fails in the middle of an answer."""
    error: Event = {"error": {"message": message, "type": "server_error", "code": "server_error"}}
    if api == "anthropic":
        error = {"type": "error", "error": {"type": "api_error", "message": message}}
    elif api == "responses":
        response = {"id": "r", "status": "failed", "output": [], "error": {"code": "server_error", "message": message}}
        error = {"type": "response.failed", "sequence_number": 999, "response": response}
    elif api == "gemini":
        error = {"error": {"code": 500, "message": message, "status": "INTERNAL"}}
    return _bytes(api, error)


def status_body(api: str, message: str) -> bytes:
    """The body of a response with an error status."""
    if api == "anthropic":
        return json.dumps({"type": "error", "error": {"type": "api_error", "message": message}}).encode()
    if api == "gemini":
        return json.dumps({"error": {"code": 500, "message": message, "status": "INTERNAL"}}).encode()
    return json.dumps({"error": {"message": message, "type": "server_error", "param": None, "code": None}}).encode()


def pieces(text: str, rng: random.Random) -> list[str]:
    """A text in pieces, as a server would cut it."""
    cuts = sorted(rng.randrange(len(text) + 1) for _ in range(rng.randint(0, 4)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def _bytes(api: str, event: Event | str) -> bytes:
    data = event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)
    named = isinstance(event, dict) and api in ("anthropic", "responses")
    return (f"event: {event['type']}\n" if named else "").encode() + f"data: {data}\n\n".encode()  # type: ignore[index]


Made = Iterator[tuple[Any, str, bool]]


def _chat(answer: Answer, rng: random.Random, limit: bool) -> Made:
    """Servers number calls by index, from 0 or from 1, by id alone, or by neither: then one call after the other."""
    style = rng.choice(["index", "from one", "id", "all 0", "neither"])

    def chunk(delta: Event, finish: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}

    def entry(at: int, call_id: str, name: str, text: str, *, head: bool) -> Event:
        made: Event = {"type": "function", "function": {"arguments": text}}
        if style in ("index", "from one", "all 0"):
            made["index"] = {"index": at, "from one": at + 1, "all 0": 0}[style]
        if head:
            made["function"]["name"] = name
        if head or style == "id":
            made["id"] = call_id
        return made

    yield chunk({"role": "assistant", "content": ""}), "", False
    fragments = []
    for at, (call_id, name, values) in enumerate(answer.calls):
        first, *others = pieces(json.dumps(values, ensure_ascii=False), rng)
        one = [entry(at, call_id, name, first, head=True)]
        fragments.append(one + [entry(at, call_id, name, other, head=False) for other in others])
    spoken = list(answer.text)
    while spoken or any(fragments):
        if spoken and (rng.random() < 0.5 or not any(fragments)):
            piece = spoken.pop(0)
            yield chunk({"content": piece}), piece, False
            continue
        left = [queue for queue in fragments if queue]
        interleaved = style in ("index", "from one", "id")
        queue = rng.choice(left) if interleaved else left[0]
        yield chunk({"tool_calls": [queue.pop(0)]}), "", False
    yield chunk({}, "length" if limit else "tool_calls" if answer.calls else "stop"), "", True
    if rng.random() < 0.5:
        yield {**chunk({}), "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 5}}, "", False
    yield "[DONE]", "", False


def _responses(answer: Answer, rng: random.Random, limit: bool) -> Made:
    made: list[tuple[Event, str, bool]] = []
    output: list[Event] = []

    def add(kind: str, shown: str = "", *, end: bool = False, **members: Any) -> None:
        made.append(({"type": kind, "sequence_number": len(made), **members}, shown, end))

    empty = {"id": "r", "object": "response", "model": "m", "status": "in_progress", "output": []}
    add("response.created", response=empty)
    if answer.text:
        at = {"item_id": "m", "output_index": 0, "content_index": 0}
        item = {"id": "m", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
        add("response.output_item.added", output_index=0, item=item)
        add("response.content_part.added", **at, part={"type": "output_text", "text": "", "annotations": []})
        for piece in answer.text:
            add("response.output_text.delta", piece, **at, delta=piece)
        whole = {"type": "output_text", "text": "".join(answer.text), "annotations": []}
        add("response.output_text.done", **at, text=whole["text"])
        add("response.content_part.done", **at, part=whole)
        output.append({**item, "status": "completed", "content": [whole]})
        add("response.output_item.done", output_index=0, item=output[-1])
    for number, (call_id, name, values) in enumerate(answer.calls):
        text, place = json.dumps(values, ensure_ascii=False), len(output)
        item = {"id": f"fc{number}", "type": "function_call", "call_id": call_id, "name": name, "arguments": ""}
        at = {"item_id": item["id"], "output_index": place}
        add("response.output_item.added", output_index=place, item={**item, "status": "in_progress"})
        for piece in pieces(text, rng):
            add("response.function_call_arguments.delta", **at, delta=piece)
        add("response.function_call_arguments.done", **at, arguments=text)
        output.append({**item, "arguments": text, "status": "completed"})
        add("response.output_item.done", output_index=place, item=output[-1])
    usage = {"input_tokens": 3, "output_tokens": 5, "total_tokens": 8}
    kind = "incomplete" if limit else "completed"
    reason = {"reason": "max_output_tokens"} if limit else None
    last = {**empty, "status": kind, "output": output, "usage": usage, "incomplete_details": reason}
    add(f"response.{kind}", end=True, response=last)
    return iter(made)


def _anthropic(answer: Answer, rng: random.Random, limit: bool) -> Made:
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}
    yield {"type": "message_start", "message": {**message, "usage": {"input_tokens": 3, "output_tokens": 1}}}, "", False
    place = 0
    if answer.text:
        yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}, "", False
        for piece in answer.text:
            delta = {"type": "text_delta", "text": piece}
            yield {"type": "content_block_delta", "index": 0, "delta": delta}, piece, False
        yield {"type": "content_block_stop", "index": 0}, "", False
        place = 1
    for call_id, name, values in answer.calls:
        block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
        yield {"type": "content_block_start", "index": place, "content_block": block}, "", False
        for piece in pieces(json.dumps(values, ensure_ascii=False), rng):
            delta = {"type": "input_json_delta", "partial_json": piece}
            yield {"type": "content_block_delta", "index": place, "delta": delta}, "", False
            if rng.random() < 0.2:
                yield {"type": "ping"}, "", False
        yield {"type": "content_block_stop", "index": place}, "", False
        place += 1
    reason = "max_tokens" if limit else "tool_use" if answer.calls else "end_turn"
    delta = {"stop_reason": reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5}}, "", True
    yield {"type": "message_stop"}, "", False


def _gemini(answer: Answer, rng: random.Random, limit: bool) -> Made:
    def chunk(parts: list[Event], finish: str | None = None) -> Event:
        candidate = {"content": {"role": "model", "parts": parts}, "index": 0}
        return {"candidates": [{**candidate, **({"finishReason": finish} if finish else {})}], "modelVersion": "m"}

    parts: list[tuple[Event, str]] = [({"text": piece}, piece) for piece in answer.text]
    for call_id, name, values in answer.calls:
        parts.append(({"functionCall": {"id": call_id, "name": name, "args": values}}, ""))
    while parts:
        size = rng.randint(1, len(parts))
        some, parts = parts[:size], parts[size:]
        yield chunk([part for part, _ in some]), "".join(shown for _, shown in some), False
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 5, "totalTokenCount": 8}
    yield {**chunk([{"text": ""}], "MAX_TOKENS" if limit else "STOP"), "usageMetadata": usage}, "", True


_APIS: dict[str, Callable[[Answer, random.Random, bool], Made]] = {
    "chat": _chat, "responses": _responses, "anthropic": _anthropic, "gemini": _gemini,
}  # fmt: skip
