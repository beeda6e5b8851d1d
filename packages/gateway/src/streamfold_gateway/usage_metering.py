"""What a request of a limited key is charged: however it ends, and whoever leaves before."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import TypeAlias

import anyio

from streamfold import APIError, ChatStream, Cost, Reply, StreamChunk, UpstreamError, Usage
from streamfold.limits import Reservation, estimated_tokens, failed_before_answer, text_tokens
from streamfold.types import Request

Pricer: TypeAlias = Callable[[Usage], Cost | None]

_ASSUMED = 16_384  # tokens of an answer that is not limited
_FASTEST = 500  # tokens a second that a model writes: of what it hides, nothing else is known


class UsageMeter:
    """Settles the reservation of one request by what the provider says it used, else by the best count at hand.

    Args:
        cost: returns what so many tokens cost; None if that is not known.
        reads_on: whether tokens or money are limited: see the attribute.

    Attributes:
        reads_on: whether an answer is worth reading to its end for what that says of its use.
    """

    def __init__(self, reservation: Reservation, request: Request, cost: Pricer, *, reads_on: bool) -> None:
        self.reads_on = reads_on
        self._reservation = reservation
        self._request = request
        self._cost = cost
        self._began: float | None = None
        self._stream: ChatStream | None = None
        self._written = 0
        self._reply: Reply | None = None
        self._whole = False
        self._error: APIError | None = None

    def begin(self, stream: ChatStream) -> None:
        """Notes that the provider is asked."""
        self._began, self._stream = anyio.current_time(), stream

    def take(self, chunk: StreamChunk) -> None:
        """Counts a part of the answer."""
        self._written += text_tokens(chunk.delta) + text_tokens(chunk.reasoning)

    def answered(self, reply: Reply) -> None:
        """Notes the whole answer, which the provider has made whether or not its client still wants it."""
        self._reply, self._whole = reply, True

    def failed(self, error: APIError) -> None:
        """Notes that the answer broke off, or that there was none."""
        self._error, self._reply = error, error.partial

    def not_sent(self) -> None:
        """Notes that the provider could not be asked."""
        self._began = None

    async def aclose(self) -> None:
        """Settles the reservation, and closes it."""
        self.settle()
        await self._reservation.aclose()

    def settle(self) -> None:
        """Settles the reservation by what is known now."""
        if self._began is None:
            self._reservation.cancel()
            return
        counted, error = self._counted(), self._error
        if error is not None and not counted and (failed_before_answer(error) or isinstance(error, UpstreamError)):
            self._reservation.failed()
            return
        usage, cost = (self._reply.usage, self._reply.cost) if self._reply else (None, None)
        if usage is None or usage.input_tokens is None or usage.output_tokens is None or not self._whole:
            if not self._whole and error is None:  # its client has left
                hidden = ceil((anyio.current_time() - self._began) * _FASTEST)
                counted = max(counted, min(hidden, _most_output(self._request)))
            read = usage.input_tokens if usage and usage.input_tokens is not None else estimated_tokens(self._request)
            written = max(counted, usage.output_tokens or 0 if usage else 0)
            usage, cost = Usage(read, written, read + written), cost if self._whole else None
        self._reservation.charge(usage, cost or self._cost(usage), partial=not self._whole)

    def _counted(self) -> int:
        """Returns the tokens of the answer that were seen."""
        calls = self._reply.tool_calls if self._reply else ()
        written = self._stream.partial_tool_calls if self._stream else ()
        texts = [*(call.raw_arguments for call in calls), *(call.text for call in written)]
        return self._written + sum(map(text_tokens, texts))


def _most_output(request: Request) -> int:
    """Returns how many tokens the answer to a request may have, as far as that is known."""
    return request.options.max_output_tokens or _ASSUMED


def most_expected(request: Request, most_output: int | None) -> Usage:
    """Returns what a request may use at most.

    Args:
        most_output: tokens that the answer may have at most; None: as the request says, or what is assumed.
    """
    read, written = estimated_tokens(request), most_output or _most_output(request)
    return Usage(read, written, read + written)
