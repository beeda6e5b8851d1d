"""Rate limits as servers report them in response headers, in one form for all vendors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

RateLimitResource: TypeAlias = Literal["requests", "tokens", "input_tokens", "output_tokens"]


@dataclass(frozen=True, slots=True)
class RateLimitWindow:
    """One rate limit. Values that the server didn't send are None.

    Attributes:
        limit: the maximum number of requests or tokens per window.
        reset_after: the number of seconds from the response until the full limit is available again.
        period: the window's length in seconds.
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
        windows: the rate limits; for each resource, the shortest window comes first.
        retry_after: the number of seconds to wait before the next request, if the server sent this value.
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
