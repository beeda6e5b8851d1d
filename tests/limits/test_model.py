"""A small model of a limit beside the real one, on every store: nothing is counted twice, lost, or made."""

from __future__ import annotations

import asyncio
import json
import socket
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from scale import pick
from streamfold import Cost
from streamfold.limits import (
    BudgetExceededError,
    LimitReachedError,
    LimitStoreError,
    MemoryLimitStore,
    RateLimiter,
    SQLiteLimitStore,
    ValkeyLimitStore,
)
from streamfold.limits.limit_state import Batch
from valkeys import ValkeyServer, valkey_server

SLOTS, BUDGET, DAY, LEASE = 3, 100, 86400.0, 15.0
NOON = 20_000 * DAY + DAY / 2
MOST = 12  # what an answer costs at most


class Clock:
    now = NOON

    def __call__(self) -> float:
        return self.now


class Proxy:
    """Passes bytes between clients and a server, and loses some of them as it is told.

    Attributes:
        faults: of the next transfers, one each: ("request" or "answer", how many bytes are passed on before both
            connections are closed).
        away: whether nothing is passed on at all.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self.faults: list[tuple[str, int]] = []
        self.away = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"valkey://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.away:
                    client.close()
                    continue
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._target)
                for kind, source, target in (("request", client, server), ("answer", server, client)):
                    threading.Thread(target=self._pass_on, args=(kind, source, target), daemon=True).start()

    def _pass_on(self, kind: str, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                lost = self.away
                if self.faults and self.faults[0][0] == kind:
                    data, lost = data[: self.faults.pop(0)[1]], True
                if not (self.away and kind == "request"):
                    target.sendall(data)
                if lost:
                    break
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)  # which ends the other direction
        source.close()


class Place:
    """Where limits are counted, with a clock that can be stepped and faults that can be made."""

    def __init__(self, kind: str, server: ValkeyServer | None) -> None:
        self.kind, self.clock, self.name = kind, Clock(), uuid4().hex
        self._folder = tempfile.TemporaryDirectory()
        self._locked: sqlite3.Connection | None = None
        self._memory = MemoryLimitStore(self.clock)
        if server is not None:
            import valkey

            self.proxy = Proxy(server.url.removeprefix("unix://"))
            self._direct = valkey.Valkey.from_url(server.url)
            self._direct.flushall()
            self.step(0)

    def store(self) -> Any:
        """Opens the store, as another process does."""
        if self.kind == "memory":
            return self._memory
        if self.kind == "sqlite":
            return SQLiteLimitStore(Path(self._folder.name) / "limits.db", clock=self.clock)
        script = ValkeyLimitStore.__init__.__kwdefaults__["script"]
        script = script.replace("redis.call('TIME')", "{redis.call('GET', 'clock'), 0}")
        return ValkeyLimitStore(self.proxy.url, script=script, timeout=2.0)

    def step(self, seconds: float) -> None:
        self.clock.now += seconds
        if self.kind == "valkey":
            self._direct.set("clock", repr(self.clock.now))

    def fail(self, faults: list[tuple[str, int]]) -> None:
        if self.kind == "valkey":
            self.proxy.faults = list(faults)

    def leave(self, away: bool) -> None:
        if self.kind == "valkey":
            self.proxy.away = away
        elif self.kind == "sqlite" and away:
            self._locked = sqlite3.connect(Path(self._folder.name) / "limits.db", isolation_level=None)
            self._locked.execute("BEGIN IMMEDIATE")
        elif self._locked is not None:
            self._locked.close()
            self._locked = None

    def state(self) -> dict[str, float]:
        """Returns the numbers of the state, money in whole units."""
        if self.kind == "memory":
            found, unit = dict[str, Any](self._memory._states.get(self.name, {})), 10**6
        elif self.kind == "sqlite":
            with sqlite3.connect(Path(self._folder.name) / "limits.db") as database:
                row = database.execute("SELECT state FROM limits").fetchone()
            database.close()
            found, unit = json.loads(row[0]) if row else {}, 10**9
        else:
            stored = self._direct.hgetall(f"streamfold:limits:{{{self.name}}}")
            found, unit = {name.decode(): value for name, value in stored.items()}, 10**9
        state = {name: float(value) for name, value in found.items() if not name.startswith("b:")}
        return {name: value / unit if name == "spent" else value for name, value in state.items()}

    def close(self) -> None:
        self.leave(False)
        if self.kind == "valkey":
            self.proxy.close()
            self._direct.close()
        self._folder.cleanup()


def silence(limiter: Any) -> None:
    """Stops the thread of a limiter, as the end of its process does."""
    if hasattr(limiter.store, "_stop"):
        limiter.store._stop.set()
        limiter.store._active.clear()


class Model(RuleBasedStateMachine):
    """What the limit is to be: money that is spent or reserved today, and slots that are held.

    `spent` is a pair: after a kill it isn't known how much of what the process had reserved stays spent.
    """

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.loop = asyncio.new_event_loop()
        self.limiters: list[RateLimiter] = []
        self.stores: list[Any] = []
        self.open: list[tuple[RateLimiter, Any, int, int]] = []  # limiter, reservation, reserved, day
        self.day, self.spent = int(NOON // DAY), (0.0, 0.0)
        self.doubtful: dict[RateLimiter, int] = {}  # money of reservations whose answers were lost
        self.faulty = self.killed = False
        self.waiting: set[RateLimiter] = set()  # those that were refused for the slots of others

    @initialize()
    def start(self) -> None:
        for _ in range(2):
            self.add()
        self.beat()

    def add(self) -> None:
        store = self.place.store()
        self.stores.append(store)
        self.limiters.append(
            RateLimiter(
                self.place.name,
                max_concurrent=SLOTS,
                max_cost_per_day=BUDGET,
                store=store,
                on_store_error="refuse",
            )
        )

    def run(self, awaitable: Any) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(awaitable, 20))

    def begin_day(self) -> None:
        today = int(self.place.clock.now // DAY)
        if today > self.day:
            self.day, self.spent, self.doubtful = today, (0.0, 0.0), {}

    def count(self, low: float, high: float) -> None:
        self.spent = (max(0.0, self.spent[0] + low), max(0.0, self.spent[1] + high))

    @rule(which=st.integers(0, 3), bound=st.integers(1, MOST))
    def reserve(self, which: int, bound: int) -> None:
        self.begin_day()
        limiter = self.limiters[which % len(self.limiters)]
        left = BUDGET - self.spent[1]
        refusal = ""
        try:
            reservation = self.run(limiter.acquire(max_wait=0, cost=Decimal(bound)))
        except LimitStoreError:
            assert self.faulty
            self.doubtful[limiter] = self.doubtful.get(limiter, 0) + bound
            return
        except (LimitReachedError, BudgetExceededError) as error:
            refusal = str(error)
        if refusal:
            unsure = self.faulty or self.killed or bool(self.doubtful)
            full, poor = len(self.open) >= SLOTS, left < MOST
            fair = bool(self.waiting - {limiter})  # another one waits for its share
            assert unsure or full or poor or fair, f"refused: {refusal}; open {len(self.open)}, left {left}"
            if "at once" in refusal:
                self.waiting.add(limiter)
            return
        self.waiting.discard(limiter)
        assert len(self.open) < SLOTS, "a slot was made"
        assert self.spent[0] < BUDGET, "a spent budget was given again"
        reserved = reservation._grant.cost / 10**6
        self.count(reserved, reserved)
        self.open.append((limiter, reservation, reserved, self.day))

    @rule(which=st.integers(0, 5), cost=st.integers(0, MOST), sent=st.booleans())
    def end(self, which: int, cost: int, sent: bool) -> None:
        self.begin_day()
        if not self.open:  # no precondition: what is drawn may not depend on threads and sockets
            return
        _, reservation, reserved, day = self.open.pop(which % len(self.open))
        if sent:
            reservation.charge(None, Cost(Decimal(cost)))
        else:
            reservation.cancel()
            cost = 0
        self.run(reservation.aclose())
        if day == self.day:
            self.count(cost - reserved, cost - reserved)

    @rule(faults=st.lists(st.tuples(st.sampled_from(["request", "answer"]), st.integers(0, 60)), max_size=4))
    def lose_bytes(self, faults: list[tuple[str, int]]) -> None:
        if self.place.kind == "valkey" and faults:
            self.place.fail(faults)
            self.faulty = True

    @precondition(lambda self: self.place.kind != "memory")
    @rule()
    def go_away(self) -> None:
        if not self.faulty:
            self.place.leave(True)
            self.faulty = True

    @rule(seconds=st.sampled_from([0.5, 3, 4]))
    def pass_time(self, seconds: float) -> None:
        self.beat()
        self.place.step(seconds)
        self.waiting.clear()
        self.beat()

    @rule(seconds=st.sampled_from([3600, 20_000, 90_000, -3600, -20_000, -90_000]))
    def step_the_clock(self, seconds: float) -> None:
        self.compare()
        self.place.step(seconds)
        self.begin_day()
        self.beat()

    @precondition(lambda self: self.place.kind != "memory")  # it ends with its process
    @rule(which=st.integers(0, 3))
    def kill(self, which: int) -> None:
        """A process dies: nothing of what it holds is released, and what it had queued is lost."""
        self.compare()
        limiter = self.limiters.pop(which % len(self.limiters))
        self.waiting.discard(limiter)
        silence(limiter)
        lost = [each for each in self.open if each[0] is limiter]
        self.open = [each for each in self.open if each[0] is not limiter]
        self.count(-sum(reserved for _, _, reserved, day in lost if day == self.day), 0)
        self.killed = True
        self.add()

    @rule()
    def compare(self) -> None:
        """Without faults, the store has exactly what the model has."""
        self.place.fail([])
        self.place.leave(False)
        self.faulty = False
        for _ in range(5 if self.killed else 1):
            self.beat()
            self.beat()
            if self.killed:
                self.place.step(4)
        self.beat()
        self.killed, self.doubtful = False, {}
        self.begin_day()
        self.beat()
        for _ in range(200):
            state = self.place.state()
            slots = sum(value for name, value in state.items() if name.startswith("h:"))
            spent = state.get("spent", 0.0) if state.get("day", self.day) == self.day else 0.0
            if slots == len(self.open) and self.spent[0] - 1e-6 <= spent <= self.spent[1] + 1e-6:
                break
            threading.Event().wait(0.01)
        else:
            raise AssertionError(f"slots {slots}, not {len(self.open)}; spent {spent}, not {self.spent}")
        self.spent = (spent, spent)

    def beat(self) -> None:
        """What the thread of each limiter does from time to time; a day begins with the first batch in it."""
        if self.place.kind == "memory":
            self.place._memory.apply(self.place.name, Batch(budgeted=True))
        for limiter in self.limiters:
            session: Any = limiter._session
            with suppress(LimitStoreError):
                if hasattr(session, "flush"):
                    session.flush()

    def teardown(self) -> None:
        self.compare()
        for _, reservation, _, _ in self.open:
            reservation.cancel()
            self.run(reservation.aclose())
        for limiter in self.limiters:
            self.run(limiter.aclose())
            silence(limiter)
        for store in self.stores:
            self.run(store.aclose())
        self.place.close()
        self.loop.close()


@contextmanager
def impatient() -> Iterator[None]:
    """A store that failed is tried again at once, and a locked file is waited for only shortly."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamfold.stores.threaded.RETRY_SECONDS", 0.0)
        patch.setattr("streamfold.limits.sqlite._SHORTLY", 0.005)
        yield


def check(make: Callable[[], Place], examples: int) -> None:
    with impatient():
        run_state_machine_as_test(
            lambda: Model(make()),  # type: ignore[arg-type]
            settings=settings(
                max_examples=examples,
                stateful_step_count=50,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                database=None,
                phases=[Phase.generate],  # sockets and threads don't repeat themselves exactly
            ),
        )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "sqlite", "valkey"])
def test_a_limit_is_what_its_model_is(kind: str, tmp_path: Path) -> None:
    """Whatever answers are lost, processes are killed and clocks are stepped: `pick` says how many steps, 50 each."""
    if kind != "valkey":
        check(lambda: Place(kind, None), pick(400, 10))
        return
    with valkey_server(tmp_path) as server:
        check(lambda: Place(kind, server), pick(400, 10))
