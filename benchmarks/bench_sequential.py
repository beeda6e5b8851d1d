"""One answer after another: what a process holds after a thousand of them, and after ten thousand.

A client that keeps anything of an answer grows for ever in a service that runs for weeks. After the first thousand,
memory must stay what it is. The bare httpx loop does the same beside it, because httpx keeps something, too.

    python benchmarks/bench_sequential.py [ANSWERS]
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from time import process_time

import contestants
from contestants import bare, streamfold
from memory import resident
from payloads import payload
from run import replay_server

EVENTS = 20
EARLY = 1000  # answers, after which memory has settled


async def client(name: str, base: str, answers: int) -> None:
    """Streams them, and prints the memory after the early ones and after all, and the CPU for one."""
    answer = payload("chat-calls", EVENTS)
    ask: contestants.Ask = {"bare": bare, "streamfold": streamfold}[name].prepare(
        f"{base}/{answer.name}/one/{EVENTS}/v1", answer.api, answer.dialect
    )
    began, early = process_time(), 0
    for number in range(1, answers + 1):
        _, calls, _ = await ask()
        assert len(calls) == len(answer.calls)
        if number == EARLY:
            early = resident()
    print(early, resident(), (process_time() - began) / answers)


def main() -> None:
    if sys.argv[1:2] == ["--client"]:
        asyncio.run(client(sys.argv[2], sys.argv[3], int(sys.argv[4])))
        return
    answers = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    early_title, late_title = f"after {EARLY}", f"after {answers}"
    print(f"{'':12s} {early_title:>14s} {late_title:>14s} {'growth':>12s} {'CPU of an answer':>18s}")
    for name in ("bare", "streamfold"):
        with replay_server() as base:
            words = [sys.executable, str(Path(__file__)), "--client", name, base, str(answers)]
            out = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        early, late, cpu = int(out[0]), int(out[1]), float(out[2])
        growth = f"{(late - early) / 1024:+.0f} KiB"
        print(f"{name:12s} {early / 2**20:10.1f} MiB {late / 2**20:10.1f} MiB {growth:>12s} {cpu * 1e3:15.2f} ms")


if __name__ == "__main__":
    main()
