"""A user's code checks against the library, and mistakes in it are found, in mypy's strict mode and in pyright's."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from mypy import api

from pages import ROOT, parts_of

FOLDER = ROOT / "tests" / "typing"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Packages that examples use and that have no types, or are not installed where the tests run.
UNTYPED = ("ray", "daft", "pandas", "langchain_core", "pydantic_ai")
UNTYPED_EXAMPLES = (
    *("daft_job.py", "ray_job.py"),  # nearly every line has a value of Daft or Ray
    *("dspy_lm.py", "openai_agents.py", "smolagents_model.py"),  # checked by `nox -s bridges`, beside the frameworks
)
Errors = dict[str, dict[int, str]]  # by file and line
Checker = Callable[[Path], Errors]


def mypy(folder: Path) -> Errors:
    """Returns the errors that mypy finds in strict mode in the programs of a folder."""
    settings = folder / "mypy.ini"
    modules = ",".join(f"{name}.*" for name in UNTYPED)
    settings.write_text(f"[mypy]\nstrict = true\n[mypy-{modules}]\nignore_missing_imports = true\n", "utf-8")
    found: Errors = {}
    # A folder at a time, because programs in several have the same name.
    for path in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
        files = sorted(str(file) for file in path.glob("*.py"))
        if not files:
            continue
        out, err, _ = api.run(["--config-file", str(settings), "--cache-dir", str(folder / ".cache"), *files])
        assert err == ""
        for file, line, message in re.findall(r"^(.*?):(\d+): error: (.*)$", out, re.MULTILINE):
            found.setdefault(Path(file).relative_to(folder).as_posix(), {})[int(line)] = message
    return found


def pyright(folder: Path) -> Errors:
    """Returns the errors that pyright finds in strict mode in the programs of a folder."""
    # A page defines much that it doesn't use: it shows how to.
    unused = ("Variable", "Function", "Import", "Class", "Expression")  # the last line of a cell shows its value
    settings = {
        "typeCheckingMode": "strict",
        "reportMissingImports": "warning",
        **{f"reportUnused{each}": "none" for each in unused},
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(folder)]
    out = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    found: Errors = {}
    for each in json.loads(out.stdout)["generalDiagnostics"]:
        if each["severity"] == "error":
            file = Path(each["file"]).relative_to(folder).as_posix()
            found.setdefault(file, {})[each["range"]["start"]["line"] + 1] = each["message"]
    return found


def write_page(page: Path, folder: Path) -> None:
    """Writes the programs of a page: a module for each block with a title, and all other blocks as one coroutine."""
    name = re.sub(r"\W", "_", page.relative_to(ROOT).with_suffix("").as_posix())
    parts = list(parts_of(page))
    modules = {part.title: part.text for part in parts if part.title is not None and part.title.endswith(".py")}
    modules.pop("before.py", None)  # of another library, which need not be installed
    if modules:
        folder /= name
        folder.mkdir()
    for title, text in modules.items():
        (folder / title).write_text(text, "utf-8")
    blocks = [textwrap.indent(part.text, "    ") for part in parts if part.kind == "python" and part.title is None]
    if blocks:
        (folder / f"{name}.py").write_text("\n".join(["async def page() -> None:", *blocks]), "utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("find_errors", [mypy, pyright])
def test_users_code_checks_and_mistakes_are_found(
    find_errors: Checker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`typing/api.py` has no error; in `typing/mistakes.py` each line that is marked has one, and no other."""
    monkeypatch.delenv("MYPYPATH", raising=False)
    for name in ("api.py", "mistakes.py"):
        (tmp_path / name).write_text((FOLDER / name).read_text("utf-8"), "utf-8")
    found = find_errors(tmp_path)
    assert found.get("api.py", {}) == {}
    lines = (FOLDER / "mistakes.py").read_text("utf-8").splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# mistake")}
    errors = found["mistakes.py"]
    assert len(marked) >= 40
    assert {number: lines[number - 1].strip() for number in marked - set(errors)} == {}
    assert {number: errors[number] for number in set(errors) - marked} == {}


@pytest.mark.slow
@pytest.mark.parametrize("find_errors", [mypy, pyright])
def test_the_code_of_every_page_checks(find_errors: Checker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """README and documentation have no error for strict type checkers, and need no comment to have none."""
    monkeypatch.delenv("MYPYPATH", raising=False)
    for page in PAGES:
        text = page.read_text("utf-8")
        assert "type: ignore" not in text, page
        if all(find_spec(name) for name in re.findall(r"^ *from (streamfold_\w+)", text, re.MULTILINE)):
            write_page(page, tmp_path)
    assert find_errors(tmp_path) == {}


@pytest.mark.slow
@pytest.mark.parametrize("find_errors", [mypy, pyright])
def test_the_examples_check(find_errors: Checker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples have no error for strict type checkers, and need no comment to have none."""
    monkeypatch.delenv("MYPYPATH", raising=False)
    for path in sorted((ROOT / "examples").rglob("*.py")):
        if path.name not in UNTYPED_EXAMPLES:
            assert "type: ignore" not in path.read_text("utf-8"), path
            copy = tmp_path / path.relative_to(ROOT / "examples")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    assert find_errors(tmp_path) == {}
