"""A user's code checks against the library, and mistakes in it are found, in mypy's strict mode and in pyright."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mypy import api

FOLDER = Path(__file__).parents[1] / "typing"


def mypy(file: Path) -> dict[int, str]:
    """The errors that mypy finds, by line."""
    out, err, _ = api.run(["--strict", "--no-incremental", "--config-file", "", "--show-absolute-path", str(file)])
    assert err == ""
    found = re.finditer(rf"^{re.escape(str(file))}:(\d+): error: (.*)$", out, re.MULTILINE)
    return {int(match[1]): match[2] for match in found}


def pyright(file: Path) -> dict[int, str]:
    """The errors that pyright finds, by line."""
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(file)]
    out = subprocess.run(command, capture_output=True, text=True, check=False, cwd=FOLDER)
    report = json.loads(out.stdout)
    errors = [each for each in report["generalDiagnostics"] if each["severity"] == "error"]
    return {each["range"]["start"]["line"] + 1: each["message"] for each in errors}


CHECKERS = pytest.mark.parametrize("errors_in", [mypy, pyright])


@CHECKERS
def test_users_code_checks(errors_in, monkeypatch) -> None:
    """`typing/api.py` is such code."""
    monkeypatch.delenv("MYPYPATH", raising=False)
    assert errors_in(FOLDER / "api.py") == {}


@CHECKERS
def test_mistakes_are_found(errors_in, monkeypatch) -> None:
    """Each line of `typing/mistakes.py` that is marked, and no other."""
    monkeypatch.delenv("MYPYPATH", raising=False)
    file = FOLDER / "mistakes.py"
    lines = file.read_text("utf-8").splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# mistake")}
    found = errors_in(file)
    assert {number: lines[number - 1].strip() for number in marked - set(found)} == {}
    assert {number: found[number] for number in set(found) - marked} == {}
