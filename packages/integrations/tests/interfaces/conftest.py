"""Clients of user interfaces that nobody here wrote: the AI SDK's and AG-UI's own readers, in Node.

`STREAMFOLD_INTERFACES` names the folder of their packages, and `nox -s interfaces` makes it. Without it, these tests
are skipped.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from served_apps import serving_app

PROGRAMS = Path(__file__).parent / "programs"
PROGRAM = PROGRAMS / "reading.mjs"
EXAMPLE = Path(__file__).parents[4] / "examples" / "web_chat"
READERS = ["ai5", "ai6", "ai7", "agui"]


class Reader:
    """A program in Node that reads one body after the other."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        copy = folder / PROGRAM.name  # Node looks for packages beside the program
        shutil.copy(PROGRAM, copy)
        words = ["node", str(copy), name]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder)

    def read(self, body: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        """What the client made of it."""
        assert self._process.stdin
        assert self._process.stdout
        line = {"body": base64.b64encode(body).decode(), "headers": dict(headers)}
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()
        heard: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert not str(heard["error"]).startswith("program:"), heard["error"]
        return heard

    def close(self) -> None:
        self._process.communicate(timeout=30)


@pytest.fixture(scope="module", params=READERS)
def reader(request: pytest.FixtureRequest) -> Iterator[Reader]:
    folder = os.environ.get("STREAMFOLD_INTERFACES")
    if not folder:
        pytest.skip("STREAMFOLD_INTERFACES names no folder: nox -s interfaces")
    made = Reader(request.param, Path(folder))
    yield made
    made.close()


@pytest.fixture
def node() -> Callable[..., dict[str, Any]]:
    """Runs a program in Node, and returns the JSON that it prints."""
    folder = os.environ.get("STREAMFOLD_INTERFACES")
    if not folder:
        pytest.skip("STREAMFOLD_INTERFACES names no folder: nox -s interfaces")

    def run(program: str, *words: str) -> dict[str, Any]:
        shutil.copy(PROGRAMS / program, Path(folder) / program)
        command = ["node", str(Path(folder) / program), *words]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return run


@pytest.fixture
def web_chat(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, dict[str, str]]]:
    """The address of `examples/web_chat`, and its notes."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    from app import make_app
    from script import make_model

    app = make_app(make_model(0))
    with serving_app(app) as address:
        yield address, app.state.notes
    for name in ("app", "script"):
        sys.modules.pop(name, None)
