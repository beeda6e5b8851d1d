"""Long arguments in small pieces: what one piece costs, as the arguments grow.

A server that sends 16 MB of arguments sends 800,000 fragments of 20 characters. Whoever joins, copies or parses what
has come so far with each of them pays for all of it each time. Here the cost of a piece must stay what it was.

    python benchmarks/bench_arguments.py [MEGABYTES ...]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from time import process_time

from streamfold import StreamDecoder

PIECE = "x" * 20
HEAD = b'data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,%s}]}}]}\n\n'
EVENT = HEAD % (b'"function":{"arguments":"' + PIECE.encode() + b'"}')
READ = 100  # events in one network read


def body(pieces: int) -> Iterator[bytes]:
    yield HEAD % b'"id":"call_a","function":{"name":"write","arguments":"{\\"text\\":\\""}'
    for _ in range(pieces // READ):
        yield EVENT * READ
    yield HEAD % b'"function":{"arguments":"\\"}"}'
    yield b'data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}\n\ndata: [DONE]\n\n'


def measure(megabytes: int) -> tuple[int, float, float]:
    """Pieces, microseconds of CPU for each of them, and seconds for the end, where the arguments are parsed once."""
    pieces = megabytes * 1_000_000 // len(PIECE) // READ * READ
    decoder = StreamDecoder("chat")
    *parts, end = body(pieces)
    began = process_time()
    for part in parts:
        decoder.feed(part)
    fed = process_time()
    decoder.feed(end)
    ended = process_time()
    (call,) = decoder.reply.tool_calls
    assert len(call.arguments["text"]) == pieces * len(PIECE)
    return pieces, (fed - began) / pieces * 1e6, ended - fed


def main() -> None:
    sizes = [int(word) for word in sys.argv[1:]] or [1, 4, 16]
    print("arguments    pieces   CPU per piece   of the first   parsing at the end")
    first = None
    measure(1)
    for megabytes in sizes:
        pieces, each, end = measure(megabytes)
        first = first or each
        print(f"{megabytes:6d} MB  {pieces:8d}  {each:10.2f} us  {each / first:11.2f}x  {end:14.3f} s")


if __name__ == "__main__":
    main()
