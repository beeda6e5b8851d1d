"""Validation of model output with pydantic: the only place that does it.

pydantic is imported when it is needed, so that the pure core can be had without it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

    M = TypeVar("M", bound=BaseModel)


def read_as(model: type[M], value: Any) -> M:
    """Returns a value as an instance of a pydantic model, by the rules for JSON: a date is text, a tuple a list.

    A null where the model has a default and takes no null counts as not said. So it is what a strict schema makes of
    optional fields (`schema.openai_strict`), and many models write it unasked.

    Raises:
        pydantic.ValidationError: it does not fit; what is said is about the value as it came.
    """
    from pydantic import ValidationError

    try:
        return model.model_validate_json(json.dumps(value))
    except ValidationError as exc:
        without = _without_nulls(value, exc)
        if without is value:
            raise
        try:
            return model.model_validate_json(json.dumps(without))
        except ValidationError:
            raise exc from None


def describe_problems(exc: ValidationError, whole: str) -> str:
    """Returns the problems of a value in words that a model can use, each with its place; `whole` names the root."""
    return "; ".join(
        f"{'.'.join(map(str, problem['loc'])) or whole}: {problem['msg']}"
        for problem in exc.errors(include_url=False, include_context=False, include_input=False)
    )


def _without_nulls(value: Any, exc: ValidationError) -> Any:
    """Returns the value without the nulls that the errors name, or the value itself if they name none."""
    for problem in exc.errors(include_url=False):
        if problem["input"] is None:
            value = _without(value, problem["loc"])
    return value


def _without(value: Any, path: tuple[int | str, ...]) -> Any:
    # The path of an error in a union goes on after the null, with the names of the alternatives.
    if not path:
        return value
    first, rest = path[0], path[1:]
    if isinstance(value, Mapping) and first in value:
        if value[first] is None:
            return {name: inner for name, inner in value.items() if name != first}
        changed = _without(value[first], rest)
        return value if changed is value[first] else {**value, first: changed}
    if isinstance(value, list) and isinstance(first, int) and first < len(value):
        changed = _without(value[first], rest)
        return value if changed is value[first] else [*value[:first], changed, *value[first + 1 :]]
    return _without(value, rest)  # the name of an alternative on the way
