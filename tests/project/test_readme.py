"""What the README shows works: its Python blocks are run, its commands exist, its table is the catalogue."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
import respx

from streamfold import Provider
from streamfold.config.catalogue import provider_files
from streamfold.testing.faults import vocabulary
from streamfold.values import errors

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def _run(block: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("MOONSHOT_API_KEY", "sk-test")
    if "from app import" in block:  # a test, and the application that it tests
        application = ModuleType("app")
        application.__dict__.update(_run(_block("async def respond("), monkeypatch))
        monkeypatch.setitem(sys.modules, "app", application)
    namespace: dict[str, Any] = {"__name__": "readme"}
    exec(compile(block, "README.md", "exec"), namespace)
    return namespace


def _block(marker: str) -> str:
    (found,) = [block for block in BLOCKS if marker in block]
    return str(found)


@pytest.mark.parametrize("block", BLOCKS, ids=[block.strip().splitlines()[-1][:40] for block in BLOCKS])
def test_every_block_runs(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each Python block runs by itself."""
    _run(block, monkeypatch)


@pytest.mark.asyncio
@respx.mock
async def test_the_streaming_example(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The first example prints text as it comes and whole calls at the end."""
    body = (ROOT / "fixtures" / "kimi" / "parallel_calls.sse").read_bytes()
    route = respx.post("https://api.moonshot.ai/v1/chat/completions").respond(content=body)
    await _run(_block("asyncio.run(main())"), monkeypatch)["main"]()
    assert "get_weather {" in capsys.readouterr().out
    assert route.calls.last.request.headers["authorization"] == "Bearer sk-test"


@pytest.mark.asyncio
@respx.mock
async def test_the_tool_example(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop runs the calls and sends their results back with the ids they came with."""
    call = {
        "index": 0,
        "id": "functions.GetWeather:0",
        "function": {"name": "GetWeather", "arguments": '{"city":"Oslo"}'},
    }
    first = {"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    second = {"choices": [{"delta": {"content": "Cold."}, "finish_reason": "stop"}]}
    route = respx.post("http://test/v1/chat/completions")
    route.side_effect = [httpx.Response(200, json=first), httpx.Response(200, json=second)]
    async with Provider.from_config({"base_url": "http://test/v1", "model": "m"}) as provider:
        answer = await _run(_block("async def ask"), monkeypatch)["ask"](provider, "Oslo?")
    assert answer == "Cold."
    assert b'"tool_call_id":"functions.GetWeather:0"' in route.calls.last.request.content


@pytest.mark.asyncio
@pytest.mark.parametrize("name", ["test_two_calls", "test_retries"])
async def test_the_replay_examples(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The tests in the README pass."""
    await _run(_block(name), monkeypatch)[name]()


def test_the_faults_are_named() -> None:
    """Every fault is in the README."""
    assert [name for name in vocabulary.__all__ if name != "Fault" and f"`{name}`" not in README] == []


def test_the_list_is_the_catalogue() -> None:
    """Every endpoint of the catalogue is in the list, once, and nothing else; its page is linked."""
    _, _, rest = README.partition("The catalogue has ")
    listed = re.findall(r"`([\w-]+)`", rest.partition("\n\n")[2].partition("\n\n")[0])
    assert sorted(listed) == sorted(provider_files())
    assert rest.startswith(f"{len(provider_files())} endpoints")
    assert "(providers/README.md)" in rest


def test_the_error_tree_is_complete() -> None:
    """Every exported error is in the tree."""
    kinds = [name for name in errors.__all__ if isinstance(getattr(errors, name), type) and name.endswith("Error")]
    assert [name for name in kinds if name not in README] == []
