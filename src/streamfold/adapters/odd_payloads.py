"""Payloads of SSE events that aren't JSON objects, which no API documents but servers and proxies send."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..deltas import Delta, Failure, StreamEnd
from ..errors import ErrorInfo, error_info
from ..jsontext import is_done


def decode_odd_payload(
    payload: Any,
    *,
    failed: bool,
    needs_finish: bool = False,
    read_error: Callable[[Any], ErrorInfo] = error_info,
) -> list[Delta]:
    """Returns the deltas of a payload that isn't a JSON object.

    Args:
        payload: the JSON value, or the text of a payload that isn't JSON.
        failed: true if the event is named `error`. Its payload may be plain words.
        needs_finish: see `StreamEnd`.
        read_error: reads an error of the API.

    Raises:
        ValueError: the payload says nothing.
    """
    if isinstance(payload, str):
        if is_done(payload):  # also on APIs without `[DONE]`: OpenRouter, LiteLLM (fixtures/litellm)
            return [StreamEnd(needs_finish)]
        if not payload.strip():
            return [Failure(read_error(None))] if failed else []
    is_error_list = isinstance(payload, list) and any(isinstance(each, dict) for each in payload)  # as Google sends
    if failed or is_error_list:
        return [Failure(read_error(payload), payload)]
    raise ValueError(f"a JSON object was expected, not {type(payload).__name__}")
