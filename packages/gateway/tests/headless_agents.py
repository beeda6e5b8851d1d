"""Agents that nobody here wrote, run headless before our gateway; behind it a server that answers as Kimi does.

`STREAMFOLD_AGENTS` names the folder in which npm has installed them, and `nox -s agents` does that. Without it, their
tests are skipped. Each run has a home of its own, and loopback alone to talk to.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest

from folding import DONE, call, entry, event, fin
from gateways import served_before
from servers import END, STREAM, Connection, framed

__all__ = ["KEY", "Run", "called", "program", "run", "two_files"]

KEY = "of-the-client"
LIMIT = 120.0  # seconds for one run, which takes a few


class Run(NamedTuple):
    """How a run ended.

    Attributes:
        requests: the bodies that the server behind the gateway got.
    """

    code: int
    out: str
    err: str
    requests: list[dict[str, Any]]


def program(name: str) -> Path:
    """Returns the path of an agent, or skips the test."""
    named = os.environ.get("STREAMFOLD_AGENTS")
    if not named:
        pytest.skip("no agents are installed: nox -s agents")
    found = Path(named).resolve() / "node_modules" / ".bin" / name
    assert found.exists()
    assert shutil.which("node")
    return found


def called(*calls: tuple[str, Any], thinks: bool = True) -> bytes:
    """An answer of Kimi's: it thinks, and calls tools by ids that no other API would accept."""
    entries = [entry(at, f"functions.{name}:{at}", name, json.dumps(given)) for at, (name, given) in enumerate(calls)]
    thought = event({"choices": [{"index": 0, "delta": {"reasoning_content": "I look first."}}]}) if thinks else b""
    return thought + b"".join(map(call, entries)) + fin("tool_calls") + DONE


def two_files(folder: Path) -> tuple[Path, Path]:
    """Two files of a project."""
    (folder / "project").mkdir()
    files = folder / "project" / "sky.txt", folder / "project" / "sea.txt"
    for file in files:
        file.write_text(f"The {file.stem} is blue.\n")
    return files


async def run(
    folder: Path,
    answers: list[Any],
    command: list[str],
    environment: Callable[[str, Path], Mapping[str, str]],
    **gateway: Any,
) -> Run:
    """Runs a command in the folder's project.

    Args:
        answers: for each request a body, or a function that talks on the connection. The last is for all further ones.
        environment: from the address of the gateway and a home, the variables of the command.
        gateway: options of the gateway.
    """
    requests: list[dict[str, Any]] = []
    home = folder / "home"
    home.mkdir(exist_ok=True)  # a second run goes on with what the first one left there

    async def script(connection: Connection) -> None:
        while True:
            requests.append(json.loads(await connection.request()))
            said = answers[min(len(requests), len(answers)) - 1]
            if callable(said):
                await said(connection)
                return
            await connection.send(STREAM, framed(said), END)

    provider = {"adapter": "kimi", "model": "kimi-k2.5", "name": "kimi", "api_key": "unused"}
    async with served_before(script, provider=provider, keys=[KEY], **gateway) as (client, _, _):
        common = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "TERM": "dumb"}
        variables = {**common, **environment(str(client.base_url).rstrip("/"), home)}
        with anyio.fail_after(LIMIT):
            done = await anyio.run_process(command, input=b"", env=variables, cwd=folder / "project", check=False)
    return Run(done.returncode, done.stdout.decode(), done.stderr.decode(), requests)
