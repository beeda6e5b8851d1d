"""Limits that several processes share: how much of a limit is used, how evenly, and what a reservation costs.

    python benchmarks/bench_limits.py [--store valkey://127.0.0.1:6379] [--rate 200] [--seconds 20] [--kills 10]

Four processes with 50 tasks each want more than there is, and are killed with SIGKILL now and then. Without `--store`,
limits are counted in an SQLite file.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import random
import resource
import struct
import tempfile
import time
from pathlib import Path

from streamfold.limits import RateLimiter

PROCESSES, TASKS = 4, 50
_RECORD = struct.Struct("<d")  # when something was granted


def process(name: str, store: str, rate: float, start: float, ends: float, notes: str) -> None:
    """One process: notes each grant in a file, and at its end the CPU time of each."""

    async def main() -> None:
        limiter = RateLimiter(name, rpm=rate * 60, store=store)
        granted = 0
        await asyncio.sleep(max(0.0, start - time.time()))
        began = time.process_time()

        async def task() -> None:
            nonlocal granted
            while time.time() < ends:
                async with limiter.reserve():
                    granted += 1
                    file.write(_RECORD.pack(time.time()))

        with Path(notes).open("ab", buffering=0) as file:
            tasks = [asyncio.create_task(task()) for _ in range(TASKS)]
            await asyncio.sleep(max(0.0, ends - time.time()))
            used = time.process_time() - began
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await limiter.aclose()
        print(f"  {granted} grants, {1e6 * used / max(granted, 1):.0f} us of CPU each", flush=True)

    asyncio.run(main())


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--store")
    options.add_argument("--rate", type=float, default=200.0)
    options.add_argument("--seconds", type=float, default=20.0)
    options.add_argument("--kills", type=int, default=10)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = given.store or f"sqlite:///{folder}/limits.db"
        notes, start = f"{folder}/notes", time.time() + 2
        ends, name = start + given.seconds, f"bench {start}"

        def begin() -> multiprocessing.Process:
            new = multiprocessing.Process(target=process, args=(name, store, given.rate, start, ends, notes))
            new.start()
            return new

        running = [begin() for _ in range(PROCESSES)]
        for moment in sorted(random.uniform(start + 1, ends - 2) for _ in range(given.kills)):
            time.sleep(max(0.0, moment - time.time()))
            running.pop(0).kill()
            running.append(begin())
        for each in running:
            each.join()
        data = Path(notes).read_bytes()
    grants = sorted(moment for (moment,) in _RECORD.iter_unpack(data))
    inner = [moment for moment in grants if start + 2 <= moment < ends - 2]
    print(f"{100 * len(inner) / (given.rate * (given.seconds - 4)):.1f} % of the limit used in mid-run")
    for window in (1.0, 10.0):
        first, most = 0, 0
        for last, moment in enumerate(grants):
            while moment - grants[first] >= window:
                first += 1
            most = max(most, last - first + 1)
        print(f"worst {window:g} s: {100 * most / (given.rate * window):.1f} %")
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB of memory")


if __name__ == "__main__":
    main()
