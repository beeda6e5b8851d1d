"""Public classes name the module that users import them from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import is_dataclass
from typing import is_typeddict


def set_public_module(module: str, exported: Iterable[object]) -> None:
    """Sets `__module__` of our classes to the public module that exports them.

    Tracebacks, reprs and pickles then name `streamfold.RateLimitError`, wherever its code is. A class that `streamfold`
    exports keeps that name in other public modules. Classes of data keep their own: pydantic and
    `typing.get_type_hints` look up the names in their annotations there.

    Args:
        exported: what the module exports. Values other than classes of ours are left alone.
    """
    package = module.partition(".")[0]
    for value in exported:
        if isinstance(value, type) and value.__module__.startswith(f"{package}.") and not is_data(value):
            value.__module__ = module


def is_data(kind: type) -> bool:
    """Returns whether a class is made of annotated fields."""
    return is_dataclass(kind) or is_typeddict(kind) or issubclass(kind, tuple) or hasattr(kind, "model_fields")
