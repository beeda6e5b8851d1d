"""Names for what is not finished yet: beside its place, hidden, and with the process that makes it.

A process that is killed can't clean up, so the next one that writes into the same folder does.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

__all__ = ["clear_leftovers", "temporary_path"]

_NAME = re.compile(r"\..+\.(?P<process>\d+)-[0-9a-f]{8}\.tmp", re.DOTALL)


def temporary_path(target: Path) -> Path:
    """A name beside `target` that nobody has, and that no recording has."""
    return target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")


def clear_leftovers(folder: Path) -> None:
    """Removes what bears such a name and belongs to no running process. Where that can't be known, it stays."""
    for path in folder.glob(".*.tmp"):
        found = _NAME.fullmatch(path.name)
        if found is None or _may_run(int(found["process"])):
            continue
        with suppress(OSError):  # another process clears it too, or it is another user's: it is in nobody's way
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _may_run(process: int) -> bool:
    if os.name != "posix":
        return True  # where asking is no question: on Windows this signal is Ctrl-C
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
