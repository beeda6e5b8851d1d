"""`ToolCallAssembler` alone: fragments in, calls out."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from streamfold import Limits, ProtocolError
from streamfold.deltas import ToolCallDelta
from streamfold.engine.tool_call_assembly import ToolCallAssembler
from tables import each_row


def sort(*parts: ToolCallDelta, tool_names: Collection[str] = ()) -> list[tuple[str, str, str]]:
    """The calls that these fragments are, as (id, name, arguments)."""
    calls = ToolCallAssembler(tool_names)
    for part in parts:
        calls.feed(part)
    return [(call.id, call.name, call.text) for call in calls.finish()]


def test_feed_returns_the_call():
    """`feed` returns the call that the fragment went to, and why; calls are numbered in the order of opening."""
    parts = [
        ToolCallDelta(5, "a", "f", '{"x"'),
        ToolCallDelta(None, "b", "g", "{}"),
        ToolCallDelta(5, arguments=":1}"),
        ToolCallDelta(2, arguments="{}"),
    ]
    calls = ToolCallAssembler()
    placed = [placement for part in parts if (placement := calls.feed(part))]
    assert [(found.call.number, found.call.name, found.rule, found.opened) for found in placed] == [
        (0, "f", "first", True),
        (1, "g", "another", True),
        (0, "f", "index", False),
        (2, "", "new_index", True),
    ]
    assert [found.part for found in placed] == parts


def test_a_known_item_counts_before_the_index():
    """Items that are told apart by their ids stay apart where every index is the same."""
    assert sort(
        ToolCallDelta(0, "a", "f", item="fc_1"),
        ToolCallDelta(0, "b", "g", item="fc_2"),
        ToolCallDelta(0, arguments='{"x":1}', item="fc_1"),
        ToolCallDelta(0, arguments='{"y":2}', item="fc_2"),
    ) == [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')]


@pytest.mark.parametrize("heads", [("fc_0", "fc_1"), ("fc", "fc")], ids=["ids of their own", "one id for both"])
def test_an_index_counts_where_items_say_nothing(heads):
    """One item's id on the pieces of every call, or on two heads, tells nothing: the index does."""
    assert sort(
        ToolCallDelta(0, "a", "f", item=heads[0]),
        ToolCallDelta(1, "b", "g", item=heads[1]),
        ToolCallDelta(0, arguments='{"x":1}', item="fc"),
        ToolCallDelta(1, arguments='{"y":2}', item="fc"),
    ) == [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')]


def test_one_item_id_at_two_indices_is_two_calls():
    """The index is the identity of a call, also where an item has two of them."""
    assert sort(
        ToolCallDelta(0, "a", "f", item="fc"),
        ToolCallDelta(0, arguments='{"x"', item="fc"),
        ToolCallDelta(1, "b", "f", item="fc"),
        ToolCallDelta(0, arguments=":1}", item="fc"),
        ToolCallDelta(1, arguments='{"y":2}', item="fc"),
    ) == [("a", "f", '{"x":1}'), ("b", "f", '{"y":2}')]


@each_row(
    ("summary", "result"),
    [
        ([ToolCallDelta(0, "a", "f", "{1}"), ToolCallDelta(1, "b", "g", "{2}")], [("a", ["{1}"]), ("b", ["{2}"])]),
        ([ToolCallDelta(0, "b", "g", "{2}"), ToolCallDelta(1, "a", "f", "{1}")], [("a", ["{1}"]), ("b", ["{2}"])]),
        ([ToolCallDelta(0, "x", "f", "{1}"), ToolCallDelta(1, "y", "g", "{2}")], [("a", ["{1}"]), ("b", ["{2}"])]),
        ([ToolCallDelta(0, "x", "f", "{1}", item="i2")], [("a", ["{1}"]), ("b", [])]),
        ([ToolCallDelta(5, "c", "h", "{3}")], [("a", []), ("b", []), ("c", ["{3}"])]),
        ([], [("a", []), ("b", [])]),
    ],
    ids=["same ids", "another order", "ids drawn anew", "one missing", "one more", "empty"],
)
def test_the_list_at_the_end_is_matched_with_what_was_streamed(summary, result):
    """A call in the server's own list is the streamed one of its id, else of its name; what is left is new."""
    calls = ToolCallAssembler()
    calls.feed(ToolCallDelta(0, "a", "f", "{1", item="i1"))
    calls.feed(ToolCallDelta(1, "b", "g", "{2", item="i3"))
    for call in summary:
        call.whole = True
    calls.reconcile(summary)
    assert [(call.id, list(call.wholes)) for call in calls.finish()] == result


def test_the_list_at_the_end_has_places_of_its_own():
    """What was streamed at 1 and 2 is listed at 0 and 1: the arguments say which is which, and nothing is run twice."""
    calls = ToolCallAssembler()
    for index, arguments in ((1, "{}"), (2, '{"b":2}')):
        calls.feed(ToolCallDelta(index, "a", "f", arguments, item=""))
    calls.reconcile(
        [
            ToolCallDelta(0, "a", "f", "{}", whole=True, item=""),
            ToolCallDelta(1, "a", "f", '{"b":2}', whole=True, item=""),
        ]
    )
    assert [(call.index, call.text, list(call.wholes)) for call in calls.finish()] == [
        (1, "{}", ["{}"]),
        (2, '{"b":2}', ['{"b":2}']),
    ]


def test_extra_members_are_merged():
    """Extra members of all fragments of a call belong to the call."""
    calls = ToolCallAssembler()
    calls.feed(ToolCallDelta(0, "a", "f", extra={"one": 1, "two": 2}))
    calls.feed(ToolCallDelta(0, extra={"two": 3}))
    [call] = calls.finish()
    assert call.extra == {"one": 1, "two": 3}


# --- arguments left over ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call_id", ["a", None])
def test_arguments_left_over_under_another_index(call_id):
    """Two indices are never one call; a call that may lack arguments that are left over can't be run by accident."""
    calls = ToolCallAssembler()
    for part in (
        ToolCallDelta(0, "a", "f", ""),
        ToolCallDelta(1, call_id, arguments='{"x"'),
        ToolCallDelta(2, call_id, arguments=":1}"),
    ):
        calls.feed(part)
    calls.mark_ambiguous()
    assert [(call.name, call.text, call.lost_pieces) for call in calls.finish()] == [
        ("f", "", True),
        ("", '{"x"', False),
        ("", ":1}", False),
    ]


def test_arguments_left_over_of_another_id():
    """Arguments under an index and an id of their own are another call's, whose name never came."""
    calls = ToolCallAssembler()
    for part in (ToolCallDelta(0, "a", "f", ""), ToolCallDelta(1, "b", arguments="{}")):
        calls.feed(part)
    calls.mark_ambiguous()
    assert [(call.name, call.lost_pieces) for call in calls.finish()] == [("f", False), ("", False)]


# --- id, name, order ------------------------------------------------------------------------------------------------


def test_two_declared_tools_under_one_index():
    """Two names that are both declared are two calls, even without arguments and without ids."""
    assert sort(ToolCallDelta(0, None, "f"), ToolCallDelta(0, None, "g", "{}"), tool_names=["f", "g"]) == [
        ("", "f", ""),
        ("", "g", "{}"),
    ]


# --- limits ---------------------------------------------------------------------------------------------------------


def test_limit_of_arguments_counts_each_text():
    """The pieces and a repetition as a whole are one text each, and each is limited."""
    calls = ToolCallAssembler(limits=Limits(arguments_chars=6))
    calls.feed(ToolCallDelta(0, "a", "f", "12345"))
    calls.feed(ToolCallDelta(0, arguments="123456", whole=True))
    with pytest.raises(ProtocolError):
        calls.feed(ToolCallDelta(0, arguments="1234567", whole=True))
