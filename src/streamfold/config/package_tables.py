"""Tables of `streamfold.toml` that belong to other packages: found by entry points in the group `streamfold.tables`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

from ..errors import ConfigError
from .tables import Table
from .toml_positions import KeyPath

_PACKAGES = {"gateway": "streamfold-gateway"}  # the tables of the other distributions of the project


class PackageTable(Table):
    """A table of another package. Its entry point has the name of the table: `gateway = "package.module:Settings"`."""

    store_keys: ClassVar[tuple[str, ...]] = ()
    """Keys that may say where something is stored. A file that is not trusted must not expand variables there."""

    def problems(self, unknown: Callable[[str], str | None]) -> Iterator[tuple[KeyPath, str]]:
        """Yields what is wrong besides the values, for `streamfold config check`: the path in the table, and a text.

        Args:
            unknown: returns the error for a name that no provider has, else None.
        """
        yield from ()

    def budgets(self, providers: Sequence[str]) -> Iterator[tuple[KeyPath, Sequence[str]]]:
        """Yields each limit of money in the table: its path, and the providers whose prices it needs.

        Args:
            providers: those of the file.
        """
        yield from ()


def find_table(name: str) -> type[PackageTable] | None:
    """Returns the model of a table; None if no installed package has it. Raises ConfigError if it can't be imported."""
    from importlib.metadata import entry_points  # slow to import, and mostly not needed

    for entry in entry_points(group="streamfold.tables", name=name):
        try:
            model: type[PackageTable] = entry.load()
        except Exception as exc:  # whatever the other package raises
            raise ConfigError(f"table [{name}] ({entry.value}) can't be imported: {exc!r}") from exc
        return model
    return None


def table_names() -> list[str]:
    """Returns the names of all tables of other packages that are known, installed or not."""
    from importlib.metadata import entry_points

    return sorted({*_PACKAGES, *entry_points(group="streamfold.tables").names})


def package_of_table(name: str) -> str | None:
    """Returns the distribution that brings a table, if it is one of the project's."""
    return _PACKAGES.get(name)
