"""Runs the code of a Markdown page: its Python blocks in order, as one program, with scripted models for providers.

What a page may say, in HTML comments that a reader does not see:

    <!-- answers: "Hello!", call("get_weather", city="Oslo") -->    what models answer from here on, in turn
    <!-- prints: Hello! -->                                         what the block before it printed

A block with a title (```python title="app.py") is a program: it is run, and later blocks may import it. A `test_*.py`
is run by pytest, and a `*_server.py` is started by later blocks. `before.py` is written on another library and runs
elsewhere (`tests/project/test_migrations.py`). A `streamfold.toml` is the configuration of the page.
Commands in `sh` blocks must exist, with their options.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from streamfold import McpTools, Provider, testing
from streamfold.config import config_problems, read_config
from streamfold.testing import ScriptedProvider
from streamfold.turn_cache import read_turn_cache

ROOT = Path(__file__).resolve().parents[3]
KEYS = ("OPENAI_API_KEY", "MOONSHOT_API_KEY", "MY_KEY", "TEAM_KEY", "TEAM", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")
_PART = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?[^\n]*\n(?P<code>.*?)^(?P=indent)```"
    r"|<!-- (?P<note>answers|prints): (?P<words>.*?) -->",
    re.MULTILINE | re.DOTALL,
)


@dataclass
class Part:
    """A block of code (its language), or a note (answers, prints)."""

    kind: str
    text: str
    title: str | None = None
    line: int = 1


def parts_of(page: Path) -> Iterator[Part]:
    """Returns the blocks and notes of a page, in order."""
    text = page.read_text("utf-8")
    for found in _PART.finditer(text):
        line = text[: found.start()].count("\n") + 2
        if found["note"]:
            yield Part(found["note"], found["words"])
        else:
            code = re.sub(rf"^{found['indent']}", "", found["code"], flags=re.MULTILINE)
            yield Part(found["language"], code, found["title"], line)


@dataclass
class Page:
    """Runs one page.

    Attributes:
        turns: what models answer, from the notes of the page.
    """

    path: Path
    folder: Path
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]
    turns: deque[Any] = field(default_factory=deque)
    tests: list[str] = field(default_factory=list)

    async def run(self) -> None:
        """Runs all of it. Raises what its code raises, and AssertionError for what is not as it is written."""
        self._set_up()
        namespace: dict[str, Any] = {"__name__": "page"}
        for part in parts_of(self.path):
            if part.kind == "answers":
                self.turns.extend(
                    eval(f"[{part.text}]", vars(testing) | {n: getattr(testing, n) for n in dir(testing)})
                )
            elif part.kind == "prints":
                shown = self.capsys.readouterr().out.strip()
                assert shown == part.text, shown
            elif part.kind == "sh":
                check_commands(part.text)
            elif part.title:
                (self.folder / part.title).write_text(part.text, "utf-8")
                if part.title.startswith("test_"):
                    self.tests.append(part.title)
                elif part.title == "streamfold.toml":
                    for variable in re.findall(r'^key_env = "(\w+)"', part.text, re.MULTILINE):  # keys of a gateway
                        self.monkeypatch.setenv(variable, "sk-" + "0" * 40)
                    assert config_problems(read_config(part.title)) == []
                elif part.title.endswith("_server.py") or part.title == "before.py":
                    pass
                elif part.title.endswith(".py"):  # in a thread, where a program may run an event loop of its own
                    await anyio.to_thread.run_sync(partial(runpy.run_path, part.title, run_name="__main__"))
            elif part.kind == "python":
                # The line numbers of a traceback are those of the page.
                code = compile(
                    "\n" * (part.line - 1) + part.text, str(self.path), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
                )
                if inspect.iscoroutine(waiting := eval(code, namespace)):
                    await waiting
        assert not self.turns, "no model was asked for these answers of the page"
        if self.tests:
            run_tests(self.folder, self.tests)

    def _set_up(self) -> None:
        self.monkeypatch.chdir(self.folder)
        self.monkeypatch.syspath_prepend(self.folder)
        self.monkeypatch.delenv("STREAMFOLD_CONFIG", raising=False)
        for key in KEYS:
            self.monkeypatch.setenv(key, "sk-test")
        (self.folder / "fixtures").symlink_to(ROOT / "fixtures")
        # Importing the SDK of MCP takes longer than 30 seconds on a machine that does much else.
        self.monkeypatch.setitem(McpTools.__init__.__kwdefaults__ or {}, "connect_timeout", 600)
        real, page = Provider.from_config, self

        def from_config(cls: type[Provider], spec: Any = None, *, hooks: Any = (), **given: Any) -> Any:
            made = real(spec, hooks=hooks, **given)  # it must be a configuration that can be used
            scripted_apis = ("anthropic", "chat", "gemini", "kimi", "responses")
            if given.get("http_client") is not None or made.profile.adapter not in scripted_apis:
                return made  # a transport of the page's own, or an API that no script speaks
            given = {key: value for key, value in given.items() if key not in ("config", "http_client", "fallback")}
            named = spec or getattr(made, "name", None)
            turn_cache = given.pop("turn_cache", None)  # of the provider, and no setting of a script
            scripted = ScriptedProvider(then=page.next_turn, provider=named, hooks=hooks, **given)
            scripted.provider.turn_cache = read_turn_cache(turn_cache)
            scripted.prefer_aiohttp = lambda: scripted  # type: ignore[attr-defined] # it sends nothing
            scripted.preview = made.preview  # type: ignore[method-assign] # what would really be sent
            return scripted

        self.monkeypatch.setattr(Provider, "from_config", classmethod(from_config))

    def next_turn(self, _: Any) -> Any:
        """Returns the next answer of the page's models."""
        assert self.turns, "the page asks a model once more than it has answers"
        return self.turns.popleft()


def run_tests(folder: Path, files: list[str]) -> None:
    """Runs test files as a user would."""
    (folder / "pytest.ini").touch()  # not the settings of a project above the folder
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    others = [
        word for name in ("hypothesispytest", "respx", "xdist") for word in ("-p", f"no:{name}")
    ]  # slow to import
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *others, *files]
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, encoding="utf-8", timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout


def commands_of(package: str = "*") -> set[str]:
    """The commands that `streamfold` has where a distribution of `packages/` is installed."""
    read = [
        tomllib.loads(file.read_text("utf-8"))["project"] for file in ROOT.glob(f"packages/{package}/pyproject.toml")
    ]
    return {name for project in read for name in project.get("entry-points", {}).get("streamfold.commands", ())}


def skip_without_packages(page: Path) -> None:
    """Skips the test of a page whose blocks import a distribution that is not installed."""
    for name in re.findall(r"^ *(?:from|import) (streamfold_\w+)", page.read_text("utf-8"), re.MULTILINE):
        pytest.importorskip(name)


def check_commands(text: str) -> None:
    """Each `streamfold` command in a block exists, and so do its options."""
    import typer

    from streamfold.cli.app import app

    for line in text.replace("\\\n", " ").splitlines():
        for command in re.findall(r"(?:^|\| |&& )(?:\.venv/bin/)?(streamfold [^|#]*)", line):
            words = shlex.split(command)[1:]
            found: Any = typer.main.get_command(app)
            if words and words[0] in commands_of() and words[0] not in found.commands:
                continue  # its package is not installed
            while words and words[0] in getattr(found, "commands", {}):
                found = found.commands[words.pop(0)]
            assert not hasattr(found, "commands"), f"no such command: {command}"
            options = {name for parameter in found.params for name in parameter.opts} | {"--help"}
            given = [word.partition("=")[0] for word in words if word.startswith("-") and word != "-"]
            assert [name for name in given if name not in options] == [], command
