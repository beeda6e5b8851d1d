"""The token counts of one answer: the last ones that count something."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..values import Usage, UsageUpdate, amount, as_count


class UsageAccumulator:
    """Takes usage objects as they come, which some servers send with every event. They are read when somebody asks.

    Proxies that end a stream themselves repeat the usage as zeros. That is no newer information, and is ignored.
    """

    def __init__(self) -> None:
        self._usage: Usage | None = None
        self._members: Mapping[str, Any] = {}
        self._unread: Callable[[dict[str, Any]], Usage] | None = None
        self._counts = False  # something
        self._ignored: Mapping[str, Any] = {}  # the last usage object that counted nothing

    def take(self, usage: Usage) -> None:
        """Takes a usage that replaces the one before."""
        counts = any((usage.input_tokens, usage.output_tokens, usage.total_tokens))
        if counts or not self._counts:
            self._usage, self._unread, self._counts = usage, None, counts
        else:
            self._ignored = usage.raw

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
            self._ignored = members
            return
        self._members, self._unread = members, update.read

    def read(self) -> tuple[Usage | None, list[str]]:
        """Returns the usage so far, and what in it is not counted because it isn't a count or a cost."""
        if self._unread is not None:
            self._usage, self._unread = self._unread(dict(self._members)), None
        if (usage := self._usage) is None:
            return None, []
        invalid = list(dict.fromkeys([*_invalid(usage.raw), *_invalid(self._ignored)]))
        counts = {name: getattr(usage, name) for name in _COUNTS}
        wrong = [name for name, value in counts.items() if value is not None and as_count(value) is None]
        if wrong:  # a sum of counts, or what another package's adapter made
            invalid += [f"{name}: {counts[name]!r:.40}" for name in wrong]
            without: Any = dict.fromkeys(wrong)
            usage = replace(usage, **without)
        return usage, invalid


_COUNTS = (
    "input_tokens", "output_tokens", "total_tokens", "cached_tokens", "reasoning_tokens", "cache_write_tokens",
)  # fmt: skip
# Names of counts and costs, by all APIs: prompt_tokens, promptTokenCount, web_search_requests, cost_in_usd_ticks.
_COUNTED = re.compile(r"(token|tokens|count|requests|calls|cost)$|^cost", re.IGNORECASE)
_DEEPEST = 4  # levels of a usage object: Anthropic has lists of steps, with an object of cache writes in each


def _invalid(value: Any, where: str = "", counted: bool = False, depth: int = 0) -> Iterator[str]:
    """Yields each number of a usage object that can't be counted, with its path."""
    has_parts = not counted or (isinstance(value, Mapping) and "cost" in where.lower())
    if has_parts and isinstance(value, Mapping | list):
        if depth < _DEEPEST:
            members = value.items() if isinstance(value, Mapping) else enumerate(value)
            for name, inner in members:
                path = f"{where}.{name}" if where else str(name)
                yield from _invalid(inner, path, bool(_COUNTED.search(str(name))), depth + 1)
    elif counted and value is not None and amount(value) is None:
        yield f"{where}: {value!r:.40}"


def _count_something(members: Mapping[str, Any]) -> bool:
    for value in members.values():  # noqa: SIM110 - asked with every event, and a generator takes three times as long
        if value and amount(value) is not None:
            return True
    return False
