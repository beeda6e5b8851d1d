"""Calls of tools that are no functions, on an API that says an item up to three times: what one of them leaves out."""

from __future__ import annotations

from typing import Any

import pytest

from folding import assert_any_cut, codes, event
from streamfold import CustomTool, Reply

BEGUN = event({"type": "response.created", "response": {"id": "r", "object": "response", "status": "in_progress"}})


def item(text: str | None = None, number: int = 0, **members: Any) -> dict[str, Any]:
    """A call of a custom tool; without a text one that begins."""
    call = {"type": "custom_tool_call", "id": f"i{number}", "call_id": f"c{number}", "name": "sql"}
    return {**call, "input": text or "", **members}


def added(said: dict[str, Any], place: int = 0) -> bytes:
    return event({"type": "response.output_item.added", "output_index": place, "item": said})


def done(said: dict[str, Any], place: int = 0) -> bytes:
    return event({"type": "response.output_item.done", "output_index": place, "item": said})


def grown(text: str, number: int = 0, **members: Any) -> bytes:
    said = {"type": "response.custom_tool_call_input.delta", "output_index": number, "item_id": f"i{number}"}
    return event({**said, "delta": text, **members})


def whole(text: str, number: int = 0) -> bytes:
    said = {"type": "response.custom_tool_call_input.done", "output_index": number, "item_id": f"i{number}"}
    return event({**said, "input": text})


def ended(*output: dict[str, Any], status: str = "completed") -> bytes:
    response = {"id": "r", "object": "response", "status": status, "output": output}
    return event({"type": f"response.{status}", "response": response})


def read(*events: bytes) -> Reply:
    return assert_any_cut(BEGUN + b"".join(events), adapter="responses", tools=[CustomTool("sql", "")])


PIECES = added(item()) + grown("sel") + grown("ect")
ONE = [("c0", "select")]
TWO = [("c0", "a"), ("c1", "b")]
BOTH = added(item()) + added(item(number=1), 1) + grown("a") + grown("b", 1)
PATCH = {"type": "apply_patch_call", "id": "p", "call_id": "c0", "operation": {"type": "delete_file", "path": "a"}}

SAID: dict[str, tuple[bytes, list[tuple[str, str]], list[str]]] = {
    "pieces alone": (PIECES + ended(), ONE, []),
    "pieces, and the end of them": (PIECES + whole("select") + ended(), ONE, []),
    "no pieces": (added(item()) + whole("select") + ended(), ONE, []),
    "all of it at the beginning": (added(item("select")) + ended(), ONE, []),
    "in the list alone": (ended(item("select")), ONE, []),
    "everything": (PIECES + whole("select") + done(item("select")) + ended(item("select")), ONE, []),
    "emptied at its end": (PIECES + done(item()) + ended(), ONE, ["arguments_mismatch"]),
    "emptied in the list": (added(item()) + done(item("select")) + ended(item()), ONE, ["arguments_mismatch"]),
    "null in the list": (PIECES + ended({**item(), "input": None}), ONE, ["arguments_mismatch"]),
    "another whole": (PIECES + ended(item("select 1")), [("c0", "select 1")], ["arguments_mismatch"]),
    "another id later": (PIECES + done(item("select", call_id="x")) + ended(), ONE, ["changed_id"]),
    "new ids in each event": (
        added(item(id="x")) + grown("select", item_id="y") + ended(item("select", id="z")),
        ONE,
        [],
    ),
    "no ids of items": (added(item(id=None)) + grown("select", item_id=None) + ended(item("select", id=None)), ONE, []),
    "one id for two items": (
        added(item()) + added(item(number=1, id="i0"), 1) + grown("a") + grown("b", 1, item_id="i0") + ended(),
        TWO,
        [],
    ),
    "two in turns": (BOTH + ended(item("a"), item("b", 1)), TWO, []),
    "done in another order": (BOTH + done(item("b", 1), 1) + done(item("a")) + ended(), TWO, []),
    "listed in another order": (BOTH + ended(item("b", 1), item("a")), TWO[::-1], []),
    "places with gaps, no ids of items": (
        added(item(id=None), 1)
        + grown("a", 1, item_id=None)
        + added(item(number=1, id=None), 2)
        + grown("b", 2, item_id=None)
        + ended(item("a", id=None), item("b", 1, id=None)),
        TWO,
        [],
    ),
    "missing in the list": (BOTH + ended(item("b", 1)), TWO, []),
    "two with one id": (ended(item("a"), item("b", 1, call_id="c0")), [("c0", "a"), ("call_", "b")], ["duplicate_id"]),
    "a patch that is never done": (added(PATCH) + ended(), [("c0", '{"type": "delete_file", "path": "a"}')], []),
    "cut off": (PIECES + ended(item("select"), status="incomplete"), [], ["calls_dropped"]),
    "no end": (PIECES + b"data: [DONE]\n\n", [], ["missing_finish_reason"]),
    "no end, but the whole": (PIECES + whole("select") + b"data: [DONE]\n\n", ONE, ["missing_finish_reason"]),
}


@pytest.mark.parametrize("case", SAID)
def test_a_call_is_handed_out_once_and_whole(case: str) -> None:
    """Whatever a server leaves out, where another event says it; an empty whole replaces nothing."""
    stream, wanted, warned = SAID[case]
    reply = read(stream)
    made = [(call.id, call.raw_arguments) for call in reply.tool_calls]
    assert [(call_id if call_id in ("c0", "c1") else call_id[:5], text) for call_id, text in made] == wanted
    assert sorted(set(codes(reply))) == warned
    assert reply.finish_reason == (
        "tool_calls" if wanted and "missing_finish_reason" not in warned else reply.finish_reason
    )


def test_a_tool_of_the_provider_that_is_never_done() -> None:
    """Nothing that a server says of it is lost; a list at the end that has others has the last word."""
    code = {"type": "code_interpreter_call", "id": "k", "code": "", "container_id": "c", "outputs": None}
    piece = event(
        {"type": "response.code_interpreter_call_code.delta", "output_index": 0, "item_id": "k", "delta": "1+1"}
    )
    reply = read(added(code), piece, ended())
    assert [part.input for part in reply.hosted] == ["1+1"]
    other = {"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search", "query": "q"}}
    assert [part.kind for part in read(added(code), piece, ended(other)).hosted] == ["web_search"]
