"""The workflow of continuous integration says what the project says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
RELEASE = WORKFLOW.with_name("release.yml")

if not WORKFLOW.exists():
    pytest.skip("this is not a checkout", allow_module_level=True)


def test_its_sessions_exist() -> None:
    """A session that is renamed would be found missing on the next push, and not before."""
    text = WORKFLOW.read_text() + RELEASE.read_text()
    ran = {name for words in re.findall(r"nox -s (.+)", text) for name in words.partition(" --")[0].split()}
    defined = set(re.findall(r"^def (\w+)\(session", (ROOT / "noxfile.py").read_text(), re.MULTILINE))
    assert ran
    assert ran <= defined


def test_its_versions_are_those_of_the_package() -> None:
    """Every Python of the classifiers is tested."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    versions = {name.rpartition(" ")[2] for name in classifiers if re.search(r":: 3\.\d+$", name)}
    matrix = re.search(r"python: \[(.+)\]", WORKFLOW.read_text())
    assert matrix
    assert versions <= set(re.findall(r'"([^"]+)"', matrix[1]))


def test_actions_are_pinned() -> None:
    """A tag of an action can be moved; a commit can't. The comment says which version it is."""
    uses = re.findall(r"uses: (.+)", WORKFLOW.read_text() + RELEASE.read_text())
    assert uses
    assert [line for line in uses if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)] == []


def test_a_release_needs_no_stored_token() -> None:
    """Publishing is trusted by identity, asks a person first, and attests what was built."""
    yaml = pytest.importorskip("yaml")
    assert "secrets." not in RELEASE.read_text()
    jobs = yaml.safe_load(RELEASE.read_text())["jobs"]
    assert jobs["publish"]["environment"] == "release"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["build"]["permissions"]["attestations"] == "write"
    distributions = {
        tomllib.loads(path.read_text())["project"]["name"] for path in ROOT.glob("packages/*/pyproject.toml")
    }
    wheels = {name.replace("-", "_") for name in {"streamfold", *distributions}}
    assert set(jobs["sbom"]["strategy"]["matrix"]["wheel"]) == wheels
    assert set(jobs["publish"]["needs"]) == {"build", "sbom"}


def test_it_has_no_tabs_and_no_odd_indents() -> None:
    """What YAML would refuse is seen here; where a reader of YAML is installed, it reads the file."""
    lines = [*WORKFLOW.read_text().splitlines(), *RELEASE.read_text().splitlines()]
    assert not [line for line in lines if "\t" in line or (len(line) - len(line.lstrip())) % 2]
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load(WORKFLOW.read_text())["jobs"]
    assert set(jobs["required"]["needs"]) <= jobs.keys()
