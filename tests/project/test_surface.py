"""What is public is written down, so that no change of it goes unnoticed."""

from __future__ import annotations

import difflib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WRITTEN = ROOT / "tests" / "project" / "surface.txt"


def test_the_public_surface_is_what_is_written_down() -> None:
    """Names, signatures, members, warning codes and the tree of errors."""
    code = "import sys; sys.path.insert(0, 'tools'); import surface; sys.stdout.write(surface.surface())"
    # In a process of its own: tests define errors and adapters too.
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, encoding="utf-8", check=True)
    lines = difflib.unified_diff(
        WRITTEN.read_text("utf-8").splitlines(),
        run.stdout.splitlines(),
        "written down",
        "in the code",
        lineterm="",
        n=0,
    )
    difference = "\n".join(lines)
    assert not difference, (
        "the public surface has changed: if that is meant, run `python tools/surface.py`,"
        f" and see docs/stability.md and CHANGELOG.md\n{difference}"
    )
