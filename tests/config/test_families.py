"""Facts about models by the beginnings of their names: `providers/families.toml`, and a file of the user's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamfold import ConfigError, Provider
from streamfold.adapters import find_adapter
from streamfold.config import catalogue_folder, effective_values, read_config
from streamfold.config.layers import TomlFile
from streamfold.config.model_facts import all_families, find_family, is_first_party_host, read_families, read_quirks
from streamfold.requests import EFFORTS, NO_FAMILY, Family
from tables import each_row

FILE = TomlFile.parse("families.toml", (catalogue_folder() / "families.toml").read_bytes())
ELSEWHERE = {"base_url": "http://llm.example/v1"}


def test_rows_are_read_one_by_one_as_the_whole_file_is() -> None:
    """Our file is split at its rows and only those that are looked up are parsed: a whole parser reads the same."""
    assert tuple(all_families()) == read_families(FILE)
    found = {prefix: family for family in all_families() for prefix in family.prefix}
    assert len(found) == sum(len(family.prefix) for family in all_families()), "a prefix is there twice"
    assert all(find_family(prefix) is family for prefix, family in found.items())


def test_rows_make_sense() -> None:
    """A row says when and where it was looked up, its levels are in order, and its quirks are those of adapters."""
    for family in all_families():
        assert_makes_sense(family)


def assert_makes_sense(family: Family) -> None:
    assert family.checked is not None
    assert family.sources
    assert set(family.sources) <= set(FILE.data["sources"])
    assert family.vendor in FILE.data["hosts"]
    assert all(find_family(name) is family for name in family.examples)
    for levels in (family.efforts or (), family.efforts_on_chat or ()):
        assert list(levels) == sorted(levels, key=EFFORTS.index)
    assert family.default_effort is None or family.default_effort in (family.efforts or ())
    assert not (family.efforts and family.budget), "a model is told a level or a number"
    assert family.thinking != "never" or not (family.efforts or family.budget)
    for adapter, quirks in family.quirks.items():
        assert find_adapter(adapter).Quirks
        read_quirks(adapter, quirks)


def test_every_source_is_used() -> None:
    assert {source for family in all_families() for source in family.sources} == set(FILE.data["sources"])


@each_row(
    ("model", "prefix"),
    [
        ("gpt-5.4-mini-2026-03-05", "gpt-5.4-mini"),
        ("gpt-5.4-pro", "gpt-5.4-pro"),
        ("openai/gpt-5-mini", "gpt-5"),
        ("ft:gpt-4o-mini-2024-07-18:org::id", "gpt-4o"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("anthropic/claude-opus-4.6", "claude-opus-4-6"),
        ("claude-opus-4@20250514", "claude-opus-4"),
        ("claude-sonnet-6-preview", "claude"),
        ("publishers/google/models/gemini-2.5-flash-lite-001", "gemini-2.5-flash-lite"),
        ("moonshotai/Kimi-K2-Instruct", "kimi-k2"),
        ("Qwen/Qwen3.6-35B", "qwen3.6"),
        ("grok-9", "grok"),
        ("my-llama", None),
        ("", None),
    ],
)
def test_the_longest_prefix_decides(model: str, prefix: str | None) -> None:
    assert (find_family(model) is NO_FAMILY) if prefix is None else prefix in find_family(model).prefix


def test_a_server_of_somebody_else_decides_itself() -> None:
    """Sampling, stop and tools of a model whose weights are open are known at its maker's own address alone."""
    kimi = Provider.from_config("kimi").profile.family_of("kimi-k2.6")
    there = Provider.from_config(ELSEWHERE).profile.family_of("moonshotai/Kimi-K2.6")
    assert (kimi.sampling, there.sampling) == ("no", None)
    assert kimi.thinking == there.thinking == "default"
    closed = Provider.from_config(ELSEWHERE).profile.family_of("gpt-5.4")
    assert (closed.samples_while_thinking, closed.tools_on_chat) == (False, None)
    assert is_first_party_host("openai", "eu.api.openai.com")
    assert not is_first_party_host("openai", "api.openai.com.example")


OWN = """\
[[families]]
prefix = "acme-"
thinking = "always"
efforts = ["low", "high"]
checked = 2026-12-01

[[families]]
prefix = ["gpt-5-mini", "acme-2"]
sampling = "yes"
quirks = { chat = { stream_usage = false } }
"""


def test_the_users_own_file_wins_key_by_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the one that is named, else the one in the user's directory. What it does not say is ours."""
    file = tmp_path / "streamfold" / "families.toml"
    file.parent.mkdir()
    file.write_text(OWN, "utf-8")
    named = Provider.from_config("openai", families=str(file)).profile
    assert named.family_of("acme-1").efforts == ("low", "high")
    assert named.family_of("acme-2x").efforts is None
    mini = named.family_of("gpt-5-mini")
    assert (mini.sampling, mini.stop, named.quirks_of("gpt-5-mini")["stream_usage"]) == ("yes", "no", False)
    for variable in ("XDG_CONFIG_HOME", "APPDATA"):  # the second one on Windows
        monkeypatch.setenv(variable, str(tmp_path))
    found = Provider.from_config("openai").profile
    assert found.family_of("acme-1").thinking == "always"
    table = [{"pattern": "acme-*", "thinking": "never"}]
    assert Provider.from_config("openai", models=table).profile.family_of("acme-1").thinking == "never"


def test_the_longest_prefix_that_the_model_has_wins(tmp_path: Path) -> None:
    """A row's other prefixes don't count, however long they are."""
    file = tmp_path / "own.toml"
    rows = [{"prefix": ["acme-", "another-family"], "stop": "no"}, {"prefix": "acme-2", "stop": "yes"}]
    lines = [f"[[families]]\nprefix = {row['prefix']!r}\nstop = {row['stop']!r}" for row in rows]
    file.write_text("\n".join(lines), "utf-8")
    profile = Provider.from_config("openai", families=str(file)).profile
    assert [profile.family_of(model).stop for model in ("acme-1", "acme-2", "another-family")] == ["no", "yes", "no"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[families]]\nprefix = 'a'\neffort = []", ":3: families[0].effort: unknown key (did you mean 'efforts'?)"),
        ("[[families]]\nprefix = 'a'\nsampling = 'jes'", ":3: families[0].sampling: can't be 'jes'"),
        ("\n[[families]]\nsampling = 'yes'", ":2: a row needs a non-empty prefix"),
        ("[[families]]\nprefix = 'a'\nefforts = ['hgih']", ":3: families[0].efforts"),
        ("[[family]]\nprefix = 'a'", ":1: unknown key 'family'"),
        ("families = 1", ":1: families: must be a list"),
        ("nonsense", ":1: not TOML"),
    ],
)
def test_mistakes_in_the_users_own_file(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(text, "utf-8")
    with pytest.raises(ConfigError) as caught:
        Provider.from_config("openai", families=str(file)).capabilities("gpt-4.1")
    assert str(caught.value).startswith(f"{file}{message}")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="families: there is no file 'nowhere"):
        Provider.from_config("openai", families="nowhere.toml")


def test_the_family_of_a_deployment() -> None:
    """The name of a deployment says nothing: `model_family` does."""
    profile = Provider.from_config("azure", model="our-deployment", model_family="gpt-5-mini").profile
    assert profile.family_of("our-deployment").efforts == ("minimal", "low", "medium", "high")


def test_each_fact_is_shown_with_its_place(tmp_path: Path) -> None:
    """`config show` says where a fact comes from, and when it was looked up."""
    (tmp_path / "own.toml").write_text(OWN, "utf-8")
    path = tmp_path / "streamfold.toml"
    path.write_text(
        f'families = "{tmp_path}/own.toml"\n[providers.main]\nprofile = "openai"\nmodel = "gpt-5-mini"\n'
        "[[providers.main.models]]\npattern = '*'\nstop = 'yes'\n",
        "utf-8",
    )
    values = {value.key: value for value in effective_values(read_config(path), "main")}
    gpt5 = find_family("gpt-5-mini")

    def shown(key: str) -> tuple[Any, str]:
        return values[key].shown, values[key].source

    assert shown("family.stop") == ('"yes"', f"{path}:7")
    assert shown("family.sampling") == ('"yes"', f"{tmp_path}/own.toml:7")
    assert shown("family.efforts")[1] == f"{gpt5.place}, checked {gpt5.checked}"
    assert shown("capabilities.reasoning") == ('"yes"', f"{gpt5.place}, checked {gpt5.checked}")
    assert FILE.text.splitlines()[int(gpt5.place.partition(":")[2]) - 1] == "[[families]]"
    assert replace(gpt5, place="") != NO_FAMILY
