"""Ways to fold an answer in a test, and the API notation in which the tests of docs/bugs.md are written.

`chunk(...)` is one Chat Completions event with this delta, `call(...)` one with these `tool_calls` entries,
`fragments(...)` several of those, `fin(x)` an empty delta with a finish reason, `DONE` the terminator. Joined, they are
a body.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

import scale
from streamfold import Reply, StreamChunk, StreamDecoder, StreamError, testing

DONE = b"data: [DONE]\n\n"


def event(payload: Any) -> bytes:
    """One event with this JSON payload."""
    return b"data: " + json.dumps(payload, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n\n"


def chunk(delta: Any, finish_reason: str | None = None, **rest: Any) -> bytes:
    """One chunk whose only choice has this delta; `rest` are further members of the chunk."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return event(
        {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], **rest}
    )


def text(content: str) -> bytes:
    """One chunk with this text."""
    return chunk({"content": content})


def call(*entries: Any) -> bytes:
    """One chunk with these `tool_calls` entries."""
    return chunk({"tool_calls": list(entries)})


def entry(
    index: Any = None,
    id: Any = None,  # noqa: A002
    name: Any = None,
    arguments: Any = None,
    **rest: Any,
) -> dict[str, Any]:
    """A `tool_calls` entry with just the members that are given."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    members = {"index": index, "id": id, "function": function or None, **rest}
    return {key: value for key, value in members.items() if value is not None}


def fragments(*chunks: str | tuple[str, ...]) -> bytes:
    """Chunks of calls. An entry is written as `index id name arguments`: `-` is a missing member, `''` an empty one.

    >>> fragments("0 call_a f", '0 - - {"x":1}') == call(entry(0, "call_a", "f")) + call(entry(0, arguments='{"x":1}'))
    True
    """
    return b"".join(call(*map(_entry, [made] if isinstance(made, str) else made)) for made in chunks)


def _entry(words: str) -> dict[str, Any]:
    index, *members = words.split(" ", 3)
    given = [None if word == "-" else "" if word == "''" else word for word in members]
    return entry(None if index == "-" else int(index), *given)


def fin(reason: str) -> bytes:
    """An empty delta with a finish reason."""
    return chunk({}, reason)


def fold(body: bytes, pieces: Iterable[bytes] | None = None, **decoder: Any) -> Reply:
    """The reply of a whole body, after checking that the chunks add up to it. Errors of the stream are raised."""
    return fold_chunks(body, pieces, **decoder)[1]


def fold_chunks(
    body: bytes, pieces: Iterable[bytes] | None = None, *, adapter: str = "chat", **decoder: Any
) -> tuple[list[StreamChunk], Reply]:
    """The chunks and the reply of a body, given whole or in these pieces."""
    decode = StreamDecoder(adapter, **decoder)
    chunks = [made for piece in ([body] if pieces is None else pieces) for made in decode.feed(piece)]
    chunks += decode.close()
    check_chunks(chunks, decode.reply)
    return chunks, decode.reply


def fold_error(
    body: bytes, pieces: Iterable[bytes] | None = None, *, adapter: str = "chat", **decoder: Any
) -> StreamError:
    """The error in which a body ends, after checking that no call was handed out, and that the partial is complete."""
    decode = StreamDecoder(adapter, **decoder)
    chunks: list[StreamChunk] = []
    with pytest.raises(StreamError) as caught:  # noqa: PT012 - wherever in the stream it is raised
        for piece in [body] if pieces is None else pieces:
            chunks += decode.feed(piece)
        chunks += decode.end()
        decode.close()
    error = caught.value
    assert not any(made.finished or made.tool_calls for made in chunks)
    assert error.partial is not None
    assert error.partial.tool_calls == []
    assert error.partial.text == "".join(made.delta for made in chunks)
    assert error.partial.reasoning == "".join(made.reasoning for made in chunks)
    return error


def check_chunks(chunks: list[StreamChunk], reply: Reply) -> None:
    """What is true of every answer: one finished chunk, the last one; calls on it alone; the deltas are the text."""
    assert [made.finished for made in chunks] == [False] * (len(chunks) - 1) + [True]
    assert all(made.tool_calls is made.usage is made.finish_reason is None for made in chunks[:-1])
    assert (chunks[-1].tool_calls or []) == reply.tool_calls
    assert chunks[-1].tool_calls != []
    assert "".join(made.delta for made in chunks) == reply.text
    assert "".join(made.reasoning for made in chunks) == reply.reasoning
    assert chunks[-1].finish_reason == reply.finish_reason
    assert chunks[-1].usage == reply.usage


def calls(reply: Reply) -> list[tuple[str, str, Any]]:
    """The calls of a reply as (id, name, arguments)."""
    return [(made.id, made.name, made.arguments) for made in reply.tool_calls]


def codes(reply: Reply) -> list[str]:
    """The codes of a reply's warnings."""
    return [warning.code for warning in reply.warnings]


def said_in(reply: Reply, *names: str) -> dict[str, Any]:
    """What a reply says of these: its members, its `calls`, or the `codes` of its warnings."""
    known = {"calls": calls, "codes": codes}
    return {name: known[name](reply) if name in known else getattr(reply, name) for name in names}


def bytewise(body: bytes) -> list[bytes]:
    """The body one byte at a time."""
    return [body[at : at + 1] for at in range(len(body))]


def random_cut(body: bytes, rng: random.Random) -> list[bytes]:
    """The body in up to forty pieces of random sizes, some of them empty."""
    cuts = sorted(rng.randrange(len(body) + 1) for _ in range(rng.randint(1, 40)))
    return [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]


def every_split(body: bytes) -> Iterator[list[bytes]]:
    """The body in two pieces, in every way."""
    for at in range(len(body) + 1):
        yield [body[:at], body[at:]]


def _cuts() -> dict[str, int]:
    """How many cuts are tried: in two pieces, and in random ones; byte by byte always."""
    return {"splits": scale.pick(300, 6), "random_cuts": scale.pick(25, 2)}


def assert_any_cut(body: bytes, expected: Reply | None = None, **decoder: Any) -> Reply:
    """Folds the body whole, byte by byte, in two pieces and in random cuts: always to the same reply."""
    whole = fold(body, **decoder)
    assert testing.assert_any_cut(body, **_cuts(), **decoder) == whole
    if expected is not None:
        assert whole == expected
    return whole


def assert_any_cut_error(body: bytes, **decoder: Any) -> StreamError:
    """Folds the body whole, byte by byte, in two pieces and in random cuts: always into the same error."""
    whole = fold_error(body, **decoder)
    with pytest.raises(StreamError) as caught:
        testing.assert_any_cut(body, **_cuts(), **decoder)
    assert (type(caught.value), str(caught.value)) == (type(whole), str(whole))
    return whole
