"""What is published is checked before: each fault of a wheel or a source distribution is named."""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scripts import loaded
from tables import each_row

ROOT = Path(__file__).parents[2]
METADATA = """\
Metadata-Version: 2.4
Name: {name}
Version: {version}
Summary: A library.
License-Expression: MIT
Requires-Python: >=3.11
Description-Content-Type: text/markdown
{needs}
Read this.
"""
Files = dict[str, str]


@pytest.fixture(name="script")
def release() -> Any:
    return loaded("tools/release.py")


def wheel_of(name: str, version: str = "1.0") -> Files:
    """The files of a wheel that can be published."""
    needs = "" if name == "streamfold" else f"Requires-Dist: streamfold[cli]=={version}\n"
    info = f"{name}-{version}.dist-info"
    return {
        f"{name}/__init__.py": "",
        f"{name}/cli.py": "",
        f"{name}/py.typed": "",
        f"{info}/METADATA": METADATA.format(name=name.replace("_", "-"), version=version, needs=needs),
        f"{info}/licenses/LICENSE": "MIT",
        f"{info}/entry_points.txt": f"[streamfold.commands]\nserve = {name}.cli:serve\n",
    }


def source_of(name: str, version: str = "1.0") -> Files:
    """The files of a source distribution that can be published."""
    names = ("PKG-INFO", "pyproject.toml", "README.md", "LICENSE", f"src/{name}/py.typed")
    return {f"{name}-{version}/{file}": "" for file in names}


def write(folder: Path, script: Any, change: Callable[[Files], object] | None = None, of: str = "whl") -> None:
    """Writes all distributions, the gateway's changed."""
    for name in script.DISTRIBUTIONS:
        wheel, source = wheel_of(name), source_of(name)
        if change and name == "streamfold_gateway":
            change(wheel if of == "whl" else source)
        with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
            for file, text in wheel.items():
                archive.writestr(file, text)
        with tarfile.open(folder / f"{name}-1.0.tar.gz", "w:gz") as sources:
            for file, text in source.items():
                member = tarfile.TarInfo(file)
                member.size = len(text.encode())
                sources.addfile(member, io.BytesIO(text.encode()))


def replaced(file: str, old: str, new: str) -> Callable[[Files], object]:
    """Replaces words in a file of a wheel's metadata."""
    path = f"streamfold_gateway-1.0.dist-info/{file}"
    return lambda files: files.update({path: files[path].replace(old, new)})


def test_right_ones_can_be_published(script: Any, tmp_path: Path) -> None:
    """Six wheels and six source distributions without a fault."""
    write(tmp_path, script)
    assert script.problems_of(tmp_path) == []


INFO = "streamfold_gateway-1.0.dist-info"
WHEEL = "streamfold_gateway-1.0-py3-none-any.whl: "
SOURCE = "streamfold_gateway-1.0.tar.gz: "


@each_row(
    ("of", "change", "problem"),
    [
        ("whl", lambda files: files.update({"tests/test_x.py": ""}), WHEEL + "tests/test_x.py does not belong there"),
        (
            "whl",
            lambda files: files.update({"streamfold_gateway/tests/test_x.py": ""}),
            WHEEL + "streamfold_gateway/tests/test_x.py does not belong there",
        ),
        ("whl", lambda files: files.pop("streamfold_gateway/py.typed"), WHEEL + "no py.typed"),
        ("whl", lambda files: files.pop(f"{INFO}/licenses/LICENSE"), WHEEL + "no licence"),
        ("whl", lambda files: files.pop("streamfold_gateway/cli.py"), "which is not in it"),
        ("whl", replaced("METADATA", "==1.0", ">=0.9"), "'streamfold[cli]>=0.9' does not require 1.0"),
        (
            "whl",
            replaced("METADATA", "Requires-Dist: streamfold", "Requires-Dist: x"),
            "it does not require streamfold",
        ),
        ("whl", replaced("METADATA", "Version: 1.0", "Version: 1.1"), "Version is '1.1', not '1.0'"),
        ("whl", replaced("METADATA", "text/markdown", "text/plain"), "Description-Content-Type is 'text/plain'"),
        ("whl", replaced("METADATA", "\nRead this.", ""), "no summary, or no description"),
        ("tar", lambda files: files.pop("streamfold_gateway-1.0/LICENSE"), SOURCE + "LICENSE is missing"),
        (
            "tar",
            lambda files: files.pop("streamfold_gateway-1.0/src/streamfold_gateway/py.typed"),
            SOURCE + "no sources",
        ),
        (
            "tar",
            lambda files: files.update({"streamfold_gateway-1.0/src/__pycache__/x.pyc": ""}),
            SOURCE + "src/__pycache__/x.pyc does not belong there",
        ),
    ],
)
def test_each_fault_is_named(
    script: Any, tmp_path_factory: pytest.TempPathFactory, of: str, change: Callable[[Files], object], problem: str
) -> None:
    """One fault, one problem."""
    folder = tmp_path_factory.mktemp("dist")
    write(folder, script, change, of)
    (found,) = script.problems_of(folder)
    assert problem in found


def test_a_missing_one_and_another_version(script: Any, tmp_path: Path) -> None:
    """All of them are published together, or none."""
    write(tmp_path, script)
    (tmp_path / "streamfold_lab-1.0.tar.gz").unlink()
    assert script.problems_of(tmp_path) == ["no source distribution of streamfold_lab"]
    (tmp_path / "streamfold_jobs-1.0.tar.gz").rename(tmp_path / "streamfold_jobs-1.1.tar.gz")
    assert "one version is expected, not ['1.0', '1.1']" in script.problems_of(tmp_path)


def test_the_version_is_written_once() -> None:
    """`_version.py` has it; the distributions beside it are of that version, and require it."""
    script = loaded("tools/version.py")
    assert script.outdated() == {}, "run `python tools/version.py`"
    for path in ROOT.glob("packages/*/pyproject.toml"):
        text = path.read_text("utf-8")
        assert f'version = "{script.VERSION}"' in text
        changed = script.with_version(text, "9.9.9")
        assert changed != text
        assert script.VERSION not in changed
        assert re.findall(r'"streamfold[\w-]*(?:\[[\w,]+\])?==([^"]+)"', changed)
        assert script.with_version(changed, script.VERSION) == text
