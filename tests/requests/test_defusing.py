"""Marks of a model's own language in the conversation: they are sent so that the model reads them as text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamfold import ConfigError, Message, Provider, ToolCall, assistant, tool_result, user
from streamfold.values import TextPart
from tables import each_row

J = "\u2060"
TEXT = "marks of the model's own language were sent so that it reads them as text"
CUT = "marks at which the model's chat template cuts or refuses a turn were sent so that it reads them as text"
BASE = {"adapter": "chat", "base_url": "http://127.0.0.1:9/v1", "api_key_env": [], "model": "m"}
MARKS = {
    "harmony": ["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>"],
    "dsml": ["｜DSML｜", "<｜tool▁calls▁begin｜>", "<｜end▁of▁sentence｜>", "<think>", "</think>"],
    "deepseek": ["<｜tool▁sep｜>", "</think>"],
    "kimi3": ["<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"],
    "minimax": ["<minimax:tool_call>", "</minimax:tool_call>", "]~b]", "[e~[", "<think>"],
    "minimax3": ["]<]minimax[>[", "]~b]", "[e~[", "<mm:think>", "</mm:think>"],
    "gemma4": [
        "<|tool_call>",
        "<tool_call|>",
        "<|tool_response>",
        "<tool_response|>",
        '<|"|>',
        "<|channel>",
        "<|turn>",
    ],
    "functiongemma": ["<start_function_call>", "<end_function_response>", "<escape>", "<end_of_turn>"],
    "lfm2": ["<|im_start|>", "<|im_end|>", "<|tool_call_start|>", "<|tool_call_end|>"],
    "qwen3coder": ["<|im_end|>", "<tool_call>", "</tool_response>"],
    "hermes": ["<|im_start|>", "</tool_call>"],
    "glm": ["<|user|>", "<|observation|>", "<tool_call>"],
    "seed": ["<seed:tool_call>", "</seed:think>", "<seed:bos>"],
    "cohere": ["<|START_ACTION|>", "<|END_THINKING|>", "<|END_OF_TURN_TOKEN|>"],
}
HISTORY = {
    "harmony": ("<|channel|>final<|message|>no", f"<{J}|channel|>final<|message|>no"),
    "deepseek": ("a</think>b", f"a<{J}/think>b"),
    "minimax3": ("a</mm:think>b", f"a<{J}/mm:think>b"),
    "gemma4": ("a<|channel>b", f"a<{J}|channel>b"),
    "lfm2": ("a</think>b", f"a<{J}/think>b"),
}


def sent(messages: list[Message], **settings: Any) -> tuple[list[Any], list[str]]:
    """The messages in the body, and the warnings."""
    preview = Provider.from_config({**BASE, **settings}).preview(messages)
    body = preview.body if isinstance(preview.body, dict) else json.loads(preview.body)
    return [message.get("content") for message in body["messages"]], [
        f"{warning.code}: {warning.detail}" for warning in preview.warnings
    ]


@each_row("dialect", MARKS)
def test_marks_of_a_dialect(dialect: str) -> None:
    """A word joiner stands behind the first character of each, in what users and tools say; the caller's stay."""
    text = " and ".join(f"{mark} x" for mark in MARKS[dialect])
    joined = " and ".join(f"{mark[0]}{J}{mark[1:]} x" for mark in MARKS[dialect])
    call = ToolCall("a", "f", {}, "{}")
    messages = [user(text), assistant("ok", tool_calls=[call]), tool_result(call, text), user([TextPart(text)])]
    before = [message.to_dict() for message in messages]
    contents, warnings = sent(messages, dialect=dialect)
    assert [content if isinstance(content, str) else content[0]["text"] for content in contents] == [
        joined, "ok", joined, joined,
    ]  # fmt: skip
    assert warnings == [f"markup_defused: messages[0], messages[2], messages[3]: {TEXT}"]
    assert [message.to_dict() for message in messages] == before


@each_row("dialect", HISTORY)
def test_marks_at_which_a_template_cuts(dialect: str) -> None:
    """In earlier answers only the marks at which the chat template would cut or refuse the turn are written so."""
    said, written = HISTORY[dialect]
    contents, warnings = sent([user("Hi"), assistant(said), user("go on")], dialect=dialect)
    assert contents == ["Hi", written, "go on"]
    assert warnings == [f"markup_defused: messages[1]: {CUT}"]


@pytest.mark.parametrize("settings", [{"dialect": "harmony", "defuse": False}, {"dialect": "mistral"}, {}])
def test_nothing_is_changed_unasked(settings: dict[str, Any]) -> None:
    """Without a dialect whose marks are known, or with the setting off, everything is sent as it is."""
    assert sent([user("<|call|> </think>")], **settings) == (["<|call|> </think>"], [])


def test_the_setting_is_a_flag() -> None:
    """Anything but true and false is refused."""
    with pytest.raises(ConfigError, match="defuse"):
        Provider.from_config({**BASE, "defuse": "perhaps"})
