"""What other packages say of the endpoints, without these packages: `nox -s facts` reads them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from scripts import loaded
from streamfold.config.catalogue import provider_files


@pytest.fixture
def tool() -> Any:
    return loaded("tools/endpoints_drift.py")


@pytest.fixture
def listed(tool: Any) -> dict[str, Any]:
    found: dict[str, Any] = tool.read_list()
    return found


def test_every_row_is_compared(listed: dict[str, Any]) -> None:
    """With a package at least, or the list says why none has it; rows that are gone are not in the list."""
    compared = {one["row"] for one in listed["said"]}
    assert compared | set(listed["alone"]) == set(provider_files())
    assert not compared & set(listed["alone"])
    assert {one["row"] for one in listed["decided"]} <= compared


def test_every_contradiction_is_decided(tool: Any, listed: dict[str, Any]) -> None:
    """And nothing else is: a decision that has become pointless goes."""
    assert tool.undecided(listed) == []
    found = {(each.row, each.about, each.package) for each in tool.contradictions(listed["said"])}
    decided = {(one["row"], one["about"], name) for one in listed["decided"] for name in one["packages"]}
    assert {one for one in decided if one[1] != "peculiarity"} == found


def test_every_decision_has_its_reason(listed: dict[str, Any]) -> None:
    """A sentence, and a page that is not one of the packages'."""
    peers = ("github.com/BerriAI", "litellm.ai", "pydantic.dev", "ai.pydantic", "langchain", "ai-sdk.dev", "vercel/ai")
    for one in listed["decided"]:
        assert re.fullmatch(r'["A-Z].{20,}\.', one["why"]), one
        assert one["source"].startswith("https://")
        assert not any(peer in one["source"] for peer in peers), one


def test_a_contradiction_is_found(tool: Any, listed: dict[str, Any]) -> None:
    """An address, a key, a wire format and a signature, each by itself."""
    said = {
        "row": "bedrock-mantle",
        "package": "litellm",
        "files": [],
        "address": "https://elsewhere.example/v1",
        "keys": ["OTHER_KEY"],
        "adapter": "converse",
        "auth_scope": "bedrock",
    }
    found = tool.undecided({**listed, "said": [said]})
    assert [each.about for each in found] == ["address", "keys", "adapter", "auth_scope"]


def test_what_a_package_no_longer_says(tool: Any, tmp_path: Path) -> None:
    """Literals are looked for in the files that had them."""
    (tmp_path / "a.py").write_text('URL = "https://a.example/v1"', "utf-8")
    said = {"row": "groq", "package": "litellm", "files": ["a.py"], "address": "https://a.example/v1", "keys": ["K"]}
    assert list(tool.unsaid([said], {"litellm": tmp_path})) == ["groq: litellm no longer says 'K' in a.py"]
