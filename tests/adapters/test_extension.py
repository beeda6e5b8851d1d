"""Adapters and dialects of other packages are found by their entry points: the example package is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from streamfold import ConfigError, StreamDecoder

ROOT = Path(__file__).resolve().parents[2]
CODE = """
import json
from streamfold import StreamDecoder

said = [{"say": "Hello >> you.\\n>> pi"}, {"say": "ng {\\"host\\": 1}\\n"}, {"end": "stop"}]
body = b"".join(b"data: %s\\n\\n" % json.dumps(event).encode() for event in said)
decoder = StreamDecoder("acme", dialect="acme", tools=[{"type": "function", "function": {"name": "ping"}}])
chunks = [chunk for at in range(len(body)) for chunk in decoder.feed(body[at : at + 1])] + decoder.close()
(call,) = chunks[-1].tool_calls
print(repr("".join(chunk.delta for chunk in chunks)), call.name, call.arguments, chunks[-1].finish_reason)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example package in it, as pip installs it."""
    source = ROOT / "examples" / "streamfold-acme"
    if not source.is_dir():
        pytest.skip("the examples are not part of what is installed")
    folder = tmp_path_factory.mktemp("site")
    words = ["install", "-q", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(folder), str(source)]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True, capture_output=True)
    return folder


def test_a_package_adds_an_adapter_and_a_dialect(installed: Path) -> None:
    """Installed beside streamfold, both are found by name, and share the accumulation of calls."""
    paths = [str(installed), *(path for path in sys.path if path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.strip() == "'Hello >> you.\\n' ping {'host': 1} tool_calls", done.stderr


PREVIEW = """
from streamfold import Provider, Tool, user

provider = Provider.from_config({"adapter": "acme", "base_url": "https://acme.example/v1?team=a", "model": "big"})
shown = provider.preview([user("Hello"), {"role": "assistant", "content": "Hi."}, user("Bye")], [Tool("a.b")])
print(shown.method, shown.url, shown.json()["messages"], *shown.json()["tools"], [w.code for w in shown.warnings])
"""


def test_an_adapter_of_another_package_sends_messages(installed: Path) -> None:
    """A subclass of `Adapter` gets the checks and rewrites of all wires, and may make its path from the request."""
    paths = [str(installed), *(path for path in sys.path if path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run([sys.executable, "-c", PREVIEW], capture_output=True, text=True, env=environment, check=False)
    said = "[{'by': 'user', 'words': 'Hello'}, {'by': 'assistant', 'words': 'Hi.'}, {'by': 'user', 'words': 'Bye'}]"
    assert done.stdout.strip() == (f"POST https://acme.example/v1/models/big/talk?*** {said} a_b ['tool_renamed']"), (
        done.stderr
    )


def test_without_it_the_names_are_unknown() -> None:
    """A name that nobody provides is an error with the names there are."""
    with pytest.raises(ConfigError, match=r"unknown adapter 'acme'.* Allowed: anthropic, chat"):
        StreamDecoder("acme")
    with pytest.raises(ConfigError, match=r"unknown dialect 'acme'.* Allowed: .*hermes"):
        StreamDecoder("chat", dialect="acme")
