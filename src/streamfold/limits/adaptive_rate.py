"""Finds a server's unknown rate limit, and parses the limits in response headers.

The method is additive increase and multiplicative decrease: the rate grows with each accepted request, and shrinks
when the server refuses one.
"""

from __future__ import annotations

from typing import TypeAlias

from ..types import RateLimit, RateLimitWindow

State: TypeAlias = dict[str, float]
"""The state of one limit, as a store contains it. A missing key means 0."""

FIRST_RATE = 40.0  # requests per second
DOUBLING = 1.0  # each accepted request adds this to a rate that was never refused, or is far below a good rate
INCREASE = (0.02, 0.5, 0.005)  # per second: this share of the rate, at most this many requests, at least this share
DECREASE = (0.7, 0.97, 0.85)  # factors of the rate after the first refusal, a later one, and one with Retry-After
FAR, FLOOR = 0.75, 0.125  # shares of the last rate at which the server accepted a request
_LEARNED = ("rate", "stated", "lowered", "good", "accepts")
_LONGEST_WINDOW = 600.0  # seconds; longer ones are budgets, which are not spread evenly


def current_rate(state: State, stated: float, start: float, accepted: int) -> float:
    """Returns the rate for the next request, in requests per second. 0 means unlimited.

    Args:
        stated: the rate in the configuration or in the server's headers; 0 if unknown.
        start: the first rate to try if `stated` is unknown; 0 for no limit.
        accepted: the number of requests that the server has accepted since the last call. Each accepted request raises
            the rate.
    """
    if "rate" in state and state.get("stated", 0) != stated:
        forget_rate(state)  # the stated rate has changed
    if "rate" not in state:
        if stated or not start:
            return stated
        state["rate"] = start
    rate, (small, most, least) = state["rate"], INCREASE
    if accepted and ("lowered" not in state or rate < FAR * state.get("good", 0)):
        rate += DOUBLING * accepted
    elif accepted:
        rate += accepted / rate * max(min(small * rate, most), least * rate)
    if stated and rate >= stated:
        forget_rate(state)
        return stated
    state["rate"], state["accepts"] = rate, state.get("accepts", 0) or accepted
    return rate


def lower_rate(state: State, now: float, refused_rate: float, stated: float, *, rests: bool) -> None:
    """Lowers the rate after the server refused a request. Does nothing if the rate was lowered since that request was
    sent.
    """
    if state.get("stated", 0) != stated:
        forget_rate(state)
    rate, (first, later, resting) = state.get("rate", refused_rate), DECREASE
    if refused_rate > rate * 1.0001 or ("rate" not in state and refused_rate < 0.9 * stated):
        return
    left = first if "lowered" not in state else resting if rests else later
    if state.get("accepts") or "lowered" not in state:
        state["good"], state["accepts"] = rate * (1 if "lowered" in state else first), 0
    state["rate"] = max(FLOOR * state["good"], rate * left)  # a server that is down refuses everything
    state["stated"], state["lowered"] = stated, now


def forget_rate(state: State) -> None:
    for name in _LEARNED:
        state.pop(name, None)


def rates_from_headers(limit: RateLimit | None) -> tuple[float, float]:
    """Returns the requests and the tokens per second that a server's headers allow, or 0 for a limit that the headers
    don't contain.
    """
    if limit is None:
        return 0.0, 0.0
    parts = limit.input_tokens or limit.output_tokens  # then `tokens` isn't the sum but the narrowest of several limits
    return _per_second(limit.requests), 0.0 if parts else _per_second(limit.tokens)


def _per_second(window: RateLimitWindow | None) -> float:
    if window is None or not window.limit or window.limit <= 0:
        return 0.0
    period = window.period
    if period is None:  # a minute, as at OpenAI and Anthropic, unless the window refills more slowly
        used = 0.0 if window.remaining is None else window.limit - window.remaining
        slow = used > 0 and (window.reset_after or 0.0) * window.limit / used > _LONGEST_WINDOW
        period = 2 * _LONGEST_WINDOW if slow else 60.0
    return window.limit / period if period <= _LONGEST_WINDOW else 0.0
