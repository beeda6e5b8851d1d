"""The arithmetic of limits, without waiting and without input or output: a state, a moment and a question go in.

Requests and tokens are lines of reservations (the generic cell rate algorithm): a request takes the next free moment,
and the moment after it moves on by what the request needs. What it really used is settled when that is known.
`lua.py` says the same for Valkey and Redis. Times are seconds since 1970 by the clock of the store, money is whole
billionths of a currency's unit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, floor
from typing import Literal, TypeAlias

from .belief import FIRST_NEED, NO_BELIEF, Belief, State, belief_in, change, count_answers, count_sent

DAY = 86400.0
POLL = 0.1  # seconds until a process that found all places taken asks again
MEAN_OF = 30  # answers that a learned mean goes back to
LARGEST = 1e15  # number that a store can have written; money is exact up to there
FARTHEST = 2 * DAY  # seconds ahead that a moment can be; then a store forgets what nobody uses
MOMENTS = ("requests", "tokens_from", "rest", "began")  # and what begins with `x:` or `w:`


@dataclass(slots=True)
class Ask:
    """A question: may so many requests be sent? Nobody changes one; freezing it would make it five times as dear.

    Attributes:
        requests: at most this many; fewer may be granted.
        horizon: seconds that a moment may be away to be reserved.
        lease: seconds for which several moments may be reserved at once.
        burst: seconds of unused allowance that may be caught up with.
        rate, token_rate: requests and tokens per second; 0: no limit.
        start: the rate from which one is searched for; 0: it is not.
        tokens: of one request, as long as no mean is known.
        slots: requests at once; 0: no limit.
        budget: money for a day; 0: no limit.
        money: what one request may cost at most; 0: not known, so that what answers have cost is reserved, or all that
            is left as long as nothing has.
        day, spent: what the caller knows to have been spent on a day, in case that the store has lost it.
        holder: who holds the slots, and the money of requests under way.
        lifetime: seconds after which the slots of a holder that shows no sign of life are free again. Of the money that
            it had reserved, what its requests cost in the mean stays spent.
        epoch, clean, refused: answers that came at a rate, which had this epoch, and refusals.
        since: clean answers after the first of the refusals.
    """

    requests: int = 1
    horizon: float = 1.0
    lease: float = 0.0
    burst: float = 0.0
    rate: float = 0.0
    token_rate: float = 0.0
    start: float = 0.0
    tokens: float = 0.0
    slots: int = 0
    budget: int = 0
    money: int = 0
    day: int = 0
    spent: int = 0
    holder: str = ""
    lifetime: float = float("inf")
    epoch: int = 0
    clean: int = 0
    refused: int = 0
    since: int = 0


Reason: TypeAlias = Literal["", "rate", "rest", "slots", "held", "budget"]


@dataclass(slots=True)
class Grant:
    """The answer to an `Ask`, as cheap as that.

    Attributes:
        requests: how many may be sent; 0: none now, for this `reason`.
        wait: seconds until the first one, or until it is worth asking again.
        step: seconds from one to the next.
        rate, token_rate: requests and tokens per second at which they were reserved; 0: any.
        tokens, cost: what was reserved for each.
        mean: what an answer has cost in the mean.
        day, spent: what has been spent today, with what is reserved.
        slots: whether each holds a slot.
        holder: who holds slots and money.
        local: whether it is of this process alone, because the store could not be used.
    """

    requests: int = 0
    wait: float = 0.0
    step: float = 0.0
    rate: float = 0.0
    token_rate: float = 0.0
    tokens: float = 0.0
    cost: int = 0
    mean: int = 0
    day: int = 0
    spent: int = 0
    reason: Reason = ""
    belief: Belief = NO_BELIEF
    slots: bool = False
    holder: str = ""
    local: bool = False

    def given_back(self, requests: int = 1) -> Settlement:
        """Returns the settlement that gives back what was reserved for some of the requests."""
        return Settlement(
            request_seconds=-requests / self.rate if self.rate else 0.0,
            token_seconds=-requests * self.tokens / self.token_rate if self.token_rate else 0.0,
            money=-requests * self.cost,
            held=requests * self.cost,
            day=self.day,
            slots=requests if self.slots else 0,
            requests=requests,
            holder=self.holder,
            local=self.local,
        )


@dataclass(slots=True)
class Settlement:
    """How a reservation ended.

    Attributes:
        request_seconds, token_seconds: by how much the lines move: back if less was used than was reserved.
        tokens, cost: what was used, to learn from; None if that is not known.
        money: what is spent beyond what was reserved.
        held: what was reserved, and is so no longer.
        day: the day of the reservation.
        slots: how many are free again.
        requests: how many it is for.
        local: as in the grant.
    """

    request_seconds: float = 0.0
    token_seconds: float = 0.0
    tokens: float | None = None
    cost: int | None = None
    money: int = 0
    held: int = 0
    day: int = 0
    slots: int = 0
    requests: int = 1
    holder: str = ""
    local: bool = False

    def plus(self, other: Settlement) -> Settlement:
        """Returns one settlement for two of the same holder and day. What is learned is of the later one."""
        return replace(
            self,
            request_seconds=self.request_seconds + other.request_seconds,
            token_seconds=self.token_seconds + other.token_seconds,
            tokens=self.tokens if other.tokens is None else other.tokens,
            cost=self.cost if other.cost is None else other.cost,
            money=self.money + other.money,
            held=self.held + other.held,
            slots=self.slots + other.slots,
            requests=self.requests + other.requests,
        )


def read(stored: object, now: float) -> State:
    """Returns a state that was stored where others may write too. What can't have come from here counts as missing."""
    found = stored if isinstance(stored, dict) else {}
    state: State = {
        name: value
        for name, value in found.items()
        if isinstance(value, int | float)
        and abs(value) <= LARGEST  # also false for NaN
        and not ((name in MOMENTS or name[:2] in ("x:", "w:")) and value > now + FARTHEST)
    }
    return {
        name: value for name, value in state.items() if name[:2] not in ("h:", "m:", "n:") or f"x:{name[2:]}" in state
    }


def take(state: State, now: float, ask: Ask) -> Grant:
    """Reserves moments for requests, if they are near enough."""
    get = state.get
    day = _begin(state, now, ask)
    spent, mean, cost, number = int(state["spent"]), floor(get("cost", 0) + 0.5), 0, ask.requests

    def refused(reason: Reason, wait: float) -> Grant:
        return Grant(0, wait, mean=mean, day=day, spent=spent, reason=reason, belief=belief_in(state))

    if ask.budget:
        left = ask.budget - spent
        held = sum(money for field, money in state.items() if field.startswith("m:"))
        wanted = ask.money or (floor(get("most", 0) + 0.5) if "cost" in state else left)
        if left <= 0 or mean > left or (held and wanted > left):
            return refused("held", POLL) if held else refused("budget", (day + 1) * DAY - now)
        cost = min(wanted, left)  # one alone may begin with less than it wants
        number = min(number, left // cost) if cost else number
    if ask.slots:
        number = min(number, _free(state, ask))
        if number <= 0:
            state[f"w:{ask.holder}"] = now + 3 * POLL
            return refused("slots", POLL)
    believed = (get("filled") and get("base")) or get("rate", 0)
    rate = min(ask.rate or believed, believed or ask.rate)
    tokens = get("tokens") or ask.tokens
    rest = get("rest", 0)
    earliest = max(now - ask.burst, rest)
    requests_from, tokens_from = max(get("requests", 0), earliest), max(get("tokens_from", 0), earliest)
    moment = max(earliest, requests_from if rate else 0, tokens_from if ask.token_rate else 0)
    if moment - now > ask.horizon:
        return refused("rest" if moment <= rest else "rate", moment - now)
    step = max(1 / rate if rate else 0, tokens / ask.token_rate if ask.token_rate else 0)
    if step:
        number = min(number, max(1, int(ask.lease / step)))
    if rate:
        state["requests"] = requests_from + number / rate
    if ask.token_rate:
        state["tokens_from"] = tokens_from + number * tokens / ask.token_rate
    if ask.slots or ask.budget:
        spent = _occupy(state, now, ask, number, cost)
    count_sent(state, number, max(moment, now), step)
    return Grant(
        requests=number,
        wait=max(0.0, moment - now),
        step=step,
        rate=rate,
        token_rate=ask.token_rate,
        tokens=tokens,
        cost=cost,
        mean=mean,
        day=day,
        spent=spent,
        belief=belief_in(state),
        slots=ask.slots > 0,
        holder=ask.holder if ask.slots or ask.budget else "",
    )


def _begin(state: State, now: float, ask: Ask) -> int:
    """Takes note of what has happened since the last question. Returns the day."""
    get = state.get
    if (ask.clean or ask.refused) and get("rate") and ask.epoch == get("epoch", 0):
        count_answers(state, ask.clean, ask.refused, ask.since)
    if not get("rate") and ask.start:
        change(state, Belief(rate=ask.start, need=FIRST_NEED))
    day = _begin_day(state, now, ask)
    if ask.slots or ask.budget:
        _forget_dead(state, now)
    return day


def _occupy(state: State, now: float, ask: Ask, number: int, cost: int) -> int:
    """Notes who holds slots and money. Returns what is spent then."""
    if ask.budget:
        state["spent"] += number * cost
        _hold(state, ask.holder, number, number * cost)
    if ask.slots:
        state[f"h:{ask.holder}"] = state.get(f"h:{ask.holder}", 0) + number
        state.pop(f"w:{ask.holder}", None)
    state[f"x:{ask.holder}"] = now + min(ask.lifetime, FARTHEST)
    return int(state["spent"])


def _begin_day(state: State, now: float, ask: Ask) -> int:
    """Returns the day; a new one begins with nothing spent, or with what the asker knows of it."""
    day = int(now // DAY)
    if state.get("day") != day:
        known = ask.spent if "day" not in state and ask.day == day else 0
        state["day"], state["spent"] = day, known
        for field in [field for field in state if field[:2] in ("m:", "n:")]:
            del state[field]
    return day


def settle(state: State, now: float, settlement: Settlement) -> None:
    """Corrects what was reserved by what was used."""
    for line, seconds in (
        ("requests", settlement.request_seconds),
        ("tokens_from", settlement.token_seconds),
    ):
        if seconds and line in state:
            state[line] += seconds
    if settlement.tokens is not None:
        _learn(state, "tokens", settlement.tokens)
    if settlement.cost is not None:
        _learn(state, "cost", settlement.cost)
        most = state.get("most", 0)
        state["most"] = max(settlement.cost, most - (most - settlement.cost) / MEAN_OF)
    if settlement.held and settlement.day == state.get("day"):
        _hold(state, settlement.holder, -settlement.requests, -settlement.held)
    if settlement.money and "day" in state and settlement.day >= state["day"]:  # yesterday's budget is closed
        before = state["spent"] if settlement.day == state["day"] else 0
        state["day"], state["spent"] = settlement.day, max(0, before + settlement.money)
    if settlement.slots:
        held = f"h:{settlement.holder}"
        state[held] = max(0, state.get(held, 0) - settlement.slots)


def believe(state: State, now: float, rest: float, belief: Belief | None) -> None:
    """Sends nothing for a while, and changes the belief unless somebody else has done so."""
    if rest > 0:
        state["rest"] = max(state.get("rest", 0), now + rest)
    if belief is not None and belief.epoch == state.get("epoch", 0):
        change(state, belief)


def alive(state: State, now: float, holder: str, held: int, lifetime: float) -> None:
    """Notes that a holder of slots is alive, with so many of them if the store has lost them."""
    if f"h:{holder}" not in state:
        state[f"h:{holder}"] = held
    state[f"x:{holder}"] = now + min(lifetime, FARTHEST)


def _forget_dead(state: State, now: float) -> None:
    """Forgets what those hold that have shown no sign of life for long, and who has not asked again."""
    for field in [field for field, until in state.items() if field[:2] in ("x:", "w:") and until < now]:
        del state[field]
        if field[0] == "x":
            state.pop(f"h:{field[2:]}", None)
            money, number = state.pop(f"m:{field[2:]}", 0), state.pop(f"n:{field[2:]}", 0)
            used = min(money, number * floor(state.get("cost", 0) + 0.5))
            state["spent"] = max(0, state.get("spent", 0) - money + used)


def _hold(state: State, holder: str, requests: int, money: int) -> None:
    """Adds to the money that the requests of a holder have reserved."""
    for field, more in ((f"n:{holder}", requests), (f"m:{holder}", money)):
        state[field] = max(0, state.get(field, 0) + more)


def _free(state: State, ask: Ask) -> int:
    """How many slots are free for a holder: not more than its share while others wait, too."""
    held = {field[2:]: int(number) for field, number in state.items() if field.startswith("h:")}
    waiting = {field[2:] for field in state if field.startswith("w:")} - {ask.holder}
    free = ask.slots - sum(held.values())
    if waiting:
        parties = waiting | {ask.holder} | {holder for holder, number in held.items() if number}
        free = min(free, ceil(ask.slots / len(parties)) - held.get(ask.holder, 0))
    return free


def _learn(state: State, name: str, value: float) -> None:
    count = min(state.get(f"{name}_of", 0) + 1, MEAN_OF)
    state[f"{name}_of"] = count
    state[name] = state.get(name, 0) + (value - state.get(name, 0)) / count
