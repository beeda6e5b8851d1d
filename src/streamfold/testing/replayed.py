"""Models that play recordings, and models that make them: a real answer once, and from then on without the network."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Unpack

import httpx

from ..client import Hooks
from ..config import ProviderConfig, load_profile
from ..faults import Fault
from ..net import make_client
from ..recording import (
    Match,
    Recording,
    RecordingDraft,
    ReplayTransport,
    Speed,
    load_source,
    recording_client,
    requested_model,
)
from ..requests import Request
from ..values import ConfigError
from .doubles import ProviderDouble, ScriptError, SentRequest, replaced_profile


class ReplayProvider(ProviderDouble):
    """A model that answers its requests with recordings, one after the other.

        model = ReplayProvider("fixtures/kimi/parallel_calls", cuts="bytes:1", faults=[reset(after_events=9)])

    Args:
        recordings: in this order: paths (each followed by the later answers of the same conversation), names of bundled
            recordings, or `Recording`s.
        provider: the provider to take the place of, as for `Provider.from_config`: its quirks and dialect are used, its
            key and address are not. Default: a plain one with the adapter, dialect and model of the first recording.
        cuts, speed, faults, match: as for `ReplayTransport`.
        hooks, overrides: as for `Provider.from_config`. `max_retries` is 0 by default, so that the application sees
            each fault.

    Attributes:
        provider: the `Provider` that reads the answers.
        requests: the requests that were sent. A request that has no recording, or differs from the recorded one, raises
            `ScriptError`.

    Raises:
        ConfigError: there is no such recording, or an argument is not allowed.
    """

    def __init__(
        self,
        *recordings: Recording | str | os.PathLike[str],
        provider: str | Mapping[str, Any] | None = None,
        cuts: str = "recorded",
        speed: Speed = "instant",
        faults: Iterable[Fault] = (),
        match: Match = "order",
        hooks: Hooks | Iterable[Hooks] = (),
        **overrides: Unpack[ProviderConfig],
    ) -> None:
        read = [recording for source in recordings for recording in load_source(source)]
        self._transport = ReplayTransport(read, speed=speed, cuts=cuts, faults=faults, match=match)
        first = read[0]
        own = {"dialect": first.dialect} if provider is None and first.dialect else {}
        model = _recorded_model(first)
        profile = replaced_profile(provider, {**own, **overrides}, name="replay", adapter=first.adapter, model=model)
        super().__init__(profile, hooks=hooks)

    async def _respond(self, sent: SentRequest, asked: Request, request: httpx.Request) -> httpx.Response:
        try:
            return await self._transport.handle_async_request(request)
        except ConfigError as exc:  # an application might handle it as a failure of its provider
            raise ScriptError(str(exc)) from exc


class RecordingProvider(ProviderDouble):
    """A real provider, with its key and address, whose answers become the recording `name` in a folder.

    They are drafts until `keep` is called, because later runs would play a failed answer too. Close it at the end: it
    has connections.

    Raises:
        ConfigError: the configuration or the name can't be used.
    """

    def __init__(
        self, folder: Path, name: str, provider: str | Mapping[str, Any], overrides: Mapping[str, Any]
    ) -> None:
        keys = {key: value for key, value in overrides.items() if key != "hooks"}
        profile = load_profile(provider, {"max_retries": 0, **keys})  # a failed attempt would be a turn
        self._name = name
        self._draft = RecordingDraft(folder, name)
        _, self._transport = recording_client(
            make_client(profile.transport), self._draft.folder, name=name, adapter=profile.adapter_of(profile.model)
        )
        super().__init__(profile, hooks=overrides.get("hooks", ()))

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._transport.aclose()

    def keep(self) -> str | None:
        """Replaces older recordings by the new ones. Returns the reason if a new one is of a failure."""
        try:
            problem = self._draft.problem()
            if problem is None:
                self._draft.keep()
            return problem and f"{self._name} was not recorded: {problem}"
        finally:
            self._draft.discard()

    async def _respond(self, sent: SentRequest, asked: Request, request: httpx.Request) -> httpx.Response:
        return await self._transport.handle_async_request(request)


def _recorded_model(recording: Recording) -> str | None:
    """Returns the model of the recorded request, if the recording has one."""
    sent = recording.sent
    if sent is None:
        return None
    try:
        body = json.loads(sent.body)
    except ValueError:
        body = None
    return requested_model(sent.path, body)
