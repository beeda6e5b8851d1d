"""Generated conversations: however a server numbers and cuts its calls, and however the network cuts its bytes, the
same calls come out, and the promises about chunks hold."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from folding import DONE, bytewise, chunk, entry, event, fin, fold_chunks, fold_error
from planned_calls import PlannedCall, planned_calls, words
from scale import examples
from streamfold import EmptyResponseError, IncompleteStreamError

# How servers tell calls apart. Under the first group fragments of several calls may be mixed; the others send one call
# after the other, because nothing on the wire would tell their fragments apart.
INTERLEAVED = ("index", "from_one", "sparse", "as_string", "as_float", "id_on_each_zero", "id_on_each_no_index")
SEQUENTIAL = ("no_index", "all_zero", "minus_one", "no_index_no_id", "head_zero_tail_own")


def _entry(habit: str, number: int, call: PlannedCall, at: int) -> dict[str, Any]:
    """The `tool_calls` entry of the head of a call (at == 0) or of its next piece."""
    index: Any = {
        "index": number,
        "from_one": number + 1,
        "sparse": number * 3,
        "as_string": str(number),
        "as_float": float(number),
        "id_on_each_zero": 0,
        "all_zero": 0,
        "minus_one": -1,
        "head_zero_tail_own": 0 if at == 0 else number,
    }.get(habit)
    head = at == 0
    call_id = call.id if (head or habit.startswith("id_on_each")) and habit != "no_index_no_id" else None
    return entry(index, call_id, call.name if head else None, "" if head else call.pieces[at - 1])


@st.composite
def conversations(draw: st.DrawFn) -> tuple[bytes, str, str, list[PlannedCall], bool]:
    """A body, and what it must fold to: text, reasoning, calls, and whether their ids are on the wire."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    calls = draw(planned_calls())
    texts, reasonings = draw(st.lists(words, max_size=4)), draw(st.lists(words, max_size=4))
    habit = draw(st.sampled_from(INTERLEAVED + SEQUENTIAL))
    steps: list[list[dict[str, Any]]] = [
        [_entry(habit, number, call, at) for at in range(len(call.pieces) + 1)] for number, call in enumerate(calls)
    ]
    entries: list[dict[str, Any]] = []
    if habit in INTERLEAVED:
        for waiting in steps:
            entries.append(waiting.pop(0))  # heads in order, then pieces as they come
        while any(steps):
            entries.append(rng.choice([waiting for waiting in steps if waiting]).pop(0))
    else:
        entries = [made for waiting in steps for made in waiting]
    deltas: list[dict[str, Any]] = [{"tool_calls": [made]} for made in entries]
    for made in [{"reasoning_content": text} for text in reversed(reasonings)]:
        deltas.insert(0, made)
    at = 0
    for text in texts:
        at = rng.randint(at, len(deltas))
        deltas.insert(at, {"content": text})
        at += 1
    if rng.random() < 0.3 and len(deltas) > 1:  # several facts in one event
        merged: dict[str, Any] = {}
        while deltas and not set(deltas[0]) & set(merged):
            merged.update(deltas.pop(0))
        deltas.insert(0, merged)
    body = b"".join(chunk({"role": "assistant", **made}) for made in deltas)
    body += fin(rng.choice(["stop", "tool_calls"]) if calls else "stop")
    if rng.random() < 0.5:
        body += event({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}})
    body += DONE if rng.random() < 0.8 else b""
    body = body.replace(b"\n", rng.choice([b"\n", b"\r\n", b"\r"]))
    return body, "".join(texts), "".join(reasonings), calls, habit != "no_index_no_id"


@settings(deadline=None, max_examples=examples(150))
@given(conversations(), st.integers(0, 2**32))
def test_any_habit_and_any_cut_give_the_same_answer(
    conversation: tuple[bytes, str, str, list[PlannedCall], bool], seed: int
) -> None:
    """Text, reasoning and calls come out as planned, whole at the end, for every habit of indices and every cut."""
    body, text, reasoning, calls, ids = conversation
    rng = random.Random(seed)
    cuts = sorted(rng.randrange(len(body) + 1) for _ in range(rng.randint(0, 30)))
    pieces = [body[start:end] for start, end in pairwise([0, *cuts, len(body)])]
    chunks, reply = fold_chunks(body)
    assert reply.text == text
    assert reply.reasoning == reasoning
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [(call.name, call.arguments) for call in calls]
    assert [call.raw_arguments for call in reply.tool_calls] == ["".join(call.pieces) for call in calls]
    if ids:
        assert [call.id for call in reply.tool_calls] == [call.id for call in calls]
    assert len({call.id for call in reply.tool_calls}) == len(calls)
    assert reply.finish_reason == ("tool_calls" if calls else "stop")
    assert chunks[-1].finished
    assert fold_chunks(body, pieces)[1] == reply
    assert fold_chunks(body, bytewise(body))[1] == reply


@settings(deadline=None, max_examples=examples(150))
@given(conversations(), st.data())
def test_a_stream_that_breaks_off_hands_out_no_call(
    conversation: tuple[bytes, str, str, list[PlannedCall], bool], data: st.DataObject
) -> None:
    """Cut anywhere before its finish reason, an answer is an error with the text so far, and never a call."""
    body, text, reasoning, _, _ = conversation
    whole_at = body.index(b'"finish_reason": "')
    error = fold_error(body[: data.draw(st.integers(0, whole_at))])
    assert isinstance(error, IncompleteStreamError | EmptyResponseError)
    assert error.partial is not None
    assert text.startswith(error.partial.text)
    assert reasoning.startswith(error.partial.reasoning)
