"""How much memory this process holds, now and at most, in bytes."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["peak", "resident"]


def resident() -> int:
    """What is in memory now; where the system does not say, what was at most."""
    return _status("VmRSS") or peak()


def peak(process: int | None = None) -> int:
    """The most that ever was, of this process or of another one, for which only Linux has an answer.

    On Linux of this program alone: `ru_maxrss` counts what forked it, too.
    """
    if (size := _status("VmHWM", process)) or process is not None:
        return size
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def _status(name: str, process: int | None = None) -> int:
    status = Path(f"/proc/{process or 'self'}/status")
    if not status.exists():
        return 0
    fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
    return int(fields[name].split()[0]) * 1024
