"""Schemas of tools that are no JSON schemas: an error with the path, on every API that would rewrite them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfold import ConfigError, Provider
from tables import each_row

PROVIDERS = [
    Provider.from_config({"base_url": "http://u/v1", "model": "m"}),
    Provider.from_config({"base_url": "http://u/v1", "model": "m", "adapter": "responses"}),
    Provider.from_config("kimi:kimi-k2.6", api_key="k"),
]
FIELD = {"c": {"type": "string"}}


def tool(schema: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "get", "parameters": schema, "strict": True}}


@each_row(
    ("schema", "message"),
    [
        (
            {"type": "object", "properties": FIELD, "required": 5},
            "parameters.required must be a list of strings",
        ),
        ({"type": "object", "properties": FIELD, "required": [[]]}, "parameters.required must be a list of strings"),
        ({"type": -1, "properties": {"c": {}}}, "parameters.type must be a string or a list of strings, not -1"),
        ({"type": "object", "properties": {"c": {"enum": 1}}}, "parameters.properties.c.enum must be a list, not 1"),
        ({"type": "object", "properties": {"c": {"anyOf": {}}}}, "parameters.properties.c.anyOf must be a list"),
    ],
)
def test_adversary_33_a_schema_that_is_none(schema: Any, message: str) -> None:
    """It is a ConfigError that names the place, never a TypeError."""
    for provider in PROVIDERS[:2]:
        with pytest.raises(ConfigError, match="^(the schema of the tool 'get': )?" + message.replace(".", r"\.")):
            provider.preview("x", [tool(schema)])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "required", "items", "anyOf", "enum", "$ref", "$defs", "const", "allOf"]
            ),
            inside,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(VALUES.filter(lambda value: isinstance(value, dict)))
def test_any_value_in_the_place_of_a_keyword(schema: Any) -> None:
    """Whatever stands in a schema, the request is prepared or refused with a ConfigError."""
    for provider in PROVIDERS:
        with suppress(ConfigError):
            provider.preview("x", [tool(schema)])
