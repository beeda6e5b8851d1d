"""A provider that plays recordings: what a real model once said, without it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from ..client import Hooks
from .faults import Fault
from .noted import NotedProvider
from .recording import Match, Recording, ReplayTransport, Speed, load_source
from .standin import stand_in

__all__ = ["ReplayProvider"]


class ReplayProvider(NotedProvider):
    """A provider that answers its requests with recordings, one after the other.

        provider = ReplayProvider("fixtures/kimi/parallel_calls", cuts="bytes:1", faults=[reset(after_events=9)])

    Args:
        recordings: in this order: paths (with what was recorded after them in the same conversation), names of those
            that come with streamfold, or values.
        provider: the configuration to take the place of, as `Provider.from_config` takes it: its quirks and dialect
            hold, its key and address are not used. Else it is a plain one, with the adapter, the dialect and the model
            that the first recording names.
        cuts, speed, faults, match: as for `ReplayTransport`.
        hooks, overrides: as for `Provider.from_config`. Unless `max_retries` is among them, nothing is sent again, so
            that the application sees each fault.

    Attributes:
        requests: those that came. One that no recording is left for, or that is not the one that was recorded, is a
            `ScriptError`.

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
        match: Match = "order",
        hooks: Iterable[Hooks] = (),
        **overrides: Any,
    ) -> None:
        read = [recording for source in recordings for recording in load_source(source)]
        transport = ReplayTransport(read, speed=speed, cuts=cuts, faults=faults, match=match)
        first = read[0]
        told = {"dialect": first.dialect} if provider is None and first.dialect else {}
        profile = stand_in(provider, {**told, **overrides}, name="replay", adapter=first.adapter, model=_model(first))
        super().__init__(profile, transport, hooks=hooks)


def _model(recording: Recording) -> str | None:
    """The model that was asked, as far as that was recorded."""
    try:
        model = json.loads(recording.sent.body)["model"] if recording.sent else None
    except (ValueError, KeyError, TypeError):
        return None
    return model if isinstance(model, str) else None
