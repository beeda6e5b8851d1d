"""Decides when requests may be sent: applies batches of operations to the state of one limit. Does no I/O.

Requests and tokens are limited by the generic cell rate algorithm. A request reserves the next free time. The request's
expected usage determines when the following request may be sent. When the real usage is known, it replaces the expected
usage. A Lua script in `valkey.py` implements the same algorithm. Times are in seconds since 1970, by the store's clock.
Amounts of money are integers in millionths of the currency unit: 1 USD is 1,000,000.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, inf
from typing import Any, Literal, TypeAlias, cast

from ..errors import LimitStoreError
from .adaptive_rate import State, current_rate, lower_rate

DAY = 86400.0
POLL = 0.1  # seconds until a process that found no free slot tries again
QUIET = 5.0  # seconds without any batch; after a longer pause, leases are extended: the store was down
MEAN_OF = 30  # answers in a moving average
LARGEST = 1e15  # the largest exact amount of money; larger numbers are ignored
FARTHEST = 2 * DAY  # seconds from now to the latest possible time; unused limits expire after this time
MOMENTS = ("requests", "tokens_from", "rest", "lowered")  # and all fields that begin with `x:` or `w:`
MONEY = ("spent", "cost", "most")  # and all fields that begin with `m:`


@dataclass(slots=True)
class Reserve:
    """An operation that reserves the times at which requests may be sent. The class isn't frozen, because creating an
    instance of a frozen dataclass takes five times as long.

    Attributes:
        requests: the maximum number of requests to reserve. The store may grant fewer.
        max_wait: the maximum time until the first request may be sent, in seconds.
        prefetch: a period in seconds. One operation reserves only requests that may be sent in this period, but at
            least one.
        burst: for how many seconds unused capacity is saved, so that later requests can use it.
        rate, token_rate: the limits in requests and tokens per second. 0 means no limit.
        start: the first rate to try if the rate is unknown. 0 means no limit.
        accepted: the number of requests that the server has accepted since the last batch. An adaptive rate grows with
            this number.
        tokens: the expected number of tokens of a request, used until the average of real answers is known.
        slots: the maximum number of parallel requests. 0 means no limit.
        budget: the maximum amount of money per day, in millionths of the currency unit. 0 means no limit.
        money: the maximum cost of one request, in millionths of the currency unit, or 0 if unknown. If it is 0, the
            store reserves the cost of the most expensive answer so far. While no answer's cost is known, it reserves
            the entire rest of the budget.
    """

    requests: int = 1
    max_wait: float = 1.0
    prefetch: float = 0.0
    burst: float = 0.0
    rate: float = 0.0
    token_rate: float = 0.0
    start: float = 0.0
    accepted: int = 0
    tokens: float = 0.0
    slots: int = 0
    budget: int = 0
    money: int = 0


@dataclass(slots=True)
class Charge:
    """An operation that replaces a reservation with the real usage of the request.

    Attributes:
        request_seconds, token_seconds: the additional delay of the next request by the limit of requests and by the
            limit of tokens, in seconds. Negative if the real usage was below the reserved usage.
        tokens, cost: the tokens and the cost of the answer, from which averages are computed. None if unknown.
        money: the real cost minus the reserved cost.
        reserved: the reserved money to release.
        day: the day on which the reservation was made.
        slots: the number of slots for parallel requests to release.
        requests: the number of requests to which the charge applies.
    """

    request_seconds: float = 0.0
    token_seconds: float = 0.0
    tokens: float | None = None
    cost: int | None = None
    money: int = 0
    reserved: int = 0
    day: int = 0
    slots: int = 0
    requests: int = 1

    def plus(self, other: Charge) -> Charge:
        """Returns the sum of two charges of the same day."""
        return replace(
            self,
            request_seconds=self.request_seconds + other.request_seconds,
            token_seconds=self.token_seconds + other.token_seconds,
            tokens=self.tokens if other.tokens is None else other.tokens,
            cost=self.cost if other.cost is None else other.cost,
            money=self.money + other.money,
            reserved=self.reserved + other.reserved,
            slots=self.slots + other.slots,
            requests=self.requests + other.requests,
        )


@dataclass(slots=True)
class PauseSending:
    """An operation that pauses all requests for some seconds, or lowers the rate after the server refused a request.

    Attributes:
        rest: the length of the pause, in seconds.
        refused_rate: the rate at which the refused request was sent. 0 means that the rate was unlimited.
        rate: the rate from the configuration or from the server's headers. 0 means unknown.
    """

    rest: float = 0.0
    refused_rate: float = 0.0
    rate: float = 0.0


Operation: TypeAlias = Reserve | Charge | PauseSending


@dataclass(slots=True)
class Batch:
    """The operations of one limiter. A store applies all operations in one step. If a batch is sent twice, the store
    applies it only once.

    Attributes:
        holder: a random id of the limiter.
        number: the batch's number, which increases with each batch of the limiter. 0 means that the batch is never sent
            twice.
        lease: the number of seconds without a batch after which the store assumes that the limiter has crashed. The
            store then releases the limiter's slots, and the reserved money that exceeds the average cost of its
            requests. 0 means that the limiter reserves neither slots nor money.
        budgeted: True if the limiter has a budget.
        slots, money: the slots and the money that the limiter has reserved before this batch.
        reserved: the number of requests for which money is reserved.
        born, day, spent: the values from the last `BatchAnswer`, in case the store has lost its state since then.
        leaves: True if the limiter closes, and sends no batch after this one.
    """

    operations: Sequence[Operation] = ()
    holder: str = ""
    number: int = 0
    lease: float = 0.0
    budgeted: bool = False
    slots: int = 0
    money: int = 0
    reserved: int = 0
    born: float = 0.0
    day: int = 0
    spent: int = 0
    leaves: bool = False

    def to_json(self) -> str:
        """Returns the batch as JSON for the Lua script in `valkey.py`, in which a missing key means 0."""
        operations = [{"kind": type(operation).__name__, **_members(operation)} for operation in self.operations]
        return json.dumps({**_members(self), "holder": self.holder, "operations": operations})


def _members(value: Batch | Operation) -> dict[str, Any]:
    members = {name: getattr(value, name) for name in value.__slots__}
    known = ("tokens", "cost")  # 0 differs from None
    return {name: member for name, member in members.items() if member or (name in known and member is not None)}


Reason: TypeAlias = Literal["", "rate", "rest", "slots", "reserved", "budget"]


@dataclass(slots=True)
class Grant:
    """The store's response to a `Reserve` operation.

    Attributes:
        requests: the number of requests that may be sent. For 0, `reason` says why.
        wait: the time until the first request may be sent, or until the next attempt to reserve, in seconds.
        step: the time between two requests, in seconds.
        rate, token_rate: the requests and the tokens per second when the reservation was made. 0 means unlimited.
        tokens, cost: the tokens and the money that are reserved for each request.
        mean: the average cost of an answer, in millionths of the currency unit.
        day, spent: the day as days since 1970, and the money that has been spent or reserved on this day.
        slots: True if each request occupies a slot for parallel requests.
    """

    requests: int = 0
    wait: float = 0.0
    step: float = 0.0
    rate: float = 0.0
    tokens: float = 0.0
    cost: int = 0
    mean: int = 0
    reason: Reason = ""
    token_rate: float = 0.0
    day: int = 0
    spent: int = 0
    slots: bool = False

    def given_back(self, requests: int = 1) -> Charge:
        """Returns a `Charge` that releases the reservations of `requests` of the granted requests."""
        return Charge(
            request_seconds=-requests / self.rate if self.rate else 0.0,
            token_seconds=-requests * self.tokens / self.token_rate if self.token_rate else 0.0,
            money=-requests * self.cost,
            reserved=requests * self.cost,
            day=self.day,
            slots=requests if self.slots else 0,
            requests=requests,
        )


@dataclass(slots=True)
class BatchAnswer:
    """The store's response to a batch.

    Attributes:
        born: the time at which the store's state was created.
        day, spent: see `Grant`.
        grants: one item for each operation of the batch: the grant for a `Reserve` operation, None for any other
            operation.
    """

    born: float
    day: int
    spent: int
    grants: list[Grant | None]

    def to_text(self) -> str:
        """Returns the response as text, for stores that are files or servers."""
        lines = [f"{self.born!r} {self.day} {self.spent}"]
        for grant in self.grants:
            words = [] if grant is None else [getattr(grant, name) for name in Grant.__slots__[:8]]
            lines.append(" ".join(map(str, words)))
        return "\n".join(lines)

    @classmethod
    def from_text(cls, text: str, batch: Batch) -> BatchAnswer:
        """Parses the output of `to_text`. Raises LimitStoreError if the text is malformed."""
        head, *lines = text.split("\n")
        try:
            born, day, spent = map(float, head.split(" "))
            answer = cls(born, int(day), int(spent), [])
            for line, operation in zip(lines, batch.operations, strict=True):
                answer.grants.append(answer._grant(line, operation) if line else None)
        except (ValueError, TypeError) as error:
            raise LimitStoreError("the store sent an invalid answer", retryable=True) from error
        return answer

    def _grant(self, line: str, operation: Operation) -> Grant:
        *numbers, reason = line.split(" ")
        requests, wait, step, rate, tokens, cost, mean = map(float, numbers)
        grant = Grant(int(requests), wait, step, rate, tokens, int(cost), int(mean), cast("Reason", reason))
        grant.day, grant.spent = self.day, self.spent
        if isinstance(operation, Reserve) and grant.requests:
            grant.token_rate, grant.slots = operation.token_rate, operation.slots > 0
        return grant


def read_state(stored: object) -> State:
    """Converts the content of a store to a limit's state. Drops impossible values, which another program may have
    written.

    Stores contain money in billionths of the currency unit. This function rounds the amounts up to millionths.
    """
    found = stored if isinstance(stored, dict) else {}
    state: State = {}
    for name, value in found.items():
        if not isinstance(value, int | float) or value != value:
            continue
        if name in MONEY or name[:2] == "m:":
            value = -(-value // 1000) if isinstance(value, int) else value / 1000
        if abs(value) <= LARGEST:
            state[name] = value
    latest = state.get("seen", inf) + FARTHEST
    return {
        name: value
        for name, value in state.items()
        if not ((name in MOMENTS or name[:2] in ("x:", "w:")) and value > latest)
        and not (name[:2] == "h:" and f"x:{name[2:]}" not in state)
    }


def written_state(state: State) -> State:
    """Converts a limit's state to the form that stores contain. Reverses `read_state`."""
    return {name: value * 1000 if name in MONEY or name[:2] == "m:" else value for name, value in state.items()}


def apply(state: State, now: float, batch: Batch) -> BatchAnswer:
    """Applies a batch's operations to a limit's state, and returns the response to the batch. Raises LimitStoreError if
    the state lacks a required field.
    """
    _advance(state, now)
    born = state.setdefault("born", now)
    if batch.budgeted:
        _begin_day(state, now)
    if batch.lease:
        _renew_lease(state, now, batch)
    grants: list[Grant | None] = []
    for operation in batch.operations:
        if isinstance(operation, Reserve):
            grants.append(_reserve(state, now, operation, batch))
            continue
        grants.append(None)
        if isinstance(operation, Charge):
            _charge(state, operation, batch)
        else:
            if operation.rest > 0:
                state["rest"] = max(state.get("rest", 0), now + min(operation.rest, FARTHEST))
            if operation.refused_rate:
                lower_rate(state, now, operation.refused_rate, operation.rate, rests=operation.rest > 0)
    if batch.leaves:
        for kind in "hwx":
            state.pop(f"{kind}:{batch.holder}", None)
    answer = BatchAnswer(born, int(state.get("day", 0)), int(state.get("spent", 0)), grants)
    for grant in grants:
        if grant is not None:
            grant.day, grant.spent = answer.day, answer.spent
    return answer


def _advance(state: State, now: float) -> None:
    """Shifts the times in a limit's state if the clock was set back, and extends leases by the time in which the store
    was down.
    """
    passed = now - state.get("seen", now)
    state["seen"] = now
    if 0 <= passed <= QUIET:
        return
    for name in state:
        lease = name[:2] in ("x:", "w:")
        if passed < 0 and (lease or name in MOMENTS):
            state[name] += passed
        elif passed > 0 and lease:
            state[name] += passed - QUIET


def _begin_day(state: State, now: float) -> None:
    """Starts a new day with the full budget. If the clock was set back, the later day stays in effect."""
    today = now // DAY
    if "day" in state or "spent" in state:
        for name in ("day", "spent"):
            if name not in state:
                raise LimitStoreError(
                    f"the limit's state has no {name!r}: delete the state to reset the limit", retryable=True
                )
        if state["day"] > today + 366:
            raise LimitStoreError(
                "the limit's state has a future date: delete the state to reset the limit", retryable=True
            )
        if state["day"] >= today:
            return
    state["day"], state["spent"] = today, 0
    for name in [name for name in state if name[:2] in ("m:", "n:")]:
        del state[name]


def _renew_lease(state: State, now: float, batch: Batch) -> None:
    """Renews the lease of a batch's limiter. If the store has released or lost the limiter's slots and money,
    restores them.
    """
    _expire_leases(state, now)
    held, money, reserved, lease = (f"{kind}:{batch.holder}" for kind in "hmnx")
    if lease not in state and batch.born:
        state[held] = batch.slots
        if batch.budgeted and batch.day == state["day"]:
            if batch.born == state["born"]:
                state["spent"] += batch.money - state.get(money, 0)
            else:
                state["spent"] = max(state["spent"], batch.spent)
            state[money], state[reserved] = batch.money, batch.reserved
    state[lease] = now + batch.lease


def _expire_leases(state: State, now: float) -> None:
    for field in [field for field, until in state.items() if field[:2] in ("x:", "w:") and until < now]:
        del state[field]
        if field[0] == "x":
            state.pop(f"h:{field[2:]}", None)
            money, requests = f"m:{field[2:]}", f"n:{field[2:]}"
            if money in state:
                used = min(state[money], state.get(requests, 0) * floor(state.get("cost", 0) + 0.5))
                if "spent" in state:
                    state["spent"] = max(0, state["spent"] - state[money] + used)
                state[money] = used


def _reserve(state: State, now: float, ask: Reserve, batch: Batch) -> Grant:
    get = state.get
    number, cost, mean = ask.requests, 0, floor(get("cost", 0) + 0.5)

    def refused(reason: Reason, wait: float) -> Grant:
        return Grant(0, wait, mean=mean, reason=reason)

    if not number:  # the caller was cancelled
        return refused("", 0.0)
    if ask.budget:
        left = int(ask.budget - state["spent"])
        held = sum(money for field, money in state.items() if field[:2] == "m:" and f"x:{field[2:]}" in state)
        wanted = ask.money or (floor(get("most", 0) + 0.5) if "cost" in state else left)
        expected = min(mean, ask.money) if ask.money else mean  # other requests may use more expensive models
        if left <= 0 or expected > left or (held and wanted > left):
            return refused("reserved", POLL) if held else refused("budget", (state["day"] + 1) * DAY - now)
        cost = min(wanted, left)  # a single request may begin with less than it wants
        number = min(number, left // cost) if cost else number
    if ask.slots:
        number = min(number, _free_slots(state, ask, batch.holder))
        if number <= 0:
            state[f"w:{batch.holder}"] = now + 3 * POLL
            return refused("slots", POLL)
    rate = current_rate(state, ask.rate, ask.start, ask.accepted if get("requests", 0) > now else 0)
    tokens = get("tokens") or ask.tokens
    rest = get("rest", 0)
    earliest = max(now - ask.burst, rest)
    requests_from, tokens_from = max(get("requests", 0), earliest), max(get("tokens_from", 0), earliest)
    moment = max(earliest, requests_from if rate else 0, tokens_from if ask.token_rate else 0)
    if moment - now > ask.max_wait:
        return refused("rest" if moment <= rest else "rate", moment - now)
    step = max(1 / rate if rate else 0, tokens / ask.token_rate if ask.token_rate else 0)
    if step:
        number = min(number, max(1, int(ask.prefetch / step)))
    if rate:
        state["requests"] = requests_from + number / rate
    if ask.token_rate:
        state["tokens_from"] = tokens_from + number * tokens / ask.token_rate
    if ask.budget:
        state["spent"] += number * cost
        _hold_money(state, batch.holder, number, number * cost)
    if ask.slots:
        state[f"h:{batch.holder}"] = get(f"h:{batch.holder}", 0) + number
        state.pop(f"w:{batch.holder}", None)
    grant = Grant(number, max(0.0, moment - now), step, rate, tokens, cost, mean)
    grant.token_rate, grant.slots = ask.token_rate, ask.slots > 0
    return grant


def _charge(state: State, charge: Charge, batch: Batch) -> None:
    for line, seconds in (("requests", charge.request_seconds), ("tokens_from", charge.token_seconds)):
        if seconds and line in state:
            state[line] += seconds
    if charge.tokens is not None:
        _learn(state, "tokens", charge.tokens)
    if charge.cost is not None:
        _learn(state, "cost", charge.cost)
        most = state.get("most", 0)
        state["most"] = max(charge.cost, most - (most - charge.cost) / MEAN_OF)
    if batch.budgeted:
        if charge.reserved and charge.day == state["day"]:
            _hold_money(state, batch.holder, -charge.requests, -charge.reserved)
        if charge.money and charge.day >= state["day"]:  # yesterday's budget is closed
            state["spent"] = min(LARGEST, max(0, state["spent"] + charge.money))
    if charge.slots:
        held = f"h:{batch.holder}"
        state[held] = max(0, state.get(held, 0) - charge.slots)


def _hold_money(state: State, holder: str, requests: int, money: int) -> None:
    for field, more in ((f"n:{holder}", requests), (f"m:{holder}", money)):
        state[field] = max(0, state.get(field, 0) + more)


def _free_slots(state: State, ask: Reserve, holder: str) -> int:
    """Returns how many slots a limiter may take. If other limiters wait for slots too, each gets at most an equal
    share.
    """
    held = {field[2:]: int(number) for field, number in state.items() if field[:2] == "h:"}
    waiting = {field[2:] for field in state if field[:2] == "w:"} - {holder}
    free = ask.slots - sum(held.values())
    if waiting:
        parties = waiting | {holder} | {other for other, number in held.items() if number}
        free = min(free, ceil(ask.slots / len(parties)) - held.get(holder, 0))
    return free


def _learn(state: State, name: str, value: float) -> None:
    count = min(state.get(f"{name}_of", 0) + 1, MEAN_OF)
    state[f"{name}_of"] = count
    state[name] = state.get(name, 0) + (value - state.get(name, 0)) / count
