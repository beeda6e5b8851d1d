"""Limits in Valkey or Redis, for processes on many machines. Needs the extra `valkey`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from ..stores import close_in_thread, shown_server, valkey_client
from ..values import ConfigError
from .algorithm import POLL, Ask, Belief, Grant, Settlement
from .errors import LimitStoreError
from .lua import SCRIPT
from .threads import ThreadedStore

__all__ = ["ValkeyLimitStore"]


class ValkeyLimitStore(ThreadedStore):
    """Counts on a Valkey or Redis server, by the server's clock. Connections are opened when they are first needed.

    Args:
        url: `valkey://` or `redis://`, with TLS `valkeys://` or `rediss://`. Never shown: it may have a password.
        timeout: seconds for a connection or an answer.

    Raises:
        ConfigError: the extra is missing, or the URL can't be used.
    """

    def __init__(self, url: str, *, timeout: float = 2.0) -> None:
        self._server = shown_server(url)
        self._client = valkey_client(url, "a store of limits", timeout=timeout)
        self._script = self._client.register_script(SCRIPT)

    def take_now(self, name: str, ask: Ask) -> Grant:
        """Reserves moments for requests."""
        found = self._run(name, "take", {**asdict(ask), "poll": POLL})
        numbers, reason = [float(number) for number in found[:-1]], found[-1].decode()
        requests, wait, step, rate, tokens, cost, mean, day, spent = numbers[:9]
        epoch, believed, low, high, need, refusals, steady, clean, filled = numbers[9:]
        grant = Grant(
            wait=wait,
            mean=int(mean),
            day=int(day),
            spent=int(spent),
            reason=reason,
            belief=Belief(int(epoch), believed, low, high, int(need), int(refusals), int(steady), int(clean), filled),
        )
        if not requests:
            return grant
        return replace(
            grant,
            requests=int(requests),
            step=step,
            rate=rate,
            token_rate=ask.token_rate,
            tokens=tokens,
            cost=int(cost),
            slots=ask.slots > 0,
            holder=ask.holder if ask.slots or ask.budget else "",
        )

    def settle_now(self, name: str, settlement: Settlement) -> None:
        """Corrects what was reserved by what was used."""
        members = {key: value for key, value in asdict(settlement).items() if value is not None}
        self._run(name, "settle", members)

    def believe_now(self, name: str, rest: float, belief: Belief | None) -> None:
        """Sends nothing for a while, and changes what is believed about the rate."""
        self._run(name, "believe", {"rest": rest, **(asdict(belief) if belief is not None else {})})

    def alive(self, name: str, holder: str, held: int) -> None:
        """Notes that a holder of slots is alive."""
        self._run(name, "alive", {"holder": holder, "held": held, "lifetime": self.lifetime})

    async def aclose(self) -> None:
        """Closes the connections."""
        await close_in_thread(self._client.close)

    def __repr__(self) -> str:
        return f"<ValkeyLimitStore {self._server}>"

    def _run(self, name: str, command: str, arguments: Mapping[str, Any]) -> Any:
        import valkey

        try:
            # The name in braces puts everything of one limit on one node of a cluster.
            return self._script([f"streamfold:limits:{{{name}}}"], [command, json.dumps(arguments)])
        except valkey.AuthenticationError as exc:
            raise ConfigError(f"limits: {self._server} refuses the user name or the password of the URL") from exc
        except valkey.ResponseError as exc:
            if str(exc).startswith(("NOAUTH", "WRONGPASS", "NOPERM")):
                raise ConfigError(f"limits: {self._server} refuses: {exc}") from exc
            raise LimitStoreError(f"the limits in {self._server} can't be used: {exc}", retryable=True) from exc
        except valkey.ValkeyError as exc:
            raise LimitStoreError(f"the limits in {self._server} can't be reached: {exc}", retryable=True) from exc
