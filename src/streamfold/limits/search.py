"""How a rate is found that nobody has configured, or that the server refuses.

It doubles until refusals are too many, which tells where the limit is: a server accepts what its limit allows. From
then on each span of answers makes it a little faster, or slower by what was refused. Now and then a much faster rate is
tried for a moment: if it is refused no more than before, the limit is elsewhere, and the refusals have other reasons.
"""

from __future__ import annotations

from dataclasses import replace

from ..values import RateLimit, RateLimitWindow
from .belief import FIRST_NEED, Belief

FIRST_RATE = 40.0  # requests per second
_LOWEST_RATE = 1 / 60
_FIRST_SECONDS, _SECONDS = 0.3, 1.0  # for which a rate is looked at: as long as it doubles, and from then on
_KEPT_UP = 1.5  # times the seconds that sending should have taken
_MANY, _SHARE = 4, 0.2  # refusals, and their part of the answers since the first of them: this is too fast
_FEW = 0.05  # the part of refusals that does not end the doubling
_ALL, _LEFT = 0.99, 0.97  # of the rate that is configured, of the rate that the server has accepted
_UP, _DOWN = 0.0005, 0.04  # by which it goes up without a refusal, and at least down with some
_A_LITTLE = 0.9  # what is left of a rate that was right until now
_TOWARDS = 0.03  # the part of the way to a rate that was tried in vain, by which it goes up
_FASTER = 1.5  # the rate that is tried
_AT_ONCE, _SOON, _LATE = 2, 8, 60  # after how many spans: where none was tried in vain, below one that was, and
_KNOWN = 0.9  # from this part of it on
_BLIND, _BLINDLY = 0.5, 0.25  # where nothing is accepted: the slowest rate, and the part that is left each time
_LONGEST_WINDOW = 600.0  # seconds; longer ones are budgets, and spreading them evenly would help nobody


def better_belief(belief: Belief, cap: float = 0.0) -> Belief | None:
    """Returns what to believe after the answers so far; None: the same.

    Args:
        cap: the rate that is configured, or that the server says; 0: neither.
    """
    if not belief.rate:
        return None
    rate, base, answers = belief.rate, belief.base, belief.clean + belief.refused
    if belief.refused >= _MANY and belief.refused >= _SHARE * (belief.refused + belief.since):
        return _too_fast(belief)
    if answers < belief.need or not belief.filled:
        return None
    slow = belief.filled > _KEPT_UP * belief.need / rate  # slower than allowed: it proves nothing
    if rate == base:
        found = _next_span(belief, answers, slow=slow)
    elif base and belief.refused >= _SHARE * answers:
        return _too_fast(belief)
    elif slow:
        found = replace(belief, rate=base or rate)
    elif base:
        found = replace(belief, rate=rate * _FASTER, base=rate, vain=0.0)
    elif belief.refused > _FEW * answers:
        found = replace(belief, base=rate)
    else:
        found = replace(belief, rate=rate * 2)
    if cap and found.base >= cap * _ALL:
        return Belief(belief.epoch)
    return _needing(found)


def first_doubt(belief: Belief, sent_at: float) -> Belief | None:
    """Returns what to believe after the first refusal at a rate that was told or configured; None: the same."""
    return None if belief.rate or not sent_at else _needing(replace(belief, rate=sent_at, base=sent_at))


def _next_span(belief: Belief, answers: int, *, slow: bool) -> Belief:
    rate, vain, calm = belief.rate, belief.vain, belief.calm + 1
    if belief.refused > (belief.calm < _AT_ONCE):  # one may be of the rate before
        vain = (vain + 2 * rate) / 3 if vain else 0.0  # the limit is rather here than there
        rate *= 1 - max(_DOWN, (belief.refused - 1) / answers)
    elif not slow:
        rate *= 1 + max(_UP, _TOWARDS * (vain / rate - 1))
    known = rate * _FASTER >= vain * _KNOWN
    if slow or calm < (_AT_ONCE if not vain else _LATE if known else _SOON):
        return replace(belief, rate=rate, base=rate, vain=vain, calm=calm)
    return replace(belief, rate=rate * _FASTER, base=rate, vain=vain, calm=0)


def _too_fast(belief: Belief) -> Belief:
    """Goes back to what the server has accepted, or to the rate that was right before a faster one was tried."""
    if not belief.since:  # the server accepts nothing, as if it were down: that says nothing of its limit
        rate = max(min(belief.rate, _BLIND), belief.rate * _BLINDLY)
        return _needing(replace(belief, rate=rate, base=0.0, calm=0, vain=0.0))
    if belief.rate == belief.base and belief.calm:  # it was right a moment ago; some servers refuse every other request
        rate = belief.rate * _A_LITTLE  # of a rate that is hardly too fast, so their number says nothing
        return _needing(replace(belief, rate=rate, base=rate, calm=0, vain=belief.rate))
    accepted = belief.since / (belief.refused + belief.since)
    rate = max(_LOWEST_RATE, belief.rate * accepted * _LEFT)
    if belief.rate > belief.base > 0:
        rate = max(rate, belief.base)
        return _needing(replace(belief, rate=rate, base=rate, calm=1, vain=belief.rate))
    return _needing(replace(belief, rate=rate, base=rate, calm=0))


def _needing(belief: Belief) -> Belief:
    seconds = _SECONDS if belief.base else _FIRST_SECONDS
    return replace(belief, need=max(FIRST_NEED, round(belief.rate * seconds)))


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
