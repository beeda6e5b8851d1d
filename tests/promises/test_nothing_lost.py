"""Nothing is lost and nothing is invented, however the network splits the response. The tests read answers (recorded,
written from API documentation, written to test one behaviour) in one piece, byte by byte and in random pieces. The
recordings are from inference engines and from local servers that imitate hosted APIs. No recording is from a hosted
provider yet.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from answers_by_api import APIS, Answer, random_answer, told
from folding import bytewise, random_cut
from scale import pick
from streamfold import StreamDecoder, StreamError
from tables import each_row

BOUND_BY = [
    "engine/test_fixtures.py::test_folds_to_what_is_expected",
    "engine/test_fixtures.py::test_folds_the_same_byte_by_byte",
    "engine/test_fixtures.py::test_folds_the_same_in_random_pieces",
    "engine/test_call_streams.py::test_every_call_is_handed_out_as_it_was_made",
]
FIXTURES = Path(__file__).parents[2] / "fixtures"


def test_more_than_two_hundred() -> None:
    """The folder holds them, and each says from where it is."""
    bodies = {file.with_suffix("") for file in FIXTURES.glob("*/*.sse")}
    assert len(bodies) > 200
    assert bodies == {file.with_suffix("") for file in FIXTURES.glob("*/*.toml")}


@each_row("seed", range(pick(100, 15)))
@each_row("api", APIS)
def test_any_cut_is_the_same_answer(api: str, seed: int) -> None:
    """All text, all calls, the usage that was sent: the same byte by byte and in random pieces."""
    rng = random.Random(f"lost {api} {seed}")
    answer = random_answer(rng)
    body = told(api, answer, rng).body
    for cut in (bytewise(body), random_cut(body, rng), [body]):
        decoder = StreamDecoder(api)
        chunks = [chunk for piece in cut for chunk in decoder.feed(piece)] + decoder.close()
        reply = decoder.reply
        assert "".join(chunk.delta for chunk in chunks) == reply.text == "".join(answer.text)
        made = {(call.id, call.name, repr(call.arguments)) for call in reply.tool_calls}
        assert made == {(call_id, name, repr(values)) for call_id, name, values in answer.calls}
        sent = re.search(rb"_tokens|TokenCount", body)
        assert (reply.usage is not None) == bool(sent)
        assert reply.usage is None or (reply.usage.input_tokens, reply.usage.output_tokens) == (3, 5)
        assert not reply.warnings


@each_row("seed", range(pick(60, 10)))
@each_row("api", APIS)
def test_a_partial_answer_is_what_had_come(api: str, seed: int) -> None:
    """Cut behind any event, the text up to there is in the chunks and in the error, and nothing else."""
    rng = random.Random(f"partial {api} {seed}")
    stream = told(api, random_answer(rng), rng)
    for at in range(1, stream.end + 1):
        decoder, shown = StreamDecoder(api), ""
        with pytest.raises(StreamError) as caught:  # noqa: PT012
            for event in stream.events[:at]:
                shown += "".join(chunk.delta for chunk in decoder.feed(event))
            decoder.close()
        assert caught.value.partial is not None
        assert caught.value.partial.text == shown == stream.text_before(at)


def test_nothing_is_made_up() -> None:
    """No usage, no id of an answer, no finish reason that the server did not send."""
    rng = random.Random(0)
    stream = told("chat", Answer(("Hi",), ()), rng)
    decoder = StreamDecoder("chat")
    decoder.feed(b"".join(stream.events[: stream.end]) + b"data: [DONE]\n\n")
    decoder.close()
    reply = decoder.reply
    assert (reply.text, reply.finish_reason, reply.raw_finish_reason, reply.usage) == ("Hi", "unknown", None, None)
    assert [warning.code for warning in reply.warnings] == ["missing_finish_reason"]
