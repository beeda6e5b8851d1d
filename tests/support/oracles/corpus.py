"""The optional conformance corpus: recorded streams of real providers beside what each must fold to.

`STREAMFOLD_CORPUS` names its folder. Unset, the tests that read it are skipped; set, missing data is a failure. No
other module reads that variable.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

ABSENT = "STREAMFOLD_CORPUS is not set: it names the folder of the optional conformance corpus"


def folder() -> Path:
    """Returns the folder. Skips the test if no folder is named, and fails if there is no such folder."""
    named = os.environ.get("STREAMFOLD_CORPUS")
    if not named:
        pytest.skip(ABSENT)
    path = Path(named).resolve()
    assert path.is_dir(), f"STREAMFOLD_CORPUS names {path}, which is not a folder"
    return path


def names(*patterns: str) -> list[Any]:
    """Returns the paths of recordings that fit one of these patterns, as parameters of a test.

    Without a corpus there is one parameter, of a test that is skipped.
    """
    named = os.environ.get("STREAMFOLD_CORPUS")
    if not named:
        return [pytest.param("", marks=pytest.mark.skip(ABSENT), id="no-corpus")]
    root = Path(named).resolve()
    files = [path for pattern in patterns for path in root.glob(pattern) if not path.match("*.expected.json")]
    if not files:
        raise FileNotFoundError(f"STREAMFOLD_CORPUS names {root}, where nothing fits {' or '.join(patterns)}")
    return [path.relative_to(root).as_posix() for path in sorted(files, key=lambda path: path.with_suffix(""))]


def cases(*files: str) -> list[Any]:
    """Returns the cases in these JSON files, each with the `file` it stands in, as parameters of a test."""
    if not os.environ.get("STREAMFOLD_CORPUS"):
        return names()
    return [{"file": Path(file).stem, **case} for file in files for case in read_json(file)]


def read_json(path: str) -> Any:
    """Returns what a JSON file of the corpus says."""
    return json.loads((folder() / path).read_text("utf-8"))


def expected(name: str) -> dict[str, Any]:
    """Returns what the recording of this name must fold to."""
    found: dict[str, Any] = read_json(Path(name).with_suffix(".expected.json").as_posix())
    return found


def body(name: str) -> bytes:
    """Returns the bytes of the recording of this name."""
    return (folder() / name).read_bytes()


def label(case: Any) -> str | None:
    """Returns the id of a case of `cases` as a parameter of a test."""
    return f"{case['file']}-{case['name']}" if isinstance(case, dict) else None
