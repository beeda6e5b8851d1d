"""README, guides and examples name models that live, from one list; no test reads the present day."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from scripts import loaded
from streamfold.config.model_facts import find_family
from streamfold.requests import model_facts


@pytest.fixture(scope="module")
def tool() -> Any:
    return loaded("tools/documented_models.py")


def test_the_pages_name_the_models_of_the_list(tool: Any) -> None:
    """And no others; each of the list is named somewhere."""
    named: dict[str, list[str]] = {}
    for page in tool.pages():
        for model in tool.named_models(page.read_text("utf-8")):
            named.setdefault(model, []).append(page.name)
    listed = set(tool.read_list()["models"])
    assert {model: pages for model, pages in named.items() if model not in listed} == {}
    assert listed - named.keys() == set()


def test_they_live_until_the_day_of_the_list(tool: Any) -> None:
    """By what their makers say: a day of retirement, the earliest one included, is not before it."""
    listed = tool.read_list()
    for model in listed["models"]:
        family = find_family(model)
        assert family.vendor is not None, f"{model} has no row"
        assert family.retires is None or family.retires >= listed["until"], model


def test_one_that_ends_soon_is_told(tool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """90 days before its day, for `nox -s facts`."""
    monkeypatch.setattr(tool, "read_list", lambda: {"models": ["gpt-5-mini", "gpt-6-luna"]})
    monkeypatch.setattr(model_facts, "today", lambda: date(2026, 9, 12))
    assert tool.ending() == ["the documentation names a model: gpt-5-mini will be retired by its maker on 2026-12-11"]
    monkeypatch.setattr(model_facts, "today", lambda: date(2026, 9, 11))
    assert tool.ending() == []


def test_another_model_is_named_on_all_pages(tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole names alone."""
    page, listed = tmp_path / "page.md", tmp_path / "list.toml"
    page.write_text("`openai:gpt-6`, gpt-6-luna, my-gpt-6", "utf-8")
    listed.write_text('models = ["gpt-6"]', "utf-8")
    monkeypatch.setattr(tool, "pages", lambda: [page])
    monkeypatch.setattr(tool, "LIST", listed)
    tool.rename("gpt-6", "gpt-7")
    assert page.read_text("utf-8") == "`openai:gpt-7`, gpt-6-luna, my-gpt-6"
    assert listed.read_text("utf-8") == 'models = ["gpt-7"]'
