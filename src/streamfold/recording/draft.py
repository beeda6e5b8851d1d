"""Records to a temporary folder and replaces the older recording only on success."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ..values import ConfigError
from .files import Recording
from .store import load_source
from .temporary_files import clear_leftovers, temporary_path


def failure_in(recording: Recording) -> str | None:
    """Describes the failure of an answer (a status, an early end, an error); None if it succeeded."""
    answer = f"the answer {recording.name.rpartition('/')[2]}"
    if recording.status >= 400:
        return f"{answer} has the status {recording.status}"
    if not recording.complete:
        return f"{answer} is not complete ({recording.ended})"
    error = recording.expect.get("error")
    return f"{answer} ends with {error}" if error else None


class RecordingDraft:
    """The recordings of one conversation, in a temporary folder beside their target.

    Attributes:
        folder: where they are recorded meanwhile, under their own name. It is made when there is something to write.
    """

    def __init__(self, directory: str | os.PathLike[str], name: str) -> None:
        self._directory = Path(directory)
        self._name = name
        clear_leftovers(self._directory)
        self.folder = temporary_path(self._directory / "recording")

    @property
    def target(self) -> Path:
        """The path of the first of them, without a suffix."""
        return self._directory / self._name

    @property
    def has_older(self) -> bool:
        """Whether there is a recording at `target`."""
        return self.target.with_name(f"{self.target.name}.sse").is_file()

    def problem(self) -> str | None:
        """Describes why these recordings should not replace others: there are none, or an answer failed; else None."""
        if not (files := self._files()):
            return "there was no answer, or it is still open"
        return next(filter(None, (failure_in(Recording.load(file)) for file in files)), None)

    def keep(self) -> list[Path]:
        """Replaces the older conversation with them. Returns their paths, without a suffix."""
        try:
            older = load_source(self.target) if self.has_older else []
        except ConfigError:  # unreadable: only files of the same names are replaced
            older = []
        kept = []
        for file in self._files():
            kept.append(self._directory / file.relative_to(self.folder).with_name(file.stem))
            kept[-1].parent.mkdir(parents=True, exist_ok=True)
            Recording.load(file).save(kept[-1])
        names = {place.name for place in kept}
        for left in {old.name.rpartition("/")[2] for old in older} - names:  # the older one was longer
            for suffix in (".sse", ".toml"):
                self.target.with_name(left + suffix).unlink(missing_ok=True)
        return kept

    def discard(self) -> None:
        """Removes the temporary folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _files(self) -> list[Path]:
        return sorted(self.folder.rglob("*.sse"))
