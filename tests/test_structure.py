"""The house: imports only go down, the pure floors stay pure, and what is exported is what is there."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import streamfold

PACKAGE = Path(streamfold.__file__).parent

FLOORS = {
    # values and texts
    **dict.fromkeys(["errors", "types", "deltas", "messages", "content", "media", "chatdicts", "capabilities"], 0),
    **dict.fromkeys(["tools", "functions", "validation", "request", "jsontext", "brackets", "tomltext"], 0),
    **dict.fromkeys(["references", "redaction", "wording", "version"], 0),
    # bytes to chunks, and requests to JSON
    **dict.fromkeys(["sse", "body", "adapters", "dialects", "parts", "calls", "arguments", "fold", "pipeline"], 1),
    **dict.fromkeys(["decoder", "partial", "schema", "needs", "history", "turns", "hooks", "faults", "inspection"], 1),
    # what somebody wrote down
    **dict.fromkeys(["profiles", "catalogue", "config", "configfile", "sources", "prepared"], 2),
    # the network, and what stands in for it
    **dict.fromkeys(["transport", "clients", "connecting", "clocks", "retries", "waiting"], 3),
    **dict.fromkeys(["recording", "replay_server", "inprocess"], 3),
    # what is called
    **dict.fromkeys(["stream", "provider", "fallback", "loop", "swapcheck", "otel"], 4),
    # programs on top of it
    **dict.fromkeys(["cli", "gateway", "testing", "__main__"], 5),
}
MODULES = sorted(
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
    if path != PACKAGE / "__init__.py"
)


def _floor(module: str) -> int:
    return FLOORS[module.split(".")[0]]


def _tree(module: str) -> ast.Module:
    path = PACKAGE.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text("utf-8"))


def _imports(module: str) -> set[str]:
    """What a module imports: `.name` for our own modules, the first part of the name for everybody else's."""
    package = module.split(".") if (PACKAGE / Path(*module.split("."))).is_dir() else module.split(".")[:-1]
    found = set()
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            if not node.level:
                found.add((node.module or "").split(".")[0])
                continue
            base = package[: len(package) - node.level + 1]
            targets = [node.module] if node.module else [alias.name for alias in node.names]
            found |= {"." + ".".join([*base, target]) for target in targets if target}
    return found


def test_every_room_has_a_floor() -> None:
    """The floors name what is there, and nothing else."""
    assert sorted(FLOORS) == sorted({module.split(".")[0] for module in MODULES})


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_down(module: str) -> None:
    """A module imports from its own floor or from one below."""
    upward = {name for name in _imports(module) if name.startswith(".") and _floor(name[1:]) > _floor(module)}
    assert not upward


@pytest.mark.parametrize("module", [name for name in MODULES if _floor(name) < 2])
def test_lower_floors_are_pure(module: str) -> None:
    """Below the second floor there is no network, no event loop, no environment and no await."""
    assert not _imports(module) & {"httpx", "anyio", "asyncio", "trio", "socket", "os"}
    if module != "tools":  # `Tool.call` awaits the caller's own function, and nothing else
        assert not [node for node in ast.walk(_tree(module)) if isinstance(node, ast.Await | ast.AsyncFunctionDef)]


@pytest.mark.parametrize("module", [name for name in MODULES if name not in ("profiles", "config")])
def test_the_environment_lives_in_two_modules(module: str) -> None:
    """`os.environ` is read where a profile is made and where its file is found."""
    assert not [node for node in ast.walk(_tree(module)) if isinstance(node, ast.Attribute) and node.attr == "environ"]


@pytest.mark.parametrize(
    "module", [name for name in MODULES if _floor(name) != 3 and name not in ("provider", "stream")]
)
def test_httpx_lives_on_one_floor(module: str) -> None:
    """httpx is the transports' business; the provider names it only in its signature."""
    assert "httpx" not in _imports(module)


def test_importing_the_pure_core_brings_no_network() -> None:
    """The decoder can be imported where httpx and anyio are not wanted."""
    code = (
        "import sys, streamfold, streamfold.decoder, streamfold.adapters.chat;"
        "print(sorted({'httpx', 'anyio', 'httpx_sse', 'pydantic'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


WITHOUT_SOCKETS = """
import socket, sys

def refuse(event, _):
    if event.startswith("socket."):
        raise AssertionError(event)

sys.addaudithook(refuse)
from streamfold import Provider
provider = Provider.from_config("openai:gpt-5-mini")
provider.chat_stream("Hello", [{"type": "function", "function": {"name": "f"}}])
"""


def test_n5_nothing_is_fetched_before_a_request() -> None:
    """Importing, reading the catalogue and preparing a request open no socket."""
    env = {**os.environ, "OPENAI_API_KEY": "none"}
    subprocess.run([sys.executable, "-W", "error", "-c", WITHOUT_SOCKETS], check=True, env=env)


def test_n8_four_dependencies() -> None:
    """Whoever installs the library gets these and no more; k9: anyio before 4.7 deadlocks on a cancellation."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    needed = project["dependencies"]
    assert sorted(re.split(r"[<>=~!; ]", found)[0] for found in needed) == ["anyio", "httpx", "httpx-sse", "pydantic"]
    assert "anyio>=4.7" in needed


@pytest.mark.parametrize("module", MODULES)
def test_k5_no_scope_is_held_across_a_yield(module: str) -> None:
    """A generator may be closed by another task, which can't leave the scopes of the first one."""
    scopes = ("CancelScope", "move_on_", "fail_a", "create_task_group")
    generators = [
        node
        for node in ast.walk(_tree(module))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not any("contextmanager" in ast.unparse(found) for found in node.decorator_list)
    ]
    held = [
        ast.unparse(block.items[0])
        for function in generators
        for block in ast.walk(function)
        if isinstance(block, ast.With | ast.AsyncWith)
        and any(name in ast.unparse(item) for item in block.items for name in scopes)
        and any(isinstance(node, ast.Yield | ast.YieldFrom) for line in block.body for node in ast.walk(line))
    ]
    assert held == []


def test_k7_nothing_is_done_when_an_object_dies() -> None:
    """A finalizer that closes a connection would do so on an event loop that is gone."""
    found = [name for name in MODULES for node in ast.walk(_tree(name)) if getattr(node, "name", "") == "__del__"]
    assert found == []


def test_exports() -> None:
    """`__all__` is sorted, and every name in it can be imported."""
    assert streamfold.__all__ == sorted(streamfold.__all__)
    assert all(hasattr(streamfold, name) for name in streamfold.__all__)


@pytest.mark.parametrize("module", MODULES)
def test_every_module_says_why_it_exists(module: str) -> None:
    """Each module opens with a docstring."""
    assert ast.get_docstring(_tree(module))
