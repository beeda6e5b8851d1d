"""What is built and installed carries what it needs: provider files, demo recordings, type marker, no test data."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built wheel, unpacked."""
    if not (ROOT / "src").is_dir():
        pytest.skip("the tests run without the source tree: the installed wheel itself is what they test")
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


@pytest.mark.slow
def test_wheel_has_the_catalogue_and_the_demo(unpacked: Path) -> None:
    """Provider files and the recordings of the demo travel inside the package."""
    package = unpacked / "streamfold"
    assert sorted(path.name for path in (package / "providers").iterdir()) == sorted(
        path.name for path in (ROOT / "providers").iterdir()
    )
    assert len(list((package / "fixtures" / "demo").glob("*.sse"))) == 2
    assert (package / "py.typed").exists()
    assert not (unpacked / "tests").exists()


def test_wheel_has_the_pytest_plugin(unpacked: Path) -> None:
    """The plugin is announced, and lies where the entry point says."""
    (entry_points,) = unpacked.glob("*.dist-info/entry_points.txt")
    assert "[pytest11]\nstreamfold = pytest_streamfold\n" in entry_points.read_text("utf-8")
    assert (unpacked / "pytest_streamfold.py").is_file()


@pytest.mark.slow
def test_wheel_finds_them(unpacked: Path) -> None:
    """Imported from the wheel alone, the catalogue is the packaged one."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import streamfold;"
        "from streamfold.config import catalogue_folder, provider_files;"
        "from streamfold.recording import find_recording;"
        "assert streamfold.__file__.startswith(sys.argv[1]), streamfold.__file__;"
        "assert str(catalogue_folder()).startswith(sys.argv[1]);"
        "print(len(provider_files()), find_recording('demo/parallel_calls').name)"
    )
    run = [sys.executable, "-I", "-c", code, str(unpacked.resolve())]
    out = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    endpoints = {path.name for path in (ROOT / "providers").glob("*.toml")} - {"families.toml"}
    assert out.split()[0] == str(len(endpoints))


def test_checkout_finds_them() -> None:
    """In an editable install the catalogue is the folder beside `src`."""
    from streamfold.config.catalogue import catalogue_folder

    folder = catalogue_folder()
    assert folder == ROOT / "providers" or folder.parent.name == "streamfold"


def test_every_distribution_has_the_license() -> None:
    """Each wheel carries the licence: a distribution's build sees its own folder alone."""
    if not (ROOT / "packages").is_dir():
        pytest.skip("the tests run without the source tree")
    licence = (ROOT / "LICENSE").read_bytes()
    folders = [path.parent for path in sorted((ROOT / "packages").glob("*/pyproject.toml"))]
    assert len(folders) == 5
    assert [folder.name for folder in folders if (folder / "LICENSE").read_bytes() != licence] == []
