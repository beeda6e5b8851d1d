"""The conformance kit: what our own serializers write breaks no rule, and each rule notices when it is broken."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from examined import examine
from patients import Patient
from streamfold.recording import Recording
from streamfold.testing import call, finish, say, think, usage
from streamfold.testing.script import read_answer
from streamfold.testing.scripted import ScriptSerializer
from streamfold_lab.conformance import RULES, judge, rulings_to_dict
from streamfold_lab.doctor import ProbeResponse, ReportCard
from streamfold_lab.inspection import inspect_stream

# httpx on trio, when a stream is left before its end.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")

USAGE = usage(10, 5, total_tokens=15)
TURNS: dict[str, list[Any]] = {
    "text": [say("Hello there, all of you"), USAGE],
    "thought": [think("Let me see."), say("Four."), USAGE],
    "call": [say("One moment."), call("get_weather", city="Paris"), USAGE],
    "calls": [call("get_weather", city="Paris"), call("get_weather", city="London"), USAGE],
    "cut": [say("This ends too"), finish("length"), USAGE],
}
ERRORS = {
    "chat": b'{"error": {"message": "no", "type": "invalid_request_error"}}',
    "responses": b'{"error": {"message": "no", "type": "invalid_request_error"}}',
    "anthropic": b'{"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}',
}


def seen(
    adapter: str, number: int, body: bytes, *, status: int = 200, kind: str = "text/event-stream", limit: int = 6
) -> ProbeResponse:
    recording = Recording(f"answer {number}", body, adapter=adapter, status=status)
    sent = {"stream_options": {"include_usage": True}, "max_output_tokens": limit}
    inspection = inspect_stream(body, adapter=adapter) if status == 200 else None
    way: Any = "fine" if status == 200 else "refused"
    headers = {"content-type": kind}
    return ProbeResponse(
        number, "probe", "ask", way, sent=sent, recording=recording, inspection=inspection, headers=headers
    )


def written(adapter: str, turn: Sequence[Any]) -> bytes:
    writer = ScriptSerializer(adapter, "m")
    return b"".join(event for _, event in writer.events(read_answer(list(turn))))


def broken(adapter: str, answers: Sequence[ProbeResponse]) -> dict[str, str]:
    """The rules that answers break, each with the first violation."""
    ruling = judge(ReportCard("server", "http://server.test/v1", adapter, "m", answers=tuple(answers)))
    return {each.rule.name.partition("/")[2]: each.violations[0].what for each in ruling.judged if each.violations}


@pytest.mark.parametrize("adapter", ERRORS)
def test_what_we_write_breaks_no_rule(adapter: str) -> None:
    """Every rule can be judged by the answers of our own serializers, and is kept by them."""
    answers = [seen(adapter, number, written(adapter, turn)) for number, turn in enumerate(TURNS.values(), 1)]
    answers.append(seen(adapter, len(answers) + 1, ERRORS[adapter], status=400))
    ruling = judge(ReportCard("server", "http://server.test/v1", adapter, "m", answers=tuple(answers)))
    assert broken(adapter, answers) == {}
    assert [each.rule.name for each in ruling.judged if not each.answers] == []
    assert (ruling.kept, ruling.applied) == (len(RULES[adapter]), len(RULES[adapter]))


# For each rule the turn in which it is broken, and how: what is searched in the bytes, and what takes its place.
CHAT = {
    "json": ("text", rb"^", b"data: {\n\n"),
    "done": ("text", rb"data: \[DONE\]\n\n", b""),
    "no-names": ("text", rb"^", b"event: message\n"),
    "members": ("text", rb'"created":\d+,', b""),
    "object": ("text", rb"chat\.completion\.chunk", b"chat.completion"),
    "one-id": ("text", rb'"id":"[^"]*"', b'"id":"another"', 1),
    "choice": ("text", rb',"finish_reason":null', b"", 1),
    "role-first": ("text", rb'"role":"assistant",', b""),
    "one-finish": ("text", rb'"finish_reason":"stop"', b'"finish_reason":null'),
    "nothing-after-finish": ("text", rb'"finish_reason":null', b'"finish_reason":"stop"', 1),
    "call-opening": ("call", rb'"type":"function",', b""),
    "call-rest": ("call", rb'"index":0,"function"', b'"index":0,"id":"again","function"'),
    "call-numbers": ("call", rb'"index":0,("id"|"function")', rb'"index":1,\1'),
    "call-arguments": ("call", rb"Paris\\\"", b"Paris"),
    "call-finish": ("call", rb'"finish_reason":"tool_calls"', b'"finish_reason":"stop"'),
    "usage-last": ("text", rb"data: [^\n]*prompt_tokens[^\n]*\n\n", b""),
    "usage-null": ("text", rb',"usage":null', b""),
    "usage-sum": ("text", rb'"total_tokens":15', b'"total_tokens":16'),
}
RESPONSES = {
    "names": ("text", rb"event: [^\n]*\n", b""),
    "sequence": ("text", rb',"sequence_number":\d+', b""),
    "created-first": ("text", rb"response\.created", b"response.made"),
    "response": ("text", rb'"created_at":\d+,', b""),
    "end": ("text", rb"$", b"data: [DONE]\n\n"),
    "end-status": ("cut", rb"response\.incomplete", b"response.completed"),
    "cut": ("text", rb"^", b""),  # five tokens of five
    "items": ("text", rb"event: response\.output_item\.done\n[^\n]*\n\n", b""),
    "indexes": ("text", rb'"output_index":0', b'"output_index":1'),
    "places": ("text", rb',"content_index":0', b""),
    "parts": ("text", rb"event: response\.content_part\.added\n[^\n]*\n\n", b""),
    "text": ("text", rb'"delta":"Hello"', b'"delta":"Hallo"'),
    "arguments": ("call", rb"event: response\.function_call_arguments\.done\n[^\n]*\n\n", b""),
    "calls": ("call", rb'"call_id":"[^"]*"', b'"call_id":""'),
    "output": ("text", rb'"output":\[\{.*?\}\],"', b'"output":[],"'),
    "usage": ("text", rb'"total_tokens":15', b'"total_tokens":16'),
}
MESSAGES = {
    "names": ("text", rb"event: [^\n]*\n", b""),
    "start": ("text", rb'"content":\[\],', b""),
    "order": ("text", rb'"type":"content_block_stop","index":0', b'"type":"content_block_stop","index":1'),
    "delta-types": ("text", rb'"text_delta"', b'"thinking_delta"'),
    "tool-use": ("call", rb'"input":\{\}', b'"input":{"city":"Paris"}'),
    "input": ("call", rb"Paris\\\"", b"Paris"),
    "stop-reason": ("text", rb'"stop_reason":"end_turn"', b'"stop_reason":"stop"'),
    "stop-tool-use": ("call", rb'"stop_reason":"tool_use"', b'"stop_reason":"end_turn"'),
    "usage": ("text", rb'"output_tokens":5', b'"tokens":5'),
    "stop": ("text", rb"event: message_stop\n[^\n]*\n\n", b""),
}
BROKEN = [
    (adapter, rule, *how)
    for adapter, rules in (("chat", CHAT), ("responses", RESPONSES), ("anthropic", MESSAGES))
    for rule, how in rules.items()
]


@pytest.mark.parametrize(("adapter", "rule", "turn", "find", "instead", "times"), [(*b, 0)[:6] for b in BROKEN])
def test_a_broken_rule_is_noticed(adapter: str, rule: str, turn: str, find: bytes, instead: bytes, times: int) -> None:
    """One change to an answer that keeps all rules breaks the one that it is about."""
    body = written(adapter, TURNS[turn])
    changed = re.sub(find, instead, body, count=times)
    assert changed != body or rule == "cut"
    assert rule in broken(adapter, [seen(adapter, 1, changed, limit=5)])


def test_a_block_inside_of_the_first_one_is_named() -> None:
    """The first block has the number 0."""
    body = re.sub(rb"event: content_block_stop\n[^\n]*\n\n", b"", written("anthropic", TURNS["thought"]), count=1)
    assert broken("anthropic", [seen("anthropic", 1, body)])["order"] == "block 1 begins as number 1, inside block 0"


def test_every_rule_is_broken_once() -> None:
    """A new rule needs a change that breaks it here; those about heads and errors have tests of their own."""
    names = {"chat": CHAT, "responses": RESPONSES, "anthropic": MESSAGES}
    for adapter, rules in names.items():
        assert {rule.name.partition("/")[2] for rule in RULES[adapter]} == {*rules, "content-type", "error-object"}


@pytest.mark.parametrize("adapter", ERRORS)
def test_the_head_and_the_error_have_rules(adapter: str) -> None:
    """Another content type, a plain text for an error and a status of 500 for a wrong request are noticed."""
    body = written(adapter, TURNS["text"])
    assert "content-type" in broken(adapter, [seen(adapter, 1, body, kind="application/json")])
    assert "error-object" in broken(adapter, [seen(adapter, 1, b"Internal Server Error", status=400)])
    assert "error-object" in broken(adapter, [seen(adapter, 1, ERRORS[adapter], status=500)])


@pytest.mark.slow
def test_a_server_is_judged_by_its_answers() -> None:
    """A clean server keeps all rules; what it breaks is named with the answer that shows it."""
    card, _ = examine(Patient())
    assert [each.rule.name for each in judge(card).judged if each.violations] == []
    faulty, _ = examine(Patient(ends_early=True))
    (data,) = rulings_to_dict([judge(faulty)])["apis"]
    assert data["applied"] == len(data["rules"])
    rules = {each["rule"]: each["violations"] for each in data["rules"]}
    assert rules["chat/call-arguments"][0]["asked"] == "cut_call/note"
