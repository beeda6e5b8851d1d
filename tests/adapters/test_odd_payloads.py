"""Payloads that aren't JSON objects mean the same on every API."""

from __future__ import annotations

import pytest
from httpx_sse import ServerSentEvent

from streamfold.adapters import find_adapter
from streamfold.deltas import Delta, Failure, StreamEnd
from tables import each_row

ADAPTERS = ("chat", "responses", "kimi", "anthropic", "gemini", "interactions")


def decoded(adapter: str, data: str, event: str = "message") -> list[Delta]:
    return list(find_adapter(adapter)().decode(ServerSentEvent(event=event, data=data)))


@each_row("adapter", ADAPTERS)
def test_a_payload_without_content_says_nothing(adapter: str) -> None:
    """Neither a blank payload nor one of white space has a delta."""
    assert [decoded(adapter, data) for data in ("", "  ")] == [[], []]


@each_row("adapter", ADAPTERS)
def test_done_ends_every_stream(adapter: str) -> None:
    """Proxies send `[DONE]` on APIs that don't have it, also in quotes."""
    for data in ("[DONE]", "[done]", '"[DONE]"'):
        assert [type(delta) for delta in decoded(adapter, data)] == [StreamEnd]


@each_row("adapter", ADAPTERS)
def test_plain_words_of_an_error_are_its_message(adapter: str) -> None:
    """An event named `error` fails whatever its payload is."""
    (failure,) = decoded(adapter, "the model is overloaded", "error")
    assert isinstance(failure, Failure)
    assert failure.info.message == "the model is overloaded"
    (empty,) = decoded(adapter, "", "error")
    assert isinstance(empty, Failure)


@each_row("adapter", ADAPTERS)
def test_a_list_of_objects_is_an_error(adapter: str) -> None:
    """Google sends its errors in a list."""
    (failure,) = decoded(adapter, '[{"error": {"message": "quota exceeded", "code": 429}}]')
    assert isinstance(failure, Failure)
    assert failure.info.message == "quota exceeded"


@each_row("adapter", ADAPTERS)
def test_other_payloads_are_no_events(adapter: str) -> None:
    """They are refused, so that the response fails instead of losing a part."""
    for data in ("nonsense", "3", "[1]", "[]", '"text"', "null"):
        with pytest.raises(ValueError, match="a JSON object was expected"):
            decoded(adapter, data)
