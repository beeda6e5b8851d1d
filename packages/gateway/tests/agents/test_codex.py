"""Codex, on the Responses API; see `headless_agents.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from folding import DONE, fin, text
from headless_agents import KEY, Run, called, program, run, two_files
from servers import STREAM, Connection, framed

# uvicorn runs on asyncio
pytestmark = [pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning"), pytest.mark.one_loop]

# What Codex knows of a model decides which tools it declares: a custom one for patches; or, in code mode, hardly any
# but a custom one that runs JavaScript, in a namespace. Of a model with an unknown name it knows nothing.
PATCHES, CODE, UNKNOWN = "gpt-5.5", "gpt-5.6-sol", "main"
DONE_WITH = text("It is green.") + fin("stop") + DONE
CONFIG = """
model = "{model}"
model_provider = "gateway"
[model_providers.gateway]
name = "streamfold"
base_url = "{address}/v1"
env_key = "GATEWAY_KEY"
stream_max_retries = 2
"""


@pytest.fixture(scope="session")
def codex() -> Path:
    """The program."""
    return program("codex")


@pytest.fixture
def sky(tmp_path: Path) -> Path:
    """A file of a project."""
    return two_files(tmp_path)[0]


def patch(file: Path) -> tuple[str, Any]:
    lines = f"*** Update File: {file.name}", "@@", "-The sky is blue.", '+The sky is "grün".'
    return "apply_patch", {"input": "\n".join(["*** Begin Patch", *lines, "*** End Patch"])}


async def ask(codex: Path, folder: Path, answers: list[Any], model: str = PATCHES) -> Run:
    def environment(address: str, home: Path) -> dict[str, str]:
        (home / "config.toml").write_text(CONFIG.format(model=model, address=address))
        return {"CODEX_HOME": str(home), "GATEWAY_KEY": KEY}

    # Its sandbox needs namespaces of the kernel that a container may not have; these commands are our own.
    words = ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "Make the sky green"]
    aliases = {} if model == "main" else {"aliases": {model: "main"}}
    return await run(folder, answers, [str(codex), *words], environment, **aliases)


async def test_a_patch_a_command_and_an_answer(codex: Path, tmp_path: Path, sky: Path) -> None:
    """The free-form tool changes the file, a command is run beside a search for tools, thinking goes back, exit 0."""
    answers = [
        called(patch(sky)),
        called(("exec_command", {"cmd": f"cat {sky.name}"}), ("tool_search", {"query": "mail"})),
        DONE_WITH,
    ]
    code, out, _, requests = await ask(codex, tmp_path, answers)
    assert (code, out.strip()) == (0, "It is green.")
    assert sky.read_text() == 'The sky is "grün".\n'
    *_, patching, patched, looking, seen, found = requests[2]["messages"]
    assert patching["reasoning_content"] == looking["reasoning_content"] == "I look first."
    assert json.loads(patching["tool_calls"][0]["function"]["arguments"]) == patch(sky)[1]
    assert "Success. Updated the following files" in patched["content"]
    assert 'The sky is "grün".' in seen["content"]
    assert json.loads(found["content"]) == {"found": []}


async def test_code_mode(codex: Path, tmp_path: Path, sky: Path) -> None:
    """Its one custom tool stands in a namespace, in an item of the conversation."""
    code_ = f"const done = await tools.exec_command({{cmd: 'cat {sky.name}'}}); text(done.output)"
    answers = [called(("exec", {"input": code_})), DONE_WITH]
    code, out, _, requests = await ask(codex, tmp_path, answers, CODE)
    assert (code, out.strip()) == (0, "It is green.")
    assert "The sky is blue." in json.dumps(requests[1]["messages"][-1])


async def test_a_model_that_codex_does_not_know(codex: Path, tmp_path: Path, sky: Path) -> None:
    """A provider's own name as the model: tools in namespaces are called by their names."""
    calls = ("exec_command", {"cmd": "sed -i s/blue/green/ sky.txt"}), ("multi_agent_v1__close_agent", {"target": "x"})
    code, out, _, requests = await ask(codex, tmp_path, [called(*calls), DONE_WITH], UNKNOWN)
    assert (code, out.strip()) == (0, "It is green.")
    assert sky.read_text() == "The sky is green.\n"
    assert "invalid agent id" in requests[1]["messages"][-1]["content"]  # the very tool, which refuses


async def test_nothing_names_the_installation(codex: Path, tmp_path: Path, sky: Path) -> None:
    """Session and installation, which are in every request of Codex, stay at the gateway; so do hosted tools."""
    _, _, err, requests = await ask(codex, tmp_path, [DONE_WITH])
    session = next(line.removeprefix("session id: ") for line in err.splitlines() if line.startswith("session id: "))
    sent = json.dumps(requests)
    assert session not in sent
    assert "installation" not in sent
    assert not requests[0].keys() & {"client_metadata", "prompt_cache_key"}
    assert "web_search" not in [tool["function"]["name"] for tool in requests[0]["tools"]]


async def test_a_stream_that_breaks_in_a_call(codex: Path, tmp_path: Path, sky: Path) -> None:
    """Nothing of it is run; Codex asks again, and goes on."""

    async def broken(connection: Connection) -> None:
        await connection.send(STREAM, framed(called(patch(sky)).partition(b"data: [DONE]")[0][:-90]))

    answers = [broken, called(("exec_command", {"cmd": f"cat {sky.name}"})), called(patch(sky)), DONE_WITH]
    code, out, _, requests = await ask(codex, tmp_path, answers)
    assert (code, out.strip()) == (0, "It is green.")
    assert "The sky is blue." in json.dumps(requests[2]["messages"])
    assert sky.read_text() == 'The sky is "grün".\n'
