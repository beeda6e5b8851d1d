"""Checks whether answers fit a JSON schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import jsonschema

from streamfold import ConfigError, Reply


def schema_check(schema: Mapping[str, Any], place: str = "schema") -> Callable[[Reply], str | None]:
    """Returns a check of replies: what is wrong with one, or None.

    Args:
        schema: the JSON schema.
        place: what errors call it.

    Raises:
        ConfigError: it is not a JSON schema.
    """
    kind = jsonschema.validators.validator_for(schema)
    try:
        kind.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise ConfigError(f"{place}: not a JSON schema: {error.message}") from None
    validator = kind(schema)

    def check(reply: Reply) -> str | None:
        try:
            value = json.loads(reply.text if reply.answer is None else reply.answer)
        except (ValueError, RecursionError) as error:
            return f"the answer is not JSON: {error}"
        wrong = jsonschema.exceptions.best_match(validator.iter_errors(value))
        return None if wrong is None else f"the answer does not fit the schema: {wrong.json_path}: {wrong.message}"

    return check
