"""The tables in `streamfold.toml` that belong to other packages, found by entry points (group `streamfold.tables`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

from ..errors import ConfigError
from .tables import Table
from .toml_positions import KeyPath

_PACKAGES = {"gateway": "streamfold-gateway"}  # the tables of the other distributions of the project


class PackageTable(Table):
    """Base class for the table of another package.

    The name of the entry point is the table's name: `gateway = "package.module:Settings"`.
    """

    store_keys: ClassVar[tuple[str, ...]] = ()
    """Keys whose values are the URLs of stores. In an untrusted file, these URLs must not contain environment
    variables.
    """

    def problems(self, unknown: Callable[[str], str | None]) -> Iterator[tuple[KeyPath, str]]:
        """Yields additional problems for `streamfold config check`, each as a path in the table and a text.

        Args:
            unknown: a function that returns an error message for an unknown provider name, or None for a known one.
        """
        yield from ()

    def budgets(self, providers: Sequence[str]) -> Iterator[tuple[KeyPath, Sequence[str]]]:
        """Yields each budget in the table, as its path and the providers whose prices must be known for it.

        Args:
            providers: the names of the file's providers.
        """
        yield from ()


def find_table(name: str) -> type[PackageTable] | None:
    """Returns the class for a table, or None if it isn't installed. Raises ConfigError if the class can't be
    imported.
    """
    from importlib.metadata import entry_points  # slow to import, and mostly not needed

    for entry in entry_points(group="streamfold.tables", name=name):
        try:
            model: type[PackageTable] = entry.load()
        except Exception as exc:  # whatever the other package raises
            raise ConfigError(f"table [{name}] ({entry.value}) can't be imported: {exc!r}") from exc
        return model
    return None


def table_names() -> list[str]:
    """Returns the names of all known tables that belong to other packages, whether or not these are installed."""
    from importlib.metadata import entry_points

    return sorted({*_PACKAGES, *entry_points(group="streamfold.tables").names})


def package_of_table(name: str) -> str | None:
    """Returns the name of streamfold's package to which a table belongs, or None."""
    return _PACKAGES.get(name)
