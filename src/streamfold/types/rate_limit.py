"""The rate limits that servers report in response headers, in the same format for all providers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

RateLimitResource: TypeAlias = Literal["requests", "tokens", "input_tokens", "output_tokens"]


@dataclass(frozen=True, slots=True)
class RateLimitWindow:
    """One rate limit. An attribute is None if the server didn't send this value.

    Attributes:
        limit: the maximum number of requests or tokens per window.
        reset_after: the time from the response until the full limit is available again, in seconds.
        period: the length of the time window to which `limit` applies, in seconds.
    """

    resource: RateLimitResource
    limit: float | None = None
    remaining: float | None = None
    reset_after: float | None = None
    period: float | None = None


@dataclass(frozen=True, slots=True)
class RateLimit:
    """The rate limits that the headers of one response contain.

    Attributes:
        windows: the rate limits. If a server limits the same resource in several time windows, the shortest window
            comes first.
        retry_after: the time to wait before the next request, in seconds, if the server sent it.
    """

    windows: tuple[RateLimitWindow, ...] = ()
    retry_after: float | None = None

    @property
    def requests(self) -> RateLimitWindow | None:
        """The limit on the number of requests. If there are several, the limit with the shortest window."""
        return self._first("requests")

    @property
    def tokens(self) -> RateLimitWindow | None:
        """The limit on input plus output tokens. If there are several, the limit with the shortest window."""
        return self._first("tokens")

    @property
    def input_tokens(self) -> RateLimitWindow | None:
        """The limit on input tokens. If there are several, the limit with the shortest window."""
        return self._first("input_tokens")

    @property
    def output_tokens(self) -> RateLimitWindow | None:
        """The limit on output tokens. If there are several, the limit with the shortest window."""
        return self._first("output_tokens")

    def _first(self, resource: RateLimitResource) -> RateLimitWindow | None:
        return next((window for window in self.windows if window.resource == resource), None)
