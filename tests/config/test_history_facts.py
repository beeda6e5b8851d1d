"""What endpoints and models demand of a conversation, as data."""

from __future__ import annotations

import json
import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from streamfold import ConfigError, Provider, user
from streamfold.config import catalogue_folder
from tables import each_row

TABLE = tomllib.loads(Path(catalogue_folder(), "facts", "histories.toml").read_text("utf-8"))


def history(name: str, **settings: Any) -> dict[str, Any]:
    profile = Provider.from_config(name, api_key="k", **settings).profile
    return profile.family_of(profile.model).history or {}


def test_each_row_has_a_source_and_a_date() -> None:
    """And says of which endpoints or models it is."""
    for row in TABLE["rows"]:
        assert row["source"].startswith("https://")
        assert isinstance(row["checked"], date)
        assert row.keys() & {"models", "hosts", "providers", "templates"}


@each_row(
    ("name", "rules"),
    [
        ("deepseek:deepseek-chat", {"strings": ["system", "user", "assistant", "tool"]}),
        ("minimax:MiniMax-M2", {"system": "first", "object_arguments": True}),
        ("vllm:Qwen/Qwen3.5-27B",
         {"system": "first", "needs_user": True, "object_arguments": True, "joined": ["assistant"]}),
        ("dashscope:qwen3.5-plus",
         {"system": "anywhere", "needs_user": False, "object_arguments": True, "blanks": "refused"}),
        ("openai:gpt-4.1", {"id_length": 40, "plain_names": True}),
        ("openai-responses:gpt-5.4", {}),
        ("together:some-model", {}),
    ],
)  # fmt: skip
def test_rules_of_an_endpoint_and_a_model(name: str, rules: dict[str, Any]) -> None:
    """Those of the model on any server, and those of the endpoint over them."""
    assert history(name) == rules


def test_rules_of_a_user_win() -> None:
    """They are written in a table of models, and checked."""
    table = {"pattern": "*", "history": {"strings": [], "blanks": "refused"}}
    assert history("deepseek:deepseek-chat", models=[table]) == {"strings": [], "blanks": "refused"}
    with pytest.raises(ConfigError, match="blank"):
        history("deepseek:deepseek-chat", models=[{"pattern": "*", "history": {"blank": "refused"}}])


def test_the_roles_of_a_model() -> None:
    """They are a list in a file, as all rules with several values are."""
    table = {"pattern": "*", "history": {"roles": ["system", "user", "assistant"]}}
    settings = {"base_url": "http://test/v1", "model": "m", "models": [table]}
    preview = Provider.from_config(settings).preview([{"role": "developer", "content": "Be brief."}, user("Hi")])
    assert [message["role"] for message in json.loads(preview.body)["messages"]] == ["system", "user"]
