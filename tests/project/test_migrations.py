"""The pages about other libraries: the program before and the one after print the same, over real HTTP."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pages import ROOT, Part, parts_of
from served_apps import serving_app
from streamfold import testing
from streamfold.testing import ScriptedProvider

PAGES = sorted(path.stem for path in (ROOT / "docs" / "migrate").glob("*.md"))
# What the program before imports, and in which environment of `nox -s clients` it is.
IMPORTS = {"openai": "openai", "litellm": "litellm", "langchain": "langchain_openai", "pydantic-ai": "pydantic_ai"}
MODELS = ("gpt-6-luna", "gpt-5.4")


def test_every_page_has_both_programs() -> None:
    """Four libraries, each with a program before, one after, and what both print."""
    assert sorted(IMPORTS) == PAGES
    for name in PAGES:
        parts = read(name)
        assert [part.title or part.kind for part in parts] == ["before.py", "answers", "after.py", "prints"], name


@pytest.mark.slow
@pytest.mark.parametrize("program", ["before.py", "after.py"])
@pytest.mark.parametrize("name", PAGES)
def test_both_programs_print_the_same(name: str, program: str, tmp_path: Path) -> None:
    """Before one and the same server, with one and the same script of answers."""
    gateway = pytest.importorskip("streamfold_gateway").gateway
    python = sys.executable if program == "after.py" else python_with(name)
    parts = {part.title or part.kind: part.text for part in read(name)}
    script = ScriptedProvider(*eval(f"[{parts['answers']}]", {n: getattr(testing, n) for n in testing.__all__}))
    (tmp_path / program).write_text(parts[program], "utf-8")
    with serving_app(gateway(dict.fromkeys(MODELS, script))) as address:
        settings = f'[providers.openai]\nprofile = "openai"\nbase_url = "{address}/v1"\n'
        (tmp_path / "here.toml").write_text(settings, "utf-8")
        env = {
            **os.environ,
            "OPENAI_API_KEY": "sk-test",
            "OPENAI_BASE_URL": f"{address}/v1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # or it tries to download prices
            "STREAMFOLD_CONFIG": str(tmp_path / "here.toml"),
        }
        words = [python, program]
        done = subprocess.run(
            words, cwd=tmp_path, env=env, capture_output=True, encoding="utf-8", timeout=120, check=False
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == parts["prints"], done.stderr
    script.assert_done()


def read(name: str) -> list[Part]:
    """The programs and notes of a page."""
    return list(parts_of(ROOT / "docs" / "migrate" / f"{name}.md"))


def python_with(name: str) -> Any:
    """An interpreter that has the library: this one, or that of an environment of `nox -s clients`."""
    if find_spec(IMPORTS[name]):
        return sys.executable
    folder = os.environ.get("STREAMFOLD_CLIENTS")
    if not folder:
        pytest.skip(f"{name} is not installed, and STREAMFOLD_CLIENTS names no folder of environments")
    return Path(folder).resolve() / name / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
