"""One contestant in a process and an environment of its own: reads commands as JSON lines, and answers each with one.

    {"url": ..., "wire": ..., "dialect": ..., "repetitions": 1}  ->  {"cpu": seconds, "chunks": n, "digest": ...}

The CPU time is that of this process while it streams. Importing, making a client and the first answer from a URL,
which opens the connection and fills whatever there is to be filled, are not in it.

    python worker.py CONTESTANT
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from importlib import import_module
from importlib.metadata import version
from time import perf_counter, process_time
from typing import Any

from contestants import Ask
from payloads import digest


def say(value: dict[str, Any]) -> None:
    print(json.dumps(value), flush=True, file=_OUT)


async def measure(ask: Ask, repetitions: int) -> dict[str, Any]:
    gc.collect()
    began, began_wall = process_time(), perf_counter()
    for _ in range(repetitions):
        text, calls, chunks = await ask()
    cpu, wall = process_time() - began, perf_counter() - began_wall
    return {"cpu": cpu / repetitions, "wall": wall / repetitions, "chunks": chunks, "digest": digest(text, calls)}


async def main() -> None:
    try:
        contestant = import_module(f"contestants.{sys.argv[1].replace('-', '_')}")
    except Exception as exc:
        say({"error": f"{type(exc).__name__}: {exc}"[:300]})
        return
    say({"versions": {name: version(name) for name in contestant.PACKAGES}})
    asks: dict[str, Ask] = {}
    for line in sys.stdin:
        command = json.loads(line)
        url = command["url"]
        try:
            if url not in asks:
                asks[url] = contestant.prepare(url, command["api"], command["dialect"])
                await asks[url]()
            say(await measure(asks[url], command["repetitions"]))
        except Exception as exc:  # whatever a contestant raises is its result
            say({"error": f"{type(exc).__name__}: {exc}"[:300]})


if __name__ == "__main__":
    # What contestants print shall not get between the answers.
    _OUT, sys.stdout = sys.stdout, sys.stderr
    asyncio.run(main())
