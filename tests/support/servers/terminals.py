"""The command in a pseudo-terminal."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from commands import COMMAND

PROMPT = b"> "


def on_terminal(folder: Path, *words: str, typed: Sequence[bytes] = (), columns: int = 80, **environment: str) -> bytes:
    """The output of a command whose standard streams are a terminal.

    Args:
        typed: what is typed, each at the next prompt.
    """
    import fcntl
    import pty
    import select
    import struct
    import termios

    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("STREAMFOLD_", "COLUMNS"))}
    source = str(Path(__file__).resolve().parents[3] / "src")
    process = subprocess.Popen(
        [*COMMAND, *words],
        stdin=child,
        stdout=child,
        stderr=child,
        cwd=folder,
        env={**kept, "PYTHONPATH": source, "TERM": "dumb", **environment},
        start_new_session=True,
    )
    os.close(child)
    waiting, shown, end = list(typed), b"", time.monotonic() + 60
    try:
        while select.select([parent], [], [], end - time.monotonic())[0]:
            try:
                piece = os.read(parent, 65536)
            except OSError:  # the other end is closed
                return shown
            if not piece:
                return shown
            shown += piece
            if waiting and shown.endswith(PROMPT):
                os.write(parent, waiting.pop(0))
        raise TimeoutError(f"still running after {shown!r}")
    finally:
        process.kill()
        process.wait(30)
        os.close(parent)
