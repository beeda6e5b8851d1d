"""A recording means the same however its bytes are cut: the check for whoever writes an adapter or a dialect.

A network cuts where it likes: inside a marker, inside a character, between a CR and its LF. What an author forgets
shows only in such places, so all of them are tried, and a failure is told with the fewest cuts that bring it about.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

from ..adapters import Adapter
from ..decoder import StreamDecoder
from ..dialects import Dialect
from ..errors import ConfigError, StreamError
from ..recording import Recording, find_recording
from ..types import Reply, StreamChunk
from .outcomes import Outcome, broken_promises, differences, expected_differences, facts

__all__ = ["assert_any_cut", "assert_recording"]

Source: TypeAlias = bytes | Recording | str | os.PathLike[str]


def assert_any_cut(
    source: Source,
    *,
    adapter: str | Adapter | None = None,
    dialect: str | Callable[[], Dialect] | None = None,
    splits: int = 300,
    random_cuts: int = 25,
    **decoder: Any,
) -> Reply:
    """Folds a body whole, in two pieces cut anywhere, byte by byte and in random pieces: always to the same reply.

    Each time it is checked too that the chunks keep what streamfold promises of them.

    Args:
        source: the bytes, a `Recording`, the path of one, or the name of one that comes with streamfold.
        adapter: the wire format; else the recording's, and "chat" for bytes.
        dialect: its name, or a function that makes one, because a dialect remembers what it has read.
        splits: how many places to cut in two are tried; all of them, if the body has no more.
        random_cuts: how often the body is cut into up to forty pieces, always the same for the same body.
        decoder: what else `StreamDecoder` takes: tools, tool_choice, start_in_reasoning, limits.

    Raises:
        AssertionError: two cuts do not fold to the same; the message says where to cut, and what differs.
        StreamError: the body folds to this error, and does so in every cut.
    """
    folding = _Folding.of(source, adapter, dialect, decoder)
    outcome = folding.any_cut(splits, random_cuts)
    if isinstance(outcome, StreamError):
        raise outcome
    return outcome


def assert_recording(
    source: Recording | str | os.PathLike[str],
    *,
    adapter: str | Adapter | None = None,
    dialect: str | Callable[[], Dialect] | None = None,
    splits: int = 300,
    random_cuts: int = 25,
    **decoder: Any,
) -> Reply | StreamError:
    """Folds a recording like `assert_any_cut`, and compares the outcome with the `[expect]` of its description.

    Returns:
        The reply, or the error that was expected.

    Raises:
        AssertionError: it folds to something else, or not in every cut to the same.
        ConfigError: there is no such recording, or its description expects nothing.
    """
    recording = _recording(source)
    if not recording.expect:
        raise ConfigError(f"{recording.name} says nothing of what it must fold to: write [expect] into its description")
    folding = _Folding.of(recording, adapter, dialect, decoder)
    outcome = folding.fold([recording.body])
    if lines := expected_differences(recording.expect, outcome):
        raise AssertionError("\n".join([f"{recording.name} does not fold to what it expects:", *lines]))
    return folding.any_cut(splits, random_cuts)


def _recording(source: Source) -> Recording:
    if isinstance(source, Recording):
        return source
    if isinstance(source, bytes):
        return Recording("the body", source)
    try:
        return Recording.load(source)
    except ConfigError as not_there:
        try:
            return find_recording(os.fspath(source))
        except ConfigError:
            raise not_there from None


@dataclass(frozen=True, slots=True)
class _Folding:
    """One body and the decoder that reads it, made anew each time."""

    recording: Recording
    make: Callable[[], StreamDecoder]

    @classmethod
    def of(
        cls,
        source: Source,
        adapter: str | Adapter | None,
        dialect: str | Callable[[], Dialect] | None,
        decoder: dict[str, Any],
    ) -> _Folding:
        if isinstance(dialect, Dialect):
            raise ConfigError("a dialect remembers what it has read: pass its name, or a function that makes one")
        recording = _recording(source)
        reads = recording.adapter if adapter is None else adapter

        def make() -> StreamDecoder:
            return StreamDecoder(reads, dialect=dialect() if callable(dialect) else dialect, **decoder)

        return cls(recording, make)

    def fold(self, pieces: Sequence[bytes]) -> Outcome:
        """The reply or the error of the body in these pieces. Raises AssertionError for a promise that is not kept."""
        decoder, chunks = self.make(), list[StreamChunk]()
        outcome: Outcome
        try:
            for piece in pieces:
                chunks += decoder.feed(piece)
            chunks += decoder.close(interrupted="the connection broke off" if self.recording.broken else None)
            outcome = decoder.reply
        except StreamError as error:
            outcome = error
        whole_events = self.recording.body.endswith((b"\n\n", b"\r\n\r\n", b"\r\r"))
        if lines := broken_promises(chunks, outcome, whole_events=whole_events):
            raise AssertionError("\n".join([f"{self.recording.name}: a promise about chunks is not kept:", *lines]))
        return outcome

    def any_cut(self, splits: int, random_cuts: int) -> Outcome:
        """The outcome of the whole body. Raises AssertionError if another cut has another."""
        body = self.recording.body
        whole = self.fold([body])
        known = facts(whole)

        def differs(places: Sequence[int]) -> bool:
            return facts(self.fold(_cut(body, places))) != known

        for places in _all_cuts(body, splits, random_cuts):
            if differs(places):
                fewest = _fewest(list(places), differs)
                lines = differences(whole, self.fold(_cut(body, fewest)), ("whole", "cut"))
                raise AssertionError("\n".join([self._told(fewest), *lines]))
        return whole

    def _told(self, places: list[int]) -> str:
        body = self.recording.body
        shown = [f"    {body[max(0, at - 24) : at]!r} | {body[at : at + 24]!r}" for at in places[:10]]
        more = [f"    and {len(places) - 10} more"] if len(places) > 10 else []
        where = f"after byte {places[0]}" if len(places) == 1 else f"in {len(places)} places"
        return "\n".join([f"{self.recording.name} folds to something else when it is cut {where}:", *shown, *more])


def _cut(body: bytes, places: Sequence[int]) -> list[bytes]:
    return [body[start:end] for start, end in pairwise([0, *places, len(body)])]


def _all_cuts(body: bytes, splits: int, random_cuts: int) -> Iterator[Sequence[int]]:
    """Places to cut: one alone first, because that is what a reader of the failure understands best."""
    for at in range(0, len(body) + 1, max(1, len(body) // max(1, splits))):
        yield (at,)
    yield range(1, len(body))
    rng = random.Random(len(body))  # noqa: S311 - where to cut is no secret
    for _ in range(random_cuts):
        yield sorted(rng.randrange(len(body) + 1) for _ in range(rng.randint(1, 40)))


def _fewest(places: list[int], differs: Callable[[list[int]], bool]) -> list[int]:
    """Leaves out the cuts that make no difference, first half of them at once, in the end one by one."""
    size = max(1, len(places) // 2)
    while True:
        at = 0
        while at < len(places):
            fewer = places[:at] + places[at + size :]
            if fewer and differs(fewer):
                places = fewer
            else:
                at += size
        if size == 1:
            return places
        size //= 2
