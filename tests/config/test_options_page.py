"""One program with every option, at every endpoint and model of the catalogue; the page says what becomes of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scripts import loaded
from streamfold import ChatOptions, ConfigError, Conversation, Provider, Tool, user
from streamfold.config import provider_files
from streamfold.types import ImagePart

ROOT = Path(__file__).parents[2]
LOOK = Tool("look", "Looks.", {"type": "object", "properties": {}})
SEEN = user("Answer in JSON.", ImagePart(data=b"GIF89a", media_type="image/gif"))
EVERYTHING: dict[str, Any] = {
    "temperature": 0.3, "top_p": 0.9, "max_output_tokens": 5, "stop": ["END", "\n"], "seed": 7,
    "parallel_tool_calls": False, "reasoning_effort": "xhigh", "extra_headers": {"X-A": "b"},
    "extra_body": {"x_own": 1},
    "timeouts": {"read": 5},
    "repair_history": True, "partial_tool_calls": True, "disable_thinking_for_forced_tools": False,
    "unsupported_options": "adapt", "max_continuations": 2, "compact_threshold": 100_000,
    "conversation": Conversation(),
}  # fmt: skip
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.fixture
def addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the addresses of clouds are made of."""
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://n.example")
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    monkeypatch.setenv("ANTHROPIC_FOUNDRY_RESOURCE", "n")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "us-east5")


@pytest.mark.usefixtures("addresses")
@pytest.mark.parametrize("form", ["json", SCHEMA], ids=["json", "schema"])
def test_a_program_with_every_option(form: Any) -> None:
    """It is prepared everywhere, but where the model has no eyes or no tools at all, which no change could mend."""
    assert set(EVERYTHING) | {"response_format", "tool_choice", "model"} >= set(ChatOptions.__annotations__) - {
        "coalesce", "conversation", "interrupted", "stream",  # a conversation is with one provider, by its id
    }  # fmt: skip
    prepared, refused = 0, []
    for name in provider_files():
        profile = Provider.from_config(name).profile
        for model in profile.examples() or [profile.model or "any"]:
            provider = Provider.from_config(name, model=model)
            try:
                provider.preview([SEEN], [LOOK], tool_choice="required", response_format=form, **EVERYTHING)
            except ConfigError as error:
                refused.append(str(error))
            else:
                prepared += 1
    assert prepared > 100
    assert [text for text in refused if "can't see images" not in text and "can't call tools" not in text] == []


def test_the_page_is_up_to_date() -> None:
    """Each of its cells is what happens."""
    assert (ROOT / "docs" / "options-table.md").read_text("utf-8") == loaded("tools/options_page.py").page(), (
        "run `nox -s options`"
    )
