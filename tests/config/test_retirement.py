"""Models that end: the day in `families.toml`, the warning of replies, and the notes of `config check`."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from commands import run
from streamfold import Provider
from streamfold.config.model_facts import all_families
from streamfold.requests import ModelFacts, model_facts, retirement_notice
from tables import each_row

END = date(2026, 12, 11)


@pytest.fixture
def day(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Sets the present day with `setattr`; none of these tests depends on the real one."""
    monkeypatch.setattr(model_facts, "today", lambda: END)
    return monkeypatch


@each_row(
    ("days", "said"),
    [
        (61, None),
        (60, "retired by its maker on 2026-12-11"),
        (0, "retired by its maker on"),
        (-1, "was retired by its maker on 2026-12-11"),
    ],
)
def test_the_notice_begins_60_days_before(day: pytest.MonkeyPatch, days: int, said: str | None) -> None:
    """And stays after the day, in the past tense."""
    day.setattr(model_facts, "today", lambda: END - timedelta(days))
    notice = retirement_notice("m", ModelFacts(retires=END))
    assert notice == said if said is None else said in (notice or "")
    assert retirement_notice("m", ModelFacts()) is None


def test_an_earliest_day_is_called_so(day: pytest.MonkeyPatch) -> None:
    """Nobody has said that the model ends then."""
    facts = ModelFacts(retires=END, retires_earliest=True)
    assert retirement_notice("m", facts) == "m may be retired by its maker from 2026-12-11 on"


@each_row(
    ("provider", "warned"),
    [
        ("openai:gpt-5-mini", True),
        ("openai:gpt-5-2025-08-07", True),
        ("openai-responses:gpt-5-mini", True),
        ("openai:gpt-5.9", False),  # a version of which nothing is known
        ("openai:gpt-6-luna", False),
        ("anthropic:claude-sonnet-4-5-20250929", True),
        ("anthropic:claude-sonnet-5", False),
        ("bedrock:us.anthropic.claude-sonnet-4-5-20250929-v1:0", False),  # Amazon has days of its own
        ("azure:gpt-5-mini", False),
        ("openrouter:openai/gpt-5-mini", False),
        ("kimi:kimi-k2.5", True),
        ("vllm:moonshotai/Kimi-K2.5", False),  # of its weights, nobody can say that
    ],
)
def test_replies_warn_of_it(day: pytest.MonkeyPatch, provider: str, warned: bool) -> None:
    """On the maker's own platforms alone. It is no change of an option, so it is no error with "strict"."""
    day.setenv("AZURE_OPENAI_ENDPOINT", "https://name.openai.azure.com")
    day.setenv("AWS_REGION", "eu-central-1")
    settings = {"api_key": "k", "unsupported_options": "strict"}
    sent = Provider.from_config(provider, **settings).preview("Hello")  # type: ignore[arg-type]
    assert [warning.code for warning in sent.warnings if warning.code == "model_retires"] == ["model_retires"] * warned


def test_the_users_own_day_holds_anywhere(day: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In a file of families, or in a table of models."""
    file = tmp_path / "families.toml"
    file.write_text('[[families]]\nprefix = "acme"\nretires = 2026-12-24\n', "utf-8")
    spec = {"base_url": "http://llm.example/v1", "model": "acme-1"}
    of_file = Provider.from_config(spec, families=str(file))
    of_table = Provider.from_config(spec, models=[{"pattern": "acme*", "retires": date(2026, 12, 24)}])
    for provider in (of_file, of_table):
        assert [each.detail for each in provider.preview("Hello").warnings] == [
            "acme-1 will be retired by its maker on 2026-12-24"
        ]


CONFIG = """\
[providers.main]
profile = "openai"
model = "gpt-5-mini"
fallback = ["openai:gpt-4.1", "other"]
[providers.other]
profile = "openai"
model = "gpt-6-luna"
"""


def test_config_check_notes_it_90_days_before(day: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """For each model of the file and of its fallbacks. It is no problem: the exit code stays 0."""
    (tmp_path / "streamfold.toml").write_text(CONFIG, "utf-8")
    shown = run(tmp_path, "config", "check", OPENAI_API_KEY="k")
    assert shown.returncode == 0
    assert "main: gpt-5-mini will be retired by its maker on 2026-12-11" in shown.stdout
    assert "openai:gpt-4.1: gpt-4.1 will be retired by its maker on 2027-01-14" in shown.stdout
    assert "gpt-6-luna" not in shown.stdout
    day.setattr(model_facts, "today", lambda: END - timedelta(91))
    assert "switches" not in run(tmp_path, "config", "check", OPENAI_API_KEY="k").stdout
    assert 'family.retires = "2026-12-11"' in run(tmp_path, "config", "show", "openai:gpt-5-mini").stdout


DATED = {
    "openai-deprecations", "claude-deprecations", "anthropic-sdk-deprecated", "gemini-deprecations", "deepseek-updates",
    "kimi-pricing", "litellm-models",
}  # fmt: skip


def test_each_day_has_a_source_that_has_days() -> None:
    """A page of the maker about deprecations, its SDK, or LiteLLM's table."""
    for family in all_families():
        assert family.retires is None or DATED & set(family.sources), family.prefix
        assert family.retires_earliest is None or family.retires is not None


# Families without a window or a longest answer, and why.
WITHOUT_LIMITS = {
    "retired": {
        "gpt-4-vision", "gpt-4-32k", "codex-mini-latest", "o1-mini", "gemini-1", "gemini-1.5", "moonshot-v1",
        "moonshot-v1-8k-vision", "mistral-large-2411", "mistral-medium-2505",
    },
    "names of many sizes, or of whatever is the newest": {
        "gemini", "grok", "kimi", "kimi-dev", "kimi-k2", "kimi-k2-thinking", "glm-4", "qwen3", "qwen-plus", "sonar",
    },
    "the maker documents none": {"gpt-rosalind", "gpt-5-search-api", "gpt-5.5-cyber-preview", "grok-3-mini"},
    "the maker names no limit of an answer but the window": {
        "grok-4.3", "grok-4.5", "grok-4.7", "grok-4.20", "grok-4.20-multi-agent", "grok-4.20-non-reasoning",
        "grok-build-0.1", "deepseek-v3.2",
    },
    "sources differ": {"glm-4.5", "codestral", "devstral", "ministral", "magistral", "minimax-m2"},
}  # fmt: skip


def test_current_families_have_limits() -> None:
    """A window and a longest answer, or a reason why not."""
    lacking = {each.prefix[0] for each in all_families() if None in (each.context_tokens, each.max_output_tokens)}
    reasons = {prefix for prefixes in WITHOUT_LIMITS.values() for prefix in prefixes}
    assert lacking - reasons == set()
    assert reasons - lacking == set()
