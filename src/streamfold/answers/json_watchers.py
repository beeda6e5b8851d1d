"""Functions that are called as a value in a tool call or in a structured answer grows: `ChatStream.watch`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any, TypeAlias

from ..values import ChunkDetails, ConfigError, IncrementalJSON, PartialUpdate, PathPattern, StreamChunk, path_pattern

_LONGEST_FENCE = 100  # characters of the line that opens a code fence

Watcher: TypeAlias = Callable[[PartialUpdate], object]


def checked_watcher(function: Any) -> Watcher:
    """Returns the function. Raises ConfigError if it is async, or not a function."""
    if not callable(function) or iscoroutinefunction(function):
        kind = "an async function" if callable(function) else type(function).__name__
        raise ConfigError(f"watch() takes a plain function of one argument, not {kind}")
    watcher: Watcher = function
    return watcher


@dataclass(frozen=True, slots=True)
class _Watch:
    pattern: PathPattern
    function: Watcher
    tool: str | None


@dataclass(slots=True, eq=False)
class _Watched:
    """A text that is read: the arguments of a call, or the answer."""

    watches: list[_Watch]
    reader: IncrementalJSON

    def feed(self, text: str) -> None:
        for number, update in self.reader.feed(text):
            self.watches[number].function(update)


class Watchers:
    """The functions that watch one answer."""

    def __init__(self) -> None:
        self._watches: list[_Watch] = []
        self._calls: dict[int, _Watched] = {}
        self._nameless: dict[int, list[str]] = {}  # pieces that came before the name of their tool
        self._answer: _Watched | None = None
        self._lead = ""  # of the answer, as long as it may be a code fence
        self._is_call = False  # the answer comes as a call

    def add(self, path: str, function: Any, tool: str | None) -> None:
        """Adds a function. Raises ConfigError if it can't be called, or the path is not one."""
        watcher = checked_watcher(function)
        try:
            self._watches.append(_Watch(path_pattern(path), watcher, tool))
        except ValueError as exc:
            raise ConfigError(f"watch(): {exc}") from None

    def feed(self, chunk: StreamChunk) -> None:
        """Calls the functions for what a chunk brings."""
        if chunk.delta and not self._is_call:
            self._feed_answer(chunk.delta)
        if chunk.finished:
            self._end(chunk)

    def feed_call(self, call: int, written: ChunkDetails) -> None:
        """Calls the functions for the next piece of a call. One whose place is not known yet is read at the end."""
        if not written.placed:
            return
        watched = self._calls.get(call)
        if watched is None:
            text = written.text
            if written.tool == "" or not text:
                self._nameless.setdefault(call, []).append(text)
                return
            text = "".join([*self._nameless.pop(call, ()), text])
            self._is_call = self._is_call or written.tool is None
            watched = self._calls[call] = self._begin(written.tool, call)
            watched.feed(text)
        elif written.text:
            watched.feed(written.text)

    def _begin(self, tool: str | None, call: int | None) -> _Watched:
        watches = [watch for watch in self._watches if watch.tool in (None, tool)]
        reader = IncrementalJSON([watch.pattern for watch in watches], tool, None if tool is None else call)
        reader.ended = not watches
        return _Watched(watches, reader)

    def _feed_answer(self, text: str) -> None:
        if self._answer is None:
            text = self._lead = (self._lead + text).lstrip()
            line, end, rest = text.partition("\n")
            fenced = line.startswith("`") and len(line) < _LONGEST_FENCE
            if not text or (fenced and not end):
                return
            text = rest if fenced else text
            self._answer = self._begin(None, None)
        self._answer.feed(text)

    def _end(self, chunk: StreamChunk) -> None:
        """Reads the calls that came whole."""
        numbers = [fragment.index or 0 for fragment in chunk.call_deltas]
        for position, call in enumerate(chunk.tool_calls or ()):
            number = numbers[position] if numbers else position
            if number not in self._calls:
                self._begin(call.name, number).feed(call.raw_arguments)
