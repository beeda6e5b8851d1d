"""What is compared with other people's tables of models, without these tables: `nox -s facts` reads them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "families_drift.py"


@pytest.fixture
def tool() -> Any:
    spec = importlib.util.spec_from_file_location("families_drift", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_disagrees_is_listed(tool: Any) -> None:
    """Fact by fact; what is said here and there alike, or here not at all, is not."""
    assert list(tool.drift("gpt-5", {"temperature": False, "thinks": True})) == []
    assert list(tool.drift("gpt-5", {"temperature": True, "thinks": False})) == [
        "temperature: no here, yes there",
        "thinks: yes here, no there",
    ]


def test_what_is_missing_is_listed(tool: Any) -> None:
    """A model without a row is sent everything, which may be right."""
    assert list(tool.drift("nobodys-model-1", {"temperature": True})) == ["no row"]
