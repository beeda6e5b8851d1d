"""Checks distributions before they are published: `python tools/release.py dist`.

A wheel has its package with `py.typed`, its licence, and nothing else. All of them have one version, and require each
other in that version. Their entry points lead into them.
"""

from __future__ import annotations

import configparser
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

__all__ = ["DISTRIBUTIONS", "problems_of"]

# Each distribution, and what lies at the top of its wheel.
DISTRIBUTIONS: dict[str, tuple[str, ...]] = {
    "streamfold": ("streamfold", "pytest_streamfold.py"),
    "streamfold_gateway": ("streamfold_gateway",),
    "streamfold_integrations": ("streamfold_integrations",),
    "streamfold_jobs": ("streamfold_jobs",),
    "streamfold_lab": ("streamfold_lab", "pytest_streamfold_lab.py"),
    "streamfold_repair": ("streamfold_repair",),
}
_LEFTOVERS = {"__pycache__", ".hypothesis", ".pytest_cache", "node_modules", ".venv", ".git"}
_FOREIGN = {"tests", "test"} | _LEFTOVERS


def problems_of(folder: Path) -> list[str]:
    """Returns what is wrong with the distributions in a folder; an empty list if they can be published."""
    wheels = {path.name.partition("-")[0]: path for path in sorted(folder.glob("*.whl"))}
    sources = {path.name.partition("-")[0]: path for path in sorted(folder.glob("*.tar.gz"))}
    found = [f"no wheel of {name}" for name in DISTRIBUTIONS.keys() - wheels.keys()]
    found += [f"no source distribution of {name}" for name in DISTRIBUTIONS.keys() - sources.keys()]
    found += [f"{name} is not ours" for name in (wheels | sources).keys() - DISTRIBUTIONS.keys()]
    versions = {path.name.split("-")[1] for path in wheels.values()}
    versions |= {path.name.removesuffix(".tar.gz").split("-")[1] for path in sources.values()}
    if len(versions) != 1:
        return [*found, f"one version is expected, not {sorted(versions)}"]
    (version,) = versions
    for name, path in wheels.items():
        found += [f"{path.name}: {problem}" for problem in _wheel(path, name, version)]
    for name, path in sources.items():
        found += [f"{path.name}: {problem}" for problem in _source(path, name, version)]
    return sorted(found)


def _wheel(path: Path, name: str, version: str) -> list[str]:
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path) as archive:
        files = {file: archive.read(file) for file in archive.namelist()}
    found = []
    allowed = (*DISTRIBUTIONS.get(name, ()), info)
    for file in files:
        if file.partition("/")[0] not in allowed or set(Path(file).parts[:-1]) & _FOREIGN:
            found.append(f"{file} does not belong there")
    if f"{name}/py.typed" not in files:
        found.append("no py.typed")
    if f"{info}/licenses/LICENSE" not in files:
        found.append("no licence")
    if not path.name.endswith("-py3-none-any.whl"):
        found.append("it is not for every platform")
    return [
        *found,
        *_metadata(files.get(f"{info}/METADATA", b""), name, version),
        *_entry_points(files.get(f"{info}/entry_points.txt", b"").decode(), set(files)),
    ]


def _metadata(data: bytes, name: str, version: str) -> list[str]:
    fields = Parser().parsestr(data.decode())
    expected = {
        "Name": name.replace("_", "-"),
        "Version": version,
        "License-Expression": "MIT",
        "Requires-Python": ">=3.11",
        "Description-Content-Type": "text/markdown",
    }
    found = [f"{key} is {fields[key]!r}, not {value!r}" for key, value in expected.items() if fields[key] != value]
    if not fields["Summary"] or not fields.get_payload():
        found.append("no summary, or no description")
    ours = [need for need in fields.get_all("Requires-Dist", []) if need.startswith("streamfold")]
    found += [
        f"{need!r} does not require {version}"
        for need in ours
        if not need.partition(";")[0].strip().endswith(f"=={version}")
    ]
    if name != "streamfold" and not ours:
        found.append("it does not require streamfold")
    return found


def _entry_points(text: str, files: set[str]) -> list[str]:
    read = configparser.ConfigParser(delimiters=("=",))
    read.optionxform = str  # type: ignore[assignment,method-assign] # names keep their case
    read.read_string(text)
    found = []
    for group in read.sections():
        for name, target in read[group].items():
            module = target.partition(":")[0].replace(".", "/")
            if not {f"{module}.py", f"{module}/__init__.py"} & files:
                found.append(f"the entry point {name} of {group} leads to {target}, which is not in it")
    return found


def _source(path: Path, name: str, version: str) -> list[str]:
    with tarfile.open(path) as archive:
        files = {member.name.partition("/")[2]: member for member in archive.getmembers()}
    found = [
        f"{file} is missing" for file in ("PKG-INFO", "pyproject.toml", "README.md", "LICENSE") if file not in files
    ]
    if f"src/{name}/py.typed" not in files:
        found.append("no sources")
    if path.name != f"{name}-{version}.tar.gz":
        found.append(f"its name is not {name}-{version}.tar.gz")
    found += [f"{file} does not belong there" for file in files if set(Path(file).parts) & _LEFTOVERS]
    found += [f"{file} leads out of it" for file, member in files.items() if member.issym() or member.islnk()]
    if name == "streamfold":
        found += [f"{file} is of another distribution" for file in files if file.startswith("packages/")]
    return found


if __name__ == "__main__":
    (folder,) = sys.argv[1:]
    problems = problems_of(Path(folder))
    print("\n".join(problems) or f"{folder}: six wheels and six source distributions can be published")
    sys.exit(bool(problems))
