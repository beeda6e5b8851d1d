"""The strict servers themselves: each rule has a body that it accepts and one that it refuses."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from .conversations import TWISTS, Conversation, Turn, conversations, verdict
from .examples import examples_of, faults
from .matrix import messages_of, provider_of, tools_of
from .oracle import MARK, Finding, findings
from .rules import Endpoint, check_names, load_endpoints
from .transport import StrictTransport

ROWS = load_endpoints()


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
def test_each_rule_accepts_one_body_and_refuses_another(row: Endpoint) -> None:
    """A rule lets its good example pass and refuses its bad one, in the maker's form of an error."""
    assert check_names([row]) == []
    assert faults(row) == []


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
def test_each_rule_names_its_source(row: Endpoint) -> None:
    """A rule has a link, a date, a basis and words."""
    assert [rule.check for rule in row.rules if not rule.source.startswith("https://")] == []
    assert {rule.basis for rule in row.rules} <= {"documented", "reported", "inferred"}
    assert all(rule.says and rule.checked.year >= 2026 for rule in row.rules)


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
def test_a_refusal_has_no_blank_of_its_words_left(row: Endpoint) -> None:
    """The words of a refusal name the place: nothing stands in braces."""
    for rule in row.rules:
        refusal = row.refusal(examples_of(row, rule)[1])
        assert refusal is not None
        assert not any(
            f"{{{name}}}" in str(refusal.body) for name in ("at", "index", "role", "before", "value", "length")
        )


def test_the_words_of_a_refusal_are_those_of_the_maker() -> None:
    """Mistral's answer to a user's message behind a result, as it is in public reports."""
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "tool_calls": [{"id": "abcdef123", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "abcdef123", "content": "1"},
        {"role": "user", "content": "Hi"},
    ]
    refusal = ROWS["mistral"].refusal({"messages": messages})
    assert refusal is not None
    assert refusal.status == 400
    assert refusal.body == {
        "object": "error",
        "message": "Unexpected role 'user' after role 'tool'",
        "type": "invalid_request_message_order",
        "param": None,
        "code": "3230",
    }


def test_conversations_are_the_same_each_time_and_of_all_kinds() -> None:
    """The generator is seeded, and each kind is in at least three conversations."""
    made = conversations()
    assert len(made) == 400
    assert made == conversations()
    count = Counter(kind for each in made for kind in each.kinds)
    assert {kind for kind in TWISTS if count[kind] < 3} == set()


def test_the_list_of_what_may_be_refused_is_that_of_the_verdicts() -> None:
    """`refused.toml` names each conversation that must or may be refused, and no other."""
    listed = tomllib.loads((Path(__file__).parent / "refused.toml").read_text("utf-8"))
    verdicts = {each.number: verdict(each)[0] for each in conversations()}
    for answer in ("refuse", "either"):
        assert {int(number) for number in listed[answer]} == {n for n, each in verdicts.items() if each == answer}


def _verdict(*turns: Turn) -> str:
    return verdict(Conversation(0, (), turns))[0]


def test_only_calls_without_a_result_and_results_without_a_call_must_be_refused() -> None:
    """The decided errors: no result, no call, two different results. All else can be sent, or is left open here."""
    made = conversations(4)
    call = next(turn for each in made for turn in each.turns if turn.calls)
    one = Turn("assistant", calls=call.calls[:1])
    result = Turn("tool", ("m1k",), answers=call.calls[0].id)
    user = Turn("user", ("m2k",))
    assert _verdict(user, one, result) == "send"
    assert _verdict(user, one, result, result) == "send"
    assert _verdict(user, one, result, Turn("tool", ("m3k",), answers=call.calls[0].id)) == "refuse"
    assert _verdict(user, one) == "refuse"
    assert _verdict(user, one, user) == "refuse"
    assert _verdict(user, result) == "refuse"
    assert _verdict(user, one, user, result) == "either"
    assert _verdict(Turn("system", ("m4k",))) == "either"


def _found(*messages: dict[str, object]) -> list[Finding]:
    turns = (
        Turn("system", ("m1k be brief.",)),
        Turn("user", ("m2k hello.",)),
        Turn("assistant", ("m3k hi.",)),
        Turn("user", ("m4k go on.",)),
    )
    return findings(Conversation(0, (), turns), "chat", {"messages": list(messages)})


def test_the_oracle_finds_what_is_lost_moved_changed_and_invented() -> None:
    """A body with the same meaning has no findings; each change of the meaning has one."""
    system = {"role": "system", "content": "m1k be brief."}
    first = {"role": "user", "content": "m2k hello."}
    answer = {"role": "assistant", "content": "m3k hi."}
    last = {"role": "user", "content": "m4k go on."}
    assert _found(system, first, answer, last) == []
    assert _found({"role": "user", "content": "m1k be brief.\n\nm2k hello."}, answer, last) == []
    assert _found(system, first, last) == [Finding("assistant lost", "m3k")]
    assert _found(system, first, first, answer, last) == [Finding("user doubled", "m2k")]
    assert Finding("order changed", "") in _found(system, last, answer, first)
    assert _found(system, {**first, "role": "assistant"}, answer, last) == [Finding("user sent as assistant", "m2k")]
    assert Finding("user changed", "m2k") in _found(system, {**first, "content": "m2k"}, answer, last)
    assert _found(system, first, answer, {**last, "content": "m4k go on. Be kind."}) == [
        Finding("words added", "user: Be kind.")
    ]
    assert Finding("system text moved among the turns", "m1k") in _found(
        first, answer, {**last, "content": "m4k go on. m1k be brief."}
    )


def _without(value: Any, mark: str) -> Any:
    """The same JSON value with each text that has a mark made blank."""
    if isinstance(value, str):
        return "" if mark in MARK.findall(value) else value
    if isinstance(value, list):
        return [_without(each, mark) for each in value]
    if isinstance(value, dict):
        return {key: _without(each, mark) for key, each in value.items()}
    return value


@pytest.mark.one_loop
@pytest.mark.parametrize("name", ["openai", "openai-responses", "anthropic", "gemini"])
async def test_the_oracle_misses_no_text_that_is_taken_out_of_a_sent_body(name: str) -> None:
    """In each wire format: a body as it was sent has no findings; without any one of its texts it has some."""
    row = ROWS[name]
    conversation = next(each for each in conversations() if each.kinds == ("many_calls",))
    transport = StrictTransport(row)
    async with provider_of(row, transport) as provider:
        await provider.chat(await messages_of(conversation), tools_of(conversation), stream=False)
    body = dict(transport.received[-1][0])
    assert findings(conversation, row.api, body) == []
    marks = set(MARK.findall(json.dumps(body)))
    assert len(marks) > 15
    assert [mark for mark in marks if not findings(conversation, row.api, _without(body, mark))] == []
