"""Decodes SSE events whose data isn't a JSON object, and tool calls whose arguments aren't text. No API documents such
data, but servers and proxies send it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ..deltas import Delta, Failure, StreamEnd, Warn
from ..errors import ErrorInfo, error_info
from ..jsontext import is_done


def decode_odd_payload(
    payload: Any,
    *,
    failed: bool,
    needs_finish: bool = False,
    read_error: Callable[[Any], ErrorInfo] = error_info,
) -> list[Delta]:
    """Returns the deltas of an SSE event whose data isn't a JSON object.

    Args:
        payload: the event's data as a JSON value, or as text if it isn't JSON.
        failed: True if the event has the name `error`, so that its data may be a message in plain text.
        needs_finish: see `StreamEnd`.
        read_error: parses an error object of the API.

    Raises:
        ValueError: the data is neither an error nor `[DONE]`.
    """
    if isinstance(payload, str):
        if is_done(payload):  # also on APIs without `[DONE]`: OpenRouter, LiteLLM (fixtures/litellm)
            return [StreamEnd(needs_finish)]
        if not payload.strip():
            return [Failure(read_error(None))] if failed else []
    is_error_list = isinstance(payload, list) and any(isinstance(each, dict) for each in payload)  # Google's format
    if failed or is_error_list:
        return [Failure(read_error(payload), payload)]
    raise ValueError(f"a JSON object was expected, not {type(payload).__name__}")


def arguments_text(arguments: Any, out: list[Delta]) -> str:
    """Returns a tool call's arguments as text, even if the server sent an object. Raises ValueError if the object is
    nested too deeply."""
    if isinstance(arguments, str):
        return arguments
    if arguments is None:
        return ""
    out.append(Warn("repaired_arguments", "the server sent the arguments as an object instead of text"))
    try:
        return json.dumps(arguments, ensure_ascii=False)
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc
