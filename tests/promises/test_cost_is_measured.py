"""We measure the CPU time per chunk and compare it with other libraries, and with httpx plus a JSON parser:"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

LIBRARIES = [
    "any-llm", "bare", "httpx-sse", "langchain-openai", "litellm", "openai", "pydantic-ai", "streamfold",
    "streamfold-aiohttp",
]  # fmt: skip

pytestmark = pytest.mark.skipif(not (ROOT / "benchmarks").is_dir(), reason="the benchmarks are not installed")


def test_the_chart_shows_what_was_measured() -> None:
    """Each library in it, and the floor that all are compared with, is a program that anybody can run again."""
    drawn = set(
        re.findall(r">\s*([a-z-]+)\s*</text>|<!-- ([a-z-]+) -->", (ROOT / "docs" / "cost.svg").read_text("utf-8"))
    )
    names = {name for pair in drawn for name in pair if name} & set(LIBRARIES)
    assert len(names - {"bare"}) == 8
    assert {"bare", "streamfold"} <= names
    for name in names:
        assert (ROOT / "benchmarks" / "contestants" / f"{name.replace('-', '_')}.py").is_file()
    results = (ROOT / "benchmarks" / "results" / "streams.json").read_text("utf-8")
    assert all(f'"{name}"' in results for name in names)
    assert "python benchmarks/run.py" in (ROOT / "benchmarks" / "README.md").read_text("utf-8")
