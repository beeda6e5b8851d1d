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
from streamfold.requests.history import HistoryRules, fit_history
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
        fitted = fit_history(read, rules(api, messages, **options))
    except ConfigError as error:
        return str(error)
    return "; ".join(f"({warning.code}) {warning.detail}" for warning in fitted.warnings) or None


def mended(api: str, messages: Any) -> tuple[list[Any], list[str]]:
    """The conversation as it is sent with `repair_history=True`, and what is said about it."""
    read = Request.read("m", messages, None, "auto", {}).messages
    fitted = fit_history(read, rules(api, messages), repair=True)
    assert refused(api, list(fitted.messages)) is None or api == "kimi"
    return list(fitted.messages), [f"{warning.code}: {warning.detail}" for warning in fitted.warnings]


TURN = assistant(tool_calls=[A, B], reasoning="Hm.")
RESULTS = [tool_result(A, "18"), tool_result(B, "noon")]


@each_row("api", APIS)
@each_row(
    "messages",
    [
        [system("Be brief."), user("Hi")],
        [user("Hi"), TURN, *RESULTS],
        [user("Hi"), TURN, *RESULTS, user("Thanks.")],
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

MEND = "; pass repair_history=True to repair the conversation"


@each_row("api", APIS)
@each_row(
    ("messages", "wanted"),
    [
        ([user("Hi"), tool_result(A, "18")],
         "messages[1] answers the call 'a', which no earlier message has" + MEND),
        ([tool_result(A, "18"), user("Hi"), assistant(tool_calls=[A], reasoning=""), tool_result(A, "18")],
         "messages[0] answers the call 'a', which no earlier message has" + MEND),
        ([user("Hi"), Message("tool", "18")],
         "messages[1] has no tool_call_id: add the id of the tool call" + MEND),
        ([user("Hi"), TURN, tool_result(A, "18")],
         "messages[1] calls 'get_time' (id 'b'), but no tool message has the result" + MEND),
        ([user("Hi"), TURN],
         "messages[1] calls 'get_weather' (id 'a'), but no tool message has the result; messages[1] calls 'get_time'"
         " (id 'b'), but no tool message has the result" + MEND),
        ([user("Hi"), TURN, *RESULTS, tool_result(A, "19")],
         "messages[4] answers the call 'a' again, with another result than messages[2]" + MEND),
    ],
)  # fmt: skip
def test_what_every_api_refuses(api: str, messages: Any, wanted: str) -> None:
    """Calls and results go in pairs."""
    assert refused(api, messages) == wanted


@each_row("api", APIS)
def test_a_result_without_a_call_is_left_out(api: str) -> None:
    assert mended(api, [user("Hi"), tool_result(A, "18"), user("So?")]) == (
        [user("Hi"), user("So?")],
        ["history_repaired: messages[1] answers the call 'a', which no earlier message has: it was left out"],
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
            "history_repaired: messages[1] calls 'get_weather' (id 'a'), but no tool message has the result: a result"
            " was added with the text: this call was not answered"
        )
    ]


def test_dicts_are_read_too() -> None:
    """In the spelling of Chat Completions, and as items of the Responses API."""
    calls = [{"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}]
    turn = {"role": "assistant", "content": None, "tool_calls": calls}
    assert refused("chat", [user("Hi"), turn, {"role": "tool", "tool_call_id": "a", "content": "18"}]) is None
    assert refused("chat", [user("Hi"), turn]) == (
        "messages[1] calls 'get_weather' (id 'a'), but no tool message has the result" + MEND
    )
    item = {"type": "function_call", "call_id": "a", "name": "get_weather", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "a", "output": "18"}
    assert refused("responses", [user("Hi"), item, result]) is None
    assert refused("responses", [user("Hi"), result]) == (
        "messages[1] answers the call 'a', which no earlier message has" + MEND
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
        "messages[1] calls 'grep' (id 'a'), but no tool message has the result" + MEND
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
    why = "messages[1] has a tool call with the id 'a', and so has another tool call of it"
    assert refused(api, TWICE) == why + MEND
    sent, said = mended(api, TWICE)
    assert [call.id for call in sent[1].tool_calls] == ["a", "call_1_1"]
    assert [(result.tool_call_id, result.content) for result in sent[2:]] == [("a", "18"), ("call_1_1", "noon")]
    assert said == [f"history_repaired: {why}: the repeated id was replaced"]
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
    why = "messages[3] has a tool call with the id 'a', and so has another tool call of messages[1]"
    assert refused("chat", AGAIN) == f"(history_mismatch) {why}"
    renamed = "tool call ids were changed to a format that the provider accepts: 'a' as 'call_3_0'"
    assert refused("responses", AGAIN) == f"(ids_renumbered) {renamed}"
    assert refused("kimi", AGAIN) is None
    said = {"chat": f"history_repaired: {why}: the repeated id was replaced", "responses": f"ids_renumbered: {renamed}"}
    for api in ("chat", "responses"):
        sent, told = mended(api, AGAIN)
        assert [message.tool_call_id for message in sent if message.role == "tool"] == ["a", "call_3_0"]
        assert [call.id for call in sent[3].tool_calls] == ["call_3_0"]
        assert told == [said[api]]


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
LEFT_OUT = "(history_repaired) messages[1]: an assistant's turn with neither text nor calls was left out"


@each_row("api", APIS)
def test_empty_turns(api: str) -> None:
    """They are left out: many servers refuse them. One that is to be continued is no empty turn."""
    searched = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}  # of Claude's, and only that
    foreign = Message("assistant", "", extras={"blocks": [searched]}, origin="anthropic https://test")
    turns = [assistant(), assistant(""), Message("assistant", [{"type": "text", "text": ""}])]
    for turn in turns if api == "responses" else [*turns, foreign]:
        assert refused(api, [user("Hi"), turn, user("Hello?")]) == LEFT_OUT
    assert [message.role for message in mended(api, EMPTY)[0]] == ["user", "user"]
    if api != "responses":
        assert refused(api, [user("A limerick."), assistant("", partial=True)]) is None


def test_an_empty_turn_with_members() -> None:
    """What the caller wrote for this server is content too."""
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
    as_text = "messages[1]: a refusal was sent as text, because this provider has no field for refusals"
    assert told == ([] if ENDPOINTS[name] else [as_text])
    if not ENDPOINTS[name]:
        assert b'"refusal"' not in preview.body


NOTHING: list[Any] = [
    user(""), Message("user", None), Message("user", []), user("", ""), Message("system", ""),
    {"role": "user", "content": None}, {"role": "user", "content": []}, {"role": "user"},
    {"role": "user", "content": [{"type": "text", "text": ""}]},
]  # fmt: skip


@each_row("api", APIS)
@each_row("nothing", NOTHING, ids=repr)
def test_a_message_without_content_is_left_out(api: str, nothing: Any) -> None:
    """A user or a system that says nothing is left out, with a warning; something must be left that is asked."""
    role = getattr(nothing, "role", "user")
    left_out = f"an empty {role} message was left out"
    assert refused(api, [user("Hi"), nothing]) == f"(history_repaired) messages[1]: {left_out}"
    assert mended(api, [user("Hi"), nothing])[0] == [user("Hi")]
    if role == "user":
        assert mended(api, [nothing])[0] == [user("Continue.")]
        assert mended(api, [system("Be brief."), nothing])[0] == [system("Be brief."), user("Continue.")]
        assert mended(api, [user("Hi"), assistant("Yes?"), nothing])[0][2] == user("Continue.")
    else:
        with pytest.raises(ConfigError, match="all messages are empty"):
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
    why = "messages[0]: the role 'developer', which this provider doesn't support, was sent as 'system'"
    assert refused("kimi", developer) == f"(history_repaired) {why}"
    assert [refused(api, developer) for api in ("chat", "responses", "engine")] == [None] * 3
    assert mended("kimi", developer) == (
        [system("Be brief."), user("Hi")], [f"history_repaired: {why}"]
    )  # fmt: skip
    function = [user("Hi"), {"role": "function", "name": "f", "content": "18"}]
    why = "messages[1] has the role 'function', which this provider doesn't support"
    assert refused("responses", function) == refused("kimi", function) == why
    assert refused("chat", function) is None


def test_some_can_be_mended_and_some_not() -> None:
    """All reasons come at once; a repair is offered only where it is enough."""
    messages = [{"role": "function", "name": "f", "content": "18"}, tool_result(A, "18"), user("Hi")]
    assert refused("responses", messages) == (
        "messages[0] has the role 'function', which this provider doesn't support; messages[1] answers the call 'a',"
        " which no earlier message has"
    )


def test_lost_reasoning() -> None:
    """A thinking Kimi wants it back, if only empty, which is what is sent."""
    turns = [user("Hi"), assistant(tool_calls=[A]), RESULTS[0], assistant(tool_calls=[B]), RESULTS[1]]
    why = (
        "(lost_reasoning) messages[1], messages[3]: the reasoning before these tool calls is missing, which the"
        " model requires; empty reasoning was sent"
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


# --- what endpoints demand -------------------------------------------------------------------------------------------

C = ToolCall("call_with_a_long_id", "get_weather", {}, "{}")
CALLED = [user("Hi"), assistant(tool_calls=[C]), tool_result(C, "18")]
DEMANDS: dict[str, tuple[dict[str, Any], list[Any], list[Any]]] = {
    "one system message": (
        {"system": "first"},
        [system("Be brief."), system("Be kind."), user("Hi"), assistant("Yes?"), system("Be quick."), user("Go.")],
        [system("Be brief.\n\nBe kind."), user("Hi"), assistant("Yes?"), user("Be quick."), user("Go.")],
    ),
    "roles alternate": (
        {"joined": ("user", "assistant"), "begins_with_user": True},
        [system("Be brief."), assistant("Yes?"), assistant("Well?"), user("Hi"), user("there")],
        [system("Be brief."), user("Continue."), assistant("Yes?\n\nWell?"), user("Hi\n\nthere")],
    ),
    "a user last": ({"ends_with_user": True}, [user("Hi"), assistant("Yes?")],
                    [user("Hi"), assistant("Yes?"), user("Continue.")]),
    "some user": ({"needs_user": True}, [assistant("Yes?")], [user("Continue."), assistant("Yes?")]),
    "no user behind a result": ({"user_behind_result": False}, [*CALLED, user("So?")],
                                [*CALLED, assistant("..."), user("So?")]),
    "one call in a turn": (
        {"single_call": True},
        [user("Hi"), assistant("Well.", tool_calls=[A, B]), tool_result(A, "18"), tool_result(B, "noon")],
        [user("Hi"), assistant("Well.", tool_calls=[A]), tool_result(A, "18"),
         assistant(tool_calls=[B]), tool_result(B, "noon")],
    ),
    "strings": ({"strings": ("user",)}, [user("a", "b")], [user("a\nb")]),
    "names": ({"plain_names": True}, [Message("user", "Hi", name="Anna Smith")],
              [Message("user", "Hi", name="Anna_Smith")]),
    "blanks": ({"blanks": "space_refused"}, [user("a", " "), assistant(" "), user("b")],
               [Message("user", ["a"]), user("b")]),
    "results with text": ({"blank_results": False}, [*CALLED[:2], tool_result(C, "")],
                          [*CALLED[:2], tool_result(C, "(no output)")]),
    "nine letters and digits": (
        {"ids": "nine"},
        CALLED,
        [user("Hi"), assistant(tool_calls=[replace(C, id="XZWrgtSsI")]), tool_result(replace(C, id="XZWrgtSsI"), "18")],
    ),
    "no long ids": (
        {"id_length": 15},
        CALLED,
        [user("Hi"), assistant(tool_calls=[replace(C, id="call_w_ffd1996f")]),
         tool_result(replace(C, id="call_w_ffd1996f"), "18")],
    ),
}  # fmt: skip


@each_row("name", DEMANDS)
def test_a_history_is_fitted_to_what_an_endpoint_demands(name: str) -> None:
    """It is changed as little as it demands, with a warning, and a second time nothing is left to change."""
    demanded, given, wanted = DEMANDS[name]
    rules = HistoryRules().over(demanded)
    messages = Request.read("m", given, None, "auto", {}).messages
    fitted = fit_history(messages, rules)
    assert list(fitted.messages) == wanted
    assert fitted.warnings
    assert fit_history(fitted.messages, rules).warnings == ()
    assert fit_history(messages, HistoryRules()).messages == tuple(given) or name == "blanks"


def test_arguments_that_are_no_object() -> None:
    """They go as an object that holds the model's text, where the server parses them."""
    broken = ToolCall("a", "f", {"_raw": "{", "_error": "invalid_json"}, "{")
    history = (user("Hi"), assistant(tool_calls=[broken]), tool_result(broken, "No."))
    (call,) = fit_history(history, HistoryRules(object_arguments=True)).messages[1].tool_calls
    assert (call.arguments, call.raw_arguments) == ({"_raw": "{"}, '{"_raw": "{"}')


def test_equal_results_of_a_call_are_one() -> None:
    """Different ones are an error."""
    assert refused("chat", [*CALLED, CALLED[2]]) == (
        "(history_repaired) messages[3]: a duplicate of the result in messages[2] was left out"
    )
    assert "with another result than" in (refused("chat", [*CALLED, tool_result(C, "19")]) or "")


def test_ids_that_are_missing_are_made() -> None:
    """For a call and its result alike."""
    call = replace(A, id="")
    sent, _ = mended("chat", [user("Hi"), assistant(tool_calls=[call]), tool_result(call, "18")])
    assert (sent[1].tool_calls[0].id, sent[2].tool_call_id) == ("call_1_0", "call_1_0")


def test_positions_are_those_of_the_callers_list() -> None:
    """Whatever was left out, added or joined before them."""
    fitted = fit_history((system("a"), system("b"), assistant(""), user("Hi"), *CALLED[1:], user("So?")),
                         HistoryRules(system="first", user_behind_result=False))  # fmt: skip
    assert fitted.positions == (0, 3, 4, 5, 6, 6)


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
            "messages[1] answers the call 'a', which no earlier message has: it was left out",
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
