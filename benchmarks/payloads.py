"""The answers that the benchmarks stream: their events as bytes, and what they must come to.

Written out event by event as the servers write them, so that whoever reads them has real work to do: a chunk of Chat
Completions is mostly frame round a word, an event of Responses repeats its place each time, and the calls of one answer
come mixed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import cycle, islice, pairwise
from typing import Any

__all__ = ["PAYLOADS", "TOOLS", "Payload", "digest", "payload"]

Calls = list[tuple[str, str, dict[str, Any]]]  # id, name, arguments

_TEXT = (
    "The weather in Paris is mild today , with a light wind from the west and some clouds over the river . "
    "Take a coat for the evening ; après - midi it may rain , and that is no reason to stay at home . "
)
_CALLS = 4
_HEAD = {
    "id": "chatcmpl-C9vTq0bS3nX1yZkLw2dRf4uHe7oMa",
    "object": "chat.completion.chunk",
    "created": 1795204800,
    "model": "gpt-5-mini-2025-08-07",
    "service_tier": "default",
    "system_fingerprint": "fp_7c1a9d2e4b",
}
_USAGE = {"prompt_tokens": 312, "completion_tokens": 2048, "total_tokens": 2360}

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "write_file",
            "description": "Writes a file.",
            "parameters": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "text": {"type": "string"}},
                "required": ["path", "text"],
            },
        },
    }
]


@dataclass(frozen=True)
class Payload:
    """One answer.

    Attributes:
        api: "chat", "responses", "anthropic" or "gemini".
        events: each with its blank line.
        text, calls: what it comes to.
        unread: the text of it for whoever does not read the markup that the model wrote into it.
        dialect: how the model wrote its calls into the text, if it did.
    """

    name: str
    title: str
    api: str
    events: Sequence[bytes]
    text: str
    calls: Calls
    dialect: str | None = None
    unread: str = ""

    @property
    def digest(self) -> str:
        return digest(self.text, self.calls)

    @property
    def digest_unread(self) -> str | None:
        return digest(self.unread, []) if self.unread else None


def digest(text: str, calls: Iterable[tuple[str, str, Any]]) -> str:
    """What an answer came to, to be compared: the text, and the calls in order with their arguments parsed."""
    said = json.dumps([text, [list(call) for call in calls]], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(said.encode()).hexdigest()[:16]


@cache
def payload(name: str, size: int) -> Payload:
    """One of PAYLOADS, with about `size` events that carry a piece of the answer."""
    return PAYLOADS[name](name, size)


def _words(size: int) -> list[str]:
    return [" " + word for word in islice(cycle(_TEXT.split(" ")), size)]


def _arguments(number: int, size: int) -> tuple[list[str], dict[str, Any]]:
    """The pieces of a call's arguments, and what they come to. Pieces are about four characters, as tokens are."""
    frame = len(json.dumps({"path": f"notes/{number}.txt", "text": ""}))
    line = 'print("a < b", x[0])\n'
    text, length = "", (size - frame // 4) * 4
    text = (line * (length // len(line) + 1))[:length]
    raw = json.dumps({"path": f"notes/{number}.txt", "text": text})
    cuts = [len(raw) * part // size for part in range(size + 1)]
    return [raw[a:b] for a, b in pairwise(cuts)], json.loads(raw)


def _interleaved(pieces: Sequence[Sequence[str]]) -> Iterator[tuple[int, str]]:
    """The pieces of several calls in turn: call, piece."""
    for position in range(max(map(len, pieces))):
        for number, of_call in enumerate(pieces):
            if position < len(of_call):
                yield number, of_call[position]


def _chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return _data({**_HEAD, "choices": [choice], "usage": None})


def _data(value: Any, event: str = "") -> bytes:
    line = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return (f"event: {event}\n" if event else "").encode() + f"data: {line}\n\n".encode()


def _chat(body: Iterable[bytes], finish: str) -> list[bytes]:
    usage = _data({**_HEAD, "choices": [], "usage": _USAGE})
    return [
        _chunk({"role": "assistant", "content": "", "refusal": None}),
        *body,
        _chunk({}, finish),
        usage,
        b"data: [DONE]\n\n",
    ]


def _chat_text(name: str, size: int) -> Payload:
    words = _words(size)
    events = _chat((_chunk({"content": word}) for word in words), "stop")
    return Payload(name, "Chat Completions, text", "chat", events, "".join(words), [])


def _chat_calls(name: str, size: int) -> Payload:
    read = [_arguments(number, size // _CALLS) for number in range(_CALLS)]
    ids = [f"call_Zk3vQ8sT{number}LmXw5RyB7nCd" for number in range(_CALLS)]
    heads = [
        {"index": number, "id": ids[number], "type": "function", "function": {"name": "write_file", "arguments": ""}}
        for number in range(_CALLS)
    ]
    tails = (
        _chunk({"tool_calls": [{"index": number, "function": {"arguments": piece}}]})
        for number, piece in _interleaved([pieces for pieces, _ in read])
    )
    events = _chat([*(_chunk({"tool_calls": [head]}) for head in heads), *tails], "tool_calls")
    calls = [(ids[number], "write_file", value) for number, (_, value) in enumerate(read)]
    return Payload(name, "Chat Completions, 4 parallel calls", "chat", events, "", calls)


def _responses(events: Iterable[dict[str, Any]], output: list[dict[str, Any]]) -> list[bytes]:
    response = {
        "id": "resp_6f1d0c2b9a7e4835",
        "object": "response",
        "created_at": 1795204800,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "model": "gpt-5-mini-2025-08-07",
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": None,
        "metadata": {},
    }
    usage = {
        "input_tokens": 312,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 2048,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 2360,
    }
    whole = [
        {"type": "response.created", "response": response},
        {"type": "response.in_progress", "response": response},
        *events,
        {
            "type": "response.completed",
            "response": {**response, "status": "completed", "output": output, "usage": usage},
        },
    ]
    return [
        _data({"type": event["type"], "sequence_number": number, **event}, event["type"])
        for number, event in enumerate(whole)
    ]


def _responses_text(name: str, size: int) -> Payload:
    words = _words(size)
    text = "".join(words)
    item = {"id": "msg_6f1d0c2b9a7e4836", "type": "message", "role": "assistant"}
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
    done = {**item, "status": "completed", "content": [part]}
    place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    events = [
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**item, "status": "in_progress", "content": []},
        },
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        *({"type": "response.output_text.delta", **place, "delta": word, "logprobs": []} for word in words),
        {"type": "response.output_text.done", **place, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
    ]
    return Payload(name, "Responses, text", "responses", _responses(events, [done]), text, [])


def _responses_calls(name: str, size: int) -> Payload:
    events: list[dict[str, Any]] = []
    output: list[dict[str, Any]] = []
    calls: Calls = []
    for number in range(_CALLS):
        pieces, value = _arguments(number, size // _CALLS)
        item_id, call_id = f"fc_6f1d0c2b9a7e48{number}", f"call_Zk3vQ8sT{number}LmXw5RyB7nCd"
        item = {"id": item_id, "type": "function_call", "call_id": call_id, "name": "write_file"}
        place = {"item_id": item_id, "output_index": number}
        done = {**item, "status": "completed", "arguments": "".join(pieces)}
        events += [
            {
                "type": "response.output_item.added",
                "output_index": number,
                "item": {**item, "status": "in_progress", "arguments": ""},
            },
            *({"type": "response.function_call_arguments.delta", **place, "delta": piece} for piece in pieces),
            {"type": "response.function_call_arguments.done", **place, "arguments": "".join(pieces)},
            {"type": "response.output_item.done", "output_index": number, "item": done},
        ]
        output.append(done)
        calls.append((call_id, "write_file", value))
    return Payload(name, "Responses, 4 calls", "responses", _responses(events, output), "", calls)


def _anthropic(blocks: Iterable[tuple[dict[str, Any], str, Sequence[str]]], reason: str) -> list[bytes]:
    """A message: each block as its beginning, the member that grows, and its pieces."""
    usage = {"input_tokens": 312, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1}
    head = {"id": "msg_01C9vTq0bS3nX1yZkLw2dRf4", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5"}
    message = {**head, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}, {"type": "ping"}]
    for number, (block, member, pieces) in enumerate(blocks):
        kind = "input_json_delta" if member == "partial_json" else "text_delta"
        place = {"index": number}
        events += [
            {"type": "content_block_start", **place, "content_block": block},
            *({"type": "content_block_delta", **place, "delta": {"type": kind, member: piece}} for piece in pieces),
            {"type": "content_block_stop", **place},
        ]
    stop = {"stop_reason": reason, "stop_sequence": None}
    events += [{"type": "message_delta", "delta": stop, "usage": {"output_tokens": 2048}}, {"type": "message_stop"}]
    return [_data(event, event["type"]) for event in events]


def _anthropic_text(name: str, size: int) -> Payload:
    words = _words(size)
    events = _anthropic([({"type": "text", "text": ""}, "text", words)], "end_turn")
    return Payload(name, "Anthropic, text", "anthropic", events, "".join(words), [])


def _anthropic_calls(name: str, size: int) -> Payload:
    read = [_arguments(number, size // _CALLS) for number in range(_CALLS)]
    calls = [(f"toolu_01Zk3vQ8sT{number}LmXw5RyB7", "write_file", value) for number, (_, value) in enumerate(read)]
    blocks = [
        ({"type": "tool_use", "id": call[0], "name": call[1], "input": {}}, "partial_json", ["", *pieces])
        for call, (pieces, _) in zip(calls, read, strict=True)
    ]
    return Payload(name, "Anthropic, 4 calls", "anthropic", _anthropic(blocks, "tool_use"), "", calls)


def _gemini(parts: Iterable[dict[str, Any]]) -> list[bytes]:
    """A chunk for each part, with the counts so far, as Google sends them."""
    made = []
    for number, part in enumerate(parts):
        counts = {"promptTokenCount": 312, "candidatesTokenCount": number + 1, "totalTokenCount": 313 + number}
        details = {"promptTokensDetails": [{"modality": "TEXT", "tokenCount": 312}], "thoughtsTokenCount": 0}
        candidate = {"content": {"parts": [part], "role": "model"}, "index": 0}
        about = {"modelVersion": "gemini-2.5-flash", "responseId": "C9vTq0bS3nX1yZkLw2dRf4"}
        made.append({"candidates": [candidate], "usageMetadata": {**counts, **details}, **about})
    made[-1]["candidates"][0]["finishReason"] = "STOP"
    return [_data(chunk)[:-2] + b"\r\n\r\n" for chunk in made]


def _gemini_text(name: str, size: int) -> Payload:
    words = _words(size)
    return Payload(name, "Gemini, text", "gemini", _gemini({"text": word} for word in words), "".join(words), [])


def _gemini_calls(name: str, size: int) -> Payload:
    """Calls come whole on this API, so there are many of them."""
    made = [(f"call-{number:04}", _arguments(number, 40)[1]) for number in range(min(size // 4, 400))]
    parts = [{"functionCall": {"id": call_id, "name": "write_file", "args": value}} for call_id, value in made]
    calls = [(call_id, "write_file", value) for call_id, value in made]
    return Payload(name, "Gemini, calls in one piece each", "gemini", _gemini(parts), "", calls)


def _kimi_markup(name: str, size: int) -> Payload:
    """A third of it is text. The tokens of the markup come in one piece each, as a tokeniser gives them."""
    words = _words(size // 3)
    pieces = [*words, "<|tool_calls_section_begin|>"]
    calls: Calls = []
    for number in range(_CALLS):
        read, value = _arguments(number, (size - len(words)) // _CALLS - 8)
        header = ["functions", ".", "write", "_file", ":", str(number)]
        pieces += ["<|tool_call_begin|>", *header, "<|tool_call_argument_begin|>", *read, "<|tool_call_end|>"]
        calls.append((f"functions.write_file:{number}", "write_file", value))
    pieces.append("<|tool_calls_section_end|>")
    events = _chat((_chunk({"content": piece}) for piece in pieces), "stop")
    title = "Kimi's markup in the text, 4 calls"
    return Payload(name, title, "chat", events, "".join(words), calls, "kimi", "".join(pieces))


PAYLOADS = {
    "chat-text": _chat_text,
    "chat-calls": _chat_calls,
    "responses-text": _responses_text,
    "responses-calls": _responses_calls,
    "anthropic-text": _anthropic_text,
    "anthropic-calls": _anthropic_calls,
    "gemini-text": _gemini_text,
    "gemini-calls": _gemini_calls,
    "kimi-markup": _kimi_markup,
}
