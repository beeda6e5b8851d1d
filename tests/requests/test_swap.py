"""`swap-check`: nothing of a conversation is lost at any provider without a word, and every loss is seen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import scale
from conversation_strategies import conversation
from streamfold import Message, ToolCall, assistant, image, tool_result, user
from streamfold.adapters import EncodingReport
from streamfold.adapters.anthropic import AnthropicAdapter
from streamfold.adapters.chat import ChatAdapter, ChatQuirks
from streamfold.adapters.gemini import GeminiAdapter
from streamfold.adapters.kimi import KimiAdapter
from streamfold.adapters.responses import ResponsesAdapter
from streamfold.config.catalogue import provider_files
from streamfold.config.file import read_profile
from streamfold.config.profile import Profile
from streamfold.requests.request import Request
from swap_oracle import Conversation, Outcome, check_swap
from tables import each_row

PNG = b"\x89PNG\r\n\x1a\n"
# Models that the rules for requests know, and one for all who have no such rules.
MODELS = {
    "kimi": "kimi-k2.6",
    "kimi-cn": "kimi-k3",
    "kimi-vllm": "moonshotai/Kimi-K2.6",
    "kimi-sglang": "moonshotai/Kimi-K2.5",
}
SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
CALLS = (
    ToolCall("call_1", "look_up", {"x": 1}, '{ "x": 1}'),
    ToolCall("call_2", "look_up", {"x": 2}, '{"x":2}'),
)
RICH = Conversation(
    (
        Message("system", "Be brief."),
        user("What is this?", image(PNG, detail="low")),
        assistant("Let me look.", tool_calls=CALLS, reasoning="An image it is."),
        tool_result(CALLS[0], "the first"),
        tool_result(CALLS[1], "the second"),
        user("And now?"),
    ),
    ({"type": "function", "function": {"name": "look_up", "description": "Looks.", "parameters": SCHEMA}},),
    "required",
    {"temperature": 0.5, "max_output_tokens": 100, "extra_body": {"user": "u1"}},
)


# A warning about a detail of an image names its message, and would speak of everything else in it too.
PLAIN = replace(RICH, messages=(RICH.messages[0], user("What is this?", image(PNG)), *RICH.messages[2:]))


def profile(name: str) -> Profile:
    known = read_profile(name)
    return known if known.model else read_profile(name, {"model": MODELS.get(name, "some-model")})


def states(outcome: Outcome) -> dict[str, str]:
    """What became of each fact that is not kept."""
    return {
        made.fact.path: f"{made.state}: {made.how}" if made.how else made.state
        for made in outcome.findings
        if made.state != "kept"
    }


def silent(outcome: Outcome) -> list[str]:
    return [f"{made.fact.path} {made.fact.shown} {made.state} {made.how}" for made in outcome.findings if made.silent]


# --- no provider loses anything without a word ------------------------------------------------------------------------


@each_row("name", provider_files())
def test_nothing_is_lost_without_a_warning(name: str) -> None:
    """Conversations made by chance, in our own form and as dicts, at every provider of the catalogue."""
    sent = 0
    first = list(provider_files()).index(name)  # each provider has conversations of its own
    for number in range(first, first + scale.pick(60, 6)):
        made = conversation(number, plain=number % 2 == 0)
        messages = made["messages"]
        if number % 3 == 0:  # as somebody has them who has always used Chat Completions
            request = Request.read("m", messages, None, "auto", {})
            messages = ChatAdapter(ChatQuirks(reasoning_field="reasoning_content")).encode(request, EncodingReport())[
                "messages"
            ]
        asked = Conversation(tuple(messages), tuple(made["tools"]), made["tool_choice"], made["options"])
        outcome = check_swap(profile(name), asked)
        assert silent(outcome) == [], (number, outcome.warnings)
        sent += outcome.error is None
    assert sent >= scale.pick(25, 1)  # the others are refused, which is no loss


@each_row("name", provider_files())
def test_nothing_is_lost_in_a_repair(name: str) -> None:
    """A result too many, a call too few, an empty turn: what is mended is told."""
    messages = (user("Hi."), RICH.messages[2], tool_result(CALLS[0], "the first"), assistant(""), user("Well?"))
    outcome = check_swap(profile(name), Conversation(messages, RICH.tools, "auto", {"repair_history": True}))
    assert (outcome.error, silent(outcome)) == (None, [])
    assert "history_repaired" in [warning.code for warning in outcome.warnings]


# --- what the check says ----------------------------------------------------------------------------------------------


def test_what_becomes_of_a_conversation() -> None:
    """Each API keeps what it can, and what it changes or can't take is named."""
    assert states(check_swap(profile("openai"), RICH)) == {"messages[2].reasoning": "lost"}
    assert states(check_swap(profile("openai-responses"), RICH)) == {"messages[2].reasoning": "lost"}
    assert states(check_swap(profile("kimi"), RICH)) == {
        "messages[2].tool_calls[0]": "changed: id functions.look_up:0",
        "messages[2].tool_calls[1]": "changed: id functions.look_up:1",
        "messages[3].tool_call_id": "changed: functions.look_up:0",
        "messages[4].tool_call_id": "changed: functions.look_up:1",
        "tool_choice": "changed: auto",
        "temperature": "lost",
    }


def test_what_is_refused() -> None:
    """The part that is not taken, by name; all else is not sent, because nothing is."""
    asked = Conversation((user("Listen:", image("https://x.test/a.png")),))
    outcome = check_swap(profile("kimi"), asked)
    error = (
        "messages[0].content[1] is an image by URL, which Kimi does not fetch: pass the bytes, or the ms:// URL of an"
        " upload"
    )
    assert (outcome.error, outcome.body, outcome.fine) == (error, None, False)
    assert states(outcome) == {
        "messages[0].content[0]": "not sent: the request is refused",
        "messages[0].content[1]": f"refused: {error}",
    }


def test_images_of_results_move() -> None:
    """Where an API has no place for them in results, they are found in the user's message."""
    messages = (RICH.messages[2], tool_result(CALLS[0], ["A plot:", image(PNG)]), tool_result(CALLS[1], "x"))
    outcome = check_swap(profile("vllm"), Conversation(messages))
    assert states(outcome) == {
        "messages[1].content[0]": "changed: in a longer text: ... (an image: see the next user message)",
        "messages[1].content[1]": "changed: in a message of the role 'user'",
    }
    assert check_swap(profile("kimi-vllm"), Conversation(messages)).fine


def test_an_answer_of_responses_goes_to_others() -> None:
    """What only its own provider can read stays behind there, and is kept at home."""
    items = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"},
        {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]},
    ]
    home = "responses https://api.openai.com/v1"
    messages = (user("Is it?"), Message("assistant", "Yes.", extras={"output": items}, origin=home), user("Sure?"))
    assert states(check_swap(profile("openai-responses"), Conversation(messages))) == {}
    assert states(check_swap(profile("openai"), Conversation(messages))) == {"messages[1].output": "lost"}


def test_items_of_responses() -> None:
    """Items that are written by hand are sent as they are; other APIs get what they say, and a warning."""
    items = (
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"},
        {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "f", "arguments": "{ }", "status": "completed"},
        {"type": "function_call_output", "call_id": "a", "output": "18"},
        assistant(tool_calls=CALLS[:1]),
        tool_result(CALLS[0], "x"),
    )
    outcome = check_swap(profile("openai-responses"), Conversation(items))
    assert (outcome.error, states(outcome)) == (None, {})
    elsewhere = check_swap(profile("vllm"), Conversation(items))
    assert (elsewhere.error, silent(elsewhere)) == (None, [])
    assert "messages[1].output: not sent" in elsewhere.warnings[0].detail  # the encrypted reasoning


def test_arguments_as_an_object() -> None:
    """As some servers have them; where a text is wanted, they become one."""
    entries = [
        {"id": name, "function": {"name": "f", "arguments": made}} for name, made in (("a", {}), ("b", {"x": 1}))
    ]
    turn = {"role": "assistant", "content": None, "tool_calls": entries}
    results = tuple({"role": "tool", "tool_call_id": name, "content": name} for name in ("a", "b"))
    for name in ("vllm", "openai-responses", "kimi"):
        outcome = check_swap(profile(name), Conversation((turn, *results)))
        assert (outcome.error, silent(outcome), outcome.fine) == (None, [], True)


def test_what_the_caller_overrules_is_no_mistake_of_ours() -> None:
    """`extra_body` wins over all but the tools, which it only adds to; that is said, and is a loss."""
    asked = Conversation((user("Hi"),), RICH.tools, "auto", {"temperature": 1, "extra_body": {
        "messages": [], "temperature": 0}})  # fmt: skip
    outcome = check_swap(profile("vllm"), asked)
    said = "lost: extra_body has something else there"
    assert states(outcome) == {"messages[0].content": said, "temperature": said}
    assert (silent(outcome), outcome.fine) == ([], False)


def test_half_a_character_is_told() -> None:
    """No JSON text can carry it; what is sent instead is not called the same."""
    outcome = check_swap(profile("vllm"), Conversation((user("Hi \ud83d there"),)))
    assert states(outcome) == {"messages[0].content": "changed: half of a character became U+FFFD"}
    assert [warning.code for warning in outcome.warnings] == ["invalid_utf8"]


# --- what the check sees ----------------------------------------------------------------------------------------------

ADAPTERS: dict[str, tuple[type[Any], str]] = {
    "vllm": (ChatAdapter, "messages"),
    "openai-responses": (ResponsesAdapter, "input"),
    "kimi": (KimiAdapter, "messages"),
    "anthropic": (AnthropicAdapter, "messages"),
    "gemini": (GeminiAdapter, "contents"),
}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values that say something; words for forms and what an API adds by itself say nothing."""
    if isinstance(value, dict):
        for name, member in value.items():
            if name not in ("type", "status", "annotations", "strict") and not (
                name == "id" and "call_id" not in value
            ):
                yield from places(member, (*path, name))
    elif isinstance(value, list):
        for at, member in enumerate(value):
            yield from places(member, (*path, at))
    elif value not in (None, "auto", "msg_2"):
        yield path


@pytest.mark.parametrize("name", ADAPTERS)
def test_every_damage_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each value in the messages and tools of a body is spoilt, one after the other, by an adapter gone wrong."""
    adapter, member = ADAPTERS[name]
    intact = check_swap(profile(name), PLAIN)
    assert silent(intact) == []
    assert intact.body is not None
    tried = 0
    encode = adapter.encode
    for place in [*places(intact.body[member], (member,)), *places(intact.body["tools"], ("tools",))]:

        def damaged(self: Any, request: Request, report: Any, place: tuple[Any, ...] = place) -> dict[str, Any]:
            body = json.loads(json.dumps(encode(self, request, report)))
            inside = body
            for step in place[:-1]:
                inside = inside[step]
            value = inside[place[-1]]
            inside[place[-1]] = f"~{value[1:]}" if isinstance(value, str) else [value]
            return body

        monkeypatch.setattr(adapter, "encode", damaged)
        outcome = check_swap(profile(name), PLAIN)
        monkeypatch.undo()
        assert silent(outcome) != [], place
        tried += 1
    assert tried >= 15


@pytest.mark.parametrize("name", ADAPTERS)
@pytest.mark.parametrize("at", range(6))
def test_a_missing_message_is_seen(name: str, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each message at least one fact is missed."""
    adapter, member = ADAPTERS[name]
    encode = adapter.encode

    def forgetful(self: Any, request: Request, report: Any) -> dict[str, Any]:
        body: dict[str, Any] = encode(self, request, report)
        gone = at % len(body[member])
        return {**body, member: body[member][:gone] + body[member][gone + 1 :]}

    monkeypatch.setattr(adapter, "encode", forgetful)
    assert silent(check_swap(profile(name), PLAIN)) != []


@pytest.mark.parametrize("key", ["tools", "tool_choice", "temperature", "max_tokens", "user"])
def test_a_missing_option_is_seen(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every option, the choice and the tools."""
    encode = ChatAdapter.encode

    def forgetful(self: Any, request: Request, report: Any) -> dict[str, Any]:
        body = encode(self, request, report)
        body.pop(key)
        return body

    monkeypatch.setattr(ChatAdapter, "encode", forgetful)
    assert len(silent(check_swap(profile("vllm"), RICH))) == 1


def test_the_same_text_twice_is_two_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them is not found for the other."""
    encode = ChatAdapter.encode
    asked = Conversation((user("Hi."), assistant("Yes?"), user("Hi.")))
    assert states(check_swap(profile("vllm"), asked)) == {}
    monkeypatch.setattr(ChatAdapter, "encode", lambda self, request, report: {
        **encode(self, request, report), "messages": encode(self, request, report)["messages"][:2]
    })  # fmt: skip
    assert silent(check_swap(profile("vllm"), asked)) == ["messages[2].content Hi. lost "]


def test_results_that_changed_places_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both texts and both ids are there, and each answers the other call."""
    encode = ChatAdapter.encode

    def crossed(self: Any, request: Request, report: Any) -> dict[str, Any]:
        body = encode(self, request, report)
        one, two = body["messages"][3], body["messages"][4]
        one["tool_call_id"], two["tool_call_id"] = two["tool_call_id"], one["tool_call_id"]
        return body

    monkeypatch.setattr(ChatAdapter, "encode", crossed)
    wanted = ["messages[3].tool_call_id call_1 lost ", "messages[4].tool_call_id call_2 lost "]
    assert silent(check_swap(profile("vllm"), RICH)) == wanted
