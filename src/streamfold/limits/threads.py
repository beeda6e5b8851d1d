"""What the stores outside of this process have in common: they are asked in threads, and a wait may be cancelled."""

from __future__ import annotations

from abc import ABC, abstractmethod
from threading import Thread

import anyio.to_thread

from .algorithm import Ask, Belief, Grant, Settlement

__all__ = ["ThreadedStore"]


class ThreadedStore(ABC):
    """A store whose calls block. They run in threads, on asyncio and on trio alike."""

    lease = 0.02
    lifetime = 15.0

    async def take(self, name: str, ask: Ask) -> Grant:
        """Reserves moments for requests. Raises LimitStoreError, ConfigError."""
        taking = _Taking(self, name, ask)
        try:
            return await anyio.to_thread.run_sync(taking.run)
        except BaseException:
            taking.abandon()
            raise

    async def settle(self, name: str, settlement: Settlement) -> None:
        """Corrects what was reserved by what was used. Raises LimitStoreError, ConfigError."""
        await anyio.to_thread.run_sync(self.settle_now, name, settlement)

    async def believe(self, name: str, rest: float, belief: Belief | None) -> None:
        """Sends nothing for a while, and changes the belief. Raises LimitStoreError, ConfigError."""
        await anyio.to_thread.run_sync(self.believe_now, name, rest, belief)

    @abstractmethod
    def take_now(self, name: str, ask: Ask) -> Grant:
        """As `take`, blocking."""

    @abstractmethod
    def settle_now(self, name: str, settlement: Settlement) -> None:
        """As `settle`, blocking."""

    @abstractmethod
    def believe_now(self, name: str, rest: float, belief: Belief | None) -> None:
        """As `believe`, blocking."""


class _Taking:
    """A question that is asked in a thread. If nobody waits for the answer any more, what it grants is given back.

    A task that is cancelled by asyncio's own means does not wait for the thread.
    """

    def __init__(self, store: ThreadedStore, name: str, ask: Ask) -> None:
        self._store, self._name, self._ask = store, name, ask
        self._grants: list[Grant] = []  # its `pop` is atomic: only one of the two threads gives back
        self._abandoned = False

    def run(self) -> Grant:
        grant = self._store.take_now(self._name, self._ask)
        self._grants.append(grant)
        if self._abandoned:
            self._give_back()
        return grant

    def abandon(self) -> None:
        self._abandoned = True
        if self._grants:
            Thread(target=self._give_back, name="streamfold-limits", daemon=True).start()

    def _give_back(self) -> None:
        try:
            grant = self._grants.pop()
        except IndexError:
            return
        if grant.requests:
            self._store.settle_now(self._name, grant.given_back(grant.requests))
