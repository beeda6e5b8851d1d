"""The value so far of a long answer: what asking for it after each chunk costs, as the answer grows.

An answer of a megabyte comes in 250,000 chunks. Whoever parses all that has come after each of them does a hundred
thousand million characters of parsing. Here the cost of a chunk must stay what it was, however long the answer gets.

    python benchmarks/bench_partial.py [KILOBYTES ...]
"""

from __future__ import annotations

import json
import sys
from time import process_time

from pydantic import BaseModel

from streamfold.answers.partial_values import PartialReader

PIECE = 4  # characters


class Row(BaseModel):
    name: str
    text: str
    count: int


class Table(BaseModel):
    rows: list[Row]


def measure(kilobytes: int) -> tuple[int, float]:
    """Chunks, and microseconds of CPU for each of them, when the value is asked for after each."""
    rows = [{"name": f"row {n}", "text": "some words " * 5, "count": n} for n in range(kilobytes * 1000 // 100)]
    text = json.dumps({"rows": rows})
    reader = PartialReader(Table)
    began = process_time()
    for size in range(0, len(text), PIECE):
        reader.read(size, lambda size=size: text[:size])  # type: ignore[misc]
    value = reader.read(len(text), lambda: text, whole=True)
    took = process_time() - began
    assert value is not None
    assert len(value.rows) == len(rows)
    chunks = len(text) // PIECE
    return chunks, took / chunks * 1e6


def main() -> None:
    sizes = [int(word) for word in sys.argv[1:]] or [10, 100, 1000]
    print("   answer   chunks   CPU per chunk   of the first")
    first = None
    measure(1)
    for kilobytes in sizes:
        chunks, each = measure(kilobytes)
        first = first or each
        print(f"{kilobytes:6d} KB  {chunks:7d}  {each:11.2f} us  {each / first:11.2f}x")


if __name__ == "__main__":
    main()
