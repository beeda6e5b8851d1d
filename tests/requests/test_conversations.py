"""The same conversations on every wire: what is sent, and what the answers fold to.

`CONVERSATIONS` is the one table. A row has a request in our own words, its body as each wire writes it, and for most of
them an answer as each wire sends it, with the one reply that all of these must fold to.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from folding import DONE, assert_any_cut, chunk, codes, entry, event
from sdks import TypeOf, openai
from streamfold import (
    BadRequestError,
    ConfigError,
    Message,
    NamedTool,
    Provider,
    Reply,
    Tool,
    ToolCall,
    assistant,
    system,
    tool_result,
    user,
)
from streamfold.adapters import Adapter
from streamfold.adapters.chat.content import chat_part
from streamfold.config import read_profile
from streamfold.requests.request import Request
from tables import each_row

WIRES = ("chat", "responses", "kimi")
EVERY_WIRE = ("anthropic", "chat", "gemini", "kimi", "responses")
MODELS = {"chat": "m", "responses": "m", "kimi": "kimi-k2.6"}
CHAT_BODY = TypeOf(lambda: openai.types.chat.completion_create_params.CompletionCreateParamsStreaming)
RESPONSES_BODY = TypeOf(lambda: openai.types.responses.response_create_params.ResponseCreateParamsStreaming)
RESPONSES_EVENT = TypeOf(lambda: openai.types.responses.ResponseStreamEvent)


# --- what every body of a wire has ------------------------------------------------------------------------------------


def chat(*messages: dict[str, Any], **members: Any) -> dict[str, Any]:
    """A body of Chat Completions."""
    common = {"model": "m", "stream": True, "stream_options": {"include_usage": True}}
    return {**common, "messages": list(messages), **members}


def responses(*items: dict[str, Any], **members: Any) -> dict[str, Any]:
    """A body of the Responses API: nothing is stored, so that reasoning is wanted in a form that can be sent again."""
    common = {"model": "m", "stream": True, "store": False, "include": ["reasoning.encrypted_content"]}
    return {**common, "input": list(items), **members}


def kimi(*messages: dict[str, Any], **members: Any) -> dict[str, Any]:
    """A body for Kimi."""
    return {**chat(*messages, **members), "model": "kimi-k2.6"}


# --- what every answer of a wire has ----------------------------------------------------------------------------------


def chat_answer(*deltas: dict[str, Any], finish: str) -> bytes:
    """OpenAI's stream: the finish reason in a chunk of its own, then the usage in one without choices."""
    usage = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"".join(map(chunk, deltas)) + chunk({}, finish) + event({**head, "choices": [], "usage": usage}) + DONE


def kimi_answer(*deltas: dict[str, Any], finish: str) -> bytes:
    """Moonshot's stream: finish reason and usage inside the choice of the last chunk, cached tokens on top."""
    usage = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14, "cached_tokens": 3}
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "kimi-k2.6"}
    last = {"index": 0, "delta": {}, "finish_reason": finish, "usage": usage}
    return b"".join(map(chunk, deltas)) + event({**head, "choices": [last]}) + DONE


def responses_answer(*parts: list[dict[str, Any]]) -> bytes:
    """OpenAI's events: the response begins, its items come one after the other, and the end has all of them again."""
    items = [said for part in parts for said in part]
    usage = {
        "input_tokens": 9, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 14,
    }  # fmt: skip
    response = {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "parallel_tool_calls": True,
        "tool_choice": "auto", "tools": [],
    }  # fmt: skip
    output = [said["item"] for said in items if said["type"] == "response.output_item.done"]
    events = [
        {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
        *items,
        {
            "type": "response.completed",
            "response": {**response, "status": "completed", "output": output, "usage": usage},
        },
    ]
    return b"".join(
        f"event: {said['type']}\n".encode() + event({**said, "sequence_number": number})
        for number, said in enumerate(events)
    )


def item(at: int, done: dict[str, Any], begun: dict[str, Any], *between: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of one item: added as it begins, done as it is in the end, and what is said of it between."""
    place = {"output_index": at, "item_id": done["id"]}
    added = {**done, **begun}
    if done["type"] != "reasoning":  # which has no status here
        done, added = {**done, "status": "completed"}, {**added, "status": "in_progress"}
    return [
        {"type": "response.output_item.added", "output_index": at, "item": added},
        *({**said, **place, "type": f"response.{said['type']}"} for said in between),
        {"type": "response.output_item.done", "output_index": at, "item": done},
    ]


def says(at: int, *pieces: str) -> list[dict[str, Any]]:
    """A message item with this text in pieces."""
    whole = {"type": "output_text", "text": "".join(pieces), "annotations": []}
    message = {"id": f"msg_{at}", "type": "message", "role": "assistant", "content": [whole]}
    return item(
        at, message, {"content": []},
        {"type": "content_part.added", "content_index": 0, "part": {**whole, "text": ""}},
        *({"type": "output_text.delta", "content_index": 0, "delta": piece, "logprobs": []} for piece in pieces),
        {"type": "output_text.done", "content_index": 0, "text": whole["text"], "logprobs": []},
        {"type": "content_part.done", "content_index": 0, "part": whole},
    )  # fmt: skip


def refuses(at: int, *pieces: str) -> list[dict[str, Any]]:
    """A message item with this refusal in pieces."""
    whole = {"type": "refusal", "refusal": "".join(pieces)}
    message = {"id": f"msg_{at}", "type": "message", "role": "assistant", "content": [whole]}
    return item(
        at, message, {"content": []},
        {"type": "content_part.added", "content_index": 0, "part": {**whole, "refusal": ""}},
        *({"type": "refusal.delta", "content_index": 0, "delta": piece} for piece in pieces),
        {"type": "refusal.done", "content_index": 0, "refusal": whole["refusal"]},
        {"type": "content_part.done", "content_index": 0, "part": whole},
    )  # fmt: skip


def thinks(at: int, *pieces: str) -> list[dict[str, Any]]:
    """A reasoning item with this summary in pieces, and the reasoning itself encrypted."""
    whole = {"type": "summary_text", "text": "".join(pieces)}
    reasoning = {"id": f"rs_{at}", "type": "reasoning", "summary": [whole], "encrypted_content": "gAAAA"}
    return item(
        at, reasoning, {"summary": []},
        {"type": "reasoning_summary_part.added", "summary_index": 0, "part": {**whole, "text": ""}},
        *({"type": "reasoning_summary_text.delta", "summary_index": 0, "delta": piece} for piece in pieces),
        {"type": "reasoning_summary_text.done", "summary_index": 0, "text": whole["text"]},
        {"type": "reasoning_summary_part.done", "summary_index": 0, "part": whole},
    )  # fmt: skip


def calls(at: int, call_id: str, name: str, *pieces: str) -> list[dict[str, Any]]:
    """A function call item with these arguments in pieces."""
    made = {"id": f"fc_{at}", "type": "function_call", "call_id": call_id, "name": name, "arguments": "".join(pieces)}
    return item(
        at, made, {"arguments": ""},
        *({"type": "function_call_arguments.delta", "delta": piece} for piece in pieces),
        {"type": "function_call_arguments.done", "name": name, "arguments": made["arguments"]},
    )  # fmt: skip


# --- the tools --------------------------------------------------------------------------------------------------------

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = Tool("get_weather", "The weather.", CITY)
CLOCK = Tool("get_time", "The time.")
CHAT_TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "The weather.", "parameters": CITY}},
    {
        "type": "function",
        "function": {
            "name": "get_time", "description": "The time.", "parameters": {"type": "object", "properties": {}},
        },
    },
]  # fmt: skip
RESPONSES_TOOLS = [
    {"type": "function", "name": "get_weather", "description": "The weather.", "parameters": CITY, "strict": False},
    {
        "type": "function", "name": "get_time", "description": "The time.",
        "parameters": {"type": "object", "properties": {}}, "strict": False,
    },
]  # fmt: skip
OSLO = ToolCall("call_1", "get_weather", {"city": "Oslo"}, '{"city": "Oslo"}')
LAGOS = ToolCall("call_2", "get_weather", {"city": "Lagos"}, '{"city":"Lagos"}')
NOW = ToolCall("call_3", "get_time", {}, "")


# --- the table --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Facts:
    """What must not depend on the wire that an answer has come by."""

    text: str = ""
    reasoning: str = ""
    refusal: str | None = None
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    finish_reason: str = "stop"
    usage: tuple[int | None, int | None, int | None] = (9, 5, 14)  # input, output, total

    @classmethod
    def of(cls, reply: Reply) -> Facts:
        assert reply.usage is not None
        return cls(
            reply.text,
            reply.reasoning,
            reply.refusal,
            tuple((call.name, call.arguments) for call in reply.tool_calls),
            reply.finish_reason,
            (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.total_tokens),
        )


@dataclass(frozen=True)
class Answer:
    """What is answered on each wire, and what all of that must fold to. None: the wire has no such thing."""

    chat: bytes | None
    responses: bytes | None
    kimi: bytes | None
    facts: Facts
    ids: dict[str, list[str]] = field(default_factory=dict)  # of the calls: each wire has its own


@dataclass(frozen=True)
class Conversation:
    """A request and its body on each wire. A word in place of a body is in the error: the wire has no such thing.

    Attributes:
        changes: what the reply of each wire will say that was not sent as asked.
    """

    name: str
    messages: list[Any]
    chat: dict[str, Any]
    responses: dict[str, Any]
    kimi: dict[str, Any] | str
    tools: tuple[Tool, ...] = ()
    tool_choice: Any = "auto"
    options: dict[str, Any] = field(default_factory=dict)
    changes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    answer: Answer | None = None


CONVERSATIONS = [
    Conversation(
        "plain",
        [system("Be brief."), user("Hello?")],
        chat=chat({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello?"}),
        responses=responses(
            {"type": "message", "role": "system", "content": "Be brief."},
            {"type": "message", "role": "user", "content": "Hello?"},
        ),
        kimi=kimi({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello?"}),
        answer=Answer(
            chat=chat_answer(
                {"role": "assistant", "content": ""}, {"content": "Hé"}, {"content": "llo"},
                finish="stop",
            ),
            responses=responses_answer(says(0, "Hé", "llo")),
            kimi=kimi_answer(
                {"role": "assistant", "content": ""}, {"content": "Hél"}, {"content": "lo"},
                finish="stop",
            ),
            facts=Facts(text="Héllo"),
        ),
    ),
    Conversation(
        "parallel calls",
        [
            user("Oslo or Lagos?"), assistant("Both.", tool_calls=[OSLO, LAGOS]), tool_result(LAGOS, "31 °C"),
            tool_result(OSLO, "-3 °C"), user("And now?"),
        ],
        tools=(WEATHER, CLOCK),
        changes={"kimi": ("ids_renumbered",)},
        chat=chat(
            {"role": "user", "content": "Oslo or Lagos?"},
            {
                "role": "assistant",
                "content": "Both.",
                "tool_calls": [
                    {
                        "id": "call_1", "type": "function",
                        "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'},
                    },
                    {
                        "id": "call_2", "type": "function",
                        "function": {"name": "get_weather", "arguments": '{"city":"Lagos"}'},
                    },
                ],
            },
            {"role": "tool", "tool_call_id": "call_2", "content": "31 °C"},
            {"role": "tool", "tool_call_id": "call_1", "content": "-3 °C"},
            {"role": "user", "content": "And now?"},
            tools=CHAT_TOOLS,
            tool_choice="auto",
        ),
        responses=responses(
            {"type": "message", "role": "user", "content": "Oslo or Lagos?"},
            {
                "type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
                "content": [{"type": "output_text", "text": "Both.", "annotations": []}],
            },
            {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"city": "Oslo"}'},
            {"type": "function_call", "call_id": "call_2", "name": "get_weather", "arguments": '{"city":"Lagos"}'},
            {"type": "function_call_output", "call_id": "call_2", "output": "31 °C"},
            {"type": "function_call_output", "call_id": "call_1", "output": "-3 °C"},
            {"type": "message", "role": "user", "content": "And now?"},
            tools=RESPONSES_TOOLS,
            tool_choice="auto",
        ),
        # The ids that the model itself would have given, and the sign that the turn may have no reasoning.
        kimi=kimi(
            {"role": "user", "content": "Oslo or Lagos?"},
            {
                "role": "assistant",
                "content": "Both.",
                "reasoning_content": "",
                "tool_calls": [
                    {
                        "id": "functions.get_weather:0", "type": "function",
                        "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'},
                    },
                    {
                        "id": "functions.get_weather:1", "type": "function",
                        "function": {"name": "get_weather", "arguments": '{"city":"Lagos"}'},
                    },
                ],
            },
            {"role": "tool", "tool_call_id": "functions.get_weather:1", "content": "31 °C"},
            {"role": "tool", "tool_call_id": "functions.get_weather:0", "content": "-3 °C"},
            {"role": "user", "content": "And now?"},
            tools=CHAT_TOOLS,
            tool_choice="auto",
        ),
        answer=Answer(
            chat=chat_answer(
                {"role": "assistant", "content": "Again."},
                {"tool_calls": [entry(0, "call_a", "get_weather", "", type="function")]},
                {"tool_calls": [entry(0, arguments='{"city":')]},
                {"tool_calls": [entry(0, arguments='"Oslo"}')]},
                {"tool_calls": [entry(1, "call_b", "get_time", "", type="function")]},
                {"tool_calls": [entry(1, arguments="{}")]},
                finish="tool_calls",
            ),
            responses=responses_answer(
                says(0, "Again."),
                calls(1, "call_a", "get_weather", '{"city":', '"Oslo"}'),
                calls(2, "call_b", "get_time", "{}"),
            ),
            kimi=kimi_answer(
                {"role": "assistant", "content": "Again."},
                {"tool_calls": [entry(0, "functions.get_weather:2", "get_weather", "", type="function")]},
                {"tool_calls": [entry(1, "functions.get_time:3", "get_time", "", type="function")]},
                {"tool_calls": [entry(0, arguments='{"city":'), entry(1, arguments="{")]},
                {"tool_calls": [entry(0, arguments='"Oslo"}'), entry(1, arguments="}")]},
                finish="tool_calls",
            ),
            facts=Facts(
                text="Again.",
                calls=(("get_weather", {"city": "Oslo"}), ("get_time", {})),
                finish_reason="tool_calls",
            ),
            ids={
                "chat": ["call_a", "call_b"],
                "responses": ["call_a", "call_b"],
                "kimi": ["functions.get_weather:2", "functions.get_time:3"],
            },
        ),
    ),
    Conversation(
        "reasoning",
        [user("One and one?"), assistant("2", reasoning="Easy."), user("And one?")],
        # OpenAI's two wires have no reasoning that a client could write: only their own items go back.
        changes={"chat": ("reasoning_dropped",), "responses": ("reasoning_dropped",)},
        chat=chat(
            {"role": "user", "content": "One and one?"},
            {"role": "assistant", "content": "2"},
            {"role": "user", "content": "And one?"},
        ),
        responses=responses(
            {"type": "message", "role": "user", "content": "One and one?"},
            {
                "type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
                "content": [{"type": "output_text", "text": "2", "annotations": []}],
            },
            {"type": "message", "role": "user", "content": "And one?"},
        ),
        kimi=kimi(
            {"role": "user", "content": "One and one?"},
            {"role": "assistant", "content": "2", "reasoning_content": "Easy."},
            {"role": "user", "content": "And one?"},
        ),
        answer=Answer(
            chat=chat_answer(
                {"role": "assistant", "content": None, "reasoning_content": "Two and"},
                {"content": None, "reasoning_content": " one."},
                {"content": "3", "reasoning_content": None},
                finish="stop",
            ),
            responses=responses_answer(thinks(0, "Two and", " one."), says(1, "3")),
            kimi=kimi_answer(
                {"role": "assistant", "content": ""},
                {"reasoning_content": "Two "},
                {"reasoning_content": "and one."},
                {"content": "3"},
                finish="stop",
            ),
            facts=Facts(text="3", reasoning="Two and one."),
        ),
    ),
    Conversation(
        "results as JSON",
        [
            user("Oslo, and the time?"), assistant(tool_calls=[OSLO, NOW]),
            tool_result(OSLO, {"celsius": -3.5, "sky": "grau – weiß", "wind": None}), tool_result(NOW, [12, True]),
        ],
        tools=(WEATHER, CLOCK),
        changes={"kimi": ("ids_renumbered",)},
        chat=chat(
            {"role": "user", "content": "Oslo, and the time?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_1", "type": "function",
                        "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'},
                    },
                    {"id": "call_3", "type": "function", "function": {"name": "get_time", "arguments": "{}"}},
                ],
            },
            {
                "role": "tool", "tool_call_id": "call_1",
                "content": '{"celsius": -3.5, "sky": "grau – weiß", "wind": null}',
            },
            {"role": "tool", "tool_call_id": "call_3", "content": "[12, true]"},
            tools=CHAT_TOOLS,
            tool_choice="auto",
        ),
        responses=responses(
            {"type": "message", "role": "user", "content": "Oslo, and the time?"},
            {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"city": "Oslo"}'},
            {"type": "function_call", "call_id": "call_3", "name": "get_time", "arguments": "{}"},
            {
                "type": "function_call_output", "call_id": "call_1",
                "output": '{"celsius": -3.5, "sky": "grau – weiß", "wind": null}',
            },
            {"type": "function_call_output", "call_id": "call_3", "output": "[12, true]"},
            tools=RESPONSES_TOOLS,
            tool_choice="auto",
        ),
        kimi=kimi(
            {"role": "user", "content": "Oslo, and the time?"},
            {
                "role": "assistant",
                "content": None,
                "reasoning_content": "",
                "tool_calls": [
                    {
                        "id": "functions.get_weather:0", "type": "function",
                        "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'},
                    },
                    {
                        "id": "functions.get_time:1", "type": "function",
                        "function": {"name": "get_time", "arguments": "{}"},
                    },
                ],
            },
            {
                "role": "tool", "tool_call_id": "functions.get_weather:0",
                "content": '{"celsius": -3.5, "sky": "grau – weiß", "wind": null}',
            },
            {"role": "tool", "tool_call_id": "functions.get_time:1", "content": "[12, true]"},
            tools=CHAT_TOOLS,
            tool_choice="auto",
        ),
    ),
    Conversation(
        "image",
        [
            user([
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
            ]),
        ],
        chat=chat(
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
                ],
            },
        ),
        responses=responses(
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "What is this?"},
                    {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "auto"},
                ],
            },
        ),
        kimi=kimi(
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
                ],
            },
        ),
    ),
    Conversation(
        "refusal",
        [user("Do it."), Message("assistant", refusal="I won't."), user("Please.")],
        chat=chat(
            {"role": "user", "content": "Do it."},
            {"role": "assistant", "content": None, "refusal": "I won't."},
            {"role": "user", "content": "Please."},
        ),
        responses=responses(
            {"type": "message", "role": "user", "content": "Do it."},
            {
                "type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
                "content": [{"type": "refusal", "refusal": "I won't."}],
            },
            {"type": "message", "role": "user", "content": "Please."},
        ),
        kimi="neither text nor tool calls",  # Kimi has no refusals: it declines in its text
        answer=Answer(
            chat=chat_answer(
                {"role": "assistant", "content": None, "refusal": ""}, {"refusal": "I still "}, {"refusal": "won't."},
                finish="stop",
            ),
            responses=responses_answer(refuses(0, "I still ", "won't.")),
            kimi=None,
            facts=Facts(refusal="I still won't."),
        ),
    ),
    Conversation(
        "forced",
        [user("Oslo?")],
        tools=(WEATHER, CLOCK),
        tool_choice=NamedTool("get_weather"),
        options={"force_by_disabling_thinking": True},
        chat=chat(
            {"role": "user", "content": "Oslo?"},
            tools=CHAT_TOOLS,
            tool_choice={"type": "function", "function": {"name": "get_weather"}},
        ),
        responses=responses(
            {"type": "message", "role": "user", "content": "Oslo?"},
            tools=RESPONSES_TOOLS,
            tool_choice={"type": "function", "name": "get_weather"},
        ),
        kimi=kimi(
            {"role": "user", "content": "Oslo?"},
            tools=CHAT_TOOLS,
            tool_choice={"type": "function", "function": {"name": "get_weather"}},
            thinking={"type": "disabled"},
        ),
        answer=Answer(
            chat=chat_answer(  # after a named choice OpenAI ends with "stop"
                {"role": "assistant", "content": None,
                 "tool_calls": [entry(0, "call_a", "get_weather", "", type="function")]},
                {"tool_calls": [entry(0, arguments='{"city"')]},
                {"tool_calls": [entry(0, arguments=':"Oslo"}')]},
                finish="stop",
            ),
            responses=responses_answer(calls(0, "call_a", "get_weather", '{"city"', ':"Oslo"}')),
            kimi=kimi_answer(
                {"role": "assistant", "content": ""},
                {"tool_calls": [
                    entry(0, "functions.get_weather:0", "get_weather", type="function"),
                    entry(0, arguments='{"city":"Oslo"}'),
                ]},
                finish="tool_calls",
            ),
            facts=Facts(calls=(("get_weather", {"city": "Oslo"}),), finish_reason="tool_calls"),
            ids={"chat": ["call_a"], "responses": ["call_a"], "kimi": ["functions.get_weather:0"]},
        ),
    ),
    Conversation(
        "required",
        [user("Oslo?")],
        tools=(WEATHER, CLOCK),
        tool_choice="required",
        chat=chat({"role": "user", "content": "Oslo?"}, tools=CHAT_TOOLS, tool_choice="required"),
        responses=responses(
            {"type": "message", "role": "user", "content": "Oslo?"}, tools=RESPONSES_TOOLS, tool_choice="required"
        ),
        # It thinks, and nobody has allowed to stop that: the force can't be had.
        kimi=kimi({"role": "user", "content": "Oslo?"}, tools=CHAT_TOOLS, tool_choice="auto"),
        changes={"kimi": ("forced_choice_dropped",)},
    ),
    Conversation(
        "forbidden",
        [user("Oslo?")],
        tools=(WEATHER, CLOCK),
        tool_choice="none",
        chat=chat({"role": "user", "content": "Oslo?"}, tools=CHAT_TOOLS, tool_choice="none"),
        responses=responses(
            {"type": "message", "role": "user", "content": "Oslo?"}, tools=RESPONSES_TOOLS, tool_choice="none"
        ),
        kimi=kimi({"role": "user", "content": "Oslo?"}, tools=CHAT_TOOLS, tool_choice="none"),
    ),
]  # fmt: skip
ROWS = {row.name: row for row in CONVERSATIONS}
ANSWERED = [
    (row.name, wire) for row in CONVERSATIONS for wire in WIRES if row.answer and getattr(row.answer, wire) is not None
]


# --- requests ---------------------------------------------------------------------------------------------------------


def adapter_for(wire: str) -> Adapter:
    """The adapter as a provider uses it for the model of these conversations."""
    return read_profile({"adapter": wire, "base_url": "http://test/v1"}).make_adapter(MODELS.get(wire, "m"))


def prepare(wire: str, row: Conversation, messages: list[Any] | None = None) -> tuple[Request, list[str]]:
    """A row's request as the wire's endpoint takes it, and the codes of what was changed for that."""
    asked = Request.read(MODELS[wire], messages or row.messages, list(row.tools), row.tool_choice, row.options)
    request, changes = adapter_for(wire).rewrite(asked)
    return request, [change.code for change in changes]


def encode(wire: str, row: Conversation, messages: list[Any] | None = None) -> dict[str, Any]:
    """A row's body, or that of other messages under the same conditions."""
    return adapter_for(wire).encode(prepare(wire, row, messages)[0])


def plain(value: Any) -> Any:
    """A validated value as it was; pydantic checks what is iterable only when it is iterated over."""
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    return [plain(member) for member in value] if isinstance(value, list | Iterator) else value


@each_row("wire", WIRES)
@each_row("name", ROWS)
def test_a_conversation_is_written_as_each_wire_wants_it(name: str, wire: str) -> None:
    """One conversation in our words, the wire's own JSON out; what a wire does not have is refused in words."""
    row = ROWS[name]
    wanted = getattr(row, wire)
    if isinstance(wanted, str):
        with pytest.raises(ConfigError, match=wanted):
            encode(wire, row)
        return
    body = encode(wire, row)
    assert body == wanted
    assert json.loads(json.dumps(body)) == body
    assert tuple(prepare(wire, row)[1]) == row.changes.get(wire, ())


def as_dict(message: Any) -> Any:
    """A message as a dict of Chat Completions, as an application may have it."""
    if not isinstance(message, Message) or message.error:
        return message  # the dicts have no sign for a tool that failed
    parts = message.content
    written: dict[str, Any] = {
        "role": message.role,
        "content": parts if isinstance(parts, str | None) else [chat_part(part, "") for part in parts],
        "reasoning_content": message.reasoning,
        "tool_call_id": message.tool_call_id,
        "name": message.name,
        "refusal": message.refusal,
        "partial": message.partial or None,
        **message.extras,
    }
    if message.tool_calls:
        written["tool_calls"] = [
            {
                "id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.raw_arguments},
                **(call.extra or {}),
            }
            for call in message.tool_calls
        ]  # fmt: skip
    return {name: value for name, value in written.items() if value is not None}


@each_row("wire", EVERY_WIRE)
@each_row("name", ROWS)
def test_dicts_and_messages_are_sent_alike(name: str, wire: str) -> None:
    """The same conversation as dicts and as Messages has the same body and the same warnings on every wire."""
    row = ROWS[name]
    try:
        dicts = [as_dict(message) for message in row.messages] if isinstance(row.messages, list) else row.messages
    except ConfigError:
        return  # a part that Chat Completions has no spelling for

    def sent(messages: Any) -> Any:
        asked = Request.read(MODELS.get(wire, "m"), messages, list(row.tools), row.tool_choice, row.options)
        try:
            ready = adapter_for(wire).prepare(asked)
        except ConfigError as exc:
            return str(exc)
        return ready.body, ready.warnings

    assert sent(dicts) == sent(row.messages)


@each_row("wire", EVERY_WIRE)
async def test_a_preview_is_what_is_sent(wire: str) -> None:
    """`preview` shows method, URL, headers and body of each conversation exactly as they are sent, without secrets."""
    sent: list[httpx.Request] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(400, json={"error": {"message": "enough"}})

    config = {
        "adapter": wire, "base_url": "https://example.com/v1", "model": MODELS.get(wire, "m"),
        "api_key": "sk-the-key-itself",
        "headers": {"X-Team": "a-configured-value"},
    }  # fmt: skip
    async with httpx.AsyncClient(transport=httpx.MockTransport(refuse)) as client:
        provider = Provider.from_config(config, http_client=client)
        for row in CONVERSATIONS:
            asked: dict[str, Any] = {"tool_choice": row.tool_choice, "extra_headers": {"X-Trace": "9"}, **row.options}
            try:
                shown = provider.preview(row.messages, row.tools, **asked)
            except ConfigError as refusal:
                with pytest.raises(ConfigError, match=re.escape(str(refusal))):
                    await provider.chat(row.messages, row.tools, **asked)
                continue
            with pytest.raises(BadRequestError):
                await provider.chat(row.messages, row.tools, **asked)
            request = sent.pop()
            assert (shown.method, shown.url, shown.body) == (request.method, str(request.url), request.content)
            secret = {"Authorization": "***", "X-Team": "***", "X-Trace": "***"}
            assert {**{name: request.headers[name] for name in shown.headers}, **secret} == shown.headers
            assert "sk-the-key" not in repr(shown)
            changes = row.changes.get(wire, ())  # those of the history come first
            assert not changes or tuple(warning.code for warning in shown.warnings)[-len(changes) :] == changes


@each_row("name", ROWS)
def test_chat_bodies_are_openais(name: str) -> None:
    """OpenAI's own types know all of a chat body, and miss nothing in it."""
    body = encode("chat", ROWS[name])
    assert plain(CHAT_BODY.validate_python(body)) == body


@each_row("name", ROWS)
def test_responses_bodies_are_openais(name: str) -> None:
    """OpenAI's own types know all of a Responses body, and miss nothing in it."""
    body = encode("responses", ROWS[name])
    assert plain(RESPONSES_BODY.validate_python(body)) == body


# --- answers ----------------------------------------------------------------------------------------------------------


def read(wire: str, row: Conversation) -> Reply:
    """The reply to a row's answer on this wire, which is the same however its bytes are cut."""
    request, _ = prepare(wire, row)
    body = getattr(row.answer, wire)
    dialect = "kimi" if wire == "kimi" else None  # as in the catalogue of providers
    return assert_any_cut(body, adapter=wire, dialect=dialect, tools=request.tools, tool_choice=request.tool_choice)


@each_row(("name", "wire"), ANSWERED)
def test_an_answer_is_the_same_on_every_wire(name: str, wire: str) -> None:
    """Text, reasoning, refusal, calls, reason and counts do not tell which wire an answer has come by."""
    row = ROWS[name]
    reply = read(wire, row)
    assert row.answer is not None
    assert Facts.of(reply) == row.answer.facts
    assert [call.id for call in reply.tool_calls] == row.answer.ids.get(wire, [])
    assert codes(reply) == []


def test_which_wire_has_no_such_answer() -> None:
    """Only Kimi lacks one: it has no refusals."""
    missing = [
        (row.name, wire) for row in CONVERSATIONS for wire in WIRES if row.answer and not getattr(row.answer, wire)
    ]
    assert missing == [("refusal", "kimi")]
    assert {name for name, _ in ANSWERED} == {"plain", "parallel calls", "reasoning", "refusal", "forced"}


@each_row(("name", "wire"), ANSWERED)
def test_the_answers_of_the_table_are_openais(name: str, wire: str) -> None:
    """Every event of the table is one by OpenAI's types, so that no wire is easier here than it is."""
    for line in getattr(ROWS[name].answer, wire).decode().splitlines():
        if line.startswith("data: {"):
            if wire == "responses":
                RESPONSES_EVENT.validate_json(line.removeprefix("data: "))
            else:
                openai.types.chat.ChatCompletionChunk.model_validate_json(line.removeprefix("data: "))


@each_row("sent", WIRES)
@each_row("came", WIRES)
def test_an_answer_goes_on_by_another_wire(came: str, sent: str) -> None:
    """The turn of one provider, with the results of its calls, is a turn of any other: ids and arguments fit."""
    row = ROWS["parallel calls"]
    reply = read(came, row)
    one, two = ids = [call.id for call in reply.tool_calls]
    results = [tool_result(call, call.name) for call in reply.tool_calls]
    body = encode(sent, row, [user("And now?"), reply.message, *results])
    if sent == "responses":
        said, weather, clock = (
            {"type": "message", "role": "assistant", "status": "completed",
             "content": [{"type": "output_text", "text": "Again.", "annotations": []}]},
            {"type": "function_call", "call_id": one, "name": "get_weather", "arguments": '{"city":"Oslo"}'},
            {"type": "function_call", "call_id": two, "name": "get_time", "arguments": "{}"},
        )  # fmt: skip
        if came == "responses":  # the items as they came
            turn = [
                {**said, "id": "msg_0"},
                {**weather, "id": "fc_1", "status": "completed"},
                {**clock, "id": "fc_2", "status": "completed"},
            ]
        else:
            turn = [{**said, "id": "msg_1"}, weather, clock]
        assert body["input"] == [
            {"type": "message", "role": "user", "content": "And now?"},
            *turn,
            {"type": "function_call_output", "call_id": one, "output": "get_weather"},
            {"type": "function_call_output", "call_id": two, "output": "get_time"},
        ]
        return
    one, two = ("functions.get_weather:0", "functions.get_time:1") if sent == "kimi" else ids
    spoken = {
        "role": "assistant",
        "content": "Again.",
        "tool_calls": [
            {"id": one, "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Oslo"}'}},
            {"id": two, "type": "function", "function": {"name": "get_time", "arguments": "{}"}},
        ],
    }
    assert body["messages"] == [
        {"role": "user", "content": "And now?"},
        spoken | ({"reasoning_content": ""} if sent == "kimi" else {}),
        {"role": "tool", "tool_call_id": one, "content": "get_weather"},
        {"role": "tool", "tool_call_id": two, "content": "get_time"},
    ]


@pytest.mark.parametrize("came", WIRES)
def test_reasoning_goes_on_to_kimi(came: str) -> None:
    """Kimi is told the reasoning of an earlier turn, whichever provider it came from."""
    row = ROWS["reasoning"]
    body = encode("kimi", row, [*row.messages, read(came, row).message, user("Sure?")])
    assert body["messages"][3] == {"role": "assistant", "content": "3", "reasoning_content": "Two and one."}


# --- the fixtures -----------------------------------------------------------------------------------------------------

FOLDER = Path(__file__).parents[2] / "fixtures"
# What is no chunk by OpenAI's types, on purpose: how it fails to be one, and why the fixture is there all the same.
DEVIATIONS = {
    "aimock/note": ("json_invalid", "the server cuts a character into two lone surrogates, which strict JSON refuses"),
    "aimock/unicode": ("json_invalid", "the same, in text"),
    "aimock/one_char": ("json_invalid", "the same, with every character"),
    "litellm/error_frame": ("missing", "an error object takes the place of a chunk"),
    "litellm/error_after_text": ("missing", "the same"),
    "azure/async_filter": ("missing literal_error", "what the filter says has no delta, and an empty `object`"),
    "azure/filtered": ("model_type literal_error", "the filter ends the answer with `delta: null`"),
    "azure/prompt_filter": ("literal_error", "what the filter says of the prompt has an empty `object`"),
    "deepseek/out_of_resources": ("literal_error", "a finish reason of its own"),
    "openrouter/error_in_stream": ("literal_error", "the same"),
    "together/text_beside_delta": ("literal_error", "the same"),
    "zai/network_error": ("literal_error", "the same"),
    "zai/sensitive": ("literal_error", "the same"),
    "gemini/signatures": ("missing", "calls have no index"),
    "kimi/web_search": ("literal_error", "the provider's own tools have a type of their own"),
    "minimax/base_resp_error": ("list_type", "an error beside `choices: null`"),
    "mistral/thinking": ("string_type", "content is a list of parts while the model thinks"),
}
ABOUT = {f"{file.parent.name}/{file.stem}": tomllib.loads(file.read_text("utf-8")) for file in FOLDER.glob("*/*.toml")}
CHAT_FIXTURES = sorted(
    name
    for name, about in ABOUT.items()
    if about["adapter"] == "chat" and about["source"] in ("recorded", "documented") and name != "aimock/malformed"
)


@each_row("name", CHAT_FIXTURES)
def test_chat_fixtures_are_openais(name: str) -> None:
    """Every event of a fixture is a chunk by OpenAI's types, but for those that deviate, and they do it as is said."""
    problems = set()
    lines = (FOLDER / f"{name}.sse").read_bytes().decode("utf-8", "replace").split("\n")
    said = [line.removeprefix("data: ") for line in lines if line.startswith("data: {")]
    assert said
    for payload in said:
        try:
            openai.types.chat.ChatCompletionChunk.model_validate_json(payload)
        except ValidationError as exc:
            problems |= {problem["type"] for problem in exc.errors()}
    assert problems == (set(DEVIATIONS[name][0].split()) if name in DEVIATIONS else set())


def test_deviations_are_of_fixtures_that_are_there() -> None:
    """A fixture that is gone is not excused any more."""
    assert set(DEVIATIONS) <= set(CHAT_FIXTURES)
