"""Gemini CLI, on Google's own API; see `headless_agents.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from folding import DONE, call, entry, fin, text
from headless_agents import KEY, Run, called, program, run, two_files
from servers import STREAM, Connection, framed

# uvicorn runs on asyncio
pytestmark = [pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning"), pytest.mark.one_loop]

DONE_WITH = text("Both are green.") + fin("stop") + DONE
SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "general": {"disableAutoUpdate": True, "disableUpdateNag": True},
}


@pytest.fixture(scope="session")
def gemini() -> Path:
    """The program."""
    return program("gemini")


@pytest.fixture
def notes(tmp_path: Path) -> tuple[Path, Path]:
    """Two files of a project."""
    return two_files(tmp_path)


def edit(file: Path) -> tuple[str, Any]:
    given = {"file_path": str(file), "instruction": "green", "old_string": "blue", "new_string": "green"}
    return "replace", given


def read(file: Path) -> tuple[str, Any]:
    return "read_file", {"file_path": str(file)}


async def ask(gemini: Path, folder: Path, answers: list[Any], prompt: str) -> Run:
    def environment(address: str, home: Path) -> dict[str, str]:
        (home / ".gemini").mkdir()
        (home / ".gemini" / "settings.json").write_text(json.dumps(SETTINGS))
        variables = {"GOOGLE_GEMINI_BASE_URL": address, "GEMINI_API_KEY": KEY, "GEMINI_CLI_TRUST_WORKSPACE": "true"}
        return {**variables, "GEMINI_CLI_NO_RELAUNCH": "true", "SANDBOX": "false"}

    words = [str(gemini), "-m", "main", "--approval-mode", "yolo", "-p", prompt]
    return await run(folder, answers, words, environment)


async def test_a_loop_of_tools_edits_files(gemini: Path, tmp_path: Path, notes: tuple[Path, Path]) -> None:
    """Parallel calls are run, their results and the thinking go back to the provider, and both files have changed."""
    answers = [called(*map(read, notes)), called(*map(edit, notes)), DONE_WITH]
    code, out, err, requests = await ask(gemini, tmp_path, answers, "Make them green")
    assert (code, out.strip()) == (0, "Both are green."), err
    assert [file.read_text() for file in notes] == ["The sky is green.\n", "The sea is green.\n"]
    assistant, *results = requests[1]["messages"][-3:]
    assert assistant["reasoning_content"] == "I look first."  # the client does not send thoughts back: we remember them
    assert [made["function"]["name"] for made in assistant["tool_calls"]] == ["read_file", "read_file"]
    said_by = {result["tool_call_id"]: result["content"] for result in results}
    assert all(name in said_by[made["id"]] for made, name in zip(assistant["tool_calls"], ("sky", "sea"), strict=True))


async def test_a_stream_that_breaks_in_a_call(gemini: Path, tmp_path: Path, notes: tuple[Path, Path]) -> None:
    """Nothing of it is run; the client asks again, and goes on."""

    async def broken(connection: Connection) -> None:
        half = text("Let me see.") + called(edit(notes[0])).partition(b"data: [DONE]")[0][:-90]
        await connection.send(STREAM, framed(half))

    answers = [called(read(notes[0])), broken, DONE_WITH]
    code, out, err, requests = await ask(gemini, tmp_path, answers, "Make the sky green")
    assert (code, len(requests)) == (0, 3), err
    assert out.strip().endswith("Both are green.")
    assert requests[1]["messages"] == requests[2]["messages"]
    assert notes[0].read_text() == "The sky is blue.\n"


async def test_an_answer_that_reaches_its_limit_in_a_call(
    gemini: Path, tmp_path: Path, notes: tuple[Path, Path]
) -> None:
    """The call is not run, although what came of it may be all of it; the client asks again."""
    name, given = edit(notes[0])
    cut = call(entry(0, "functions.replace:0", name, json.dumps(given))) + fin("length") + DONE
    code, out, err, _ = await ask(gemini, tmp_path, [cut, DONE_WITH], "Make the sky green")
    assert (code, out.strip()) == (0, "Both are green."), err
    assert notes[0].read_text() == "The sky is blue.\n"
