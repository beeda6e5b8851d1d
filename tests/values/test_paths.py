"""Values at JSON paths, put together to one object."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfold.jsontext.incremental import PathValue, PathValues, steps
from tables import each_row


def made(*pieces: PathValue) -> Any:
    values = PathValues()
    for piece in pieces:
        values.feed(piece)
    return json.loads(values.text())


def test_objects_and_lists_on_the_way_are_made() -> None:
    """A path may name places that are not there yet."""
    pieces = PathValue("$.items[0].name", "a"), PathValue("$.items[0].ok", True), PathValue("$['x.y'][0]", None)
    assert made(*pieces) == {"items": [{"name": "a", "ok": True}], "x.y": [None]}


def test_a_string_in_pieces() -> None:
    """A string goes on until a piece says that nothing follows."""
    pieces = PathValue("$.a", "New ", True), PathValue("$.b", 1), PathValue("$.a", "York", True), PathValue("$.a", "")
    assert made(*pieces) == {"a": "New York", "b": 1}


def test_a_string_that_was_never_completed_is_no_json() -> None:
    """What was cut off can't be run."""
    values = PathValues()
    values.feed(PathValue("$.a", "New ", True))
    with pytest.raises(ValueError, match="delimiter"):
        json.loads(values.text())


@each_row("path", ["", "$", "a", "$.a[*]", "$..a", "$.a[?(@.b)]", "$.a."])
def test_a_path_that_names_no_single_place(path: str) -> None:
    """Paths with wildcards, filters or nothing in them are refused."""
    with pytest.raises(ValueError, match="path"):
        steps(path)


def test_a_place_that_can_not_be() -> None:
    """A list has no gaps."""
    with pytest.raises(ValueError, match="doesn't exist in the object"):
        made(PathValue("$.a[5]", 1))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, min_size=1) | st.dictionaries(st.text(), inner, min_size=1),
    max_leaves=10,
)


def leaves(value: Any, path: str) -> list[PathValue]:
    match value:
        case dict():
            return [leaf for name, inner in value.items() for leaf in leaves(inner, f"{path}[{json.dumps(name)}]")]
        case list():
            return [leaf for at, inner in enumerate(value) for leaf in leaves(inner, f"{path}[{at}]")]
    return [PathValue(path, value)]


@given(st.dictionaries(st.text(), JSON, min_size=1))
def test_any_object_is_put_together_from_its_leaves(value: dict[str, Any]) -> None:
    """Whatever names and values an object has."""
    assert made(*leaves(value, "$")) == value
