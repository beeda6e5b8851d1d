"""Prompt caching as one word on every API: where marks go, that they survive, and what makes a cache miss."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import httpx
import pytest

from streamfold import ConfigError, Message, Provider, Tool, ToolCall, assistant, system, tool, tool_result, user
from streamfold.types import FilePart, ImagePart, TextPart
from tables import each_row

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16
EPHEMERAL = {"type": "ephemeral"}
TIME = Tool("get_time", "The time.", cache=True)
CALL = ToolCall("toolu_a", "get_time", {}, "{}")
DICTS: list[dict[str, Any]] = [
    {"role": "system", "content": [{"type": "text", "text": "Be brief.", "cache_control": EPHEMERAL}]},
    {"role": "user", "content": "Hi", "cache_control": {**EPHEMERAL, "ttl": "1h"}},
]


def get_time() -> str:
    return "noon"


def provider(api: str = "anthropic", **config: Any) -> Provider:
    return Provider.from_config({"adapter": api, "base_url": "http://127.0.0.1/v1", "model": "m", **config})


def sent(messages: Any, tools: Any = None, api: str = "anthropic", **options: Any) -> Any:
    return json.loads(provider(api).preview(messages, tools, **options).body)


def test_marks_of_every_kind() -> None:
    """On a part, on a message (its last block), on a result and on a tool."""
    talk = [
        system("Be brief.", cache=True),
        user(TextPart("This:", cache="1h"), ImagePart(data=PNG, media_type="image/png"), "that", cache="5m"),
        assistant(tool_calls=[CALL]),
        tool_result(CALL, "noon", cache=True),
    ]
    body = sent(talk, [replace(TIME, cache=False)])
    assert body["system"] == [{"type": "text", "text": "Be brief.", "cache_control": EPHEMERAL}]
    marks = [block.get("cache_control") for block in body["messages"][0]["content"]]
    assert marks == [{**EPHEMERAL, "ttl": "1h"}, None, {**EPHEMERAL, "ttl": "5m"}]
    assert body["messages"][2]["content"][0]["cache_control"] == EPHEMERAL
    assert sent("Hi", [TIME])["tools"][0]["cache_control"] == EPHEMERAL
    assert tool(get_time, cache="1h").cache == "1h"


def test_marks_on_images_and_files() -> None:
    """They are those of their blocks."""
    parts = ImagePart(url="https://x.test/a.png", cache=True), FilePart(url="https://x.test/a.pdf", cache=True)
    assert [block["cache_control"] for block in sent([user(*parts)])["messages"][0]["content"]] == [EPHEMERAL] * 2


def test_marks_in_dicts() -> None:
    """`cache_control` on a part, a message or a tool is the same mark."""
    given = {"type": "function", "function": {"name": "get_time"}, "cache_control": EPHEMERAL}
    body = sent(DICTS, [given])
    assert body["system"][0]["cache_control"] == body["tools"][0]["cache_control"] == EPHEMERAL
    assert body["messages"][0]["content"][0]["cache_control"] == {**EPHEMERAL, "ttl": "1h"}


def test_one_mark_for_text_and_calls() -> None:
    """The mark of an assistant message stands on its last block alone, also behind a text."""
    talk = [user("Hi"), replace(assistant("I look.", tool_calls=[CALL]), cache=True), tool_result(CALL, "noon")]
    assert ["cache_control" in block for block in sent(talk)["messages"][1]["content"]] == [False, True]


@each_row("api", ["chat", "responses", "kimi", "gemini"])
def test_other_apis(api: str) -> None:
    """Where caching is automatic a mark changes nothing that is sent, and is no warning."""
    marked = [system("Be brief.", cache=True), user(TextPart("Hi", cache=True), "there", cache=True)]
    plain = [system("Be brief."), user("Hi", "there")]
    found = provider(api).preview(marked, [TIME])
    assert found.body == provider(api).preview(plain, [replace(TIME, cache=False)]).body
    assert found.warnings == ()


def test_dicts_on_gemini() -> None:
    """Marks that were written for another API are no reason to refuse the request."""
    found = provider("gemini").preview(DICTS)
    assert (b"cache" in found.body, found.warnings) == (False, ())


def test_never_on_thinking() -> None:
    """The mark of a turn stands on its last block that may have one."""
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    said = {"type": "text", "text": "Hello."}
    turn = Message("assistant", "Hello.", extras={"blocks": [said, thought]}, cache=True)
    blocks = sent([user("Hi"), turn, user("Go on.")])["messages"][1]["content"]
    assert blocks == [{**said, "cache_control": EPHEMERAL}, thought]


def test_no_more_than_four() -> None:
    """The earliest of the conversation are left out first, with a warning that names them."""
    talk = [system("Be brief.", cache=True)]
    for _ in range(4):
        talk += [user("Hi", cache=True), assistant("Hello.")]
    talk.append(user("So?", cache=True))
    found = provider().preview(talk, [TIME])
    body = json.loads(found.body)
    assert json.dumps(body).count("cache_control") == 4
    assert "cache_control" in body["tools"][0]
    assert ["cache_control" in turn["content"][-1] for turn in body["messages"][::2]] == [
        False,
        False,
        False,
        True,
        True,
    ]
    (warning,) = found.warnings
    assert warning.code == "provider_data_dropped"
    assert "messages[1], messages[3], messages[5]" in warning.detail


def test_a_mark_left_out_takes_that_of_its_last_part_along() -> None:
    """A message and its last part have one mark, so neither is sent if it is one too many."""
    marked = [user("Well,", TextPart("hi", cache=True), cache=True), assistant("Hello.")]
    body = sent([*marked * 4, user("So?", cache=True)])
    assert json.dumps(body).count("cache_control") == 4
    assert "cache_control" not in json.dumps(body["messages"][0])


@pytest.mark.parametrize(
    "message",
    [
        user("Hi", cache=True),
        user(TextPart("Hi", cache="1h"), ImagePart(url="https://x.test/a.png", cache=True)),
        tool_result(CALL, "noon", cache="5m"),
    ],
)
def test_marks_survive_json(message: Message) -> None:
    """A message that was stored has its marks still."""
    assert Message.from_json(message.to_json()) == message


@pytest.mark.parametrize("make", [lambda: user("Hi", cache="2h"), lambda: TextPart("x", cache=1), lambda: sent(
    [{"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {"type": "forever"}}]}])])  # fmt: skip
def test_marks_that_mean_nothing(make: Any) -> None:
    """They are refused, with what is allowed."""
    with pytest.raises(ConfigError, match="cache"):
        make()


# --- why a cache misses -----------------------------------------------------------------------------------------------


@each_row(
    ("first", "second", "where"),
    [
        # a conversation that grows, whether the mark moves or not
        ([user("Hi", cache=True)], [user("Hi"), assistant("Hello."), user("So?", cache=True)], None),
        ([system("A", cache=True), user("Hi")], [system("A", cache=True), user("Other")], None),
        # another conversation
        ([system("A"), user("Hi", cache=True)], [system("A"), user("Other", cache=True)], None),
        # what makes a cache miss
        (
            [system("It is 10:01.", cache=True), user("Hi")],
            [system("It is 10:02.", cache=True), user("Hi")],
            "messages[0]",
        ),
        (
            [system("It is 10:01."), user("Hi", cache=True)],
            [system("It is 10:02."), user("Hi", cache=True)],
            "messages[0]",
        ),
        (
            [user("Hi"), assistant("Hello."), user("So?", cache=True)],
            [user("Hi"), assistant("Hello!"), user("So?", cache=True)],
            "messages[1]",
        ),
        ([user("Hi"), user("So?", cache=True)], [user("Hi", cache=True)], "messages[1] (left out)"),
    ],
)
async def test_a_prefix_that_changed(first: Any, second: Any, where: str | None) -> None:
    """The reply and the preview say what stands otherwise before the mark than in the last request."""
    answer = {"id": "1", "type": "message", "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn"}
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=answer))
    async with httpx.AsyncClient(transport=transport) as client:
        config = {"adapter": "anthropic", "base_url": "http://127.0.0.1/v1", "model": "m", "api_key": "k"}
        model = Provider.from_config(config, http_client=client)
        assert (await model.chat(first)).warnings == []
        shown = model.preview(second).warnings
        reply = await model.chat(second)
    assert tuple(reply.warnings) == shown
    assert [warning.code for warning in shown] == ([] if where is None else ["cache_prefix_changed"])
    assert where is None or shown[0].detail.startswith(f"{where} has changed since")


def test_tools_in_another_order() -> None:
    """They stand before everything else."""
    from streamfold.requests import PromptCacheMonitor, Request

    prefixes, other = PromptCacheMonitor(), Tool("other")
    prefixes.remember(Request.read("m", [user("Hi", cache=True)], [other, replace(TIME, cache=False)], "auto", {}))
    (warning,) = prefixes.changed(Request.read("m", [user("Hi", cache=True)], [TIME, other], "auto", {}))
    assert warning.detail.startswith("tools[0]")
