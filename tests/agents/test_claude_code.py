"""Claude Code itself, headless, before our gateway; behind it a server that answers as Kimi does.

`STREAMFOLD_AGENTS` names the folder in which npm has installed it, and `nox -s agents` does that. Without it, these
tests are skipped. It runs in a home of its own, with loopback alone to talk to.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from folding import DONE, call, entry, event, fin, text
from gateways import served_before
from servers import END, STREAM, Connection, answer, framed

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")]

LIMIT = 120.0  # seconds for one run, which takes about two
TOO_LONG = "Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)"
Turn = Callable[[Connection, dict[str, Any]], Any]


@pytest.fixture
def anyio_backend() -> str:
    """uvicorn runs on asyncio."""
    return "asyncio"


@pytest.fixture(scope="session")
def claude() -> Path:
    """The program."""
    named = os.environ.get("STREAMFOLD_AGENTS")
    if not named:
        pytest.skip("no agents are installed: nox -s agents")
    program = Path(named).resolve() / "node_modules" / ".bin" / "claude"
    assert program.exists()
    assert shutil.which("node")
    return program


def called(*calls: tuple[str, dict[str, Any]]) -> bytes:
    """An answer of Kimi's: it thinks, and calls tools by ids that no other API would accept."""
    entries = [entry(at, f"functions.{name}:{at}", name, json.dumps(given)) for at, (name, given) in enumerate(calls)]
    thinks = event({"choices": [{"index": 0, "delta": {"reasoning_content": "I look first."}}]})
    return thinks + b"".join(map(call, entries)) + fin("tool_calls") + DONE


async def whole(connection: Connection, body: bytes) -> None:
    await connection.send(STREAM, framed(body), END)


async def run(
    claude: Path, folder: Path, answers: list[Any], prompt: str, *words: str
) -> tuple[int, str, list[dict[str, Any]]]:
    """Runs a prompt; returns the exit code, what was printed, and the requests that the server behind it got.

    Args:
        answers: for each request a body, or a function that talks on the connection. The last is for all further ones.
    """
    requests: list[dict[str, Any]] = []
    home, project = folder / "home", folder / "project"
    home.mkdir()

    async def script(connection: Connection) -> None:
        while True:
            requests.append(json.loads(await connection.request()))
            said = answers[min(len(requests), len(answers)) - 1]
            if callable(said):
                await said(connection)
                return
            await whole(connection, said)

    provider = {"adapter": "kimi", "model": "kimi-k2.5", "name": "kimi", "api_key": "unused"}
    async with served_before(script, provider=provider, keys=["of-the-client"]) as (client, _, _):
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "ANTHROPIC_BASE_URL": str(client.base_url).rstrip("/"),
            "ANTHROPIC_API_KEY": "of-the-client",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
        command = [str(claude), "-p", prompt, "--model", "main", "--allowedTools", "Read", "Edit", *words]
        with anyio.fail_after(LIMIT):
            done = await anyio.run_process(command, input=b"", env=environment, cwd=project, check=False)
    return done.returncode, (done.stdout + done.stderr).decode(), requests


@pytest.fixture
def notes(tmp_path: Path) -> tuple[Path, Path]:
    """Two files of a project."""
    (tmp_path / "project").mkdir()
    files = tmp_path / "project" / "sky.txt", tmp_path / "project" / "sea.txt"
    for file in files:
        file.write_text(f"The {file.stem} is blue.\n")
    return files


def edit(file: Path) -> tuple[str, dict[str, Any]]:
    return "Edit", {"file_path": str(file), "old_string": "blue", "new_string": "green"}


def read(file: Path) -> tuple[str, dict[str, Any]]:
    return "Read", {"file_path": str(file)}


async def test_a_loop_of_tools_edits_files(claude: Path, tmp_path: Path, notes: tuple[Path, Path]) -> None:
    """Parallel calls are run, results and thinking go back to the provider, and the files on disk have changed."""
    answers = [
        called(*map(read, notes)),
        called(*map(edit, notes)),
        text("Both are green.") + fin("stop") + DONE,
    ]
    code, said, requests = await run(claude, tmp_path, answers, "Make them green")
    assert (code, said.strip()) == (0, "Both are green.")
    assert [file.read_text() for file in notes] == ["The sky is green.\n", "The sea is green.\n"]
    assistant, *results = requests[1]["messages"][-3:]
    assert assistant["reasoning_content"] == "I look first."
    assert [made["function"]["name"] for made in assistant["tool_calls"]] == ["Read", "Read"]
    said_by = {result["tool_call_id"]: result["content"] for result in results}  # they come as they are done
    assert [said_by[made["id"]].split()[2] for made in assistant["tool_calls"]] == ["sky", "sea"]


async def test_a_stream_that_breaks_in_a_call(claude: Path, tmp_path: Path, notes: tuple[Path, Path]) -> None:
    """Nothing of it is run; the request is sent again, not streamed, and the loop goes on."""

    async def broken(connection: Connection) -> None:
        half = called(edit(notes[0])).partition(b"data: [DONE]")[0][:-90]
        await connection.send(STREAM, framed(half))

    answers = [called(read(notes[0])), broken, called(edit(notes[0])), text("It is green.") + fin("stop") + DONE]
    code, said, requests = await run(claude, tmp_path, answers, "Make the sky green")
    assert (code, said.strip()) == (0, "It is green.")
    assert notes[0].read_text() == "The sky is green.\n"
    assert requests[1]["messages"] == requests[2]["messages"]


async def test_a_stream_that_breaks_behind_text(claude: Path, tmp_path: Path, notes: tuple[Path, Path]) -> None:
    """Claude Code asks again only while no block is complete. Later it ends the turn with our error; nothing is run."""

    async def broken(connection: Connection) -> None:
        half = called(edit(notes[0])).partition(b"data: [DONE]")[0][:-90]
        await connection.send(STREAM, framed(text("Let me see."), half))

    code, said, requests = await run(claude, tmp_path, [called(read(notes[0])), broken], "Make the sky green")
    assert (code, len(requests)) == (1, 2)
    assert "API Error: kimi: the connection broke" in said
    assert notes[0].read_text() == "The sky is blue.\n"


async def test_a_context_that_is_too_long(claude: Path, tmp_path: Path, notes: tuple[Path, Path]) -> None:
    """Kimi's words for it reach Claude Code as the ones that it knows."""

    async def refused(connection: Connection) -> None:
        body = json.dumps({"error": {"message": TOO_LONG, "type": "invalid_request_error"}}).encode()
        await connection.send(answer("400 Bad Request", body, "Content-Type: application/json"))

    code, said, requests = await run(claude, tmp_path, [called(read(notes[0])), refused], "Make the sky green")
    assert (code, said.strip(), len(requests)) == (1, "Prompt is too long", 2)  # and not our words for any other error
