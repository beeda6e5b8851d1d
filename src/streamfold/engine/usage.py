"""The token counts of one answer: the last ones that count something."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..values import Usage, UsageUpdate


class AnswerUsage:
    """Takes usage objects as they come, which some servers send with every event. They are read when somebody asks.

    Proxies that end a stream themselves repeat the usage as zeros. That is no newer information, and is ignored.
    """

    def __init__(self) -> None:
        self._usage: Usage | None = None
        self._members: Mapping[str, Any] = {}
        self._unread: Callable[[dict[str, Any]], Usage] | None = None
        self._counts = False  # something

    def take(self, usage: Usage) -> None:
        """Takes a usage that replaces the one before."""
        counts = any((usage.input_tokens, usage.output_tokens, usage.total_tokens))
        if counts or not self._counts:
            self._usage, self._unread, self._counts = usage, None, counts

    def update(self, update: UsageUpdate) -> None:
        """Takes a usage object, or some of its members."""
        members = update.members
        if not update.whole:
            known = self._members
            new = {name: value for name, value in members.items() if value is not None or name not in known}
            members = {**known, **new}
        if not self._counts:
            self._counts = _count_something(members)
        elif not _count_something(members):
            return
        self._members, self._unread = members, update.read

    def read(self) -> Usage | None:
        """Returns the usage so far."""
        if self._unread is not None:
            self._usage, self._unread = self._unread(dict(self._members)), None
        return self._usage


def _count_something(members: Mapping[str, Any]) -> bool:
    for value in members.values():  # noqa: SIM110 - asked with every event, and a generator takes three times as long
        if value and isinstance(value, int | float):
            return True
    return False
