"""Conversations are parsed: dicts and items of either OpenAI API become Messages, and lose nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfold import ConfigError, Message, ToolCall, assistant, tool_result, user
from streamfold.adapters.chat import ChatAdapter, ChatQuirks
from streamfold.adapters.responses import ResponsesAdapter
from streamfold.requests import Request, read_messages
from streamfold.types import ImagePart, TextPart
from tables import each_row

WORDS = st.text("abcé \n", min_size=1, max_size=6)
NAMES = st.sampled_from(["cache_control", "prefix", "thought", "weight", "metadata"])
VALUES = st.recursive(
    st.booleans() | st.integers(-5, 5) | WORDS,
    lambda inner: st.lists(inner, min_size=1, max_size=2) | st.dictionaries(NAMES, inner, min_size=1, max_size=2),
    max_leaves=4,
)
MORE = st.dictionaries(NAMES, VALUES, max_size=2)


def parts(more: dict[str, Any], text: str) -> Any:
    return [
        {"type": "text", "text": text, **more},
        {"type": "image_url", "image_url": {"url": "https://x.test/a.png", "detail": "low"}, **more},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAE="}},
        {"type": "file", "file": {"file_id": "f_1"}},
        {"type": "input_audio", "input_audio": {"data": "AAE=", "format": "wav"}},
        {"type": "video_url", "video_url": {"url": "https://x.test/a.mp4"}, **more},
        {"type": "lidar", "points": [1], **more},
    ]


CONTENTS = WORDS | st.builds(parts, MORE, WORDS).flatmap(lambda all_: st.lists(st.sampled_from(all_), min_size=1))


@st.composite
def chats(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Conversations in the shape of Chat Completions with members of a server's own, as they are to be sent."""
    made: list[dict[str, Any]] = [{"role": "user", "content": draw(CONTENTS), **draw(MORE)}]
    for number in range(draw(st.integers(0, 2))):
        call_id = f"call_{number}"
        function = {"name": "f", "arguments": draw(st.sampled_from(["{}", '{"x": 1}', '{"x":'])), **draw(MORE)}
        turn = {"role": "assistant", "content": draw(st.none() | WORDS), **draw(MORE)}
        turn |= draw(st.sampled_from([{}, {"reasoning_content": "Well."}, {"audio": {"id": "a_1"}}]))
        turn["tool_calls"] = [{"id": call_id, "type": "function", "function": function, **draw(MORE)}]
        made += [turn, {"role": "tool", "tool_call_id": call_id, "content": draw(WORDS), **draw(MORE)}]
    return [*made, {"role": "user", "content": "And now?", "name": "Ada"}]


@given(chats())
def test_what_a_caller_writes_is_sent_as_it_is(messages: list[dict[str, Any]]) -> None:
    """Every member of a dict reaches its own API, known to us or not, and nothing is added but a missing content."""
    before = json.dumps(messages)
    adapter = ChatAdapter(ChatQuirks(reasoning_field="reasoning_content"))
    ready = adapter.prepare(Request.read("m", messages, None, "auto", {}))
    assert json.loads(ready.body)["messages"] == messages
    assert (ready.warnings, json.dumps(messages)) == ((), before)


@given(chats())
def test_nothing_is_lost_in_silence_on_another_api(messages: list[dict[str, Any]]) -> None:
    """A member that the Responses API has no place for is named in a warning, or the request is refused."""
    messages = messages[:-1]  # a user's name is refused
    try:
        ready = ResponsesAdapter().prepare(Request.read("m", messages, None, "auto", {}))
    except ConfigError:  # there is audio among the parts
        assert "input_audio" in str(messages)
        return
    told = " ".join(warning.detail for warning in ready.warnings)
    for at, message in enumerate(messages):
        known = ("role", "content", "tool_calls", "tool_call_id", "name", "reasoning_content")
        assert all(f"messages[{at}].{name}" in told for name in message if name not in known)
        assert ("reasoning_content" not in message) or f"messages[{at}]" in told


ITEMS: list[Any] = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}], "id": "msg_u"},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"},
    {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "phase": "commentary",
     "content": [{"type": "output_text", "text": "One moment.", "annotations": []}]},
    {"type": "web_search_call", "id": "ws_1", "status": "completed"},
    {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "f", "arguments": "{}", "status": "completed"},
    {"type": "custom_tool_call", "call_id": "b", "name": "grep", "input": "x"},
    {"type": "function_call_output", "call_id": "a", "output": "18", "id": "fco_1"},
    {"type": "custom_tool_call_output", "call_id": "b", "output": "found"},
    {"type": "mcp_approval_response", "approval_request_id": "r", "approve": True},
    {"type": "message", "role": "user", "content": "Go on."},
]  # fmt: skip


def test_items_are_sent_as_they_are() -> None:
    """Items of the Responses API reach it as they were written, of whatever type they are."""
    ready = ResponsesAdapter().prepare(Request.read("m", ITEMS, None, "auto", {}))
    assert (json.loads(ready.body)["input"], ready.warnings) == (ITEMS, ())


def test_consecutive_items_of_the_model_are_one_message() -> None:
    """What the model says between two turns of others is one message, with its text and its calls."""
    read = read_messages(ITEMS[:8])
    assert [message.role for message in read] == ["user", "assistant", "tool", "tool"]
    assert (read[1].content, [call.name for call in read[1].tool_calls]) == ("One moment.", ["f", "grep"])


def test_messages_and_dicts_may_be_mixed() -> None:
    """A list may have Messages, dicts and items; parts in a Message may be dicts too."""
    call = ToolCall("a", "f", {}, "{}")
    mixed: list[Any] = [
        {"role": "user", "content": "Hi"}, {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        tool_result(call, "18"), user({"type": "image_url", "image_url": {"url": "https://x.test/a.png"}}, "?"),
    ]  # fmt: skip
    assert read_messages(mixed) == (
        user("Hi"), assistant(tool_calls=[call]), tool_result(call, "18"),
        user(ImagePart(url="https://x.test/a.png"), TextPart("?")),
    )  # fmt: skip


@each_row(
    ("message", "problem"),
    [
        (
            {"role": "usr", "content": "x"},
            "messages[0].role: unknown role 'usr' (did you mean 'user'?)",
        ),
        ({"content": "x"}, "messages[0].role is missing. Allowed: system"),
        ({"role": "tool", "content": "x"}, "messages[0] has no tool_call_id"),
        ({"type": "message", "role": "tool"}, "messages[0].role: unknown role 'tool'. Allowed: user, system"),
        ({"type": "function_call", "name": "f"}, "messages[0].call_id is missing"),
        (Message("user", "x", partial=True), "messages[0].partial is only allowed for the role 'assistant'"),
        (5, "messages[0] must be a Message or a dict with a role, not a number: 5"),
    ],
)
def test_a_mistake_is_named_with_its_path(message: Any, problem: str) -> None:
    """The error begins with the path to the wrong member, and says what is allowed."""
    with pytest.raises(ConfigError) as caught:
        read_messages([message])
    assert str(caught.value).startswith(problem)
