"""Size limits and timeouts of an answer."""

from __future__ import annotations

from dataclasses import dataclass

_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Limits:
    """Size limits of an answer. A larger answer raises ProtocolError, which names the limit.

    Attributes:
        event_bytes: the maximum size of one server-sent event, or of a body that isn't an event stream.
        other_chars: the maximum size of refusals, annotations, audio and opaque items together.
        arguments_chars, all_arguments_chars: the maximum size of the arguments of one tool call, and of all tool calls
            together.
        id_chars: the maximum length of a tool call id. Some providers put signatures into the id.
        warnings: the maximum number of warnings. The last warning counts the omitted warnings.
        error_body_bytes: the maximum number of bytes that are read from an error response.
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
    """Timeouts of an answer, in seconds. None disables a timeout.

    Attributes:
        connect: the time until a connection is open, including TLS and the wait for a pooled connection.
        first_event: the time from the request to the first SSE event. For complete responses (`stream=False`), a
            configured timeout is raised to at least 600 seconds.
        read: the time without any bytes, after the first SSE event. Time that your program spends between chunks
            doesn't count.
        stall: the time without an SSE event that has content. Comments and pings aren't content.
        total: the time for the whole answer, including all retries and the pauses between retries.
    """

    connect: float | None = 10.0
    first_event: float | None = 120.0
    read: float | None = 60.0
    stall: float | None = 300.0
    total: float | None = None
