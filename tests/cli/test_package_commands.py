"""Commands of `streamfold` that other packages bring."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from commands import Done, environment
from tables import each_row

ALONE = """
import importlib.metadata as metadata, sys
found = metadata.entry_points
none = metadata.EntryPoints()
metadata.entry_points = lambda **named: none if named["group"] == "streamfold.commands" else found(**named)
from streamfold.cli import main
main()
"""


def run(folder: Path, *words: str, code: str = ALONE, **variables: str) -> Done:
    env = environment(folder, **variables)
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, cwd=folder, env=env, timeout=60)
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.slow
@each_row(
    "command,package",
    [
        ("serve", "streamfold-gateway"),
        ("batch", "streamfold-jobs"),
        ("conformance", "streamfold-lab"),
        ("diff", "streamfold-lab"),
        ("doctor", "streamfold-lab"),
        ("inspect", "streamfold-lab"),
        ("models", "streamfold-lab"),
        ("swap-check", "streamfold-lab"),
    ],
)
def test_a_command_of_a_package_that_is_not_installed(command: str, package: str, tmp_path: Path) -> None:
    """The error says what to install, and the exit code is that of wrong usage."""
    done = run(tmp_path, command, "--help")
    assert done.returncode == 2
    text = f"The command {command!r} is in a package that is not installed: pip install {package}"
    assert text in " ".join(done.stderr.split())


@pytest.mark.slow
def test_commands_of_an_installed_package(tmp_path: Path) -> None:
    """A function is a command, and a Typer app a group of commands, under the name of its entry point."""
    site = tmp_path / "site"
    metadata = site / "extra-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: extra\nVersion: 1.0\n", "utf-8")
    entries = "[streamfold.commands]\nhello = extra_commands:hello\nmore = extra_commands:app\n"
    (metadata / "entry_points.txt").write_text(entries, "utf-8")
    (site / "extra_commands.py").write_text(
        "import typer\napp = typer.Typer()\n"
        "@app.callback()\ndef options() -> None: ...\n"
        "@app.command()\ndef there() -> None:\n    print('there')\n"
        "def hello() -> None:\n    print('hello')\n",
        "utf-8",
    )
    code = f"import sys; sys.path.insert(0, {str(site)!r}); from streamfold.cli import main; main()"
    assert run(tmp_path, "hello", code=code).stdout.split() == ["hello"]
    assert run(tmp_path, "more", "there", code=code).stdout.split() == ["there"]
