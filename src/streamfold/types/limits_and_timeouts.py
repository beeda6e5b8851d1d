"""Bounds on size and time: how much of an answer is accepted, and how long each step may take."""

from __future__ import annotations

from dataclasses import dataclass

_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Limits:
    """Size limits of an answer. Anything larger raises ProtocolError, which names the limit.

    Attributes:
        event_bytes: one server-sent event, or a body that isn't an event stream.
        other_chars: refusal, annotations, audio, opaque items.
        arguments_chars, all_arguments_chars: the arguments of one call, and of all calls.
        id_chars: the id of a call; some providers put signatures into it.
        warnings: further warnings are only counted, in the last warning.
        error_body_bytes: how much of an error body is read.
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
    """Timeouts of an answer, in seconds. None disables one.

    Attributes:
        connect: until connected, including TLS and the wait for a pooled connection.
        first_event: from the request to its first event. A configured value is at least 600 for whole answers.
        read: without any bytes, after the first event. Time spent by the reader of the stream does not count.
        stall: without an event that has content; comments and pings do not count.
        total: the whole answer, with all attempts and the pauses between them.
    """

    connect: float | None = 10.0
    first_event: float | None = 120.0
    read: float | None = 60.0
    stall: float | None = 300.0
    total: float | None = None
