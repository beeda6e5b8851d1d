"""Conversations made by chance, in order: every kind of part, calls with odd ids and arguments, results of all of them.

The same number always gives the same conversation.
"""

from __future__ import annotations

import json
import random
from typing import Any

from streamfold import Message, ToolCall, tool_result
from streamfold.types import AudioPart, FilePart, ImagePart, TextPart

PNG, PDF, WAV = b"\x89PNG\r\n\x1a\n", b"%PDF-1.7\n", b"RIFF\x24\x00\x00\x00WAVEfmt "
WORDS = [
    "Hi.", "Grüße", "先生，你好", "👩‍👩‍👧", "a\u2028b", "\ttabs\tand\nlines\r\n", "nul \x00 and \x7f", "ﬁn", "a\u0301",
    "\ufeffmark", "  blanks  ", '"quoted" \\ back', "<|tool_calls_section_begin|>", "{}", "null", "0", "data: [DONE]",
]  # fmt: skip
IDS = [
    "call_1", "functions.look_up:0", "functions.look_up:7", "toolu_01A", "a b", "é", "call|1", '"', "0", "x" * 80,
    "tool_0", "chatcmpl-tool-5f", "{}",
]  # fmt: skip
NAMES = ["look_up", "get_weather", "mcp.server/read", "f", "9lives", "天气"]
RAW = [
    "{}", '{"x":1}', '{ "x" : 1 }', '\n{"x":\t1.0}\n', '{"x":"\\u00e9"}', '{"x":"é"}', '{"b":1,"a":2}', '{"x":1e2}', "",
    '{"x":', "[1]", "plain words", '{"x":{"x":[{},null]}}', '{"x":"\\ud83d\\udc4b"}',
]  # fmt: skip
SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {}},
    {"type": "object", "properties": {"x": {"type": "integer", "minimum": 1}}, "required": ["x"]},
    {"type": "object", "properties": {"x": {"$ref": "#/$defs/X"}}, "$defs": {"X": {"type": "string", "title": "X"}}},
    {"type": "object", "properties": {"x": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}}},
]
OPTIONS: list[tuple[str, list[Any]]] = [
    ("temperature", [0, 0.3, 1]),
    ("top_p", [0.9]),
    ("max_output_tokens", [100]),
    ("stop", ["END", ["a", "b"]]),
    ("seed", [7]),
    ("parallel_tool_calls", [True, False]),
    ("reasoning_effort", ["none", "low", "high"]),
    ("response_format", ["json", {"type": "object", "properties": {"x": {"type": "string"}}}]),
    ("extra_body", [{"user": "u1"}, {"metadata": {"a": "b"}}]),
]


def conversation(number: int, *, plain: bool = False) -> dict[str, Any]:
    """The arguments for a request: messages, tools, tool_choice, options.

    Args:
        plain: only what every API takes: texts and images as bytes, no options, no names.
    """
    rng = random.Random(number)
    counter = iter(range(1000))

    def words() -> str:  # no two are the same, so that none can stand for another
        return f"{rng.choice(WORDS)} {next(counter)}"

    messages = (
        [Message(rng.choice(["system", "system", "developer"] if not plain else ["system"]), words())]
        if rng.random() < 0.6
        else []
    )
    for _ in range(rng.randint(1, 4)):
        messages.append(_user(rng, words, plain))
        if rng.random() < 0.8:
            messages += _turn(rng, words)
    messages.append(_user(rng, words, plain))
    names = sorted({call.name for message in messages for call in message.tool_calls} | {"look_up"})
    tools = [
        {
            "type": "function",
            "function": {"name": name, "description": words(), "parameters": rng.choice(SCHEMAS)},
        }
        for name in names
    ]
    choice = rng.choice(["auto", "auto", "none", "required", {"type": "function", "name": names[0]},
                         {"type": "allowed_tools", "mode": "auto", "tools": [{"name": names[-1]}]}])  # fmt: skip
    some = rng.sample(OPTIONS, 0 if plain else rng.randint(0, 4))
    return {
        "messages": messages,
        "tools": tools,
        "tool_choice": choice,
        "options": {name: rng.choice(values) for name, values in some},
    }


def _user(rng: random.Random, words: Any, plain: bool) -> Message:
    if rng.random() < 0.5:
        return Message("user", words(), name=None if plain else rng.choice([None, None, None, "Ada"]))
    return Message("user", [_part(rng, words, plain) for _ in range(rng.randint(1, 3))])


def _part(rng: random.Random, words: Any, plain: bool) -> Any:
    everywhere = [
        TextPart(words()),
        {"type": "text", "text": words()},
        ImagePart(PNG + words().encode(), media_type="image/png", detail=rng.choice([None, "high"])),
        ImagePart(PNG, media_type="image/png"),
    ]
    somewhere = [
        {"type": "text", "text": words(), "cache_control": {"type": "ephemeral", "ttl": "5m"}},
        ImagePart(url=f"https://x.test/{len(words())}.png"),
        ImagePart(url="https://x.test/c.png", media_type="image/png"),
        {"type": "image_url", "image_url": {"url": "https://x.test/b.png", "detail": "low"}},
        FilePart(PDF, media_type="application/pdf", name=rng.choice([None, "q3.pdf"])),
        FilePart(file_id="file_1", name=rng.choice([None, "q4.pdf"])),
        AudioPart(WAV, media_type=rng.choice(["audio/wav", "audio/mpeg"])),
    ]
    return rng.choice(everywhere if plain else [*everywhere, *somewhere])


def _turn(rng: random.Random, words: Any) -> list[Message]:
    ids = rng.sample(IDS, rng.randint(0, 3))
    calls = tuple(_call(rng, call_id) for call_id in ids)
    reasoning = rng.choice([None, "", words()])
    said = words() if rng.random() < 0.6 or not calls else None
    extras: dict[str, Any] = {}
    if rng.random() < 0.3:
        extras = rng.choice([{"annotations": [{"type": "url_citation"}]}, {"reasoning_details": [{"data": "op4que"}]}])
    if rng.random() < 0.3:
        extras = {"output": _items(rng, reasoning, said, calls)}
    origin = rng.choice([None, None, "chat https://elsewhere.test/v1", "responses https://api.openai.com/v1"])
    turn = Message("assistant", said, calls, reasoning=reasoning, extras=extras, origin=origin)
    return [turn, *(_result(rng, words, call) for call in rng.sample(calls, len(calls)))]


def _call(rng: random.Random, call_id: str) -> ToolCall:
    raw = rng.choice(RAW)
    try:
        read = json.loads(raw or "{}")
    except ValueError:
        read = None
    arguments = read if isinstance(read, dict) else {"_raw": raw, "_error": "invalid_json"}
    extra = rng.choice([None, None, {"extra_content": {"signature": "s1gned"}}])
    return ToolCall(call_id, rng.choice(NAMES), arguments, raw, extra)


def _items(rng: random.Random, reasoning: str | None, said: str | None, calls: tuple[ToolCall, ...]) -> list[Any]:
    """What the Responses API would have said this turn as."""
    items: list[Any] = []
    if reasoning is not None:
        summary = [{"type": "summary_text", "text": reasoning}] if reasoning else []
        sealed = rng.choice([{"encrypted_content": "gAAAA"}, {}])
        items.append({"type": "reasoning", "id": "rs_1", "summary": summary, **sealed})
    if said is not None:
        part = {"type": "output_text", "text": said, "annotations": []}
        items.append({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]})
    for call in calls:
        members = {"call_id": call.id, "name": call.name, "arguments": call.raw_arguments}
        items.append({"type": "function_call", "id": f"fc_{call.id}", "status": "completed", **members})
    return items


def _result(rng: random.Random, words: Any, call: ToolCall) -> Message:
    content = rng.choice([words(), {"celsius": -3}, [words(), ImagePart(PNG, media_type="image/png")], ""])
    return tool_result(call, content, error=rng.random() < 0.2)
