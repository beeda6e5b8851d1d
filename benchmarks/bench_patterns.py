"""Costs of streams that are made to be expensive: n, 2n, 4n and 8n events must cost about 2, 4 and 8 times as much.

Every pattern repeats what a reader could be tempted to join, parse or search anew with each event. Seconds of CPU, the
least of a few rounds. Exits with 1 if any doubling costs more than three times as much.

    python benchmarks/bench_patterns.py [PATTERN ...]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from itertools import pairwise
from time import process_time
from typing import Any

from streamfold import StreamDecoder, StreamError

SIZE = 2000  # events of the smallest stream
ROUNDS = 3
MOST = 3.0  # times the cost, for twice the events
LEAST = 0.02  # seconds: below, the clock says nothing

Pattern = Callable[[int], tuple[str, list[bytes]]]
PATTERNS: dict[str, Pattern] = {}


def pattern(make: Pattern) -> Pattern:
    PATTERNS[make.__name__.replace("_", "-")] = make
    return make


def event(payload: Any) -> bytes:
    return f"data: {json.dumps(payload)}\n\n".encode()


def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
    return event({"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})


def call(index: int | None, **members: Any) -> bytes:
    head = {name: members.pop(name) for name in ("id",) if name in members}
    place = {} if index is None else {"index": index}
    return chunk({"tool_calls": [{**place, **head, "function": members}]})


def said(kind: str, **members: Any) -> bytes:
    return event({"type": f"response.{kind}", **members})


@pattern
def text_and_wholes(n: int) -> tuple[str, list[bytes]]:
    """A long text, and a short whole of it again and again."""
    place = {"item_id": "i", "output_index": 0, "content_index": 0}
    pieces = [said("output_text.delta", **place, delta="abc")] * n
    return "responses", [*pieces, *[said("output_text.done", **place, text="x")] * n]


@pattern
def text_between_wholes(n: int) -> tuple[str, list[bytes]]:
    """A piece and a whole in turns."""
    whole = event({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]})
    return "chat", [chunk({"content": "abc" * 20}), whole] * n


@pattern
def tails_at_new_indexes(n: int) -> tuple[str, list[bytes]]:
    """Calls that are complete, one that is not, and pieces under indexes that nobody opened."""
    heads = [call(0, id="open", name="f", arguments='{"x":"')]
    heads += [call(k, id=f"c{k}", name="g", arguments=json.dumps({"a": [1] * 500})) for k in range(1, 200)]
    return "chat", [*heads, *(call(1000 + k, arguments="y") for k in range(n))]


@pattern
def braces_in_pieces(n: int) -> tuple[str, list[bytes]]:
    """The name with every piece, each of which closes an object."""
    return "chat", [call(0, id="a", name="f", arguments='{"x":"'), *[call(0, name="f", arguments="{}")] * n]


@pattern
def arguments_and_wholes(n: int) -> tuple[str, list[bytes]]:
    """Long arguments, and a short whole of them again and again, each another one."""
    place = {"item_id": "i", "output_index": 0}
    pieces = [said("function_call_arguments.delta", **place, delta="abc")] * n
    return "responses", [*pieces, *(said("function_call_arguments.done", **place, arguments=f"{k}") for k in range(n))]


@pattern
def empty_wholes(n: int) -> tuple[str, list[bytes]]:
    """Long arguments, and an empty whole again and again."""
    place = {"item_id": "i", "output_index": 0}
    pieces = [said("function_call_arguments.delta", **place, delta="abc")] * n
    return "responses", [*pieces, *[said("function_call_arguments.done", **place, arguments="{}")] * n]


@pattern
def names_in_pieces(n: int) -> tuple[str, list[bytes]]:
    """A name that never ends."""
    return "chat", [call(0, id="a", name="ab"), *[call(0, name="xyz" * 100)] * n]


@pattern
def many_warnings(n: int) -> tuple[str, list[bytes]]:
    """A new warning with every event."""
    return "chat", [event({"choices": [{"index": k, "delta": {"content": "x"}}]}) for k in range(1, n)]


@pattern
def gaps_in_numbers(n: int) -> tuple[str, list[bytes]]:
    """Events are missing everywhere."""
    place = {"item_id": "i", "output_index": 0}
    return "responses", [
        said("function_call_arguments.delta", **place, delta="a", sequence_number=3 * k) for k in range(n)
    ]


@pattern
def items_drawn_anew(n: int) -> tuple[str, list[bytes]]:
    """Every event has another item id."""
    return "responses", [said("output_text.delta", item_id=f"i{k}", output_index=0, delta="a") for k in range(n)]


@pattern
def extras(n: int) -> tuple[str, list[bytes]]:
    """An annotation with every event."""
    return "chat", [chunk({"annotations": [{"n": k}]}) for k in range(n)]


@pattern
def lines_without_end(n: int) -> tuple[str, list[bytes]]:
    """One event in very small pieces."""
    return "chat", [b"data: ", *[b"x"] * (8 * n)]


@pattern
def comments(n: int) -> tuple[str, list[bytes]]:
    """Comments without blank lines."""
    return "chat", [b": ping\n"] * (4 * n)


def cost(make: Pattern, n: int) -> float:
    adapter, pieces = make(n)
    best = float("inf")
    for _ in range(ROUNDS):
        decoder = StreamDecoder(adapter)
        began = process_time()
        try:
            for piece in pieces:
                decoder.feed(piece)
            decoder.close()
        except StreamError:
            pass
        best = min(best, process_time() - began)
    return best


def main() -> int:
    dear = []
    for name in sys.argv[1:] or PATTERNS:
        costs = [cost(PATTERNS[name], SIZE * times) for times in (1, 2, 4, 8)]
        times = [after / before for before, after in pairwise(costs)]
        print(f"{name:24s}", *(f"{seconds:7.3f} s" for seconds in costs), *(f"{x:5.1f}x" for x in times))
        if any(x > MOST and after > LEAST for x, after in zip(times, costs[1:], strict=True)):
            dear.append(name)
    print(f"superlinear: {', '.join(dear)}" if dear else "all linear")
    return bool(dear)


if __name__ == "__main__":
    sys.exit(main())
