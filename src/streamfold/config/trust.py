"""Which files that were found in a working directory may use the environment: those that the user has said to trust."""

from __future__ import annotations

import json
import os
import sys
from hashlib import sha256
from pathlib import Path

from ..values import ConfigError


def trust_file(path: Path) -> Path:
    """Remembers a configuration file with its content as trusted. Returns where that is remembered.

    Raises:
        ConfigError: the file can't be read, or the user's directory can't be written.
    """
    try:
        digest = sha256(path.read_bytes()).hexdigest()
    except OSError as exc:
        raise ConfigError(f"{path}: can't be read: {exc.strerror}") from exc
    kept = _kept_in()
    if kept is None:
        raise ConfigError("there is no user's directory to remember it in: name the file with STREAMFOLD_CONFIG")
    trusted = {**_trusted(kept), _name_of(path): digest}
    temporary = kept.with_name(f"{kept.name}.{os.getpid()}")
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(trusted, indent=1) + "\n", "utf-8")
        temporary.replace(kept)
    except OSError as exc:
        raise ConfigError(f"{kept}: can't be written: {exc.strerror}") from exc
    return kept


def is_trusted(path: Path, content: bytes) -> bool:
    """Returns whether the user trusts a file with this content. Raises ConfigError if that can't be read."""
    kept = _kept_in()
    return kept is not None and _trusted(kept).get(_name_of(path)) == sha256(content).hexdigest()


def _kept_in() -> Path | None:
    folder = user_folder()
    return None if folder is None else folder / "streamfold" / "trusted.json"


def _name_of(path: Path) -> str:
    return os.path.realpath(path)


def _trusted(kept: Path) -> dict[str, str]:
    try:
        found = json.loads(kept.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as exc:
        raise ConfigError(f"{kept}: can't be read ({exc}): remove it, and trust your files again") from exc
    return found if isinstance(found, dict) else {}


def user_folder() -> Path | None:
    """Returns the folder of the user's settings; None if there is none."""
    variable = "APPDATA" if sys.platform == "win32" else "XDG_CONFIG_HOME"
    folder = Path(os.environ.get(variable, ""))
    if folder.is_absolute():  # the XDG specification says to ignore relative paths
        return folder
    try:
        return Path.home() / ("AppData/Roaming" if sys.platform == "win32" else ".config")
    except RuntimeError:  # a user without a home directory
        return None
