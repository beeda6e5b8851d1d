"""The conversation before it is sent: what a provider would refuse is an error with its place, and can be mended."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
import respx

from folding import DONE, fin, text
from streamfold import ConfigError, Message, Provider, ToolCall, assistant, system, tool_result, user
from streamfold.adapters import EncodingReport
from streamfold.adapters.chat import ChatAdapter, ChatQuirks
from streamfold.adapters.kimi import KimiAdapter, KimiQuirks
from streamfold.adapters.responses import ResponsesAdapter
from streamfold.requests.history import HistoryRules, check_history
from streamfold.requests.request import Request
from tables import each_row

A, B = ToolCall("a", "get_weather", {}, "{}"), ToolCall("b", "get_time", {}, "{}")
APIS = {
    "chat": ChatAdapter(),
    "responses": ResponsesAdapter(),
    "kimi": KimiAdapter(),
    "engine": KimiAdapter(KimiQuirks(hosted=False)),
}


def rules(api: str, messages: Any, **options: Any) -> HistoryRules:
    return APIS[api].history_rules(Request.read("kimi-k2.6", messages, None, "auto", options))  # type: ignore[attr-defined, no-any-return]


def refused(api: str, messages: Any, **options: Any) -> str | None:
    """Why the API refuses the conversation; None if it does not. A warning is `(doubtful)` or `(lost)`."""
    read = Request.read("m", messages, None, "auto", {}).messages
    try:
        _, found = check_history(read, rules(api, messages, **options))
    except ConfigError as error:
        return str(error)
    return "; ".join(f"({warning.code}) {warning.detail}" for warning in found) or None


def mended(api: str, messages: Any) -> tuple[list[Any], list[str]]:
    """The conversation as it is sent with `repair_history=True`, and what is said about it."""
    read = Request.read("m", messages, None, "auto", {}).messages
    sent, found = check_history(read, rules(api, messages), repair=True)
    assert refused(api, list(sent)) is None or api == "kimi"
    return list(sent), [f"{warning.code}: {warning.detail}" for warning in found]


TURN = assistant(tool_calls=[A, B], reasoning="Hm.")
RESULTS = [tool_result(A, "18"), tool_result(B, "noon")]


@each_row("api", APIS)
@each_row(
    "messages",
    [
        [system("Be brief."), user("Hi")],
        [user("Hi"), TURN, *RESULTS],
        [user("Hi"), TURN, *reversed(RESULTS), user("Thanks.")],
        [
            user("Hi"),
            TURN,
            *RESULTS,
            assistant("18 at noon."),
            user("And?"),
            replace(TURN, tool_calls=(B,)),
            RESULTS[1],
        ][:5],
    ],
)
def test_conversations_in_order(api: str, messages: Any) -> None:
    """Nothing is said of them, and nothing is changed by a repair."""
    assert refused(api, messages) is None
    assert mended(api, messages) == (messages, [])


# --- on every API ----------------------------------------------------------------------------------------------------

MEND = "; pass repair_history=True to have this repaired"


@each_row("api", APIS)
@each_row(
    ("messages", "wanted"),
    [
        ([user("Hi"), tool_result(A, "18")],
         "messages[1] answers the call 'a', which no turn before it has made" + MEND),
        ([tool_result(A, "18"), user("Hi"), assistant(tool_calls=[A], reasoning=""), tool_result(A, "18")],
         "messages[0] answers the call 'a', which no turn before it has made" + MEND),
        ([user("Hi"), Message("tool", "18")],
         "messages[1] has no tool_call_id, which says which call it answers" + MEND),
        ([user("Hi"), TURN, tool_result(A, "18")],
         "messages[1] calls 'get_time' (id 'b'), and no tool message answers it" + MEND),
        ([user("Hi"), TURN],
         "messages[1] calls 'get_weather' (id 'a'), and no tool message answers it; messages[1] calls 'get_time' (id"
         " 'b'), and no tool message answers it" + MEND),
        ([user("Hi"), TURN, *RESULTS, tool_result(A, "19")],
         "messages[4] answers the call 'a' again, after messages[2]" + MEND),
    ],
)  # fmt: skip
def test_what_every_api_refuses(api: str, messages: Any, wanted: str) -> None:
    """Calls and results go in pairs."""
    assert refused(api, messages) == wanted


@each_row("api", APIS)
def test_a_result_without_a_call_is_left_out(api: str) -> None:
    assert mended(api, [user("Hi"), tool_result(A, "18"), user("So?")]) == (
        [user("Hi"), user("So?")],
        ["history_repaired: messages[1] answers the call 'a', which no turn before it has made: it was left out"],
    )


@each_row("api", APIS)
def test_a_call_without_a_result_gets_one_that_says_so(api: str) -> None:
    """As an error, so that the model does not take it for an answer."""
    sent, said = mended(api, [user("Hi"), TURN, tool_result(B, "noon"), user("So?")])
    none = tool_result(A, "this call was not answered", error=True)
    results = [none, tool_result(B, "noon")]
    assert sent == [user("Hi"), TURN, *results, user("So?")]
    assert said == [
        (
            "history_repaired: messages[1] calls 'get_weather' (id 'a'), and no tool message answers it: a result was"
            " added that says: this call was not answered"
        )
    ]


def test_dicts_are_read_too() -> None:
    """In the spelling of Chat Completions, and as items of the Responses API."""
    calls = [{"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}]
    turn = {"role": "assistant", "content": None, "tool_calls": calls}
    assert refused("chat", [user("Hi"), turn, {"role": "tool", "tool_call_id": "a", "content": "18"}]) is None
    assert refused("chat", [user("Hi"), turn]) == (
        "messages[1] calls 'get_weather' (id 'a'), and no tool message answers it" + MEND
    )
    item = {"type": "function_call", "call_id": "a", "name": "get_weather", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "a", "output": "18"}
    assert refused("responses", [user("Hi"), item, result]) is None
    assert refused("responses", [user("Hi"), result]) == (
        "messages[1] answers the call 'a', which no turn before it has made" + MEND
    )
    assert mended("responses", [user("Hi"), item])[0] == [
        user("Hi"), assistant(tool_calls=[A]), tool_result(A, "this call was not answered", error=True)
    ]  # fmt: skip


def test_custom_calls() -> None:
    """A custom tool's input is text, and its result is an item of another type; both OpenAI APIs have them."""
    item = {"type": "custom_tool_call", "call_id": "a", "name": "grep", "input": "x"}
    sent, _ = mended("responses", [user("Hi"), item])
    made = APIS["responses"].encode(Request.read("m", sent, None, "auto", {}), EncodingReport())["input"]
    assert made[1:] == [
        item, {"type": "custom_tool_call_output", "call_id": "a", "output": "Error: this call was not answered"}
    ]  # fmt: skip
    entry = {"id": "a", "type": "custom", "custom": {"name": "grep", "input": "x"}}
    assert refused("chat", [user("Hi"), {"role": "assistant", "tool_calls": [entry]}]) == (
        "messages[1] calls 'grep' (id 'a'), and no tool message answers it" + MEND
    )


# --- on some APIs only -----------------------------------------------------------------------------------------------


LATE = [user("Hi"), assistant(tool_calls=[A], reasoning=""), user("Well?"), tool_result(A, "18")]


@pytest.mark.parametrize("api", ["chat", "kimi", "engine"])
def test_results_follow_their_turn(api: str) -> None:
    """In a chat nothing stands between them; moved, nothing is lost."""
    why = "messages[3] answers the call 'a' of messages[1], and messages[2] is between them"
    assert refused(api, LATE) == why + MEND
    assert mended(api, LATE) == ([LATE[0], LATE[1], LATE[3], LATE[2]], [f"history_repaired: {why}: it was moved"])


def test_results_may_come_later_in_a_list_of_items() -> None:
    """In the Responses API the id alone says what belongs together."""
    assert refused("responses", LATE) is None


TWICE = [
    user("Hi"), assistant(tool_calls=[A, replace(A, name="get_time")], reasoning=""),
    tool_result(A, "18"), tool_result(A, "noon"),
]  # fmt: skip


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_an_id_twice_in_one_turn(api: str) -> None:
    """Fresh ids for the later call and its result, which come in the calls' order."""
    why = "messages[1] has a call with the id 'a', which another call of it has too"
    assert refused(api, TWICE) == why + MEND
    sent, said = mended(api, TWICE)
    assert [call.id for call in sent[1].tool_calls] == ["a", "call_1_1"]
    assert [(result.tool_call_id, result.content) for result in sent[2:]] == [("a", "18"), ("call_1_1", "noon")]
    assert said == [f"history_repaired: {why}: it was given a new one"]
    assert TWICE[1].tool_calls[1].id == "a"


def test_kimi_numbers_ids_anew_in_any_case() -> None:
    assert refused("kimi", TWICE) is None


AGAIN = [
    user("Hi"), assistant(tool_calls=[A], reasoning=""), tool_result(A, "18"),
    assistant(tool_calls=[A], reasoning=""), tool_result(A, "19"),
]  # fmt: skip


def test_an_id_again_in_a_later_turn() -> None:
    """Local servers count from 0 in each turn, which strict ones refuse:
    https://github.com/agno-agi/agno/issues/5116."""
    why = "messages[3] has a call with the id 'a', which another call of messages[1] has too"
    assert refused("chat", AGAIN) == f"(history_mismatch) {why}"
    assert refused("responses", AGAIN) == why + MEND
    assert refused("kimi", AGAIN) is None
    for api in ("chat", "responses"):
        sent, said = mended(api, AGAIN)
        assert [message.tool_call_id for message in sent if message.role == "tool"] == ["a", "call_3_0"]
        assert [call.id for call in sent[3].tool_calls] == ["call_3_0"]
        assert said == [f"history_repaired: {why}: it was given a new one"]


def test_fresh_ids_in_dicts() -> None:
    """The copy has them, and the caller's dicts do not."""
    entry = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": "a", "content": "18"}
    messages = [user("Hi"), {"role": "assistant", "tool_calls": [entry, {**entry}]}, result, {**result}]
    before = json.dumps(messages[1:])
    sent, _ = mended("chat", messages)
    assert [call.id for call in sent[1].tool_calls] == ["a", "call_1_1"]
    assert [message.tool_call_id for message in sent[2:]] == ["a", "call_1_1"]
    assert json.dumps(messages[1:]) == before
    item = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "a", "output": "18"}
    sent, _ = mended("responses", [item, output, item, output])
    body = APIS["responses"].encode(Request.read("m", sent, None, "auto", {}), EncodingReport())
    assert [made["call_id"] for made in body["input"]] == ["a", "a", "call_2_0", "call_2_0"]


def test_fresh_ids_in_the_items_of_an_answer() -> None:
    """Its reasoning goes back with them: the items are the message still."""
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    item = {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "get_weather", "arguments": "{}"}
    turn = Message("assistant", tool_calls=(A,), extras={"output": [reasoning, item]})
    sent, _ = mended("responses", [user("Hi"), turn, RESULTS[0], turn, RESULTS[0]])
    body = APIS["responses"].encode(Request.read("m", sent, None, "auto", {}), EncodingReport())
    assert body["input"][4:6] == [reasoning, {**item, "call_id": "call_3_0"}]
    assert turn.extras["output"][1]["call_id"] == "a"


EMPTY = [user("Hi"), assistant(), user("Hello?")]


def test_empty_turns() -> None:
    """A null text without calls is refused by every chat, an empty one by Kimi; the Responses API never sees it."""
    why = "messages[1] is an assistant's turn with neither text nor calls"
    blank = [user("Hi"), assistant(""), user("Hello?")]
    assert refused("chat", EMPTY) == refused("kimi", EMPTY) == refused("kimi", blank) == why + MEND
    assert refused("chat", blank) == f"(history_mismatch) {why}"
    searched = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}  # of Claude's, and only that
    assert (
        refused("kimi", [user("Hi"), Message("assistant", "", extras={"blocks": [searched]}), user("Hello?")])
        == why + MEND
    )
    bare = [user("Hi"), Message("assistant", [{"type": "text", "text": ""}])]
    assert refused("kimi", bare) == why + MEND
    assert refused("responses", EMPTY) is None
    assert mended("chat", EMPTY) == ([EMPTY[0], EMPTY[2]], [f"history_repaired: {why}: it was left out"])
    assert refused("kimi", [user("A limerick."), assistant("", partial=True)]) is None
    assert refused("chat", [user("Hi"), {"role": "assistant", "content": None, "audio": {"id": "a"}}]) is None


REFUSALS: list[Any] = [
    Message("assistant", refusal="I can't help."),
    Message("assistant", "", refusal="I can't help."),
    Message("assistant", "Well.", refusal="I can't help."),
    Message("assistant", ["Well.", {"type": "refusal", "refusal": "I can't help."}]),
    {"role": "assistant", "content": None, "refusal": "I can't help."},
    {"role": "assistant", "content": [{"type": "refusal", "refusal": "I can't help."}]},
]
ENDPOINTS = {  # whether it has a place for a refusal
    "openai:gpt-4.1-mini": True,
    "openai-responses:gpt-5.4": True,
    "anthropic:claude-sonnet-4-5": False,
    "gemini:gemini-2.5-flash": False,
    "kimi:kimi-k2.6": False,
    "mistral:mistral-large-latest": False,
    "vllm:qwen3": False,
}


@each_row("name", ENDPOINTS)
@each_row("turn", REFUSALS)
def test_a_refusal_is_sent_to_every_endpoint(name: str, turn: Any) -> None:
    """The model sees that it refused: in the API's own place, else as text, with a warning."""
    preview = Provider.from_config(name).preview([user("Hi"), turn, user("Why?")])
    assert preview.body.decode().count("I can't help.") == 1
    told = [warning.detail for warning in preview.warnings if warning.code == "history_repaired"]
    as_text = "messages[1] has a refusal, for which this provider has no place: it was sent as text"
    assert told == ([] if ENDPOINTS[name] else [as_text])
    if not ENDPOINTS[name]:
        assert b'"refusal"' not in preview.body


NOTHING: list[Any] = [
    user(""), Message("user", None), Message("user", []), user("", ""), Message("system", ""), Message("developer"),
    {"role": "user", "content": None}, {"role": "user", "content": []}, {"role": "user"},
    {"role": "user", "content": [{"type": "text", "text": ""}]},
]  # fmt: skip


@each_row("api", APIS)
@each_row("nothing", NOTHING, ids=repr)
def test_a_turn_without_content_is_refused(api: str, nothing: Any) -> None:
    """A user or a system that says nothing is a mistake of the application on every API; a repair leaves it out."""
    found = refused(api, [user("Hi"), nothing])
    assert found is not None
    assert "has no content" in found or "does not know" in found
    if getattr(nothing, "role", "user") != "developer":
        assert mended(api, [user("Hi"), nothing])[0] == [user("Hi")]
        if getattr(nothing, "role", "user") == "user":  # something has to be asked
            assert mended(api, [nothing])[0] == [user("Continue.")]
            assert mended(api, [system("Be brief."), nothing])[0] == [system("Be brief."), user("Continue.")]
        else:
            with pytest.raises(ConfigError, match="nothing is left of the conversation"):
                mended(api, [nothing])


def test_empty_turns_by_quirk() -> None:
    """A server that accepts turns without content can be configured so; results of tools may always be empty."""
    request = Request.read("m", [system(""), user("")], None, "auto", {})
    body = ChatAdapter(ChatQuirks(empty_turns=True)).prepare(request).body
    assert b'"messages":[{"role":"system","content":""},{"role":"user","content":""}]' in body
    assert refused("engine", [user("Hi"), assistant(tool_calls=[A]), tool_result(A, "")]) is None


@each_row("api", APIS)
def test_the_check_is_linear(api: str) -> None:
    """A turn with thousands of calls, and thousands of results without a call, are checked in linear time."""

    def steps(count: int) -> int:
        made = [ToolCall(f"c{number}", "get_weather", {}, "{}") for number in range(count)]
        turn = [user("x"), assistant(tool_calls=made), *(tool_result(call, "x") for call in made)]
        orphans = [user("x"), *(tool_result(call, "x") for call in made)]
        seen = 0

        def count_line(*_: Any) -> Any:
            nonlocal seen
            seen += 1
            return count_line

        before = sys.gettrace()
        sys.settrace(count_line)
        try:
            APIS[api].prepare(Request.read("kimi-k2", turn, None, "auto", {}))
            with suppress(ConfigError):
                APIS[api].prepare(Request.read("kimi-k2", orphans, None, "auto", {}))
        finally:
            sys.settrace(before)
        return seen

    assert steps(400) < 2.5 * steps(200)


def test_roles() -> None:
    """Kimi knows no developer, and only the oldest chats a function; a system message says the same, and is sent."""
    developer = [Message("developer", "Be brief."), user("Hi")]
    why = "messages[0] has the role 'developer', which this provider does not know"
    assert refused("kimi", developer) == f"(history_repaired) {why}: it was sent as a system message"
    assert [refused(api, developer) for api in ("chat", "responses", "engine")] == [None] * 3
    assert mended("kimi", developer) == (
        [system("Be brief."), user("Hi")], [f"history_repaired: {why}: it was sent as a system message"]
    )  # fmt: skip
    function = [user("Hi"), {"role": "function", "name": "f", "content": "18"}]
    why = "messages[1] has the role 'function', which this provider does not know"
    assert refused("responses", function) == refused("kimi", function) == why
    assert refused("chat", function) is None


def test_some_can_be_mended_and_some_not() -> None:
    """All reasons come at once; a repair is offered only where it is enough."""
    messages = [{"role": "function", "name": "f", "content": "18"}, tool_result(A, "18"), user("Hi")]
    assert refused("responses", messages) == (
        "messages[0] has the role 'function', which this provider does not know; messages[1] answers the call 'a',"
        " which no turn before it has made"
    )


def test_lost_reasoning() -> None:
    """A thinking Kimi wants it back, if only empty, which is what is sent."""
    turns = [user("Hi"), assistant(tool_calls=[A]), RESULTS[0], assistant(tool_calls=[B]), RESULTS[1]]
    why = (
        "(lost_reasoning) messages[1], messages[3]: calls without the reasoning before them, which the model wants"
        " back; an empty one was sent"
    )
    assert refused("kimi", turns) == why
    assert refused("kimi", turns, reasoning_effort="none") is None
    assert refused("engine", turns) is None
    assert refused("chat", turns) is None
    kept = {"role": "assistant", "reasoning_content": "", "tool_calls": [{"id": "a", "function": {"name": "f"}}]}
    assert refused("kimi", [user("Hi"), kept, RESULTS[0]]) is None


def test_calls_that_the_provider_has_kept() -> None:
    """Results may answer calls of a stored response."""
    messages = [tool_result(A, "18")]
    assert refused("responses", messages) is not None
    assert refused("responses", messages, extra_body={"previous_response_id": "resp_1"}) is None
    assert refused("responses", messages, extra_body={"conversation": "conv_1"}) is None
    assert refused("responses", [{"type": "item_reference", "id": "fc_1"}, *messages]) is None


def test_what_is_in_the_wrong_order_comes_into_the_calls_order() -> None:
    """Together with the result that is missing."""
    messages = [user("Hi"), TURN, user("Well?"), tool_result(B, "noon"), user("So?")]
    sent, said = mended("chat", messages)
    none = tool_result(A, "this call was not answered", error=True)
    assert sent == [user("Hi"), TURN, none, tool_result(B, "noon"), user("Well?"), user("So?")]
    assert [line.rpartition(": ")[2] for line in said] == ["this call was not answered", "it was moved"]


# --- through a provider -----------------------------------------------------------------------------------------------

SPEC = {"base_url": "http://test/v1", "model": "m"}


@pytest.mark.asyncio
@respx.mock
async def test_mistakes_raise_at_the_call() -> None:
    """Before anything is sent, and before the stream is read."""
    route = respx.post("http://test/v1/chat/completions").respond(content=text("Hi") + fin("stop") + DONE)
    async with Provider.from_config(SPEC) as provider:
        with pytest.raises(ConfigError, match=r"messages\[1\] answers the call 'a'"):
            provider.chat_stream([user("Hi"), tool_result(A, "18")])
        assert not route.called
        reply = await provider.chat([user("Hi"), tool_result(A, "18")], repair_history=True)
    assert [(warning.code, warning.detail) for warning in reply.warnings] == [
        (
            "history_repaired",
            "messages[1] answers the call 'a', which no turn before it has made: it was left out",
        )
    ]
    assert json.loads(route.calls.last.request.content)["messages"] == [{"role": "user", "content": "Hi"}]


@pytest.mark.asyncio
@respx.mock
async def test_a_reply_goes_straight_back() -> None:
    """And knows where it came from, which is no secret."""
    respx.post("http://me:pass@test/v1/chat/completions").respond(content=text("Hi") + fin("stop") + DONE)
    async with Provider.from_config(SPEC, base_url="http://me:pass@test/v1") as provider:
        reply = await provider.chat("Hi")
        assert reply.message == assistant("Hi")
        assert reply.message.origin == "chat http://***@test/v1"
        assert (await provider.chat([user("Hi"), reply.message, user("Bye")])).warnings == []
