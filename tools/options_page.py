"""Writes `docs/options-table.md`: the effect of each option at each endpoint and model of the catalogue.

`nox -s options` runs it; `tests/config/test_options_page.py` fails when the page is older than what it is made from.
Each cell is a request that was prepared, and not sent.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from streamfold import ConfigError, Provider, Tool, user
from streamfold.config import provider_files

__all__ = ["ASKED", "cell", "page", "rows"]

FILE = Path(__file__).parents[1] / "docs" / "options-table.md"
_SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
_TOOL = Tool("look", "Looks.", {"type": "object", "properties": {}})
ASKED: dict[str, dict[str, Any]] = {
    "temperature": {"temperature": 0.3},
    "top_p": {"top_p": 0.9},
    "max_output_tokens": {"max_output_tokens": 500},
    "stop": {"stop": ["END"]},
    "seed": {"seed": 7},
    "one call at a time": {"parallel_tool_calls": False},
    "effort medium": {"reasoning_effort": "medium"},
    "effort max": {"reasoning_effort": "max"},
    "JSON": {"response_format": "json"},
    "schema": {"response_format": _SCHEMA},
    "tools": {},
    "forced call": {"tool_choice": "required"},
}
_WITH_TOOLS = ("one call at a time", "tools", "forced call")
_WORDS = {"option_dropped": "left out", "option_emulated": "emulated", "forced_choice_dropped": "left out"}
# The clouds serve Claude by its own API alone: https://docs.anthropic.com/en/api/claude-on-vertex-ai
_WITHOUT_CLAUDE = ("bedrock-openai", "vertex-openai", "vertex-openai-global")
# Where an address has a part that differs for everybody.
_PLACES = {"AZURE_OPENAI_ENDPOINT": "https://n.example", "AWS_REGION": "us-east-1", "GOOGLE_CLOUD_PROJECT": "p"}
_HEAD = """\
---
hide: [toc]
---

<!-- Written by tools/options_page.py: run `nox -s options` instead of changing it here. -->

# Options, by endpoint and model

The table shows what streamfold does with each option, if it is the only option of a request. The rows are the endpoints
and models of the catalogue, and the cells mean:

- *yes*: streamfold sends the option, perhaps under another name. It also does so if nothing is known about the model;
  the server then decides.
- *changed*: streamfold sends another value, which the model supports.
- *emulated*: streamfold doesn't send the option, but produces its effect.
- *left out*: streamfold doesn't send the option.
- *no*: streamfold raises `ConfigError` before it sends anything.

After *changed*, *emulated* and *left out*, the reply has a warning. With `unsupported_options = "strict"`, streamfold
raises `ConfigError` instead. See [options](guides/options.md).
"""


def page() -> str:
    """The whole page."""
    lines = ["| endpoint | model | " + " | ".join(ASKED) + " |", "|---" * (len(ASKED) + 2) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows()]
    return _HEAD + "\n" + "\n".join(lines) + "\n"


def rows() -> Iterator[tuple[str, ...]]:
    """The endpoint, the model and the cells of each row."""
    with mock.patch.dict(os.environ, {**_PLACES, "GOOGLE_CLOUD_LOCATION": "us-east5"}):
        for name in sorted(provider_files()):
            profile = Provider.from_config(name).profile
            models = [m for m in profile.examples() if not (name in _WITHOUT_CLAUDE and m.startswith("claude"))]
            for model in models or [profile.model or "any"]:
                provider = Provider.from_config(name, model=model)
                yield name, f"`{model}`", *(cell(provider, column) for column in ASKED)


def cell(provider: Provider, column: str) -> str:
    """What becomes of one option."""
    tools = [_TOOL] if column in _WITH_TOOLS else []
    try:
        warnings = provider.preview([user("Hi")], tools, **ASKED[column]).warnings
    except ConfigError:
        return "no"
    codes = [warning.code for warning in warnings if warning.code != "model_retires"]  # the page is the same every day
    return _WORDS.get(codes[0], "changed") if codes else "yes"


if __name__ == "__main__":
    FILE.write_text(page(), "utf-8")
