"""What happens while a store can't be used: limits are counted in this process, or nothing is sent."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import replace
from time import monotonic

import anyio

from ..values import ConfigError
from .algorithm import Ask, Grant, Settlement
from .belief import Belief
from .errors import LimitStoreError
from .store import LimitStore, MemoryLimitStore

_AGAIN = 1.0  # seconds until a store that failed is tried again
_MOST_OWED = 10_000  # settlements that are kept one by one for a store that is away; more are added up

_logger = logging.getLogger("streamfold.limits")


class GuardedStore:
    """A store that may be out of reach for a while.

    What could not be settled meanwhile is settled when the store is back, so that no money is forgotten.

    Args:
        local: count in this process meanwhile, with the limits divided by `replicas`; else `LimitStoreError` is raised.
    """

    def __init__(self, store: LimitStore, *, local: bool, replicas: int) -> None:
        self._store = store
        self._replicas = replicas
        self._local = MemoryLimitStore() if local else None
        self._failed: LimitStoreError | None = None
        self._again = 0.0
        self._owed: deque[tuple[str, Settlement]] = deque()
        self._spent: dict[str, int] = {}  # by the name of a limit, what had been spent when the store went away
        self.lease, self.lifetime = store.lease, store.lifetime

    async def take(self, name: str, ask: Ask) -> Grant:
        """Reserves moments for requests."""
        if self._failed is None or monotonic() >= self._again:
            self._again = monotonic() + _AGAIN  # meanwhile nobody else tries
            try:
                if self._failed is not None:
                    await self._pay()
                grant = await self._store.take(name, ask)
            except LimitStoreError as error:
                self._away(error)
            else:
                self._back()
                return grant
        if self._local is None or self._failed is None:
            raise LimitStoreError(self._failed.message if self._failed else "the store can't be used", retryable=True)
        return await self._take_here(self._local, name, ask)

    async def settle(self, name: str, settlement: Settlement) -> None:
        """Corrects what was reserved by what was used; later, if the store is away."""
        if self._local is not None and settlement.local:
            await self._local.settle(name, settlement)
            settlement = Settlement(money=settlement.money, day=settlement.day)
            if not settlement.money:
                return
        try:
            if self._failed is None:
                await self._store.settle(name, settlement)
                return
        except LimitStoreError as error:
            self._away(error)
        except ConfigError as error:  # of a password that was changed meanwhile: the answer is there all the same
            _logger.warning("limits could not be settled: %s", error)
            return
        self._owe(name, settlement)

    async def believe(self, name: str, rest: float, belief: Belief | None) -> None:
        """Sends nothing for a while, and changes what is believed about the rate."""
        try:
            if self._failed is None:
                await self._store.believe(name, rest, belief)
        except LimitStoreError as error:
            self._away(error)
        if self._failed is not None and self._local is not None:
            await self._local.believe(name, rest, belief)

    def alive(self, name: str, holder: str, held: int) -> None:
        """Notes that a holder of slots is alive."""
        try:
            self._store.alive(name, holder, held)
        except LimitStoreError as error:
            self._away(error)

    async def aclose(self) -> None:
        """Closes the store."""
        await self._store.aclose()

    def __repr__(self) -> str:
        return repr(self._store)

    async def _take_here(self, local: MemoryLimitStore, name: str, ask: Ask) -> Grant:
        """Reserves in this process, whose part of a limit is one of `replicas`."""
        spent = self._spent.setdefault(name, ask.spent)
        part = replace(
            ask,
            rate=ask.rate / self._replicas,
            token_rate=ask.token_rate / self._replicas,
            start=ask.start / self._replicas,
            slots=-(-ask.slots // self._replicas),
            budget=spent + max(1, (ask.budget - spent) // self._replicas) if ask.budget else 0,
        )
        grant = await local.take(name, part)
        if ask.budget and grant.requests:
            self._owe(name, Settlement(money=grant.requests * grant.cost, day=grant.day))
        return replace(grant, local=True)

    async def _pay(self) -> None:
        """Settles what could not be settled while the store was away. Several may do so: each takes what is next."""
        while self._owed:
            owed = self._owed.popleft()  # atomic, also where threads share a limiter
            try:
                with anyio.CancelScope(shield=True):
                    await self._store.settle(*owed)
            except LimitStoreError:
                self._owed.appendleft(owed)
                raise

    def _owe(self, name: str, settlement: Settlement) -> None:
        if len(self._owed) >= _MOST_OWED:
            for at, (other, before) in enumerate(self._owed):
                if other == name and before.holder == settlement.holder and before.day == settlement.day:
                    self._owed[at] = (name, before.plus(settlement))
                    return
        self._owed.append((name, settlement))

    def _away(self, error: LimitStoreError) -> None:
        if self._failed is None:
            instead = "limits are counted in this process" if self._local is not None else "nothing is sent"
            _logger.warning("%s; %s until it is back", error.message, instead)
        self._failed, self._again = error, monotonic() + _AGAIN

    def _back(self) -> None:
        if self._failed is not None:
            _logger.warning("%r can be used again", self._store)
            self._failed = None
            self._spent.clear()
            self._local = MemoryLimitStore() if self._local is not None else None
