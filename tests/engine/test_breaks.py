"""Streams that once folded to a wrong call: each is a class of server behaviour, by the smallest stream that shows it.

No call may run with arguments that the model did not write, no call may come twice or get lost, and none may come from
an answer that was cut.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from folding import DONE, assert_any_cut, call, calls, chunk, codes, entry, event, fin, fold, fold_error, fragments
from streamfold import IncompleteStreamError, Limits, ProtocolError, Reply, StreamDecoder, Tool
from tables import each_row

TOOLS = [Tool(name, "", {"type": "object", "properties": {}}) for name in ("f", "g")]
X = '{"x":1}'


def said(kind: str, **members: Any) -> bytes:
    """One event of the Responses API."""
    return event({"type": f"response.{kind}", **members})


def item(number: int = 0, arguments: str = X, name: str = "f", **members: Any) -> dict[str, Any]:
    """A function call as an item of the Responses API."""
    ids = {"id": f"fc_{number}", "call_id": f"call_{number}"}
    return {"type": "function_call", **ids, "name": name, "arguments": arguments, "status": "completed", **members}


def added(number: int = 0, **members: Any) -> bytes:
    return said("output_item.added", output_index=number, item=item(number, "", **{"status": "in_progress", **members}))


def piece(number: int, text: str, **members: Any) -> bytes:
    return said("function_call_arguments.delta", item_id=f"fc_{number}", output_index=number, delta=text, **members)


def arguments_done(number: int, text: str, **members: Any) -> bytes:
    return said("function_call_arguments.done", item_id=f"fc_{number}", output_index=number, arguments=text, **members)


def item_done(number: int = 0, arguments: str = X, name: str = "f", **members: Any) -> bytes:
    return said("output_item.done", output_index=number, item=item(number, arguments, name, **members))


def completed(*items: dict[str, Any], **members: Any) -> bytes:
    return said("completed", response={"id": "r", "status": "completed", "output": list(items)}, **members)


def responses(*events: bytes) -> Reply:
    """The reply of these events, the same at any cut."""
    return assert_any_cut(b"".join(events), adapter="responses")


def run(reply: Reply) -> list[tuple[str, Any]]:
    """What would be run: the calls without an error."""
    return [(made.name, made.arguments) for made in reply.tool_calls if not made.error]


# --- an empty whole --------------------------------------------------------------------------------------------------

EMPTY = ["{}", "null", "[]", " { } "]


@each_row("empty", EMPTY)
@each_row("place", ["arguments.done", "item.done", "completed"])
def test_an_empty_whole_never_replaces_arguments(empty: str, place: str) -> None:
    """Wherever the server repeats the arguments as an empty value, the pieces count, with a warning."""
    texts = {where: empty if where == place else X for where in ("arguments.done", "item.done", "completed")}
    reply = responses(
        added(),
        piece(0, X),
        arguments_done(0, texts["arguments.done"]),
        item_done(0, texts["item.done"]),
        completed(item(0, texts["completed"])),
    )
    assert run(reply) == [("f", {"x": 1})]
    assert codes(reply) == ["arguments_mismatch"]


@each_row("empty", EMPTY)
def test_an_empty_message_at_the_end_of_a_chat_never_replaces_arguments(empty: str) -> None:
    """The same in Chat Completions, where the whole message may follow its deltas."""
    message = {"role": "assistant", "content": None, "tool_calls": [entry(0, "a", "f", empty)]}
    end = event({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})
    reply = assert_any_cut(call(entry(0, "a", "f", X)) + end + DONE)
    assert run(reply) == [("f", {"x": 1})]
    assert codes(reply) == ["arguments_mismatch"]


def test_an_empty_whole_does_not_hide_damaged_pieces() -> None:
    """Pieces that are not an object, and an empty whole: the call can't be run, rather than run with nothing."""
    reply = responses(added(), piece(0, '{"x":1'), item_done(0, "{}"), completed())
    assert [made.error for made in reply.tool_calls] == ["invalid_json"]


# --- the identity of a call on the Responses API --------------------------------------------------------------------


def test_a_whole_with_another_call_id_is_the_same_call() -> None:
    """The item is the call; of two call ids the first one counts."""
    reply = responses(added(), piece(0, X), arguments_done(0, X), item_done(0, X, call_id="call_b"), completed())
    assert calls(reply) == [("call_0", "f", {"x": 1})]
    assert codes(reply) == ["changed_id"]


def test_a_whole_at_a_known_place_is_the_same_call_whatever_its_ids() -> None:
    """Item id and call id drawn anew, the output index kept."""
    reply = responses(added(), piece(0, X), item_done(0, X, id="fc_b", call_id="call_b"), completed())
    assert calls(reply) == [("call_0", "f", {"x": 1})]


def test_two_items_under_one_output_index_are_two_calls() -> None:
    """Some servers count from 0 again for every call: a done call and another item are two."""
    first, second = item(0), item(1, '{"y":2}')
    body = [said("output_item.done", output_index=0, item=one) for one in (first, second)]
    assert calls(responses(*body, completed())) == [("call_0", "f", {"x": 1}), ("call_1", "f", {"y": 2})]


def test_names_of_two_items_are_never_joined() -> None:
    """A name of a whole item is a name, even if no tools were declared that could tell."""
    reply = responses(added(0, name="f"), item_done(0, "{}", "g", id="fc_9", call_id="call_9"), completed())
    assert [made.name for made in reply.tool_calls] == ["f", "g"]
    reply = responses(added(0, name="f"), piece(0, X), item_done(0, X, "g"), completed())
    assert [made.name for made in reply.tool_calls] == ["f"]


def test_a_call_without_arguments_does_not_take_those_of_the_next() -> None:
    """Without `output_item.added`, an unseen item opens a call, and a call that is done waits for nothing."""
    path = '{"path":"/tmp/x"}'
    reply = responses(
        arguments_done(0, ""),
        item_done(0, "", "list_files"),
        piece(1, path[:5]),
        piece(1, path[5:]),
        arguments_done(1, path),
        item_done(1, path, "delete"),
        completed(item(0, "", "list_files"), item(1, path, "delete")),
    )
    assert run(reply) == [("list_files", {}), ("delete", {"path": "/tmp/x"})]
    assert codes(reply) == []


def test_names_that_come_with_the_arguments_are_not_joined() -> None:
    """`arguments.done` with a name belongs to its own item."""
    reply = responses(
        arguments_done(0, ""),
        item_done(0, "", "ping"),
        piece(1, "{}"),
        arguments_done(1, "{}", name="search"),
        item_done(1, "{}", "search"),
        completed(),
    )
    assert run(reply) == [("ping", {}), ("search", {})]


def test_two_calls_of_one_tool_that_come_only_when_done() -> None:
    """Neither replaces the other."""
    other = '{"path":"/etc"}'
    reply = responses(
        arguments_done(0, X, name="f"),
        item_done(0, X),
        arguments_done(1, other, name="f"),
        item_done(1, other),
        completed(),
    )
    assert run(reply) == [("f", {"x": 1}), ("f", {"path": "/etc"})]


def test_done_events_without_ids_repeat_the_last_call() -> None:
    """`arguments.done` with a name, and with neither item nor place, is the call that was announced."""
    reply = responses(
        added(),
        said("function_call_arguments.delta", delta='{"x":'),
        said("function_call_arguments.delta", delta="1}"),
        said("function_call_arguments.done", arguments=X, name="f"),
        said("output_item.done", item=item()),
        completed(item()),
    )
    assert calls(reply) == [("call_0", "f", {"x": 1})]
    assert codes(reply) == []


def test_parts_without_ids_are_matched_by_their_number() -> None:
    """The item that repeats two parts adds nothing to either."""
    parts = [{"type": "output_text", "text": text} for text in "AB"]
    events = [
        event
        for number, text in enumerate("AB")
        for event in (
            said("output_text.delta", content_index=number, delta=text),
            said("output_text.done", content_index=number, text=text),
        )
    ]
    reply = responses(
        *events, said("output_item.done", item={"type": "message", "id": "m", "content": parts}), completed()
    )
    assert reply.text == "AB"


# --- how it ended ----------------------------------------------------------------------------------------------------


@each_row("cut", ["length", "content_filter"])
@each_row("later", ["stop", "tool_calls", "eos", "weird"])
def test_an_answer_that_was_cut_does_not_become_whole(cut: str, later: str) -> None:
    """`length` and `content_filter` stay, whatever reason comes later."""
    reply = assert_any_cut(call(entry(0, "a", "f", X)) + fin(cut) + fin(later) + DONE)
    assert (reply.tool_calls, reply.finish_reason) == ([], cut)
    assert codes(reply) == [*(["unknown_finish_reason"] if later == "weird" else []), "calls_dropped"]


BROKEN = event({"error": {"message": "overloaded", "type": "server_error"}})


@each_row("arguments", ["", '{"y"', '{"y":1}}'])
@each_row("end", [b"", BROKEN], ids=["end", "error"])
def test_a_break_inside_a_call_behind_an_early_finish_reason(arguments: str, end: bytes) -> None:
    """All or nothing: a stream that breaks off inside a call delivers none, also not those before the finish reason."""
    body = call(entry(0, "a", "f", X)) + fin("tool_calls") + call(entry(1, "b", "g", arguments)) + end
    assert isinstance(fold_error(body), IncompleteStreamError)
    decoder = StreamDecoder("chat")
    with pytest.raises(IncompleteStreamError):
        assert [made.tool_calls for made in decoder.feed(body) + decoder.close(interrupted="connection reset")] == []


def test_a_break_inside_a_call_that_grows_again_behind_a_finish_reason() -> None:
    """A call from before the finish reason that goes on behind it counts like one that begins there."""
    body = call(entry(0, "a", "f", '{"x":')) + fin("tool_calls") + call(entry(0, arguments="[1"))
    assert isinstance(fold_error(body), IncompleteStreamError)


@pytest.mark.parametrize("arguments", ["{}", '{"y":1}'])
def test_a_break_behind_a_whole_call(arguments: str) -> None:
    """A connection that breaks where no call is open leaves the answer that a finish reason has ended."""
    body = call(entry(0, "a", "f", X)) + fin("tool_calls") + call(entry(1, "b", "g", arguments))
    decoder = StreamDecoder("chat")
    decoder.feed(body)
    decoder.close(interrupted="connection reset")
    assert run(decoder.reply) == [("f", {"x": 1}), ("g", json.loads(arguments))]
    assert "interrupted_after_finish" in codes(decoder.reply)


def test_two_choices_in_one_event() -> None:
    """Choices that nobody numbered are one answer: if either was cut, it was cut."""
    choices = [{"delta": {}, "finish_reason": word} for word in ("length", "tool_calls")]
    reply = assert_any_cut(call(entry(0, "a", "f", X)) + event({"choices": choices}) + DONE)
    assert (reply.tool_calls, reply.finish_reason) == ([], "length")


@each_row("arguments", ["", '{"x":1', "[]"])
@each_row("word", ["weird", None])
def test_only_a_finish_reason_completes_a_call(arguments: str, word: str | None) -> None:
    """After a word that nobody knows, or none at all, a call is handed out if its arguments came as a whole object."""
    body = call(entry(0, "a", "f", arguments), entry(1, "b", "g", X), entry(2, "c", "h", "{}"))
    reply = assert_any_cut(body + (fin(word) if word else b"") + DONE)
    assert calls(reply) == [("b", "g", {"x": 1}), ("c", "h", {})]
    assert codes(reply) == ["unknown_finish_reason" if word else "missing_finish_reason", "calls_dropped"]


@each_row("status", ["incomplete", "failed", "in_progress", "cancelled"])
@each_row("listed", [False, True])
def test_an_item_that_is_not_complete_is_not_handed_out(status: str, listed: bool) -> None:
    """The item's own status counts, also where the final list is empty."""
    one = item(0, "{}", status=status)
    done = said("output_item.done", output_index=0, item=one)
    reply = responses(added(), done, completed(*([one] if listed else [])))
    assert reply.tool_calls == []
    assert "calls_dropped" in codes(reply)


# --- what is missing, and what can't be said -------------------------------------------------------------------------


def test_an_event_that_is_missing_inside_arguments() -> None:
    """Arguments with a hole may parse, and can't be run."""
    numbered = [
        said("output_item.added", output_index=0, item=item(0, ""), sequence_number=2),
        piece(0, '{"x":[1', sequence_number=3),
        piece(0, ",3]}", sequence_number=9),
        completed(sequence_number=10),
    ]
    reply = responses(*numbered)
    assert [made.error for made in reply.tool_calls] == ["invalid_json"]
    assert codes(reply) == ["missing_event", "invalid_arguments"]
    repeated = [*numbered[:3], item_done(0, '{"x":[1,2,3]}', sequence_number=10), completed(sequence_number=11)]
    assert run(responses(*repeated)) == [("f", {"x": [1, 2, 3]})]


def test_all_arguments_may_be_missing() -> None:
    """A call whose arguments may all be lost is not run without any."""
    head = said("output_item.added", output_index=0, item=item(0, ""), sequence_number=2)
    assert run(responses(head, completed(sequence_number=9))) == []


def test_numbers_that_fall_prove_nothing() -> None:
    """Where a gateway numbers at random, nothing is missing."""
    reply = responses(
        said("output_item.added", output_index=0, item=item(0, ""), sequence_number=2),
        piece(0, '{"x":', sequence_number=7),
        piece(0, "1}", sequence_number=4),
        completed(sequence_number=5),
    )
    assert run(reply) == [("f", {"x": 1})]


@each_row("number", ["1e999", "-1e400", "1" * 400 + ".0", "1E+0400"])
def test_numbers_without_end_are_invalid(number: str) -> None:
    """A number that no JSON writer could send back makes the arguments invalid."""
    reply = assert_any_cut(call(entry(0, "a", "f", f'{{"x":{number}}}')) + fin("tool_calls") + DONE)
    assert [made.error for made in reply.tool_calls] == ["invalid_json"]
    json.loads(reply.message.to_json(), parse_constant=pytest.fail)


def test_a_very_long_integer_elsewhere_does_no_harm() -> None:
    """An integer that Python refuses to convert is no reason to lose an answer."""
    body = chunk({"content": "Hi"}, "stop").replace(b'"created": 1', b'"created": 1' + b"0" * 5000)
    assert fold(body + DONE).text == "Hi"


# --- Chat Completions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        (
            "kimi",
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"  # noqa: ISC004
            '{"a":1}<|tool_call_end|><|tool_call_begin|>f<|tool_call_argument_begin|>{"b":2}<|tool_call_end|>'
            "<|tool_calls_section_end|>",
        ),
        (
            "mistral",
            '[TOOL_CALLS][{"name":"f","arguments":{"a":1},"id":"abcdefgh1"},{"name":"f","arguments":{"b":2}}]',
        ),
    ],
)
def test_calls_in_markup_are_whole(dialect: str, text: str) -> None:
    """A call that a dialect read waits for nothing; the next one is another."""
    reply = assert_any_cut(chunk({"content": text}, "stop") + DONE, dialect=dialect, tools=TOOLS)
    assert run(reply) == [("f", {"a": 1}), ("f", {"b": 2})]


def test_a_whole_message_without_ids_is_matched_by_place() -> None:
    """Calls that were opened in another order than their indexes keep their own arguments."""
    pieces = fragments('1 - f {"a":1}', "0 - f ''")
    listed = [{"function": {"name": "f", "arguments": text}} for text in ("", '{"a":1}')]
    message = {"role": "assistant", "content": None, "tool_calls": listed}
    end = event({"choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]})
    assert run(assert_any_cut(pieces + end + DONE)) == [("f", {}), ("f", {"a": 1})]


@pytest.mark.parametrize("arguments", ['"{\\"q\\":1}"', "not json"])
def test_one_id_for_two_calls_with_odd_arguments(arguments: str) -> None:
    """Another name under another index is another call, whatever its arguments look like."""
    body = call(entry(0, "x", "f", "")) + call(entry(1, "x", "search_web", arguments)) + fin("tool_calls") + DONE
    assert [made.name for made in assert_any_cut(body).tool_calls] == ["f", "search_web"]


# --- bytes, and bounds -----------------------------------------------------------------------------------------------


@each_row("change", [lambda x: b" " + x, lambda x: b"\xef\xbb\xbf" + x, lambda x: x[6:], bytes.title])
def test_lines_that_are_not_part_of_an_event_are_a_warning(change: Any) -> None:
    """The standard ignores them; nothing is lost in silence."""
    odd = change(chunk({"content": "LOST"}))
    reply = assert_any_cut(chunk({"content": "A"}) + odd + chunk({"content": "B"}, "stop") + DONE)
    assert (reply.text, codes(reply)) == ("AB", ["malformed_event"])


@each_row(
    ("limit", "events"),
    [
        ("text_chars", [chunk({"content": "x" * 60})] * 2),
        ("reasoning_chars", [chunk({"reasoning_content": "x" * 60})] * 2),
        ("other_chars", [chunk({"annotations": [{"a": 1}]})] * 2),
        ("other_chars", [chunk({"refusal": "x" * 60})] * 2),
        ("all_arguments_chars", [call(entry(0, "a", "f", "1" * 60)), call(entry(1, "b", "f", "1" * 60))]),
        ("name_chars", [call(entry(0, "a", "f" * 60)), call(entry(0, name="g" * 60))]),
        ("id_chars", [call(entry(0, "a" * 101, "f"))]),
    ],
)
def test_everything_that_an_answer_keeps_is_bounded(limit: str, events: list[bytes]) -> None:
    """Each limit is a ProtocolError that names it."""
    error = fold_error(b"".join(events) + fin("stop") + DONE, limits=Limits(**{limit: 100}))
    assert isinstance(error, ProtocolError)
    assert f"limits.{limit}" in str(error)


def test_warnings_are_bounded() -> None:
    """After the last one that is listed stands how many more there were."""
    decoder = StreamDecoder("chat", limits=Limits(warnings=3))
    choices = [{"index": number, "delta": {}} for number in range(1, 9)]
    decoder.feed(event({"choices": choices}) + fin("stop") + DONE)
    decoder.close()
    assert codes(decoder.reply) == ["extra_choice"] * 3 + ["more_warnings"]
    assert decoder.reply.warnings[-1].detail.startswith("6 ")  # five choices, and an answer with nothing in it
