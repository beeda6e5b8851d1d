"""Looks for `streamfold.toml` at several places, and decides whether the file may be used."""

from __future__ import annotations

import json
import os
import stat
import sys
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from ..errors import ConfigError
from .environment import find_variable
from .layers import TomlFile

FILE_NAME = "streamfold.toml"
FILE_VARIABLE = "STREAMFOLD_CONFIG"
PROVIDER_VARIABLE = "STREAMFOLD_PROVIDER"


def trust_file(path: Path) -> Path:
    """Records that the user trusts a configuration file with its current content. Returns the path of the file that
    lists trusted files.

    Raises:
        ConfigError: the file can't be read, or the user's configuration directory can't be written.
    """
    try:
        digest = sha256(path.read_bytes()).hexdigest()
    except OSError as exc:
        raise ConfigError(f"{path}: can't be read: {exc.strerror}") from exc
    record = _trust_record()
    if record is None:
        raise ConfigError("this user has no configuration directory: set STREAMFOLD_CONFIG to the path of the file")
    trusted = {**_trusted_digests(record), os.path.realpath(path): digest}
    temporary = record.with_name(f"{record.name}.{os.getpid()}")
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(trusted, indent=1) + "\n", "utf-8")
        temporary.replace(record)
    except OSError as exc:
        raise ConfigError(f"{record}: can't be written: {exc.strerror}") from exc
    return record


def is_trusted(path: Path, content: bytes) -> bool:
    """Returns True if the user trusts a file with this content. Raises ConfigError if the list of trusted files can't
    be read.
    """
    record = _trust_record()
    return record is not None and _trusted_digests(record).get(os.path.realpath(path)) == sha256(content).hexdigest()


def _trust_record() -> Path | None:
    folder = user_folder()
    return None if folder is None else folder / "streamfold" / "trusted.json"


def _trusted_digests(record: Path) -> dict[str, str]:
    try:
        found = json.loads(record.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as exc:
        raise ConfigError(f"{record}: can't be read ({exc}): remove it, and trust your files again") from exc
    return found if isinstance(found, dict) else {}


def user_folder() -> Path | None:
    variable = "APPDATA" if sys.platform == "win32" else "XDG_CONFIG_HOME"
    folder = Path(find_variable(variable) or "")
    if folder.is_absolute():  # the XDG specification says to ignore relative paths
        return folder
    try:
        return Path.home() / ("AppData/Roaming" if sys.platform == "win32" else ".config")
    except RuntimeError:  # a user without a home directory
        return None


@dataclass(frozen=True, slots=True)
class Location:
    """A path at which a configuration file may exist.

    Attributes:
        origin: a text that says where this path comes from, such as "the working directory".
        required: True if the caller or an environment variable specifies this path. A missing file is then an error.
    """

    path: Path
    origin: str
    required: bool = False

    @property
    def is_found(self) -> bool:
        """True if streamfold looks for the file in the working directory. Such a file may belong to someone else."""
        return not self.required and not self.path.is_absolute()

    @property
    def exists(self) -> bool:
        try:
            return self.path.exists() and not self.path.is_dir()  # not is_file(): the null device is an empty file
        except OSError:  # a folder without permission
            return False


def search_locations(path: str | os.PathLike[str] | None = None) -> list[Location]:
    """Returns the paths at which to look for the file, in order, or only the path that the caller passes."""
    if path is not None:
        return [Location(Path(path).expanduser(), "the path that was passed", required=True)]
    if named := find_variable(FILE_VARIABLE):
        return [Location(Path(named).expanduser(), FILE_VARIABLE, required=True)]
    found = [Location(Path(FILE_NAME), "the working directory")]
    if (folder := user_folder()) is not None:
        found.append(Location(folder / "streamfold" / FILE_NAME, "the user's directory"))
    return found


def read_file(looked_in: tuple[Location, ...]) -> TomlFile | None:
    """Reads the first file that exists. Returns None if there is none.

    Raises:
        ConfigError: a required file doesn't exist, the file can't be read or isn't TOML, or another user can change the
            file in the working directory.
    """
    for place in looked_in:
        if place.exists:
            try:
                with place.path.open("rb") as opened:
                    if place.is_found:
                        _refuse_untrusted(place, os.fstat(opened.fileno()))
                    content = opened.read()
            except OSError as exc:
                raise ConfigError(f"{place.path}: can't be read: {exc.strerror}") from exc
            file = TomlFile.parse(str(place.path), content)
            is_foreign = place.is_found and not is_trusted(place.path, content)
            return replace(file, is_foreign=True) if is_foreign else file
        if place.required:
            raise ConfigError(f"config file not found: {place.path} (from {place.origin})")
    return None


def _refuse_untrusted(place: Location, status: os.stat_result) -> None:
    # Otherwise a program that runs in a folder such as /tmp would send its API keys to a host that another user chose.
    if sys.platform == "win32":
        return
    if status.st_uid not in (os.getuid(), 0):  # root can change the user's files anyway
        problem = f"the file belongs to another user (uid {status.st_uid})"
    elif status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        problem = (
            f"other users may write it (mode {stat.S_IMODE(status.st_mode):o}; `chmod go-w {place.path}` forbids it)"
        )
    else:
        return
    raise ConfigError(
        f"{place.path} in {place.origin} is not used: {problem}. If you trust this file, set"
        f" {FILE_VARIABLE}={place.path.absolute()}"
    )
