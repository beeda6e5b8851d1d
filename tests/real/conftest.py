"""Servers that nobody here wrote, on loopback.

They are there if what they need is installed: `nox -s servers` sees to that. Else these tests are skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import pytest
from litellm_proxy import OFFLINE, LiteLLM, config
from proxies import CONFIGS

from processes import free_port, running, wait_for

HERE = Path(__file__).parent


SERVERS = {"llama.cpp", "aimock", "LiteLLM", *CONFIGS}
_started: set[str] = set()


@pytest.fixture(scope="session")
def started() -> set[str]:
    """The names of the servers that were started, which are printed at the end."""
    return _started


@pytest.fixture(scope="session")
def llamacpp(tmp_path_factory: pytest.TempPathFactory, started: set[str]) -> Iterator[str]:
    """The base URL of llama.cpp's own server, with a model that was written for it."""
    if not (find_spec("xllamacpp") and find_spec("gguf")):
        pytest.skip("llama.cpp is not installed: nox -s servers")
    model = tmp_path_factory.mktemp("llamacpp") / "tiny.gguf"
    subprocess.run([sys.executable, HERE / "tiny_model.py", model], check=True)
    command = [sys.executable, HERE / "llamacpp_server.py", model]
    with running(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        wait_for(f"{address}/health", process)
        started.add("llama.cpp")
        yield f"{address}/v1"
        process.stdin.close()  # the server ends with its input


@pytest.fixture(scope="session")
def aimock(started: set[str]) -> Iterator[str]:
    """The base URL of aimock, which answers as `aimock.json` says."""
    script = os.environ.get("STREAMFOLD_AIMOCK")
    if not script:
        pytest.skip("aimock is not installed: nox -s servers")
    port = free_port()
    command = ["node", script, "--host", "127.0.0.1", "--port", str(port), "--fixtures", HERE / "aimock.json"]
    with running(command, stdout=DEVNULL, stderr=DEVNULL) as process:
        wait_for(f"http://127.0.0.1:{port}/health", process)
        started.add("aimock")
        yield f"http://127.0.0.1:{port}/v1"


@pytest.fixture(scope="session")
def litellm(llamacpp: str, tmp_path_factory: pytest.TempPathFactory, started: set[str]) -> Iterator[LiteLLM]:
    """LiteLLM's proxy before llama.cpp, and before whatever server a test starts on its port."""
    program = os.environ.get("STREAMFOLD_LITELLM")
    if not program:
        pytest.skip("LiteLLM is not there: nox -s servers")
    port, upstream = free_port(), free_port()
    folder = tmp_path_factory.mktemp("litellm")
    (folder / "config.yaml").write_text(config(llamacpp, upstream), "utf-8")
    command = [program, "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port), "--telemetry", "False"]
    env = {**os.environ, **OFFLINE, "HOME": str(folder)}
    with (
        (folder / "log").open("w", encoding="utf-8") as log,
        running(command, env=env, cwd=folder, stdout=log, stderr=log) as process,
    ):
        wait_for(f"http://127.0.0.1:{port}/health/liveliness", process)
        started.add("LiteLLM")
        yield LiteLLM(f"http://127.0.0.1:{port}/v1", upstream)


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:  # one of several processes: the first one adds them up
        output["servers"] = sorted(_started)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    _started.update(getattr(node, "workeroutput", {}).get("servers", ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _started:
        absent = ", ".join(sorted(SERVERS - _started, key=str.lower)) or "none"
        terminalreporter.write_line(
            f"real servers: {', '.join(sorted(_started, key=str.lower))}; not started: {absent}"
        )
