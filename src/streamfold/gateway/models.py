"""Which provider answers for a model: the names that clients may ask for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Protocol

from ..client import Provider
from ..config import read_config
from ..values import ConfigError

if TYPE_CHECKING:
    from ..client import ChatStream

__all__ = ["Answers", "Models", "UnknownModel"]


class Answers(Protocol):
    """Whatever answers as a `Provider` does: one, a `Fallback`, or something of a program's own."""

    def chat_stream(self, messages: Any, tools: Any = None, /, **options: Any) -> ChatStream:
        """A streamed answer."""
        ...


class UnknownModel(Exception):
    """No provider answers for this name; the message says for which there is one."""


class Models:
    """Providers by the names that clients ask for.

    `"main"` is the provider of that name with its own model, `"main:other-model"` the same with another one.

    Args:
        providers: by name; a string or a mapping is what `Provider.from_config` takes. None: all of `streamfold.toml`.
        aliases: further names, each for a name of the first kind or the second.
        config: the file; else the one that is found.

    Raises:
        ConfigError: there are no providers, one of them can't be made, or an alias leads nowhere.
    """

    def __init__(
        self,
        providers: Mapping[str, Any] | None,
        aliases: Mapping[str, str],
        config: str | os.PathLike[str] | None = None,
    ) -> None:
        self._made: list[Provider] = []
        self._providers: dict[str, Any] = {}
        if providers is None:
            found = read_config(config)
            providers = {name: name for name in found.names}
            if not providers:
                where = " or ".join(str(place.path) for place in found.looked_in)
                raise ConfigError(f"there is no provider to serve: write one into {where}, or name one")
        for name, given in providers.items():
            self._providers[name] = self._provider(given, config)
        if not self._providers:
            raise ConfigError("there is no provider to serve: the mapping is empty")
        self._aliases = dict(aliases)
        for alias, name in self._aliases.items():
            if self._find(name) is None:
                raise ConfigError(f"the alias {alias!r} is for {name!r}, and no provider is called so: {self._known()}")

    @property
    def names(self) -> list[str]:
        """The names that there are, without those that name another model of a provider."""
        return list(dict.fromkeys([*self._providers, *self._aliases]))

    def find(self, name: str) -> tuple[Answers, str | None]:
        """The provider for a name, and the model to ask it for if it is not its own. Raises UnknownModel."""
        found = self._find(self._aliases.get(name, name))
        if found is None:
            close = get_close_matches(name, self.names, n=1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise UnknownModel(f"there is no model {name!r}{hint}: {self._known()}")
        return found

    async def aclose(self) -> None:
        """Closes the providers that were made here."""
        for provider in self._made:
            await provider.aclose()

    def _find(self, name: str) -> tuple[Answers, str | None] | None:
        if name in self._providers:
            return self._providers[name], None
        first, _, model = name.partition(":")
        return (self._providers[first], model) if model and first in self._providers else None

    def _known(self) -> str:
        return f"there are {', '.join(self.names)}, and for another model of a provider PROVIDER:MODEL"

    def _provider(self, given: Any, config: str | os.PathLike[str] | None) -> Any:
        if hasattr(given, "chat_stream"):
            return given
        if isinstance(given, Mapping):
            made = Provider.from_config(given)
        elif isinstance(given, str):
            made = Provider.from_config(given, config=config)
        else:
            raise ConfigError(f"a provider is a Provider, a name or a mapping, not {type(given).__name__}: {given!r}")
        self._made.append(made)
        return made
