"""How a rate is found that nobody has configured: between the fastest that was clean and the slowest that was refused.

It doubles until the first refusal. What was under way then says about where the limit is; the gap is halved after that,
and near the limit the rate goes up slowly, because limits change. A rate counts as clean only if as many requests were
really sent as it allows.
"""

from __future__ import annotations

from ..values import RateLimit, RateLimitWindow
from .algorithm import Belief

__all__ = ["FIRST_RATE", "after_clean", "after_refusal", "after_sample", "told_rate"]

FIRST_RATE = 40.0  # requests per second
_LOWEST_RATE = 1 / 60
_FEWEST = 5  # answers that say anything about a rate
_FIRST_SECONDS, _SECONDS = 0.3, 1.0  # for which a rate must be clean, before the first refusal and after it
_NEAR = 0.03  # the gap between clean and refused that is near enough
_UP, _FASTER = 0.0002, 1.2  # by which it goes up from then on, and how much faster each time
_MOST_UP = 0.1
_PROBED = 0.975  # what is left of a rate that was refused near the limit
_CUTS = (0.97, 0.9, 0.75, 0.5)  # what is left of another one, after one refusal and after more in a row
_KEPT_UP = 1.5  # times the seconds that sending should have taken
_SAMPLE = 10  # requests that tell which part of a rate is accepted
_MOSTLY = 0.9  # the part from which on a rate was nearly right
_LONGEST_WINDOW = 600.0  # seconds; longer ones are budgets, and spreading them evenly would help nobody


def after_clean(belief: Belief, cap: float = 0.0) -> Belief | None:
    """Returns what to believe after clean answers; None: the same.

    Args:
        cap: the rate that is configured, or that the server says; 0: neither.
    """
    if not belief.rate or belief.clean < belief.need or not belief.filled:
        return None
    rate, high = belief.rate, belief.high
    if belief.filled > _KEPT_UP * belief.need / rate:  # slower than allowed: it proves nothing
        return _belief(belief, rate, belief.low, high, belief.refusals)
    low, steady = max(belief.low, rate), 0
    if not high:
        rate *= 2
    elif high - rate > _NEAR * high:
        rate = (rate + high) / 2
    else:
        steady = belief.steady + 1
        rate *= 1 + min(_UP * _FASTER**steady, _MOST_UP)
        high = max(high, rate)
    if cap and rate >= cap * (1 - _NEAR / 4):
        return Belief(belief.epoch)
    return _belief(belief, rate, low, high, 0, steady)


def after_refusal(belief: Belief, sent_at: float) -> Belief:
    """Returns what to believe after "too many requests".

    Args:
        sent_at: the rate at which the request was sent.
    """
    if belief.steady:
        rate = sent_at * _PROBED
    else:
        left = _CUTS[min(belief.refusals, len(_CUTS) - 1)]
        clean = belief.low if belief.low and not belief.refusals else sent_at
        rate = min(clean, sent_at) * left
    rate = max(_LOWEST_RATE, rate)
    high = min(belief.high or sent_at, sent_at)
    return _belief(belief, rate, min(belief.low, rate), max(high, rate), belief.refusals + 1)


def after_sample(belief: Belief, sent_at: float, accepted: int, refused: int) -> Belief | None:
    """Returns what to believe after the answers to all that was under way at a refusal; None: the same.

    From the first refusal on, a server accepts as many requests as its limit allows, whatever it had saved up before.
    So the part that it accepts says where the limit is.
    """
    number = accepted + refused
    if number < _SAMPLE or accepted > _MOSTLY * number:
        return None
    middle, spread = sent_at * max(accepted, 1) / number, max(_NEAR, min(0.5, 3 / number))
    rate = max(_LOWEST_RATE, middle * (1 - spread))
    return _belief(belief, rate, 0.0, middle * (1 + spread), belief.refusals)


def told_rate(limit: RateLimit | None) -> tuple[float, float]:
    """Returns the requests and the tokens per second that a server allows by its headers; 0: it does not say."""
    if limit is None:
        return 0.0, 0.0
    parts = limit.input_tokens or limit.output_tokens  # then `tokens` is the narrowest of several, not all tokens
    return _per_second(limit.requests), 0.0 if parts else _per_second(limit.tokens)


def _per_second(window: RateLimitWindow | None) -> float:
    if window is None or not window.limit or window.limit <= 0:
        return 0.0
    period = window.period
    if period is None:  # a minute, as OpenAI and Anthropic have it, unless it fills up more slowly
        used = 0.0 if window.remaining is None else window.limit - window.remaining
        slow = used > 0 and (window.reset_after or 0.0) * window.limit / used > _LONGEST_WINDOW
        period = 2 * _LONGEST_WINDOW if slow else 60.0
    return window.limit / period if period <= _LONGEST_WINDOW else 0.0


def _belief(before: Belief, rate: float, low: float, high: float, refusals: int, steady: int = 0) -> Belief:
    need = max(_FEWEST, round(rate * (_SECONDS if high else _FIRST_SECONDS)))
    return Belief(before.epoch, rate, low, high, need, refusals, steady)
