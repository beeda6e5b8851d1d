"""What the providers for tests have in common: they keep what they were asked, and are not configured like others."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Self

from ..client import Hooks, Provider
from ..config import Profile
from ..requests import Request
from ..values import ConfigError
from .inprocess import client_noted_by
from .requests import SentRequest

__all__ = ["NotedProvider", "ScriptError"]


class ScriptError(AssertionError):
    """An application asks for something else than its test has: too much, too little, or not what was recorded.

    It is no StreamfoldError, so that no application takes it for a failure of its provider.
    """


class NotedProvider(Provider):
    """A provider whose requests go through one transport, and are kept.

    Attributes:
        requests: those that came.
    """

    def __init__(self, profile: Profile, transport: Any = None, *, hooks: Iterable[Hooks] = ()) -> None:
        super().__init__(profile, hooks=hooks)
        self._transport = transport
        self.requests: list[SentRequest] = []

    @classmethod
    def from_config(
        cls,
        spec: str | Mapping[str, Any] | None = None,
        *,
        config: str | os.PathLike[str] | None = None,
        http_client: Any = None,
        **overrides: Any,
    ) -> Self:
        """Not for a test's provider. Raises ConfigError that says how to make one."""
        raise ConfigError(f"write {cls.__name__}(..., provider={spec!r}): what it answers is not in a configuration")

    async def aclose(self) -> None:
        """Closes the transport."""
        if self._transport is not None:
            await self._transport.aclose()

    def _client_for(self, request: Request) -> Any:
        return client_noted_by(self._transport, partial(self._note, request), ScriptError)

    def _note(self, asked: Request, body: bytes) -> SentRequest:
        self.requests.append(SentRequest.of(asked, body))
        return self.requests[-1]
