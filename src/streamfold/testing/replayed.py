"""A provider that plays recordings: what a real model once said, without it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Self

from ..errors import ConfigError
from ..faults import Fault
from ..inprocess import client_noted_by
from ..provider import Provider
from ..recording import Recording, ReplayTransport, Speed
from ..request import Request
from .cuts import read_source
from .requests import SentRequest
from .scripted import ScriptError
from .standin import stand_in

__all__ = ["ReplayProvider"]


class ReplayProvider(Provider):
    """A provider that answers each request with the next of some recordings.

        provider = ReplayProvider("fixtures/kimi/parallel_calls", cuts="bytes:1", faults=[reset(after_events=9)])

    Args:
        recordings: one for each request, in this order: paths, names of those that come with streamfold, or values.
        provider: the configuration to take the place of, as `Provider.from_config` takes it: its quirks and dialect
            hold, its key and address are not used. Else it is a plain one, of the adapter that the recording names.
        cuts, speed, faults: as for `ReplayTransport`.
        overrides: as for `Provider.from_config`. Unless `max_retries` is among them, nothing is sent again, so that the
            application sees each fault.

    Attributes:
        requests: those that came. One that no recording is left for is a `ScriptError`.

    Raises:
        ConfigError: there is no such recording, or an argument can't be used.
    """

    def __init__(
        self,
        *recordings: Recording | str | os.PathLike[str],
        provider: str | Mapping[str, Any] | None = None,
        cuts: str = "recorded",
        speed: Speed = "instant",
        faults: Iterable[Fault] = (),
        **overrides: Any,
    ) -> None:
        read = [read_source(recording) for recording in recordings]
        self._transport = ReplayTransport(read, speed=speed, cuts=cuts, faults=faults)
        super().__init__(stand_in(provider, overrides, name="replay", adapter=read[0].adapter))
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
        """Not for recordings. Raises ConfigError that says how to make one."""
        raise ConfigError("recordings are not configured: write ReplayProvider(*recordings, provider=...)")

    def _client_for(self, request: Request) -> Any:
        return client_noted_by(self._transport, partial(self._note, request), ScriptError)

    def _note(self, asked: Request, body: bytes) -> None:
        self.requests.append(SentRequest.of(asked, body))
