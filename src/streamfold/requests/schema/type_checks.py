"""What a JSON schema must look like before it is rewritten: the keywords that the passes read have the right types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...values import ConfigError
from .transforms import subschemas


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


_SHAPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "type": (lambda value: isinstance(value, str) or _is_words(value), "a string or a list of strings"),
    "required": (_is_words, "a list of strings"),
    "enum": (lambda value: isinstance(value, list), "a list"),
    "$ref": (lambda value: isinstance(value, str), "a string"),
    "format": (lambda value: isinstance(value, str), "a string"),
    **dict.fromkeys(
        ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions"),
        (lambda value: isinstance(value, Mapping), "an object"),
    ),
    **dict.fromkeys(
        ("anyOf", "oneOf", "allOf", "prefixItems"), (lambda value: isinstance(value, list), "a list of schemas")
    ),
}


def check_shapes(schema: Mapping[str, Any], at: str) -> None:
    """Checks a schema that was written by hand.

    Raises:
        ConfigError: a keyword has a value that no JSON schema has there; the message begins with its path.
    """
    waiting: list[tuple[str, Any]] = [(at, schema)]
    while waiting:
        path, node = waiting.pop()
        if not isinstance(node, Mapping):
            continue
        for keyword, value in node.items():
            if keyword in _SHAPES and value is not None and not _SHAPES[keyword][0](value):
                raise ConfigError(f"{path}.{keyword} must be {_SHAPES[keyword][1]}, not {value!r:.80}")
        waiting += subschemas(node, path, conditions=True)
