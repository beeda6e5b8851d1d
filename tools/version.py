"""Writes the version of `src/streamfold/_version.py` into the distributions of `packages/`, which require it.

python tools/version.py
"""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["VERSION", "outdated", "with_version"]

ROOT = Path(__file__).resolve().parents[1]
(VERSION,) = re.findall(r'^__version__ = "(.+)"$', (ROOT / "src/streamfold/_version.py").read_text("utf-8"), re.M)


def with_version(text: str, version: str) -> str:
    """Returns a pyproject.toml with this version, also where it depends on another distribution of this repository."""
    text = re.sub(r'^version = ".+"$', f'version = "{version}"', text, flags=re.M)
    return re.sub(r'("streamfold(?:-\w+)?(?:\[[\w,-]+\])?)==[^"]+"', rf'\1=={version}"', text)


def outdated() -> dict[Path, str]:
    """Returns the files with another version, and what they must be."""
    texts = {path: path.read_text("utf-8") for path in sorted(ROOT.glob("packages/*/pyproject.toml"))}
    return {path: right for path, text in texts.items() if (right := with_version(text, VERSION)) != text}


if __name__ == "__main__":
    for path, text in outdated().items():
        path.write_text(text, "utf-8", newline="\n")
        print(f"{path.relative_to(ROOT)}: {VERSION}")
