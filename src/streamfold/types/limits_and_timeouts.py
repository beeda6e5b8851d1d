"""Bounds on size and time: how much of an answer is accepted, and how long each step may take."""

from __future__ import annotations

from dataclasses import dataclass

_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is accepted. Anything larger raises ProtocolError, which names the limit.

    Attributes:
        event_bytes: one server-sent event, or a whole body that is not an event stream.
        text_chars: the text of one answer.
        reasoning_chars: its reasoning.
        other_chars: everything else that an answer keeps: refusal, annotations, audio, opaque items.
        arguments_chars: the arguments of one tool call.
        all_arguments_chars: the arguments of all tool calls together.
        tool_calls: calls in one answer.
        name_chars: the name of a tool.
        id_chars: the id of a call; some providers put signatures into it.
        warnings: warnings on one reply. Further ones are counted, and the last warning says how many there were.
        error_body_bytes: how much of the body of an error status is read.
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
    """The clocks of an answer, in seconds. None switches one off.

    Attributes:
        connect: until there is a connection, TLS and the wait for a free place in the pool included.
        first_event: from the request to its first event. Configured, it is at least 600 for an answer that is asked for
            in one piece; given with a request, it is what it says.
        read: without any bytes, after the first event. Time that the reader of the stream spends does not count.
        stall: with bytes, but without an event that carries anything; comments and pings do not count.
        total: the whole answer, with all attempts and the pauses between them.
    """

    connect: float | None = 10.0
    first_event: float | None = 120.0
    read: float | None = 60.0
    stall: float | None = 300.0
    total: float | None = None
