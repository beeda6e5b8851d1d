"""The command `streamfold`: inside the process of the tests, or in one of its own.

To start Python and import everything takes longer than what most commands do. So a test starts a process where the
process is the point (signals, pipes, exit codes of the interpreter), and once for each command.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest import mock

import anyio
import anyio.to_thread

import streamfold
from streamfold.cli import main

COMMAND = [sys.executable, "-m", "streamfold"]
_SOURCE = Path(streamfold.__file__).parents[1]
_HIDDEN = ("STREAMFOLD_", "PYTHON", "COLUMNS")  # what the person who runs the tests has set for these is not for them


@dataclass(frozen=True)
class Done:
    """A command that has ended: its exit code, and what it wrote to standard output and standard error."""

    returncode: int
    out: bytes
    err: bytes

    @property
    def stdout(self) -> str:
        return self.out.decode()

    @property
    def stderr(self) -> str:
        return self.err.decode()


def environment(folder: Path, **more: str) -> dict[str, str]:
    """The variables of a command: none of the tests' own settings and keys, and a user's directory inside `folder`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_HIDDEN)}
    kept = {name: value for name, value in kept.items() if not name.endswith("_KEY")}
    user = {"XDG_CONFIG_HOME": str(folder / "user"), "APPDATA": str(folder / "user")}
    return {**kept, **user, "COLUMNS": "200", "PYTHONIOENCODING": "utf-8", "PYTHONPATH": str(_SOURCE), **more}


def start(folder: Path, *words: str, stdin: bytes = b"", **variables: str) -> Done:
    """Runs a command in a process of its own, as a user does."""
    env = environment(folder, **variables)
    done = subprocess.run([*COMMAND, *words], input=stdin, capture_output=True, cwd=folder, env=env, timeout=60)
    return Done(done.returncode, done.stdout, done.stderr)


def run(folder: Path, *words: str, stdin: bytes = b"", **variables: str) -> Done:
    """Runs a command in this process. Errors that would be a traceback are raised."""
    env = environment(folder, **variables)
    with (
        chdir(folder),
        mock.patch.dict(os.environ, env, clear=True),
        _streams(stdin, env["PYTHONIOENCODING"]) as (
            out,
            err,
        ),
    ):
        with mock.patch.object(sys, "argv", ["streamfold", *words]):
            code = _code(main)
        sys.stdout.flush()
        sys.stderr.flush()
        return Done(code, out.getvalue(), err.getvalue())


async def run_beside(folder: Path, *words: str, stdin: bytes = b"", **variables: str) -> Done:
    """Runs a command in a thread of this process, so that the server that it asks can be in this event loop."""
    with anyio.fail_after(60):
        command = partial(run, folder, *words, stdin=stdin, **variables)
        return await anyio.to_thread.run_sync(command, abandon_on_cancel=True)


@contextmanager
def _streams(stdin: bytes, encoding: str) -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    """Standard streams as the interpreter makes them for pipes."""
    name, _, errors = encoding.partition(":")
    out, err = io.BytesIO(), io.BytesIO()
    with (
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), name)),
        mock.patch.object(sys, "stdout", io.TextIOWrapper(out, name, errors or "strict")),
        mock.patch.object(sys, "stderr", io.TextIOWrapper(err, name, "backslashreplace", line_buffering=True)),
    ):
        yield out, err


def _code(command: Callable[[], None]) -> int:
    """The exit code with which the interpreter would end."""
    try:
        command()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
        return 1
    return 0
