"""Values that no server should send, and what must be true of an answer that was made of them."""

from __future__ import annotations

import copy
import math
from typing import Any

from hypothesis import strategies as st

from folding import fold
from streamfold import Reply, StreamError

REASONS = ("stop", "tool_calls", "length", "content_filter", "unknown")


def outcome(body: bytes, pieces: list[bytes] | None = None, **decoder: Any) -> Reply | StreamError:
    """The reply or the error of ours in which a body ends; any other exception goes through."""
    try:
        return fold(body, pieces, **decoder)
    except StreamError as error:
        return error


def check_types(ended: Reply | StreamError) -> None:
    """Each member of a reply, or of the partial answer and the error, has the type that is written down for it."""
    if isinstance(ended, StreamError):
        assert isinstance(ended.message, str)
        assert isinstance(ended.retryable, bool)
        assert str(ended).encode()
        assert all(isinstance(seen, str) for seen in ended.transcript)
    reply = ended.partial if isinstance(ended, StreamError) else ended
    assert reply is not None
    assert isinstance(reply.text, str)
    assert isinstance(reply.reasoning, str)
    for maybe in (reply.refusal, reply.raw_finish_reason, reply.id, reply.model):
        assert maybe is None or isinstance(maybe, str)
    assert reply.finish_reason in REASONS
    for made in reply.tool_calls:
        assert isinstance(made.id, str)
        assert made.id
        assert isinstance(made.name, str)
        assert made.name
        assert isinstance(made.raw_arguments, str)
        assert isinstance(made.arguments, dict)
    assert len({made.id for made in reply.tool_calls}) == len(reply.tool_calls)
    if reply.usage is not None:
        usage = reply.usage
        for number in (usage.input_tokens, usage.output_tokens, usage.total_tokens, usage.cached_tokens):
            assert number is None or type(number) is int
        assert isinstance(usage.raw, dict)
    for warning in reply.warnings:
        assert isinstance(warning.code, str)
        assert isinstance(warning.detail, str)
    assert reply.message.role == "assistant"


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The place of every member of a value, its own first."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(path for key, member in inner for path in paths(member, (*here, key)))]


def replaced(value: Any, path: tuple[Any, ...], member: Any) -> Any:
    """A copy of a value with another member in that place."""
    if not path:
        return member
    out = copy.deepcopy(value)
    place = out
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = member
    return out


# Numbers without a value are no JSON, but half of the world's servers write them, and half of its readers read them.
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, 1, -1, 10**30, math.inf, -math.inf, math.nan, 0.5, 1e300]),
    st.sampled_from(
        ["", " ", "0", "null", "{}", "stop", "error", "tool_calls", "length", "[DONE]", "\ud83d", "\udc4b"]
    ),
    st.text(max_size=5),
)
KEYS = st.sampled_from(["index", "id", "name", "text", "type", "message", "error", "content", "arguments", "function"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=5,
)
