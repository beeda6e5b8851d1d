"""Servers that nobody here wrote, on loopback.

They are there if what they need is installed: `nox -s servers` sees to that. Else these tests are skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from socket import socket

import httpx
import pytest

HERE = Path(__file__).parent


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_for(url: str, process: subprocess.Popen[str]) -> None:
    """Waits until a server answers. A server that ends instead fails the test, with what it said."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if process.poll() is not None:
            pytest.fail(f"the server ended with {process.returncode}")
        try:
            if httpx.get(url, trust_env=False).status_code < 500:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.05)
    pytest.fail(f"the server did not answer at {url}")


@pytest.fixture(scope="session")
def llamacpp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of llama.cpp's own server, with a model that was written for it."""
    if not (find_spec("xllamacpp") and find_spec("gguf")):
        pytest.skip("llama.cpp is not installed: nox -s servers")
    model = tmp_path_factory.mktemp("llamacpp") / "tiny.gguf"
    subprocess.run([sys.executable, HERE / "tiny_model.py", model], check=True)
    command = [sys.executable, HERE / "llamacpp_server.py", model]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        wait_for(f"{address}/health", process)
        yield f"{address}/v1"
        process.stdin.close()  # the server ends with its input
        process.terminate()


@pytest.fixture(scope="session")
def aimock() -> Iterator[str]:
    """The base URL of aimock, which answers as `aimock.json` says."""
    script = os.environ.get("STREAMFOLD_AIMOCK")
    if not script:
        pytest.skip("aimock is not installed: nox -s servers")
    port = free_port()
    command = ["node", script, "--host", "127.0.0.1", "--port", str(port), "--fixtures", HERE / "aimock.json"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True) as process:
        wait_for(f"http://127.0.0.1:{port}/health", process)
        yield f"http://127.0.0.1:{port}/v1"
        process.terminate()
