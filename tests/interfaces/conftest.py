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
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parent / "programs" / "reading.mjs"
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
