"""Long arguments in small pieces: what one piece costs, as the arguments grow.

A server that sends 16 MB of arguments sends 800,000 fragments of 20 characters. Whoever joins, copies or parses what
has come so far with each of them pays for all of it each time. Here the cost of a piece must stay what it was. Memory
is what the process holds at most beyond what it held before, as a multiple of the arguments: the pieces, the text, and
the value are there at once when it is parsed. Each size has a process of its own, so that none inherits from another.

    python benchmarks/bench_arguments.py [MEGABYTES ...]
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from time import process_time

from memory import peak, resident

from streamfold import StreamDecoder

PIECE = "x" * 20
HEAD = b'data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,%s}]}}]}\n\n'
EVENT = HEAD % (b'"function":{"arguments":"' + PIECE.encode() + b'"}')
READ = 100  # events in one network read


def body(pieces: int) -> Iterator[bytes]:
    read = EVENT * READ
    yield HEAD % b'"id":"call_a","function":{"name":"write","arguments":"{\\"text\\":\\""}'
    for _ in range(pieces // READ):
        yield read
    yield HEAD % b'"function":{"arguments":"\\"}"}'


def measure(megabytes: int) -> dict[str, float]:
    """What one call takes, in this process.

    Returns pieces, microseconds of CPU for each of them, seconds for the end, where the arguments are parsed once, and
    the memory in multiples of their size.
    """
    fold(READ)  # loads what is loaded late
    pieces = megabytes * 1_000_000 // len(PIECE) // READ * READ
    before, began = resident(), process_time()
    decoder = fold(pieces)
    fed = process_time()
    decoder.feed(b'data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}\n\ndata: [DONE]\n\n')
    ended = process_time()
    (call,) = decoder.reply.tool_calls
    assert len(call.arguments["text"]) == pieces * len(PIECE)
    size = pieces * len(PIECE)
    return {
        "pieces": pieces,
        "each": (fed - began) / pieces * 1e6,
        "end": ended - fed,
        "memory": (peak() - before) / size,
    }


def fold(pieces: int) -> StreamDecoder:
    """A decoder that has read everything but the end."""
    decoder = StreamDecoder("chat")
    for part in body(pieces):
        decoder.feed(part)
    return decoder


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(int(sys.argv[2]))))
        return
    sizes = [int(word) for word in sys.argv[1:]] or [1, 4, 16]
    print("arguments    pieces   CPU per piece   of the first   parsing at the end   memory")
    first = None
    for megabytes in sizes:
        words = [sys.executable, __file__, "--one", str(megabytes)]
        found = json.loads(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout)
        each = found["each"]
        first = first or each
        print(
            f"{megabytes:6d} MB  {found['pieces']:8d}  {each:10.2f} us  {each / first:11.2f}x"
            f"  {found['end']:14.3f} s  {found['memory']:7.1f}x"
        )


if __name__ == "__main__":
    main()
