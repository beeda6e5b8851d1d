"""Claude Code, on the Messages API; see `headless_agents.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from folding import DONE, fin, text
from headless_agents import KEY, called, program, run, two_files
from servers import STREAM, Connection, answer, framed

# uvicorn runs on asyncio
pytestmark = [pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning"), pytest.mark.one_loop]

TOO_LONG = "Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)"


@pytest.fixture(scope="session")
def claude() -> Path:
    """The program."""
    return program("claude")


@pytest.fixture
def notes(tmp_path: Path) -> tuple[Path, Path]:
    """Two files of a project."""
    return two_files(tmp_path)


async def ask(
    claude: Path, folder: Path, answers: list[Any], prompt: str, *words: str
) -> tuple[int, str, list[dict[str, Any]]]:
    """Runs a prompt; returns the exit code, what was printed, and the requests that the server behind it got."""

    def environment(address: str, _: Path) -> dict[str, str]:
        off = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING")
        quiet = dict.fromkeys((*off, "DISABLE_AUTOUPDATER"), "1")
        return {**quiet, "ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": KEY}

    command = [str(claude), "-p", prompt, "--model", "main", "--allowedTools", "Read", "Edit", *words]
    done = await run(folder, answers, command, environment)
    return done.code, done.out + done.err, done.requests


def said(words: str) -> bytes:
    return text(words) + fin("stop") + DONE


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
    code, said, requests = await ask(claude, tmp_path, answers, "Make them green")
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
        half = called(edit(notes[0]), thinks=False).partition(b"data: [DONE]")[0][:-90]
        await connection.send(STREAM, framed(half))

    answers = [called(read(notes[0])), broken, called(edit(notes[0])), text("It is green.") + fin("stop") + DONE]
    code, said, requests = await ask(claude, tmp_path, answers, "Make the sky green")
    assert (code, said.strip()) == (0, "It is green.")
    assert notes[0].read_text() == "The sky is green.\n"
    assert requests[1]["messages"] == requests[2]["messages"]


@pytest.mark.parametrize("before", ["text", "thought"])
async def test_a_stream_that_breaks_behind_a_block(
    claude: Path, tmp_path: Path, notes: tuple[Path, Path], before: str
) -> None:
    """Claude Code asks again only while no block is complete. Later it ends the turn with our error; nothing is run."""

    async def broken(connection: Connection) -> None:
        half = called(edit(notes[0]), thinks=before == "thought").partition(b"data: [DONE]")[0][:-90]
        await connection.send(STREAM, framed(*([text("Let me see.")] if before == "text" else []), half))

    code, said, requests = await ask(claude, tmp_path, [called(read(notes[0])), broken], "Make the sky green")
    assert (code, len(requests)) == (1, 2)
    assert "API Error: the connection broke" in said
    assert notes[0].read_text() == "The sky is blue.\n"


async def refused(connection: Connection) -> None:
    """Kimi's words for a conversation that is too long."""
    body = json.dumps({"error": {"message": TOO_LONG, "type": "invalid_request_error"}}).encode()
    await connection.send(answer("400 Bad Request", body, "Content-Type: application/json"))


async def test_a_context_that_is_too_long(claude: Path, tmp_path: Path, notes: tuple[Path, Path]) -> None:
    """Kimi's words reach Claude Code as the ones that it knows. It has the conversation summarised, and goes on."""
    assert (await ask(claude, tmp_path, [said("Noted.")], "I like green."))[0] == 0
    summary = said("<summary>The user likes green, and wants the sky green.</summary>")
    answers = [called(read(notes[0])), refused, summary, called(read(notes[0])), called(edit(notes[0])), said("Done.")]
    code, out, requests = await ask(claude, tmp_path, answers, "Make the sky green", "--continue")
    assert (code, out.strip()) == (0, "Done.")
    assert notes[0].read_text() == "The sky is green.\n"
    assert "summary" in json.dumps(requests[2]["messages"][-1])  # what it asks for
    assert "The user likes green, and wants the sky green." in json.dumps(requests[3]["messages"])
    assert "I like green." not in json.dumps(requests[3]["messages"])


async def test_a_context_of_one_exchange_that_is_too_long(
    claude: Path, tmp_path: Path, notes: tuple[Path, Path]
) -> None:
    """There is nothing that a summary could replace: Claude Code says so, and not our words for any other error."""
    code, out, requests = await ask(claude, tmp_path, [called(read(notes[0])), refused], "Make the sky green")
    assert (code, out.strip(), len(requests)) == (1, "Prompt is too long", 2)
