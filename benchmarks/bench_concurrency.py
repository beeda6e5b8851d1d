"""Many answers at once: how late a chunk is, what share of a core it takes, and what a stream holds in memory.

Every stream gets 20 events per second, each of which says when it was sent; server and client share the clock. Late is
from there to where the program has the chunk in hand. The bare httpx loop does the same in the same run, each in a
process of its own. The first second does not count. Where a core is not enough for all of the streams, chunks come
later and later: then the lateness only says so, and the chunks per second are what there is to compare.

    python benchmarks/bench_concurrency.py [STREAMS ...]
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import monotonic, process_time
from typing import Any

import httpx
from bare import BareLoop
from memory import resident
from replay import allow_sockets
from run import replay_server

from streamfold import Provider

SECONDS = 4  # of events in each stream
PACE = 20  # events per second, see replay.py
ROUNDS = 2


class Meter:
    """Notes what comes after the first second, until the first of the streams has ended."""

    def __init__(self, streams: int) -> None:
        self._streams = streams
        self._before = resident()
        self._began: float | None = None
        self._cpu = 0.0
        self._late: list[float] = []
        self.result: dict[str, float] = {}

    def came(self, number: int, sent: float) -> None:
        """A chunk, the `number`th of its stream, that was sent at `sent`."""
        if self._began is None:
            if number < PACE:
                return
            self._began, self._cpu = monotonic(), process_time()
        if not self.result:
            self._late.append(monotonic() - sent)

    def ended(self) -> None:
        """A stream has ended."""
        if self.result or self._began is None:
            return
        took, late = monotonic() - self._began, sorted(self._late)
        self.result = {
            "late_p50": late[len(late) // 2],
            "late_p99": late[len(late) * 99 // 100],
            "cpu": (process_time() - self._cpu) / took,
            "chunks": len(late) / took,
            "memory": (resident() - self._before) / self._streams,
        }


async def bare(client: httpx.AsyncClient, url: str, meter: Meter) -> None:
    loop, number = BareLoop("chat"), 0
    async with client.stream("POST", f"{url}/chat/completions", json={"stream": True}) as response:
        async for data in response.aiter_bytes():
            before = loop.chunks
            loop.feed(data)
            for text in loop.last(loop.chunks - before):
                number += 1
                meter.came(number, float(text))
    meter.ended()


async def streamfold(provider: Provider, meter: Meter) -> None:
    number = 0
    async for chunk in provider.chat_stream("Hi"):
        for text in chunk.delta.split():  # a reader that is behind gets several events in one chunk
            number += 1
            meter.came(number, float(text))
    meter.ended()


async def client(name: str, streams: int, base: str) -> dict[str, float]:
    """All of the streams, from one process."""
    limits = httpx.Limits(max_connections=None)
    chosen = {"transport": "httpx"} if name.endswith("httpx") else {}
    async with httpx.AsyncClient(timeout=None, limits=limits) as http:

        async def all_at_once(count: int, events: int) -> Meter:
            url = f"{base}/any/paced-{count}/{events}/v1"
            config = {"adapter": "chat", "base_url": url, "model": "any", **chosen}
            async with Provider.from_config(config) as provider:
                meter = Meter(count)
                asks = (bare(http, url, meter) if name == "bare" else streamfold(provider, meter) for _ in range(count))
                await asyncio.gather(*asks)
                return meter

        await all_at_once(1, 1)  # loads what is loaded late
        return (await all_at_once(streams, SECONDS * PACE)).result


def main() -> None:
    allow_sockets()
    if sys.argv[1:2] == ["--client"]:
        print(json.dumps(asyncio.run(client(sys.argv[2], int(sys.argv[3]), sys.argv[4]))))
        return
    names = ["bare", "streamfold", "streamfold-aiohttp"]
    print("streams                       chunks/s    late p50    late p99   of a core   memory per stream")
    for streams in [int(word) for word in sys.argv[1:]] or [1, 100, 1000]:
        found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
        for _ in range(ROUNDS):
            for name in names:
                with replay_server() as base:
                    found[name].append(run(name, streams, base))
        for name, results in found.items():
            print(shown(name, streams, {key: median(result[key] for result in results) for key in results[0]}))


def run(name: str, streams: int, base: str) -> dict[str, Any]:
    words = [sys.executable, str(Path(__file__)), "--client", name, str(streams), base]
    result: dict[str, Any] = json.loads(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout)
    return result


def shown(name: str, streams: int, result: dict[str, float]) -> str:
    memory = f"{result['memory'] / 1024:12.1f} KiB" if streams > 1 else ""
    return (
        f"{streams:7d}  {name:18s} {result['chunks']:10.0f} {result['late_p50'] * 1e3:8.1f} ms"
        f" {result['late_p99'] * 1e3:8.1f} ms {result['cpu']:10.0%} {memory}"
    )


if __name__ == "__main__":
    main()
