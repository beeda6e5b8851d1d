"""Where a configuration file is looked for, and whether it may be trusted."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from ..values import ConfigError
from .layers import TomlFile
from .trust import is_trusted, user_folder

FILE_NAME = "streamfold.toml"
FILE_VARIABLE = "STREAMFOLD_CONFIG"
PROVIDER_VARIABLE = "STREAMFOLD_PROVIDER"


@dataclass(frozen=True, slots=True)
class Location:
    """A path at which a configuration file is looked for.

    Attributes:
        origin: why it is looked for there, in words.
        required: the file was named explicitly; it is an error if it does not exist.
    """

    path: Path
    origin: str
    required: bool = False

    @property
    def is_found(self) -> bool:
        """Whether the file is not the user's own: it is looked for in the working directory."""
        return not self.required and not self.path.is_absolute()

    @property
    def exists(self) -> bool:
        """Whether there is a file."""
        try:
            return self.path.exists() and not self.path.is_dir()  # not is_file(): the null device is an empty file
        except OSError:  # a folder without permission
            return False


def search_locations(path: str | os.PathLike[str] | None = None) -> list[Location]:
    """Returns where a file is looked for, in this order. A file that is named explicitly is the only place."""
    if path is not None:
        return [Location(Path(path).expanduser(), "the path that was passed", required=True)]
    if named := os.environ.get(FILE_VARIABLE, "").strip():
        return [Location(Path(named).expanduser(), FILE_VARIABLE, required=True)]
    found = [Location(Path(FILE_NAME), "the working directory")]
    if (folder := user_folder()) is not None:
        found.append(Location(folder / "streamfold" / FILE_NAME, "the user's directory"))
    return found


def read_file(looked_in: tuple[Location, ...]) -> TomlFile | None:
    """Reads the first file that exists; None if there is none.

    Raises:
        ConfigError: a required file does not exist; the file can't be read, is not TOML, or is in the working directory
            and belongs to another user or can be changed by one.
    """
    for place in looked_in:
        if place.exists:
            content = _content(place)
            file = TomlFile.parse(str(place.path), content)
            is_foreign = place.is_found and not is_trusted(place.path, content)
            return replace(file, is_foreign=True) if is_foreign else file
        if place.required:
            raise ConfigError(f"config file not found: {place.path} (from {place.origin})")
    return None


def _content(place: Location) -> bytes:
    try:
        with place.path.open("rb") as file:
            if place.is_found:
                _refuse_untrusted(place, os.fstat(file.fileno()))
            return file.read()
    except OSError as exc:
        raise ConfigError(f"{place.path}: can't be read: {exc.strerror}") from exc


def _refuse_untrusted(place: Location, status: os.stat_result) -> None:
    """Raises ConfigError for a file that another user controls.

    A program that is started in a folder such as /tmp would send its keys wherever that file says.
    """
    if sys.platform == "win32":
        return
    if status.st_uid not in (os.getuid(), 0):  # root could change our own files too
        problem = f"it belongs to another user (uid {status.st_uid})"
    elif status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        problem = (
            f"other users may write it (mode {stat.S_IMODE(status.st_mode):o}; `chmod go-w {place.path}` forbids it)"
        )
    else:
        return
    raise ConfigError(
        f"{place.path} in {place.origin} is not used: {problem}. If you trust it, name it:"
        f" {FILE_VARIABLE}={place.path.absolute()}"
    )
