"""A provider whose answers are recorded for the tests to come."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..config import effective_profile
from ..inprocess import recording_transport
from ..recording import Recording, load_source
from ..recording.temporary import clear_leftovers, temporary_path
from .noted import NotedProvider

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
        clear_leftovers(folder)
        profile = effective_profile(provider, {"max_retries": 0, **keys})  # or a failed attempt would be a turn
        self._folder = folder
        self._name = name
        self._draft = temporary_path(folder / "recording")  # made when there is something to be written
        transport = recording_transport(profile.transport, self._draft, name=name, adapter=profile.adapter)
        super().__init__(profile, transport, hooks=overrides.get("hooks", ()))

    def keep(self) -> str | None:
        """Puts the recordings in the place of older ones. Returns why not, where there is something wrong with them."""
        try:
            files = sorted(self._draft.rglob("*.sse"))
            problem = None if files else "nothing was asked, or its answer is still open"
            for file in files:
                recording = Recording.load(file)
                if recording.status >= 400:
                    problem = f"the answer {file.stem} has the status {recording.status}"
                elif not recording.complete:
                    problem = f"the answer {file.stem} is not complete ({recording.ended})"
                elif error := recording.expect.get("error"):
                    problem = f"the answer {file.stem} ends with {error}"
            if problem is None:
                self._replace(files)
            return problem and f"{self._name} was not recorded: {problem}"
        finally:
            shutil.rmtree(self._draft, ignore_errors=True)

    def _replace(self, files: list[Path]) -> None:
        target = self._folder / self._name
        if target.with_name(f"{target.name}.sse").is_file():
            for old in load_source(target):
                for suffix in (".sse", ".toml"):
                    target.with_name(old.name.rpartition("/")[2] + suffix).unlink(missing_ok=True)
        for file in files:
            for source in (file, file.with_name(f"{file.stem}.toml")):
                place = self._folder / source.relative_to(self._draft)
                place.parent.mkdir(parents=True, exist_ok=True)
                source.replace(place)
