"""Quirks and prices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from ..adapters import find_adapter
from ..requests import ModelTable
from ..values import Prices
from .toml_tables import read_table, validation_error, validation_errors


def read_prices(prices: Mapping[str, Any]) -> Prices:
    """Returns the `Prices` of a table. Raises ValidationError for mistakes in it."""
    try:
        read: Prices = read_table(Prices, prices)
    except ValueError as exc:
        if isinstance(exc, ValidationError):
            raise
        raise validation_error([((), str(exc))]) from None
    return read


def read_quirks(adapter: str, quirks: Mapping[str, Any]) -> Any:
    """Returns the typed quirks of an adapter; None if it has none. Raises ValidationError for one that it lacks."""
    kind = getattr(find_adapter(adapter), "Quirks", None)
    if kind is not None:
        return read_table(kind, quirks)
    if quirks:
        raise validation_error([((), f"the adapter {adapter!r} has no quirks")])
    return None


def check_models(models: Iterable[ModelTable], adapter: str | None) -> None:
    """Raises ValidationError for mistakes in the prices and quirks of tables of models.

    Args:
        adapter: whose quirks they are; None if that is a mistake itself.
    """
    mistakes = []
    for index, table in enumerate(models):
        try:
            read_prices(table.prices)
        except ValidationError as exc:
            mistakes += [((index, "prices", *path), text) for path, text in validation_errors(exc)]
        try:
            if adapter is not None:
                read_quirks(adapter, table.quirks)
        except ValidationError as exc:
            mistakes += [((index, "quirks", *path), text) for path, text in validation_errors(exc)]
    if mistakes:
        raise validation_error(mistakes)
