"""Reasoning goes back to the endpoint that it came from, in its field, while a tool loop is open."""

from __future__ import annotations

from typing import Any

from streamfold import Message, Provider, Tool, ToolCall, assistant, system, user
from streamfold.types import ImagePart
from tables import each_row

TOOL = Tool("ww", "d", {"type": "object", "properties": {}})
CALL = ToolCall("abcdefghi", "ww", {}, "{}")
RESULT = Message("tool", "18", tool_call_id="abcdefghi")
NEXT_CALL, NEXT_RESULT = ToolCall("abcdefghj", "ww", {}, "{}"), Message("tool", "18", tool_call_id="abcdefghj")


def thought(text: str = "because", **more: Any) -> Message:
    return Message("assistant", None, (CALL,), reasoning=text, **more)


def sent(spec: str, turns: list[Any], **config: Any) -> tuple[list[Any], list[str], dict[str, Any]]:
    """The reasoning of each turn as it is sent, the codes of the warnings, and the body."""
    preview = Provider.from_config(spec, **config).preview(turns, [TOOL])
    body = preview.json()
    names = ("reasoning_content", "reasoning", "reasoning_details")
    found = [{name: each[name] for name in names if name in each} for each in body["messages"]]
    return found, [warning.code for warning in preview.warnings], body


def test_an_open_loop_and_finished_turns() -> None:
    """Both calls of a loop have their reasoning; those of a finished turn lose it with a warning, or are kept."""
    second = Message("assistant", None, (NEXT_CALL,), reasoning="two")
    loop = [user("q"), thought("one"), RESULT, second, NEXT_RESULT]
    fields, codes, _ = sent("vllm:gpt-oss-120b", loop)
    assert fields == [{}, {"reasoning": "one"}, {}, {"reasoning": "two"}, {}]
    assert codes == []
    after = [*loop, assistant("18."), user("and now?")]
    fields, codes, _ = sent("vllm:gpt-oss-120b", after)
    assert fields == [{}] * 7
    assert codes == ["reasoning_dropped"]
    fields, codes, body = sent("zai:glm-5.3", after)
    assert fields[1] == {"reasoning_content": "one"}
    assert body["thinking"] == {"type": "enabled", "clear_thinking": False}
    assert codes == []
    assert "thinking" not in sent("zai:glm-5.3", loop)[2]  # there is no finished turn to keep
    third = Message("assistant", None, (ToolCall("abcdefghk", "ww", {}, "{}"),), reasoning="three")
    again = [*after, third, Message("tool", "18", tool_call_id="abcdefghk")]
    assert sent("vllm:gpt-oss-120b", again)[0] == [*[{}] * 7, {"reasoning": "three"}, {}]


def test_a_users_turn_behind_results_ends_no_loop() -> None:
    """A remark, or an image of a result that was moved there."""
    fields, _, _ = sent("vllm:m", [system("s"), user("q"), thought(), RESULT, user("be quick")])
    assert fields[2] == {"reasoning": "because"}
    image = Message("tool", [ImagePart(data=b"GIF89a", media_type="image/gif")], tool_call_id="abcdefghi")
    assert sent("vllm:m", [user("q"), thought(), image])[0][1] == {"reasoning": "because"}


def test_reasoning_of_another_endpoint_stays_there() -> None:
    """It is told; where a field is wanted in any case, it is empty."""
    foreign = [user("q"), thought(origin="chat https://elsewhere.test/v1"), RESULT]
    fields, codes, _ = sent("vllm:m", foreign)
    assert (fields[1], codes) == ({}, ["reasoning_dropped"])
    fields, codes, _ = sent("deepseek:deepseek-v4-pro", foreign)
    assert (fields[1], codes) == ({"reasoning_content": ""}, ["reasoning_dropped"])


@each_row(
    ("spec", "turn"),
    [
        ("cerebras:zai-glm-4.7", {"content": "<think>because</think>"}),
        ("cerebras:gpt-oss-120b", {"content": None, "reasoning": "because"}),
        ("groq:openai/gpt-oss-120b", {"content": None, "reasoning": "because"}),
        ("groq:llama-3.3-70b-versatile", {"content": None}),
        ("mistral:mistral-medium-3-5",
         {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "because"}]}]}),
        ("xai:grok-4.5", {"content": None}),
    ],
)  # fmt: skip
def test_the_place_that_each_endpoint_has_for_it(spec: str, turn: dict[str, Any]) -> None:
    """A member, a tag in the text, a part of the content, or none: then a warning."""
    _, codes, body = sent(spec, [user("q"), thought(), RESULT])
    message = body["messages"][1]
    assert {name: value for name, value in message.items() if name not in ("role", "tool_calls")} == turn
    assert codes == ([] if "because" in str(turn) else ["reasoning_dropped"])


def test_a_text_beside_the_reasoning() -> None:
    """The text of the turn is behind it; one that is to be continued stays a text."""
    turns = [user("q"), Message("assistant", "Let me see.", (CALL,), reasoning="because"), RESULT]
    assert sent("cerebras:zai-glm-4.7", turns)[2]["messages"][1]["content"] == "<think>because</think>Let me see."
    text = {"type": "text", "text": "Let me see."}
    assert sent("mistral:mistral-medium-3-5", turns)[2]["messages"][1]["content"][1] == text
    partial = [user("q"), Message("assistant", "Let me", reasoning="because", partial=True)]
    assert sent("mistral:mistral-medium-3-5", partial)[2]["messages"][1]["content"] == "Let me"
