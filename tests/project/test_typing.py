"""A user's code checks against the library, and mistakes in it are found, in mypy's strict mode and in pyright."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from mypy import api

FOLDER = Path(__file__).parents[1] / "typing"
FILES = [FOLDER / "api.py", FOLDER / "mistakes.py"]
Errors = dict[str, dict[int, str]]  # by file and line


def mypy() -> Errors:
    """The errors that mypy finds."""
    options = ["--strict", "--no-incremental", "--config-file", "", "--show-absolute-path"]
    out, err, _ = api.run([*options, *map(str, FILES)])
    assert err == ""
    found: Errors = {}
    for file, line, message in re.findall(r"^(.*?):(\d+): error: (.*)$", out, re.MULTILINE):
        found.setdefault(Path(file).name, {})[int(line)] = message
    return found


def pyright() -> Errors:
    """The errors that pyright finds."""
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, *map(str, FILES)]
    out = subprocess.run(command, capture_output=True, text=True, check=False, cwd=FOLDER)
    found: Errors = {}
    for each in json.loads(out.stdout)["generalDiagnostics"]:
        if each["severity"] == "error":
            found.setdefault(Path(each["file"]).name, {})[each["range"]["start"]["line"] + 1] = each["message"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("find_errors", [mypy, pytest.param(pyright, marks=pytest.mark.thorough)])
def test_users_code_checks_and_mistakes_are_found(find_errors: Callable[[], Errors], monkeypatch) -> None:
    """`typing/api.py` has no error; in `typing/mistakes.py` each line that is marked has one, and no other."""
    monkeypatch.delenv("MYPYPATH", raising=False)
    found = find_errors()
    assert found.get("api.py", {}) == {}
    lines = (FOLDER / "mistakes.py").read_text("utf-8").splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# mistake")}
    errors = found["mistakes.py"]
    assert {number: lines[number - 1].strip() for number in marked - set(errors)} == {}
    assert {number: errors[number] for number in set(errors) - marked} == {}
