"""Limits in Valkey or Redis, for processes on many machines. Needs the extra `valkey`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from operator import attrgetter
from typing import cast

from ..stores import shown_server, valkey_client
from ..values import ConfigError
from .algorithm import Ask, Grant, Reason, Settlement
from .belief import Belief, told_belief
from .errors import LimitStoreError
from .line import Command, ScriptError, ScriptLine
from .lua import SCRIPT

_KNOWN_OR_NOT = ("tokens", "cost")
_getters = {kind: attrgetter(*kind.__slots__) for kind in (Ask, Settlement)}
_REFUSALS = ("NOAUTH", "WRONGPASS", "NOPERM")


class ValkeyLimitStore:
    """Counts on a Valkey or Redis server, by the server's clock. Connections are opened when they are first needed.

    Args:
        url: `valkey://` or `redis://`, with TLS `valkeys://` or `rediss://`. Never shown: it may have a password.
        timeout: seconds for an answer, and for each answer while a connection is opened.
        script: what is run there.

    Attributes:
        client: of the server.

    Raises:
        ConfigError: the extra is missing, or the URL can't be used.
    """

    lease = 0.02
    lifetime = 15.0

    def __init__(self, url: str, *, timeout: float = 0.25, script: str = SCRIPT) -> None:
        self._server = shown_server(url)
        self.client = valkey_client(url, "a store of limits", timeout=timeout)
        self._line = ScriptLine(self.client, script, timeout=timeout)

    async def take(self, name: str, ask: Ask) -> Grant:
        """Reserves moments for requests. Raises LimitStoreError, ConfigError."""

        def give_back(answer: bytes) -> Command | None:
            grant = _grant(ask, answer)
            return _settling(name, grant.given_back(grant.requests)) if grant.requests else None

        try:
            answer = await self._line.ask(_command(name, "take", _members(ask), give_back))
        except Exception as exc:
            raise self._failure(exc) from exc
        return _grant(ask, answer)

    async def settle(self, name: str, settlement: Settlement) -> None:
        """Corrects what was reserved by what was used. Raises LimitStoreError, ConfigError."""
        await self._tell(_settling(name, settlement))

    async def believe(self, name: str, rest: float, belief: Belief | None) -> None:
        """Sends nothing for a while, and changes the belief. Raises LimitStoreError, ConfigError."""
        members = asdict(belief) if belief is not None else {}
        await self._tell(_command(name, "believe", {"rest": rest, **members}))

    def alive(self, name: str, holder: str, held: int) -> None:
        """Notes that a holder of slots is alive."""
        try:
            self._line.tell_now(_command(name, "alive", {"holder": holder, "held": held, "lifetime": self.lifetime}))
        except Exception as exc:
            raise self._failure(exc) from exc

    async def aclose(self) -> None:
        """Waits for what was settled, and closes the connections."""
        await self._line.aclose()

    def __repr__(self) -> str:
        return f"<ValkeyLimitStore {self._server}>"

    async def _tell(self, command: Command) -> None:
        try:
            await self._line.tell(command)
        except Exception as exc:
            raise self._failure(exc) from exc

    def _failure(self, error: Exception) -> Exception:
        import valkey

        if isinstance(error, valkey.AuthenticationError):
            return ConfigError(f"limits: {self._server} refuses the user name or the password of the URL")
        if isinstance(error, valkey.ResponseError | ScriptError):
            if str(error).startswith(_REFUSALS):
                return ConfigError(f"limits: {self._server} refuses: {error}")
            return LimitStoreError(f"the limits in {self._server} can't be used: {error}", retryable=True)
        if isinstance(error, valkey.ValkeyError | OSError):
            return LimitStoreError(f"the limits in {self._server} can't be reached: {error}", retryable=True)
        return error


def _command(
    name: str, command: str, arguments: dict[str, object], unwanted: Callable[[bytes], Command | None] | None = None
) -> Command:
    # The name in braces puts everything of one limit on one node of a cluster.
    key = f"streamfold:limits:{{{name}}}".encode("utf-8", "surrogatepass")
    return Command(key, (command.encode(), json.dumps(arguments).encode()), unwanted)


def _settling(name: str, settlement: Settlement) -> Command:
    return _command(name, "settle", _members(settlement))


def _members(value: Ask | Settlement) -> dict[str, object]:
    """Returns what differs from nothing; the script takes the rest for 0, but for what may not be known."""
    values = zip(value.__slots__, _getters[type(value)](value), strict=True)
    return {name: member for name, member in values if member or (member is not None and name in _KNOWN_OR_NOT)}


def _grant(ask: Ask, answer: bytes) -> Grant:
    *words, reason = answer.decode().split(" ")
    requests, wait, step, rate, tokens, cost, mean, day, spent = map(float, words[:9])
    grant = Grant(0, wait, mean=int(mean), day=int(day), spent=int(spent), belief=told_belief(*map(float, words[9:])))
    grant.reason = cast("Reason", reason)
    if requests:
        grant.requests, grant.step, grant.rate, grant.token_rate = int(requests), step, rate, ask.token_rate
        grant.tokens, grant.cost, grant.slots = tokens, int(cost), ask.slots > 0
        grant.holder = ask.holder if ask.slots or ask.budget else ""
    return grant
