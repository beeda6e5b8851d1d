"""Adapters and dialects of other packages are found by their entry points: the example package is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from httpx_sse import ServerSentEvent

from streamfold import ConfigError, StreamDecoder
from streamfold.adapters import Adapter, EncodingReport, PreparedRequest
from streamfold.deltas import Delta, TextDelta
from streamfold.requests import Request
from tables import each_row

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
    folder = tmp_path_factory.mktemp("site")
    words = ["install", "-q", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(folder), str(source)]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True, capture_output=True)
    return folder


@pytest.mark.slow
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


@pytest.mark.slow
def test_an_adapter_of_another_package_sends_messages(installed: Path) -> None:
    """A subclass of `Adapter` gets the checks and rewrites of all APIs, and may make its path from the request."""
    paths = [str(installed), *(path for path in sys.path if path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run([sys.executable, "-c", PREVIEW], capture_output=True, text=True, env=environment, check=False)
    said = "[{'by': 'user', 'words': 'Hello'}, {'by': 'assistant', 'words': 'Hi.'}, {'by': 'user', 'words': 'Bye'}]"
    assert done.stdout.strip() == (f"POST https://acme.example/v1/models/big/talk?*** {said} a_b ['tool_renamed']"), (
        done.stderr
    )


class Spare(Adapter):
    """An adapter as somebody writes it first: it knows the messages and no more."""

    name = "spare"
    path = "/spare"

    def encode(self, request: Request, report: EncodingReport) -> dict[str, Any]:
        return {"words": [message.content for message in request.messages]}

    def decode(self, event: ServerSentEvent) -> Iterator[Delta]:
        yield TextDelta(event.data)


class Full(Spare):
    """It sends everything."""

    sends = (
        "temperature", "top_p", "max_output_tokens", "stop", "seed", "parallel_tool_calls", "reasoning_effort",
        "response_format", "tools", "tool_choice",
    )  # fmt: skip

    def encode(self, request: Request, report: EncodingReport) -> dict[str, Any]:
        options = replace(request.options, extra_body={})
        sent = {"tools": [tool.name for tool in request.tools], "choice": repr(request.tool_choice)}
        return super().encode(request, report) | sent | {member.name: repr(member) for member in fields(options)}


def look() -> str:
    """Looks."""
    return ""


HARMLESS = {"temperature": 0.5, "top_p": 0.5, "seed": 1, "reasoning_effort": "low"}
NEEDED = {"max_output_tokens": 5, "stop": ["x"], "response_format": "json", "tools": [look]}


def prepared(adapter: Adapter, tools: Any = None, tool_choice: Any = "auto", **options: Any) -> PreparedRequest:
    return adapter.prepare(Request.read("m", "Hello", tools, tool_choice, options))


@each_row("name", HARMLESS)
def test_an_option_that_an_adapter_does_not_send_is_reported(name: str) -> None:
    """What an adapter doesn't name among the options that it sends is dropped with a warning, or an error."""
    option: dict[str, Any] = {name: HARMLESS[name]}
    (warning,) = prepared(Spare(), **option).warnings
    assert (warning.code, warning.detail) == (
        "option_dropped",
        f"{name} was not sent: the adapter 'spare' doesn't support it",
    )
    assert prepared(Full(), **option).warnings == ()
    with pytest.raises(ConfigError, match=f"{name} was not sent: the adapter 'spare'"):
        prepared(Spare(), **option, unsupported_options="strict")


@each_row("name", NEEDED)
def test_what_changes_the_meaning_is_refused(name: str) -> None:
    """A request without its tools, its limit or its form would be another one."""
    option: dict[str, Any] = {name: NEEDED[name]}
    with pytest.raises(ConfigError, match=f"{name} isn't supported by the adapter 'spare', and ignoring it"):
        prepared(Spare(), **option)
    assert prepared(Full(), **option).warnings == ()


def test_a_choice_that_is_not_sent() -> None:
    """An adapter that sends tools, and not which of them is wanted."""

    class Choiceless(Spare):
        sends = ("tools",)

        def encode(self, request: Request, report: EncodingReport) -> dict[str, Any]:
            return {"tools": [tool.name for tool in request.tools]}

    made = prepared(Choiceless(), [look], "required", parallel_tool_calls=False)
    assert [warning.code for warning in made.warnings] == ["option_dropped", "forced_choice_dropped"]
    assert prepared(Choiceless(), [look]).warnings == prepared(Spare(), parallel_tool_calls=False).warnings == ()
    assert made.request == Request.read("m", "Hello", [look], "required", {"parallel_tool_calls": False})


def test_without_it_the_names_are_unknown() -> None:
    """A name that nobody provides is an error with the names there are."""
    with pytest.raises(ConfigError, match=r"unknown adapter 'acme'.* Allowed: anthropic, chat"):
        StreamDecoder("acme")
    with pytest.raises(ConfigError, match=r"unknown dialect 'acme'.* Allowed: .*hermes"):
        StreamDecoder("chat", dialect="acme")
