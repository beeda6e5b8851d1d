"""The lab beside streamfold: one version, exported names, a wheel that is complete."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
import zipfile
from importlib import import_module
from pathlib import Path

import streamfold

LAB = Path(__file__).resolve().parents[1]
MODULES = sorted((LAB / "src").rglob("*.py"))


def taken() -> set[tuple[str, str, str]]:
    """The names that modules of the lab import from streamfold: (module of the lab, module of streamfold, name)."""
    return {
        (path.name, node.module, alias.name)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "streamfold"
        for alias in node.names
    }


def test_only_exported_names_are_used() -> None:
    """A package or a module below streamfold, or the folder of one API, never a module inside; and no private name."""
    wrong = []
    for path, name, what in taken():
        package = import_module(name)
        if (what.startswith("_") and what != "__version__") or not (
            (hasattr(package, "__path__") or name.count(".") == 1) and hasattr(package, what)
        ):
            wrong.append(f"{path}: from {name} import {what}")
    assert sorted(wrong) == []


def test_both_have_one_version() -> None:
    """Each release of the lab belongs to one release of streamfold."""
    project = tomllib.loads((LAB / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["version"] == streamfold.__version__
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(entry for extra in extras for entry in extra)]
    assert {entry.partition("==")[2] for entry in wanted} == {streamfold.__version__}


def test_streamfold_does_not_need_the_lab() -> None:
    """Nothing in streamfold imports it; commands and pages come by entry point."""
    package = Path(streamfold.__file__).parent
    assert [path for path in package.rglob("*.py") if "streamfold_lab" in path.read_text("utf-8")] == []


def test_the_wheel_draws_pages(tmp_path: Path) -> None:
    """What the pages are made of is packaged: styles, scripts and frames; and the plugin of pytest."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=LAB, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    assert (tmp_path / "site" / "pytest_streamfold_lab.py").is_file()
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "import streamfold_lab;"
        "from streamfold_lab.inspection import inspect_stream, render_page;"
        "assert streamfold_lab.__file__.startswith(sys.argv[1]), streamfold_lab.__file__;"
        "print(render_page(inspect_stream(b'')))"
    )
    run = [sys.executable, "-I", "-X", "utf8", "-c", code, str((tmp_path / "site").resolve())]
    page = subprocess.run(run, capture_output=True, encoding="utf-8", check=True).stdout
    assert page.startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
