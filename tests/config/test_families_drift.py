"""What is compared with other people's tables of models, without these tables: `nox -s facts` reads them."""

from __future__ import annotations

from typing import Any

import pytest

from scripts import loaded


@pytest.fixture
def tool() -> Any:
    return loaded("tools/families_drift.py")


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
