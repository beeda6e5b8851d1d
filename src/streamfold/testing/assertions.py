"""Checks for authors of adapters and dialects: the reply must not depend on how the network splits the bytes, or how
the server splits the text into SSE events.

A network splits bytes anywhere, even inside a character. A failed check shows the smallest set of split positions that
fails.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, TypeAlias

from ..adapters import Adapter
from ..engine import StreamDecoder
from ..engine.dialects import Dialect
from ..errors import ConfigError, StreamError, UpstreamError
from ..recording import Recording, as_expectation, open_recording
from ..types import Reply, StreamChunk, ToolCall, Usage
from .script import ScriptedTurn
from .scripted import ScriptSerializer

Outcome: TypeAlias = Reply | StreamError

_ABOUT = 40  # characters round the first difference of two long texts
_ABSENT = "(absent)"


def comparable(outcome: Outcome) -> tuple[Any, ...]:
    """Returns those parts of a reply or an error that must be the same for every split of the body."""
    if isinstance(outcome, Reply):
        return outcome, [call.extra for call in outcome.tool_calls]
    words = (outcome.type, outcome.code, outcome.status_code) if isinstance(outcome, UpstreamError) else ()
    return (
        type(outcome), str(outcome), outcome.retryable, outcome.body, tuple(outcome.transcript), outcome.partial, words
    )  # fmt: skip


def contract_violations(chunks: Sequence[StreamChunk], outcome: Outcome) -> list[str]:
    """Checks streamfold's promises about chunks, for example that their texts add up to the reply's text. Returns a
    line for each broken promise.

    Args:
        chunks: the chunks of one response.
        outcome: the reply or the error that decoding the response produced.
    """
    text = "".join(chunk.delta for chunk in chunks)
    reasoning = "".join(chunk.reasoning for chunk in chunks)
    early = any(chunk.finished or chunk.tool_calls is not None for chunk in chunks[:-1])
    last = chunks[-1] if chunks else StreamChunk()
    reply = outcome.partial if isinstance(outcome, StreamError) else outcome
    if reply is None:
        return ["  the error has no partial reply"]
    promises = {
        "the joined deltas are the text of the reply": text == reply.text,
        "the joined reasoning of the chunks is the reasoning of the reply": reasoning == reply.reasoning,
    }
    if isinstance(outcome, StreamError):
        promises["no chunk is finished or has tool calls"] = not (early or last.finished or last.tool_calls)
        promises["the partial reply has no tool calls"] = not reply.tool_calls
    else:
        promises["only the last chunk is finished, and no other chunk has tool calls"] = last.finished and not early
        promises["the last chunk has the tool calls of the reply"] = last.tool_calls == (reply.tool_calls or None)
        promises["the last chunk has the finish reason of the reply"] = last.finish_reason == reply.finish_reason
        promises["the last chunk has the usage of the reply"] = last.usage == reply.usage
    return [f"  {promise}" for promise, holds in promises.items() if not holds]


def differences(one: Outcome, other: Outcome, names: tuple[str, str]) -> list[str]:
    """Compares two outcomes. Returns a line with both values for each field that differs.

    Args:
        names: the names of the two outcomes in the returned lines.
    """
    return _differences(_flat(one), _flat(other), names)


def expected_differences(expect: Mapping[str, Any], outcome: Outcome) -> list[str]:
    """Returns the differences between an outcome and the `[expect]` table of a recording.

    Fields that are missing in `[expect]` must be empty in the outcome.
    """
    found = as_expectation(outcome)
    found.pop("message", None)  # streamfold's messages may change: compared only if `expect` has a message
    if "message" in expect and isinstance(outcome, StreamError):
        found["message"] = outcome.message
    calls = outcome.tool_calls if isinstance(outcome, Reply) else []
    for want, call, made in zip(expect.get("calls", []), found.get("calls", []), calls, strict=False):
        if isinstance(want["arguments"], Mapping):  # compare the parsed arguments instead of their text
            call["arguments"] = made.arguments
        if "id" not in want:
            del call["id"]
    return _differences(_plain(expect), _plain(found), ("expected", "found"))


def _flat(outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, Reply):
        return _plain({field.name: _value(getattr(outcome, field.name)) for field in fields(outcome)})
    members: dict[str, Any] = {"error": type(outcome).__name__, "message": str(outcome)}
    members.update(retryable=outcome.retryable, body=outcome.body, transcript=list(outcome.transcript))
    if isinstance(outcome, UpstreamError):
        members.update(type=outcome.type, code=outcome.code, status_code=outcome.status_code)
    partial = _flat(outcome.partial) if outcome.partial is not None else {}
    return {**_plain(members), **{f"partial.{name}": value for name, value in partial.items()}}


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [_value(item) for item in value]
    if isinstance(value, ToolCall | Usage):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return value


def _plain(value: Any, path: str = "") -> dict[str, Any]:
    """Returns the leaves of nested dicts and lists. The keys are paths such as `tool_calls[0].arguments.city`."""
    if isinstance(value, Mapping) and (value or not path):
        pairs = [(f"{path}.{name}" if path else str(name), item) for name, item in value.items()]
    elif isinstance(value, list) and value:
        pairs = [(f"{path}[{at}]", item) for at, item in enumerate(value)]
    else:
        return {path: value}
    return {leaf: found for name, item in pairs for leaf, found in _plain(item, name).items()}


def _differences(one: Mapping[str, Any], other: Mapping[str, Any], names: tuple[str, str]) -> list[str]:
    lines: list[str] = []
    width = max(map(len, names))
    for path in {**one, **other}:
        values = one.get(path, _ABSENT), other.get(path, _ABSENT)
        if values[0] != values[1]:
            shown = _shown(*values)
            lines += [f"  {path}", *(f"    {name:{width}}  {text}" for name, text in zip(names, shown, strict=True))]
    return lines


def _shown(one: Any, other: Any) -> list[str]:
    if not (isinstance(one, str) and isinstance(other, str)) or max(len(one), len(other)) <= 2 * _ABOUT:
        return [value if value is _ABSENT else repr(value) for value in (one, other)]
    at = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    start = max(0, at - _ABOUT)
    dots = "..." if start else ""
    return [
        value if value is _ABSENT else f"{dots}{value[start : at + _ABOUT]!r} ({len(value)} characters)"
        for value in (one, other)
    ]


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
    """Asserts that the reply doesn't depend on the pieces in which a response body arrives. The body is decoded in one
    piece, in two pieces, byte by byte, and in random pieces. For each split, streamfold's promises about chunks are
    checked too.

    Args:
        source: bytes, a `Recording`, the path of a recording, or the name of a bundled recording.
        adapter: the wire format. Default: the wire format of the recording, or "chat" for bytes.
        dialect: the dialect's name, or a function that creates a new dialect, because a dialect has state. Default: the
            dialect of the recording.
        splits: the number of positions at which the body is split in two. A shorter body is split at every position.
        random_cuts: the number of random splits, each into up to forty pieces. The random positions are reproducible.
        decoder: other arguments of `StreamDecoder`: tools, tool_choice, start_in_reasoning, limits. Default: the
            arguments in the recording.

    Returns:
        The reply.

    Raises:
        AssertionError: the reply depends on the split. The message shows the split and the difference.
        StreamError: for every split, decoding the body raises this error.
    """
    __tracebackhide__ = True
    return _reply(_of_bytes(source, adapter, dialect, decoder).any_cut(splits, random_cuts))


def assert_any_text_cut(
    text: str,
    *,
    dialect: str | Callable[[], Dialect] | None,
    splits: int = 300,
    random_cuts: int = 25,
    **decoder: Any,
) -> Reply:
    """Asserts that the reply doesn't depend on how a model's text is split into SSE events.

    Use this check for a dialect, because a dialect parses text across SSE events. `assert_any_cut` splits the bytes of
    the body, but keeps the events.

    Args:
        text: the model's text, including its markup.
        dialect, splits, random_cuts: see `assert_any_cut`.
        decoder: other arguments of `StreamDecoder`. Dialects parse tool calls only if there are `tools`.

    Returns:
        The reply.

    Raises:
        AssertionError: see `assert_any_cut`.
    """

    def events(pieces: Sequence[Any]) -> Iterable[bytes]:
        return [event for _, event in ScriptSerializer("chat").events([ScriptedTurn("say", tuple(pieces))])]

    __tracebackhide__ = True
    make = _decoders("chat", dialect, decoder)
    return _reply(_Folding("the text", text, make, events).any_cut(splits, random_cuts))


def assert_recording(
    source: Recording | str | os.PathLike[str],
    *,
    adapter: str | Adapter | None = None,
    dialect: str | Callable[[], Dialect] | None = None,
    splits: int = 300,
    random_cuts: int = 25,
    **decoder: Any,
) -> Reply | StreamError:
    """Asserts that decoding a recording produces the reply or the error in its `[expect]` table, for every split of its
    body.

    Args:
        source: a `Recording`, the path of a recording, or the name of a bundled recording.
        adapter, dialect, splits, random_cuts, decoder: see `assert_any_cut`.

    Returns:
        The reply, or the expected error.

    Raises:
        AssertionError: the outcome differs from `[expect]`, or depends on the split.
        ConfigError: the recording doesn't exist, or its description contains no `[expect]`.
    """
    __tracebackhide__ = True  # pytest shows the call of this function, and nothing below
    recording = read_source(source)
    if not recording.expect:
        raise ConfigError(f"{recording.name} has no expected outcome: write [expect] into its description")
    folding = _of_bytes(recording, adapter, dialect, decoder)
    if lines := expected_differences(recording.expect, folding.fold([recording.body])):
        raise AssertionError("\n".join([f"{recording.name}: the outcome differs from [expect]:", *lines]))
    return folding.any_cut(splits, random_cuts)


def read_source(source: Source) -> Recording:
    """Returns a recording from a `Recording`, bytes, a path, or the name of a bundled recording."""
    if isinstance(source, Recording):
        return source
    if isinstance(source, bytes):
        return Recording("the body", source)
    return open_recording(source)


def _of_bytes(
    source: Source, adapter: str | Adapter | None, dialect: str | Callable[[], Dialect] | None, decoder: dict[str, Any]
) -> _Folding:
    recording = read_source(source)
    options = {**recording.options(), **decoder}
    read = options.pop("dialect")
    make = _decoders(adapter or recording.adapter, read if dialect is None else dialect, options)
    return _Folding(recording.name, recording.body, make, list, recording.interrupted)


def _decoders(
    adapter: str | Adapter, dialect: str | Callable[[], Dialect] | None, decoder: dict[str, Any]
) -> Callable[[], StreamDecoder]:
    if not (dialect is None or isinstance(dialect, str) or callable(dialect)):
        raise ConfigError(
            "a dialect has state, so it can't be used twice: pass its name, or a function that returns a new one"
        )

    def make() -> StreamDecoder:
        return StreamDecoder(adapter, dialect=dialect() if callable(dialect) else dialect, **decoder)

    return make


def _reply(outcome: Outcome) -> Reply:
    __tracebackhide__ = True
    if isinstance(outcome, StreamError):
        raise outcome
    return outcome


@dataclass(frozen=True, slots=True)
class _Folding:
    """A body or a text to split, and the functions that decode its pieces.

    Attributes:
        make: a function that returns a new decoder.
        api: a function that converts the pieces of `content` to pieces of a response body.
        interrupted: the reason why the connection broke at the end of the body, or None if it didn't break.
    """

    name: str
    content: bytes | str
    make: Callable[[], StreamDecoder]
    api: Callable[[Sequence[Any]], Iterable[bytes]]
    interrupted: str | None = None

    def fold(self, pieces: Sequence[bytes | str]) -> Outcome:
        __tracebackhide__ = True
        decoder, chunks = self.make(), list[StreamChunk]()
        outcome: Outcome
        try:
            for data in self.api(pieces):
                chunks += decoder.feed(data)
            chunks += decoder.end(interrupted=self.interrupted)
            decoder.close()
            outcome = decoder.reply
        except StreamError as error:
            outcome = error
        if lines := contract_violations(chunks, outcome):
            raise AssertionError("\n".join([f"{self.name}: a promise about chunks is broken:", *lines]))
        return outcome

    def any_cut(self, splits: int, random_cuts: int) -> Outcome:
        __tracebackhide__ = True
        whole = self.fold([self.content])
        known = comparable(whole)

        def differs(places: Sequence[int]) -> bool:
            return comparable(self.fold(self._pieces(places))) != known

        for places in _all_cuts(len(self.content), splits, random_cuts):
            if not differs(places):
                continue
            if comparable(self.fold([self.content])) != known or not differs(places):
                raise AssertionError(
                    f"{self.name}: the same pieces give two different results: something keeps state between streams"
                )
            fewest = _fewest(list(places), differs)
            lines = differences(whole, self.fold(self._pieces(fewest)), ("whole", "cut"))
            raise AssertionError("\n".join([*self._shown(fewest), *lines]))
        return whole

    def _pieces(self, places: Sequence[int]) -> list[bytes | str]:
        return [self.content[start:end] for start, end in pairwise([0, *places, len(self.content)])]

    def _shown(self, places: list[int]) -> Iterator[str]:
        unit = "byte" if isinstance(self.content, bytes) else "character"
        where = f"after {unit} {places[0]}" if len(places) == 1 else f"in {len(places)} places"
        yield f"{self.name} has another outcome when it is split {where}:"
        for at in places[:10]:
            yield f"    {self.content[max(0, at - 24) : at]!r} | {self.content[at : at + 24]!r}"
        if len(places) > 10:
            yield f"    and {len(places) - 10} more"


def _all_cuts(size: int, splits: int, random_cuts: int) -> Iterator[Sequence[int]]:
    """Yields lists of positions at which to split. Single positions come first, because they are easiest to debug."""
    for at in range(0, size + 1, max(1, size // max(1, splits))):
        yield (at,)
    yield range(1, size)
    rng = random.Random(size)  # noqa: S311 - where to cut is no secret
    for _ in range(random_cuts):
        yield sorted(rng.randrange(size + 1) for _ in range(rng.randint(1, 40)))


def _fewest(places: list[int], differs: Callable[[list[int]], bool]) -> list[int]:
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
