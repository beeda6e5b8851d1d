"""Tries what is installed, as a user would: `python -I tools/smoke.py NAME...`, in an empty folder.

Each NAME is a distribution. All of its modules are imported, its entry points are loaded, and it does once what it is
for: an answer is decoded or replayed, served by the gateway, requested by a job, explained, repaired, written for a web
page. Everything runs on loopback. It needs nothing besides what is tried.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import json
import os
import pkgutil
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path

DEMO = "demo/reasoning_text"
BEGINS = "A tool call that is still streaming is not an order yet"
# What modules may miss: what extras bring, and frameworks of the user's own.
OTHERS = {
    "aiohttp",
    "azure",
    "botocore",
    "docstring_parser",
    "genai_prices",
    "google",
    "h2",
    "httpcore2",
    "httpx2",
    "mcp",
}
OTHERS |= {
    "langchain_core",
    "opentelemetry",
    "pydantic_ai",
    "pytest",
    "ray",
    "rich",
    "starlette",
    "tomli_w",
    "typer",
    "valkey",
    "websockets",
}


def load(what: Callable[[], object]) -> None:
    """Imports something. What only an extra or a framework brings may be missing."""
    try:
        what()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in OTHERS:
            raise
    except Exception as error:  # the command line says in its own words which extra is missing
        if "pip install" not in str(error):
            raise


def imports(package: str) -> int:
    """Imports every module of a package. Returns how many there are."""
    found = pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.")
    names = [module.name for module in found if not module.name.endswith("__main__")]
    for name in names:
        load(partial(importlib.import_module, name))
    return len(names)


def entry_points(name: str) -> int:
    """Loads the entry points of a distribution. Returns how many there are."""
    points = importlib.metadata.distribution(name).entry_points
    for point in points:
        assert find_spec(point.module), point
        load(point.load)
    return len(points)


def command(*words: str, expect: int = 0) -> str:
    """Runs `streamfold ...` as a program. Returns what it printed."""
    done = subprocess.run([*program(), *words], capture_output=True, encoding="utf-8", timeout=120, check=False)
    assert done.returncode == expect, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout


def program() -> list[str]:
    """The installed `streamfold`."""
    folder = Path(sysconfig.get_path("scripts"))
    return [str(next(path for path in (folder / "streamfold.exe", folder / "streamfold") if path.exists()))]


@contextmanager
def running(*words: str) -> Iterator[str]:
    """A server: `streamfold ...`, which writes its address. Yields the address, without `/v1`."""
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    server = subprocess.Popen(
        [*program(), *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", env=env
    )
    assert server.stdout
    said = ""
    try:
        for line in server.stdout:
            said += line
            if found := re.search(r"(http://127\.0\.0\.1:\d+)/v1", line):
                yield found[1]
                return
        raise AssertionError(said)
    finally:
        server.terminate()
        server.communicate(timeout=60)


def streamfold() -> str:
    """A bundled recording is decoded and replayed; with the command line, the demo runs."""
    from streamfold import StreamDecoder
    from streamfold.recording import find_recording
    from streamfold.testing import ReplayProvider

    decoder = StreamDecoder("chat")
    text = "".join(chunk.delta for chunk in [*decoder.feed(find_recording(DEMO).body), *decoder.close()])

    async def replay() -> str:
        async with ReplayProvider(DEMO) as model:
            return (await model.chat("?")).text

    assert text == asyncio.run(replay())
    if not find_spec("typer"):
        return "decoded and replayed"
    assert text[:40] in command("demo")
    return "demo"


def gateway() -> str:
    """`streamfold serve` before a replayed provider answers on all four APIs."""
    import httpx

    with running("serve-replay", DEMO, "--speed", "instant") as provider:
        text = f'[providers.main]\nbase_url = "{provider}/v1"\nmodel = "{DEMO}"\napi_key = "x"\n'
        Path("serve.toml").write_text(text, "utf-8")
        with running("serve", "-c", "serve.toml", "--port", "0") as url, httpx.Client(timeout=30) as client:
            question = [{"role": "user", "content": "?"}]
            for path, body in (
                ("/v1/chat/completions", {"model": "main", "messages": question}),
                ("/v1/responses", {"model": "main", "input": "?"}),
                ("/v1/messages", {"model": "main", "messages": question, "max_tokens": 9}),
                ("/v1beta/models/main:generateContent", {"contents": [{"role": "user", "parts": [{"text": "?"}]}]}),
            ):
                answer = client.post(url + path, json=body)
                assert answer.status_code == 200, (path, answer.text)
                assert BEGINS in answer.text, path
    return "serve"


def jobs() -> str:
    """`streamfold batch` answers two rows."""
    Path("rows.jsonl").write_text('{"id": "a", "prompt": "?"}\n{"id": "b", "prompt": "?"}\n', "utf-8")
    with running("serve-replay", DEMO, "--speed", "instant") as provider:
        text = f'[providers.main]\nbase_url = "{provider}/v1"\nmodel = "{DEMO}"\napi_key = "x"\n'
        Path("batch.toml").write_text(text, "utf-8")
        command("batch", "run", "rows.jsonl", "-o", "answers.jsonl", "-p", "main", "-c", "batch.toml")
    answers = [json.loads(line) for line in Path("answers.jsonl").read_text("utf-8").splitlines()]
    assert [answer["id"] for answer in answers] == ["a", "b"], answers
    assert all(BEGINS in json.dumps(answer) for answer in answers), answers
    return "batch"


def lab() -> str:
    """`streamfold inspect` explains a recording."""
    explained = json.loads(command("inspect", DEMO, "--json"))
    assert BEGINS in json.dumps(explained)
    return "inspect"


def repair() -> str:
    """A call without an index is repaired below a client of httpx."""
    import httpx

    from streamfold_repair.httpx import RepairTransport

    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    chunk = {"id": "a", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    ends = {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    begins = {**chunk, "choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]}
    body = "".join(f"data: {json.dumps(data)}\n\n" for data in (begins, ends)) + "data: [DONE]\n\n"

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, text=body)

    async def ask() -> str:
        transport = RepairTransport(httpx.MockTransport(answer))
        async with httpx.AsyncClient(transport=transport) as client:
            return (await client.post("http://test/v1/chat/completions", json={"stream": True})).text

    events = [json.loads(line[6:]) for line in asyncio.run(ask()).splitlines() if line.startswith("data: {")]
    calls = [entry for event in events for entry in event["choices"][0]["delta"].get("tool_calls", ())]
    assert {entry["index"] for entry in calls} == {0}, events
    return "repaired"


def integrations() -> str:
    """An answer is written for the AI SDK."""
    from streamfold.testing import ScriptedProvider
    from streamfold_integrations import aisdk

    message = {"id": "1", "role": "user", "parts": [{"type": "text", "text": "?"}]}
    asked = aisdk.read_request({"id": "chat", "messages": [message], "trigger": "submit-message"})

    async def write() -> bytes:
        return b"".join([part async for part in aisdk.stream(asked.run(ScriptedProvider("Hello!")))])

    assert b"text-delta" in asyncio.run(write())
    return "written for a page"


TRIES = {function.__name__: function for function in (streamfold, gateway, jobs, lab, repair, integrations)}

if __name__ == "__main__":
    import_version = importlib.metadata.version("streamfold")
    for distribution in sys.argv[1:]:
        package = distribution.replace("-", "_")
        assert importlib.metadata.version(distribution) == import_version, distribution
        modules, points = imports(package), entry_points(distribution)
        done = TRIES[package.removeprefix("streamfold_")]()
        print(f"{distribution} {import_version}: {modules} modules, {points} entry points, {done}")
