"""Random streams of tool calls in which the bytes say which fragment belongs to which call, and what is right for each.

The promise: no call is lost, none is joined with another, none runs with another's arguments, none is invented. What is
right is derived while a stream is made, from the documentation alone; the library is never asked.

    python tests/support/builders/call_streams.py --count 10000 --seed 1 --wire chat --show 3

runs streams, groups what fails by kind and by deviations, and prints the smallest examples.

Asserted fully: everything that is not listed here. Asserted for safety only (no call without `error` that no model
made, nothing dropped without a warning), because readers of the documentation may differ:

- Chat: one index for all calls and no ids, or interleaved fragments told apart by ids alone; heads with the index of
  the call before; a name that comes again without index and id while its call has no arguments; a break behind an early
  finish reason where a call that is not whole has no name yet, had its arguments repaired, or only repeated its id or
  name.
- Responses: one output index and one `call_id` (or none) for several calls; deltas that name only their `call_id`;
  `[DONE]` in place of the terminal event; a call that `response.completed` lacks; a delta that is missing and that no
  whole repeats.

Not asserted: the order of calls of which some come in `response.completed` alone while the others' output indices have
gaps. Never generated: calls without any name; names in
several parts; snapshots that grow; interleaved fragments that have neither an index of their own nor an id; half an
event behind the finish reason.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import call_streams_chat
import call_streams_chat_ends
import call_streams_chat_shapes
import call_streams_responses
import call_streams_responses_ends
import call_streams_responses_shapes
from call_truth import Expected, Stream, Want, full, parse
from streamfold import Reply, StreamChunk, StreamDecoder, StreamError

APIS: dict[str, Any] = {"chat": call_streams_chat, "responses": call_streams_responses}
SHAPES = (  # they add their deviations where they are imported
    *(call_streams_chat_shapes, call_streams_chat_ends, call_streams_responses_shapes, call_streams_responses_ends),
)


# Their bytes say two things. Where they do, calls are seldom right, and nearly always have an error.
CONTRADICTORY = (
    {"constant_index_ids_on_all", "names_come_late"},  # or an id that changes within a call
    {"tails_one_index_further", "ids_again"},  # an id under two indices
    {"only_wholes", "one_whole_is_empty"},  # nothing says what the arguments are
    {"empty_wholes", "lost_delta"},  # nor here
    {"constant_index_no_ids", "error_behind_an_early_reason"},  # a head alone, or a name that is repeated
    {"constant_index_no_ids", "ended_behind_an_early_reason"},
    {"constant_index_no_ids", "broken_off_behind_an_early_reason"},
)


@dataclass(frozen=True)
class Recipe:
    """All that a stream is made from."""

    api: str
    seed: int
    calls: int
    deviations: tuple[str, ...]

    def make(self) -> Stream:
        """The stream. The same one each time."""
        stream: Stream = APIS[self.api].make(f"{self.api}:{self.seed}", self.calls, self.deviations)
        return stream


def recipe(api: str, seed: int) -> Recipe:
    """The recipe with this number."""
    rng = random.Random(f"recipe:{api}:{seed}")
    calls = rng.choices(range(7), (3, 22, 30, 22, 12, 6, 5))[0]
    count = rng.choices(range(6), (5, 20, 25, 25, 15, 10))[0]
    return Recipe(api, seed, calls, APIS[api].deviations.draw(rng, count))


def with_objects(api: str, seeds: Iterable[int]) -> Iterator[tuple[int, Stream]]:
    """The streams of these seeds whose calls have arguments and ids of their own, for the tests of writers.

    These compare what is written with what the library has read.
    """
    for seed in seeds:
        stream = recipe(api, seed).make()
        objects = all(full(want.text) and want.exact for want in stream.expected.calls)
        if objects and not {"one_id_for_two_calls", "one_call_id_for_two_calls"} & set(stream.used):
            yield seed, stream


@dataclass
class Got:
    """What the library made of a stream."""

    chunks: list[StreamChunk]
    reply: Reply | None = None
    error: BaseException | None = None

    @property
    def summary(self) -> Any:
        """What has to be the same for any cut of the bytes."""
        return (repr(self.reply.tool_calls), self.reply.finish_reason) if self.reply else type(self.error)


def read(api: str, stream: Stream, pieces: list[bytes]) -> Got:
    """Gives the pieces to a decoder."""
    decoder = StreamDecoder(api)
    got = Got([])
    try:
        for piece in pieces:
            got.chunks += decoder.feed(piece)
        got.chunks += decoder.close(interrupted=stream.interrupted)
        got.reply = decoder.reply
    except Exception as error:
        got.error = error
    return got


def check(api: str, stream: Stream, cuts: random.Random | None = None) -> str | None:
    """What is wrong with how the library reads a stream: None, or a kind of failure with details behind a colon."""
    got = read(api, stream, [stream.body])
    wrong = judge(stream.expected, got)
    if wrong is None and cuts is not None:
        points = sorted(cuts.randrange(len(stream.body) + 1) for _ in range(cuts.randint(1, 30)))
        pieces = [stream.body[a:b] for a, b in zip([0, *points], [*points, len(stream.body)], strict=True)]
        again = read(api, stream, pieces)
        if judge(stream.expected, again) or again.summary != got.summary:
            wrong = f"cuts: {got.summary} or {again.summary}"
    return wrong


def judge(expected: Expected, got: Got) -> str | None:
    """Compares what is right with what came."""
    finished = [made.finished for made in got.chunks]
    if got.error is not None and not isinstance(got.error, StreamError):
        return f"crash: {got.error!r}"
    if any(finished[:-1]) or any(made.tool_calls for made in got.chunks if not made.finished):
        return "early: something was finished before the end"
    if got.error is not None:
        if any(finished) or (got.error.partial and got.error.partial.tool_calls):
            return "calls with an error"
        if expected.safe or type(got.error).__name__ in (expected.error or "").split("|"):
            return None
        return f"error: {got.error!r}, expected {expected.error or 'none'}"
    assert got.reply is not None
    if not finished or not finished[-1] or (got.chunks[-1].tool_calls or []) != got.reply.tool_calls:
        return "chunks: the last one is not the reply"
    if expected.safe:
        return _judge_safety(expected, got.reply)
    if expected.error:
        return f"no error: {got.reply.tool_calls}, expected {expected.error}"
    return _judge_calls(expected, got.reply) or _judge_rest(expected, got.reply)


def _key(name: str, arguments: Any) -> str:
    return f"{name}({arguments!r})"


def _judge_safety(expected: Expected, reply: Reply) -> str | None:
    left = Counter(_key(want.name, want.parsed[0]) for want in expected.calls)
    for call in reply.tool_calls:
        left[_key(call.name, call.arguments)] -= 1
    for call in reply.tool_calls:
        if left[_key(call.name, call.arguments)] < 0 and call.error is None:
            return f"unsafe: {_key(call.name, call.arguments)}"
    lost = [key for key, number in left.items() if number > 0]
    if lost and not reply.warnings and not any(call.error for call in reply.tool_calls):
        return f"silent: {lost} and no warning"
    return None


def _judge_calls(expected: Expected, reply: Reply) -> str | None:
    came = [_key(call.name, call.arguments) for call in reply.tool_calls]
    wants = expected.calls
    right = [_key(want.name, want.parsed[0]) for want in wants]
    if Counter(came) != Counter(right):
        lost, extra = (
            list((Counter(right) - Counter(came)).elements()),
            list((Counter(came) - Counter(right)).elements()),
        )
        kind = "other" if lost and extra else "lost" if lost else "invented"
        return f"{kind}: {extra} instead of {lost}"
    if expected.ordered and came != right:
        return f"order: {came} instead of {right}"
    pairs = list(zip(wants, reply.tool_calls, strict=True)) if expected.ordered else []
    for want, call in pairs:
        if call.error != want.parsed[1]:
            return f"call.error: {call.error}, expected {want.parsed[1]}"
        if call.raw_arguments != want.text and (want.exact or parse(call.raw_arguments) != want.parsed):
            return f"raw: {call.raw_arguments!r} instead of {want.text!r}"
    return _judge_ids(pairs)


def _judge_ids(pairs: list[tuple[Want, Any]]) -> str | None:
    ids = [call.id for _, call in pairs]
    if len(set(ids)) != len(ids) or not all(ids):
        return f"ids: {ids} are not unique"
    by_id: dict[str | None, list[str]] = defaultdict(list)
    for want, call in pairs:
        by_id[want.id].append(call.id)
    own = set(by_id) - {None}
    for wanted, given in by_id.items():
        if len([each for each in given if each in own]) != (wanted is not None) or (wanted and wanted not in given):
            return f"ids: {given} for {wanted}"
    return None


def _judge_rest(expected: Expected, reply: Reply) -> str | None:
    if expected.finish is not None and reply.finish_reason != expected.finish:
        return f"finish: {reply.finish_reason} instead of {expected.finish}"
    codes = {warning.code for warning in reply.warnings}
    if not expected.warnings <= codes:
        return f"warnings: {sorted(codes)} without {sorted(expected.warnings - codes)}"
    if expected.clean and codes:
        return f"warnings: {sorted(codes)} on a clean stream"
    if expected.text is not None and reply.text != expected.text:
        return f"text: {reply.text!r} instead of {expected.text!r}"
    return None


def kind(wrong: str | None) -> str | None:
    """The kind of a failure."""
    return wrong and wrong.partition(":")[0]


@functools.cache
def alone(api: str, wanted: str, deviations: tuple[str, ...]) -> Recipe | None:
    """The shortest stream found with these deviations, each of which has its place in it, that fails in this way."""
    found: Recipe | None = None
    for calls in range(1, 4):
        for seed in range(250):
            made = Recipe(api, seed, calls, deviations)
            stream = made.make()
            if set(stream.used) == set(deviations) and kind(check(api, stream)) == wanted:
                found = min(found or made, made, key=lambda each: len(each.make().body))
        if found:
            return found
    return None


def simplest(made: Recipe, wanted: str) -> Recipe:
    """The smallest stream that fails in the same way: with few of the deviations, few calls, and little text."""
    used = made.make().used
    for count in range(min(len(used), 2) + 1):
        for deviations in itertools.combinations(used, count):
            if small := alone(made.api, wanted, deviations):
                return small
    return made


def run(api: str, first: int, count: int, cut_each: int = 7) -> dict[Recipe, str]:
    """The recipes that fail, and how. One stream in `cut_each` is also read in random pieces."""
    failures = {}
    for seed in range(first, first + count):
        made = recipe(api, seed)
        wrong = check(api, made.make(), random.Random(seed) if seed % cut_each == 0 else None)
        if wrong:
            failures[made] = wrong
    return failures


def describe(made: Recipe) -> str:
    """A stream for a reader."""
    stream = made.make()
    lines = [line for line in stream.body.decode("utf-8", "replace").splitlines() if line]
    how = f"interrupted={stream.interrupted!r}" if stream.interrupted else ""
    wrong = check(made.api, stream)
    return "\n".join([f"  {made}", *(f"    {line[:300]}" for line in lines), f"    {how}", f"    -> {wrong}"])


def main() -> int:
    """Runs streams and prints what fails."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--wire", choices=sorted(APIS), action="append")
    parser.add_argument("--show", type=int, default=1, help="examples of each class of failures")
    options = parser.parse_args()
    failed = 0
    out = sys.stdout
    for api in options.api or list(APIS):
        begun = time.perf_counter()
        failures = run(api, options.seed, options.count)
        took = time.perf_counter() - begun
        failed += len(failures)
        out.write(f"{api}: {len(failures)} of {options.count} fail; {options.count / took:.0f} streams a second\n")
        groups: dict[tuple[str, Recipe], list[Recipe]] = defaultdict(list)
        for made, wrong in failures.items():
            what = kind(wrong) or ""
            groups[what, simplest(made, what)].append(made)
        for (what, small), found in sorted(groups.items(), key=lambda each: -len(each[1])):
            out.write(f"\n{len(found)} x {what} with {', '.join(small.make().used) or 'nothing'}\n")
            for made in [small, *(made for made in found if made != small)][: options.show]:
                out.write(describe(made) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
