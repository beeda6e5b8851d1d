"""Test texts with tool calls, and the results that a parser should return. The texts are built in, or come from a JSON
file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from streamfold import ConfigError


class WantedCall(BaseModel):
    """A tool call that a parser should find."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    arguments: dict[str, Any]


class Vector(BaseModel):
    """A test text, the tools that the request declares, and the expected result.

    Attributes:
        schemas: the types of each tool's parameters, for formats that don't encode types: `{"search": {"limit":
            "integer"}}`.
        content: the text that should remain after the parser has removed the tool calls.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    text: str
    tools: Sequence[str]
    calls: Sequence[WantedCall]
    content: str = ""
    schemas: Mapping[str, Mapping[str, str]] = {}

    def declared(self) -> list[dict[str, Any]]:
        """Returns the declared tools in the format of Chat Completions."""
        declared = []
        for tool in self.tools:
            types = dict(self.schemas.get(tool, {}))
            for call in self.calls if not types else ():
                if call.name == tool:
                    types |= {name: _type_of(value) for name, value in call.arguments.items() if value is not None}
            schema = {"type": "object", "properties": {name: {"type": kind} for name, kind in types.items()}}
            function = {"name": tool, "description": f"The tool {tool}.", "parameters": schema}
            declared.append({"type": "function", "function": function})
        return declared


def _type_of(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case list():
            return "array"
        case dict():
            return "object"
    return "string"


_VECTORS = TypeAdapter(list[Vector])


def dialects() -> list[str]:
    """Returns the names of the tool call formats that have built-in test texts."""
    folder = files(__package__).joinpath("vectors")
    return sorted(file.name.removesuffix(".json") for file in folder.iterdir() if file.name.endswith(".json"))


def load_vectors(source: str) -> list[Vector]:
    """Returns the built-in test texts of a tool call format, or the test texts in a JSON file. Raises ConfigError for
    any other source.
    """
    path = Path(source)
    if source in dialects():
        text = files(__package__).joinpath("vectors", f"{source}.json").read_text("utf-8")
    elif path.suffix == ".json" and path.is_file():
        text = path.read_text("utf-8")
    else:
        raise ConfigError(f"no test texts {source!r}: name a JSON file, or one of {', '.join(dialects())}")
    try:
        return _VECTORS.validate_json(text)
    except ValidationError as exc:
        raise ConfigError(f"{source}: {exc.errors()[0]['msg']} at {exc.errors()[0]['loc']}") from exc
