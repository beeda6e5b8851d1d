"""Size limits and timeouts for an answer."""

from __future__ import annotations

from dataclasses import dataclass

_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Limits:
    """Size limits for an answer. If an answer exceeds a limit, streamfold raises ProtocolError. The error message
    contains the name of the limit.

    Attributes:
        event_bytes: the maximum size of one server-sent event, or of a complete JSON response.
        other_chars: the maximum number of characters in refusals, annotations, audio and encrypted items together.
        arguments_chars, all_arguments_chars: the maximum number of characters in the arguments of one tool call, and of
            all tool calls together.
        id_chars: the maximum length of a tool call id. Some providers put signatures into the id.
        warnings: the maximum number of warnings. If an answer has more warnings, the last one says how many were
            omitted.
        error_body_bytes: the maximum number of bytes that streamfold reads from an error response.
    """

    event_bytes: int = 16 * _MIB
    text_chars: int = 64 * _MIB
    reasoning_chars: int = 64 * _MIB
    other_chars: int = 64 * _MIB
    arguments_chars: int = 64 * _MIB
    all_arguments_chars: int = 128 * _MIB
    tool_calls: int = 512
    name_chars: int = 1024
    id_chars: int = 64 * 1024
    warnings: int = 1000
    error_body_bytes: int = 64 * 1024


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Timeouts for an answer, in seconds. None disables a timeout.

    Attributes:
        connect: the maximum time until a connection is open, including TLS and the wait for a pooled connection.
        first_event: the maximum time from the request to the first SSE event that has content. For a complete response
            (`stream=False`), streamfold waits at least 600 seconds.
        read: the maximum time without any bytes, after the first SSE event that has content. Time that your program
            spends between two chunks doesn't count.
        stall: the maximum time without an SSE event that has content. Comments and pings have no content.
        total: the maximum time for the entire answer, including all retries and the pauses between them.
    """

    connect: float | None = 10.0
    first_event: float | None = 120.0
    read: float | None = 60.0
    stall: float | None = 300.0
    total: float | None = None
