"""The keys of clients: whose they are, and which models they may ask for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any

from streamfold import ConfigError
from streamfold.config import read_settings

from .config import KeyOptions


@dataclass(frozen=True, slots=True)
class GatewayKey:
    """Who asks: the owner of a key.

    Attributes:
        name: of the key, as it is configured; None if it has none.
        key: what the client sends; empty where no key is needed.
        options: what the key may do.
    """

    name: str | None = None
    key: bytes = field(default=b"", repr=False)
    options: KeyOptions = field(default_factory=KeyOptions)

    @property
    def id(self) -> str:
        """What belongs to the client is kept under this id: a hash of the key, or "" where none is needed."""
        return sha256(self.key).hexdigest() if self.key else ""

    @property
    def may_ask_anything(self) -> bool:
        """Whether the client may use every model that is served."""
        return self.options.any_model

    def may_ask(self, model: str) -> bool:
        """Returns whether the client may use the model of this name."""
        return any(fnmatchcase(model, pattern) for pattern in self.options.models)


ANYBODY = GatewayKey()


def read_keys(keys: Collection[str | GatewayKey] | Mapping[str, Any]) -> list[GatewayKey]:
    """Returns the clients that have these keys.

    Args:
        keys: a list of keys; or by the names of the keys, each the key, or a mapping with the member `key` and those of
            `KeyOptions`.

    Raises:
        ConfigError: a key is empty, two are the same, or something else is wrong in what was given.
    """
    if isinstance(keys, str):
        raise ConfigError("keys must be a list of strings that are not empty")
    named = keys.items() if isinstance(keys, Mapping) else [(None, key) for key in keys]
    made = [_client(name, given) for name, given in named]
    known: dict[bytes, str | None] = {}
    for client in made:
        if client.name and client.key in known:
            raise ConfigError(f"keys: {client.name!r} and {known[client.key]!r} are the same key")
        known[client.key] = client.name
    return made


def _client(name: str | None, given: Any) -> GatewayKey:
    if isinstance(given, GatewayKey):
        return given
    options: dict[str, Any] = {}
    if isinstance(given, Mapping):
        options = dict(given)
        given = options.pop("key", None)
    if not isinstance(given, str) or not given.strip():
        raise ConfigError(
            "keys must be a list of strings that are not empty"
            if name is None
            else f"keys: {name!r} must be a key that is not empty, or a mapping with one as `key`"
        )
    return GatewayKey(name, given.strip().encode(), read_settings(KeyOptions, options, "gateway"))
