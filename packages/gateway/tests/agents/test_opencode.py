"""opencode, which speaks each of three APIs; see `headless_agents.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from folding import DONE, event, fin, text
from headless_agents import KEY, Run, called, program, run, two_files
from servers import STREAM, Connection, framed

# uvicorn runs on asyncio
pytestmark = [pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning"), pytest.mark.one_loop]

APIS = {"chat": "@ai-sdk/openai-compatible", "responses": "@ai-sdk/openai", "messages": "@ai-sdk/anthropic"}
USAGE = event({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}})
GREEN = text("Both are green.") + fin("stop") + USAGE + DONE
# Nothing is looked up or loaded: the list of models, plugins, updates, language servers.
QUIET = {f"OPENCODE_DISABLE_{name}": "1" for name in ("AUTOUPDATE", "MODELS_FETCH", "DEFAULT_PLUGINS", "LSP_DOWNLOAD")}


@pytest.fixture(scope="session")
def opencode() -> Path:
    """The program."""
    return program("opencode")


@pytest.fixture
def notes(tmp_path: Path) -> tuple[Path, Path]:
    """Two files of a project."""
    return two_files(tmp_path)


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def read(file: Path) -> tuple[str, Any]:
    return "read", {"filePath": str(file)}


def edit(file: Path) -> tuple[str, Any]:
    return "edit", {"filePath": str(file), "oldString": "blue", "newString": "green"}


async def ask(opencode: Path, folder: Path, api: str, answers: list[Any]) -> Run:
    def environment(address: str, home: Path) -> dict[str, str]:
        options = {"baseURL": f"{address}/v1", "apiKey": KEY}
        provider = {"npm": APIS[api], "options": options, "models": {"main": {"name": "main"}}}
        config = {"provider": {"gateway": provider}, "model": "gateway/main", "autoupdate": False, "share": "disabled"}
        file = home / "opencode.json"
        file.write_text(json.dumps(config))
        return {"OPENCODE_CONFIG": str(file), **QUIET}

    command = [str(opencode), "run", "--title", "Green", "Make both files green"]
    return await run(folder, answers, command, environment)


async def test_a_loop_of_tools_edits_files(opencode: Path, tmp_path: Path, notes: tuple[Path, Path], api: str) -> None:
    """On each API: parallel calls are run, results and thinking go back, the files have changed, exit 0."""
    answers = [called(*map(read, notes)), called(*map(edit, notes)), GREEN]
    code, out, _, requests = await ask(opencode, tmp_path, api, answers)
    assert (code, out.strip()) == (0, "Both are green.")
    assert [file.read_text() for file in notes] == ["The sky is green.\n", "The sea is green.\n"]
    assistant, *results = requests[1]["messages"][-3:]
    assert [made["function"]["name"] for made in assistant["tool_calls"]] == ["read", "read"]
    said_by = {result["tool_call_id"]: result["content"] for result in results}
    assert [
        f"{file.stem} is blue" in said_by[made["id"]] for made, file in zip(assistant["tool_calls"], notes, strict=True)
    ]


async def test_a_stream_that_breaks_in_a_call(
    opencode: Path, tmp_path: Path, notes: tuple[Path, Path], api: str
) -> None:
    """Nothing of it is run. opencode asks again, and completes the task."""

    async def broken(connection: Connection) -> None:
        await connection.send(STREAM, framed(called(edit(notes[0])).partition(b"data: [DONE]")[0][:-90]))

    answers = [called(*map(read, notes)), broken, GREEN]
    code, out, _, requests = await ask(opencode, tmp_path, api, answers)
    assert notes[0].read_text() == "The sky is blue.\n"
    assert (code, out.strip(), len(requests)) == (0, "Both are green.", 3)
    assert requests[1]["messages"] == requests[2]["messages"]
