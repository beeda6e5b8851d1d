"""Settings of rate limits: the `[rate_limits]` table, which says where they are counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from ..text import shown_url
from .store_settings import check_store
from .toml_tables import PositiveCount, Table, validated_by


class RateLimitSettings(Table):
    """The `[rate_limits]` table of `streamfold.toml`: where the rate limits of all its providers are counted.

    Attributes:
        store: "memory": in this process; "sqlite:///limits.db": for the processes of this machine, and the budgets of
            a day survive them; "valkey://host:6379" or "redis://host:6379": for all machines. May refer to environment
            variables.
        on_store_error: what happens while the store can't be used. "local": each process counts by itself, with the
            limits divided by `replicas`; "refuse": nothing is sent.
        replicas: how many processes share the store.
    """

    store: Annotated[str, validated_by(check_store)] = "memory"
    on_store_error: Literal["local", "refuse"] = "local"
    replicas: PositiveCount = 1

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, shown_url(value) if name == "store" else value
