"""Wire formats: how a request is written and how an event of the answer is read.

An adapter is a stateless value. What it seems to have to remember belongs to `calls.py`, `fold.py` or a dialect.
Other packages add theirs by an entry point in the group `streamfold.adapters`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ..values import APIError, ConfigError, nearest

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

    from ..requests import HistoryRules, Request
    from ..values import Delta, ProtocolWarning

__all__ = ["Adapter", "DoesWithout", "Relents", "StatesRules", "find_adapter"]

# Imported when asked for.
_BUILT_IN = {
    "chat": "streamfold.adapters.chat:ChatAdapter",
    "kimi": "streamfold.adapters.kimi:KimiAdapter",
    "responses": "streamfold.adapters.responses:ResponsesAdapter",
}


@runtime_checkable
class Adapter(Protocol):
    """One wire format.

    Attributes:
        name: as it is written in configurations.
        path: where requests go, below the base URL.
    """

    name: str
    path: str

    def prepare(self, request: Request) -> tuple[Request, list[ProtocolWarning]]:
        """The request as the endpoint takes it, and what was changed for that: the reply will say so.

        Raises:
            ConfigError: the endpoint would refuse it.
        """
        ...

    def encode(self, request: Request) -> dict[str, Any]:
        """The JSON body of a request for a streamed answer. Raises ConfigError for what this wire can't carry."""
        ...

    def decode(self, event: ServerSentEvent) -> Iterable[Delta]:
        """The facts of one event, all of them, in the order reasoning, text, calls, usage, finish.

        Raises:
            ValueError: the event is not of this format; the message says why.
        """
        ...

    def decode_body(self, body: Any) -> Iterable[Delta]:
        """The facts of a whole JSON answer, which some servers send although a stream was asked for."""
        ...


@runtime_checkable
class StatesRules(Protocol):
    """An adapter that knows what its endpoint demands of a conversation."""

    def history_rules(self, request: Request) -> HistoryRules:
        """The rules for this request. They are checked before `prepare` is asked."""
        ...


@runtime_checkable
class DoesWithout(Protocol):
    """An adapter that can make up for what a model can't."""

    def does_without(self, request: Request) -> Collection[str]:
        """The capabilities for which `prepare` puts something else in their place, and says so; the rest is refused."""
        ...


@runtime_checkable
class Relents(Protocol):
    """An adapter that can do without a member of the request that a server refuses."""

    def relent(self, error: APIError) -> tuple[Adapter, ProtocolWarning] | None:
        """A milder adapter, and what it does without; None if this refusal has another reason.

        The request is sent once more with it, and so are the provider's later ones.
        """
        ...


def find_adapter(name: str) -> type[Adapter]:
    """The class of an adapter by its name. Raises ConfigError with the names there are."""
    if target := _BUILT_IN.get(name):
        module, _, attribute = target.partition(":")
        built_in: type[Adapter] = getattr(import_module(module), attribute)
        return built_in
    from importlib.metadata import entry_points  # slow to import, and mostly not needed

    others = {entry.name: entry for entry in entry_points(group="streamfold.adapters")}
    if name in others:
        loaded: type[Adapter] = others[name].load()
        return loaded
    known = sorted({*_BUILT_IN, *others})
    raise ConfigError(f"unknown adapter {name!r}{nearest(name, known)}: there are {', '.join(known)}")
