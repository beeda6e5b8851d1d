"""Rate limits as servers report them in response headers, in one form for all vendors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

RateLimitResource: TypeAlias = Literal["requests", "tokens", "input_tokens", "output_tokens"]


@dataclass(frozen=True, slots=True)
class RateLimitWindow:
    """One limit. Members that the server did not send are None.

    Attributes:
        limit: the allowance per window.
        reset_after: seconds until the window is full again, counted from the response.
        period: the length of the window in seconds.
    """

    resource: RateLimitResource
    limit: float | None = None
    remaining: float | None = None
    reset_after: float | None = None
    period: float | None = None


@dataclass(frozen=True, slots=True)
class RateLimit:
    """The rate limits in the headers of one response.

    Attributes:
        windows: the shortest window of each resource first.
        retry_after: seconds to wait before the next request, if the server says so.
    """

    windows: tuple[RateLimitWindow, ...] = ()
    retry_after: float | None = None

    @property
    def requests(self) -> RateLimitWindow | None:
        """The shortest window that counts requests."""
        return self._first("requests")

    @property
    def tokens(self) -> RateLimitWindow | None:
        """The shortest window that counts input and output tokens together."""
        return self._first("tokens")

    @property
    def input_tokens(self) -> RateLimitWindow | None:
        """The shortest window that counts input tokens."""
        return self._first("input_tokens")

    @property
    def output_tokens(self) -> RateLimitWindow | None:
        """The shortest window that counts output tokens."""
        return self._first("output_tokens")

    def _first(self, resource: RateLimitResource) -> RateLimitWindow | None:
        return next((window for window in self.windows if window.resource == resource), None)
