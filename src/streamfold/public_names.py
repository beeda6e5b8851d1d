"""Helpers for public names: lazy imports, the public `__module__` of classes, and deprecated names."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias, is_typeddict

LaterImports: TypeAlias = Mapping[str, Iterable[str]]
"""Relative names of modules, with the names that are imported from each of them at their first use."""


def import_later(package: str, name: str, modules: LaterImports) -> Any:
    """Imports the module that defines a name, and returns the name's value. A package's `__getattr__` calls this.

    The name of a function or class must differ from the name of its module, because importing the module sets a package
    attribute of that name.

    Raises:
        AttributeError: none of the modules defines the name.
    """
    for module, names in modules.items():
        if name in names:
            return getattr(import_module(module, package), name)
    raise AttributeError(f"module {package!r} has no attribute {name!r}")


class Deprecated(NamedTuple):
    """Describes a deprecated name: the name to use instead, and the version that will remove the deprecated name."""

    instead: str
    until: str


def deprecated_name(module: str, name: str, table: Mapping[str, Deprecated]) -> Any:
    """Returns the object that replaces a deprecated name, and emits a DeprecationWarning. A module's `__getattr__`
    calls this.

    Raises:
        AttributeError: the module has no such name.
    """
    if name not in table:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    instead, until = table[name]
    warn_deprecated(f"{module}.{name}", instead, until, stacklevel=4)
    home, _, new = instead.rpartition(".")
    return getattr(import_module(home), new)


def warn_deprecated(old: str, instead: str, until: str, *, stacklevel: int = 3) -> None:
    """Emits a DeprecationWarning for a method or a parameter. `stacklevel` is the argument of `warnings.warn`."""
    warnings.warn(
        f"{old} is deprecated, and version {until} removes it: use {instead}", DeprecationWarning, stacklevel=stacklevel
    )


def set_public_module(module: str, exported: Iterable[object]) -> None:
    """Sets `__module__` of classes to the public module that exports them. Tracebacks, reprs and pickles then contain
    the public module's name.

    If the package `streamfold` itself exports a class, `__module__` stays "streamfold", even if other public modules
    export it too. Data classes aren't changed, because pydantic and `typing.get_type_hints` look up their annotations
    in the original module.
    """
    package = module.partition(".")[0]
    for value in exported:
        if isinstance(value, type) and value.__module__.startswith(f"{package}.") and not is_data(value):
            value.__module__ = module


def is_data(kind: type) -> bool:
    """Returns True for dataclasses, TypedDicts and other classes whose annotations define fields."""
    return is_dataclass(kind) or is_typeddict(kind) or issubclass(kind, tuple) or hasattr(kind, "model_fields")
