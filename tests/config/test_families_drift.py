"""How facts about models are compared with those of other packages; `nox -s facts` reads the packages themselves."""

from __future__ import annotations

from datetime import date
from typing import Any
from urllib.parse import urlsplit

import pytest

from scripts import loaded
from streamfold.config.model_facts import find_family

MAKERS = (
    "openai.com", "claude.com", "google.dev", "x.ai", "mistral.ai", "deepseek.com", "moonshot.ai", "github.com",
)  # fmt: skip


@pytest.fixture(scope="module")
def tool() -> Any:
    return loaded("tools/families_drift.py")


def facts(tool: Any, model: str, **said: Any) -> list[tuple[str, Any, Any]]:
    return [(found.fact, found.here, found.there) for found in tool.contradictions("peer", model, said)]


def test_what_disagrees_is_found(tool: Any) -> None:
    """Fact by fact; what is said here and there alike, or here not at all, is not."""
    assert facts(tool, "gpt-5", temperature=False, thinks=True, row=True) == []
    assert facts(tool, "gpt-5", temperature=True, thinks=False) == [
        ("temperature", False, True), ("thinks", True, False),
    ]  # fmt: skip
    assert facts(tool, "gpt-6.2-sol", **{"effort none": True}) == [("effort none", False, True)]
    assert facts(tool, "gpt-5.2-codex", responses_only=False) == [("responses_only", True, False)]
    assert facts(tool, "claude-sonnet-4-5", retires=date(2027, 1, 1)) == [
        ("retires", date(2026, 11, 30), date(2027, 1, 1))
    ]
    assert facts(tool, "gpt-5.4", temperature=False) == [], "it depends on the effort"


def test_windows_are_of_the_input_or_of_all(tool: Any) -> None:
    """Some tables leave out the longest answer, and some round."""
    for context in (400_000, 272_000):
        assert facts(tool, "gpt-5", context=context) == []
    assert facts(tool, "gpt-5", context=128_000) == [("context", 400_000, 128_000)]
    assert facts(tool, "gpt-5", output=4096) == [("output", 128_000, 4096)]
    assert facts(tool, "claude-opus-5", context=1_048_576) == []


def test_a_model_without_a_row_is_found(tool: Any) -> None:
    """Neither the row of a maker nor that of an older version is its own. Models that aren't for chats are left out."""
    for model in ("nobodys-model-1", "claude-opus-9", "gpt-5.9-mini", "grok-9"):
        assert facts(tool, model, row=True, temperature=True) == [("row", False, True)]
    assert facts(tool, "gpt-5-mini-2025-08-07", row=True) == []
    assert facts(tool, "text-embedding-9", row=True) == []


def test_a_decision_is_about_models_facts_and_packages(tool: Any) -> None:
    """Something new is undecided; a decision about nothing is told."""
    (found,) = tool.contradictions("litellm", "openai/gpt-5", {"output": 4096})
    decision = {"packages": ["litellm"], "models": ["gpt-5*"], "facts": ["output"]}
    assert tool.undecided([found], [decision]) == []
    assert tool.unused([found], [decision]) == []
    for other in ({"packages": ["langchain"]}, {"models": ["gpt-6*"]}, {"facts": ["context"]}):
        assert tool.undecided([found], [{**decision, **other}]) == [found]
        assert tool.unused([found], [{**decision, **other}]) == [{**decision, **other}]


def test_each_decision_has_a_reason_and_a_page_of_the_maker(tool: Any) -> None:
    """And is about packages that are compared."""
    listed = tool.read_list()
    assert listed["decided"]
    for decision in listed["decided"]:
        assert set(decision["packages"]) <= set(tool.WITNESSES)
        assert decision["models"]
        assert decision["facts"]
        assert decision["reason"].endswith(".")
        assert (urlsplit(decision["source"]).hostname or "").endswith(MAKERS), decision["source"]


def test_the_newest_models_have_a_row_or_a_reason(tool: Any) -> None:
    """Those of the last 90 days before the list was made, by maker."""
    newest = tool.read_list()["newest"]
    assert len({each["maker"] for each in newest}) >= 10
    for each in newest:
        has_row = tool.ours(find_family(each["model"]), each["model"])["row"]
        assert has_row != ("reason" in each), each["model"]
