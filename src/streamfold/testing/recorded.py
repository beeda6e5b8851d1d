"""A provider whose answers are recorded for the tests to come."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..config import load_profile
from .inprocess import recording_transport
from .noted import NotedProvider
from .recording import Draft

__all__ = ["RecordProvider"]


class RecordProvider(NotedProvider):
    """A real provider, with its key and address, whose answers become the recording `name` in a folder.

    They are drafts until `keep` is called: an answer that is an error, or that was not read to its end, would be what
    all later runs play. It holds connections: `async with`, or `aclose` in the end.

    Raises:
        ConfigError: the configuration or the name can't be used.
    """

    def __init__(
        self, folder: Path, name: str, provider: str | Mapping[str, Any], overrides: Mapping[str, Any]
    ) -> None:
        keys = {name: value for name, value in overrides.items() if name != "hooks"}
        profile = load_profile(provider, {"max_retries": 0, **keys})  # or a failed attempt would be a turn
        self._name = name
        self._draft = Draft(folder, name)
        transport = recording_transport(profile.transport, self._draft.folder, name=name, adapter=profile.adapter)
        super().__init__(profile, transport, hooks=overrides.get("hooks", ()))

    def keep(self) -> str | None:
        """Puts the recordings in the place of older ones. Returns why not, where there is something wrong with them."""
        try:
            problem = self._draft.problem()
            if problem is None:
                self._draft.keep()
            return problem and f"{self._name} was not recorded: {problem}"
        finally:
            self._draft.discard()
