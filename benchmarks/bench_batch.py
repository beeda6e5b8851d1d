"""What a job over many rows costs beside a loop of one's own, and what it takes when it is killed or goes on.

    python benchmarks/bench_batch.py                     all of it, with few rows
    python benchmarks/bench_batch.py rate [ROWS] [CONCURRENCY] [LATENCY] [ROUNDS]
    python benchmarks/bench_batch.py kills [ROWS] [KILLS] [CONCURRENCY]
    python benchmarks/bench_batch.py resume [ROWS]       of a job that has only one row left
    python benchmarks/bench_batch.py connections         at 10, 100 and 1,000 rows at once, on both transports

`rate` has four contestants, each a process of its own in each round: `loop` is the same Provider and a semaphore, `job`
is a job with its ledger, both over aiohttp; `aiohttp` and `httpx` are those clients, and reading events without any
care. Ratios are those of one round; the CPU of a process is that of all its threads.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median

from memory import peak

HERE = Path(__file__).parent
CONTESTANTS = ("loop", "job", "aiohttp", "httpx")


class Upstream:
    """The counting server, and its address."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.url = f"http://127.0.0.1:{int(process.stdout.readline())}/v1"

    def tally(self, word: str = "") -> dict[str, object]:
        """What it has counted."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        found: dict[str, object] = json.loads(self.process.stdout.readline())
        return found


@contextmanager
def upstream(latency: float = 0.0, faults: float = 0.0) -> Iterator[Upstream]:
    command = [sys.executable, str(HERE / "batch_server.py"), str(latency), str(faults)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Upstream(process)
        assert process.stdin is not None
        process.stdin.close()


def write_rows(path: Path, count: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            file.write(json.dumps({"id": f"r{number}", "prompt": f"p{number} {'word ' * 20}"}) + "\n")


# --- one contestant, in a process of its own --------------------------------------------------------------------------


async def loop(rows: Path, url: str, concurrency: int) -> None:
    """The loop that everybody writes: the same client and a semaphore, and a list of texts."""
    from streamfold import Provider

    async with Provider.from_config({"base_url": url, "model": "m", "transport": "aiohttp"}) as provider:

        async def one(line: str) -> str:
            async with free:
                return (await provider.chat(json.loads(line)["prompt"])).text

        free = asyncio.Semaphore(concurrency)
        with rows.open() as file:
            lines = file.readlines()
        texts = await asyncio.gather(*map(one, lines))
    (rows.parent / "loop.out").write_text("\n".join(texts))


async def job(rows: Path, url: str, concurrency: int) -> None:
    from streamfold import Provider
    from streamfold_jobs import batch, export

    settings = {"base_url": url, "model": "m", "transport": "aiohttp", "max_retries": 0}
    async with (
        Provider.from_config(settings) as provider,
        batch(provider, rows, ledger=rows.parent / "job.ledger", concurrency=concurrency) as running,
    ):
        await running.run()
        export([running.ledger], rows.parent / "job.jsonl")
    with (rows.parent / "job.jsonl").open() as file:
        assert [json.loads(line)["text"] for line in file] == [f"p{at}" + "!" * 7 for at in range(running.summary.rows)]


def body(line: str) -> bytes:
    prompt = json.loads(line)["prompt"]
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": prompt}], "stream": True}).encode()


def read(pieces: list[bytes]) -> str:
    lines = b"".join(pieces).split(b"\n\n")
    events = [json.loads(line[6:]) for line in lines if line.startswith(b"data: {")]
    return "".join(event["choices"][0]["delta"].get("content", "") for event in events if event["choices"])


async def over_aiohttp(rows: Path, url: str, concurrency: int) -> None:
    import aiohttp

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=concurrency)) as client:

        async def one(line: str) -> str:
            async with free, client.post(f"{url}/chat/completions", data=body(line)) as answer:
                return read([piece async for piece in answer.content.iter_any()])

        free = asyncio.Semaphore(concurrency)
        with rows.open() as file:
            await asyncio.gather(*map(one, file.readlines()))


async def over_httpx(rows: Path, url: str, concurrency: int) -> None:
    import httpx

    limits = httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    async with httpx.AsyncClient(limits=limits, timeout=60) as client:

        async def one(line: str) -> str:
            async with free, client.stream("POST", f"{url}/chat/completions", content=body(line)) as answer:
                return read([piece async for piece in answer.aiter_raw()])

        free = asyncio.Semaphore(concurrency)
        with rows.open() as file:
            await asyncio.gather(*map(one, file.readlines()))


WORK = {"loop": loop, "job": job, "aiohttp": over_aiohttp, "httpx": over_httpx}


def contestant(name: str, rows: str, url: str, concurrency: str) -> None:
    """Runs one of them and prints what it took, without the time that Python needs to start."""
    if name in ("loop", "job"):
        import streamfold_jobs  # noqa: F401
    began, cpu = time.perf_counter(), time.process_time()
    asyncio.run(WORK[name](Path(rows), url, int(concurrency)))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    print(json.dumps({"seconds": seconds, "cpu": cpu, "memory": peak() / 2**20}))


def measured(name: str, rows: Path, url: str, concurrency: int) -> dict[str, float]:
    for path in rows.parent.glob("job.*"):
        path.unlink()
    command = [sys.executable, __file__, "--contestant", name, str(rows), url, str(concurrency)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


# --- what is measured -------------------------------------------------------------------------------------------------


def rate(count: int = 3000, concurrency: int = 100, latency: float = 0.0, rounds: int = 3) -> None:
    with upstream(latency) as server, tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.jsonl"
        write_rows(rows, count)
        found: dict[str, list[dict[str, float]]] = {name: [] for name in CONTESTANTS}
        for _ in range(rounds):
            for name in random.sample(CONTESTANTS, len(CONTESTANTS)):
                found[name].append(measured(name, rows, server.url, concurrency))
    print(f"{count} rows, {concurrency} at once, answers after {latency:g} s, {rounds} rounds")
    for name, runs in found.items():
        speed = [first["seconds"] / own["seconds"] for first, own in zip(found["loop"], runs, strict=True)]
        cpu = [own["cpu"] / first["cpu"] for first, own in zip(found["loop"], runs, strict=True)]
        rows_a_second = count / median(run["seconds"] for run in runs)
        microseconds = median(run["cpu"] for run in runs) / count * 1e6
        print(
            f"  {name:8} {rows_a_second:6.0f} rows/s, {median(speed):.2f} of the loop's"
            f" [{min(speed):.2f} .. {max(speed):.2f}]; CPU {microseconds:5.0f} us a row, {median(cpu):.2f}"
            f" [{min(cpu):.2f} .. {max(cpu):.2f}]; {median(run['memory'] for run in runs):.0f} MB"
        )


def command(folder: Path, url: str, concurrency: int) -> list[str]:
    config = folder / "streamfold.toml"
    config.write_text(f'[providers.main]\nbase_url = "{url}"\nmodel = "m"\n', "utf-8")
    words = ["rows.jsonl", "-o", "out.jsonl", "-p", "main", "-c", str(config), "--concurrency", str(concurrency)]
    return [sys.executable, "-c", PROGRAM, "batch", *words]


# The command, and the most memory that it has used. (What the system says of a child includes what it was forked from.)
PROGRAM = f"""
import atexit, sys
sys.path.insert(0, {str(HERE)!r})
import memory
atexit.register(lambda: print(memory.peak() >> 20, "MB at most", file=sys.stderr))
from streamfold.cli import main
main()
"""


def kills(count: int = 5000, times: int = 10, concurrency: int = 100) -> None:
    """Kills a job at random moments, so often before it is done, and lets it finish then."""
    rng, sent, memory = random.Random(1), set(), 0.0
    with upstream(latency=0.1, faults=0.05) as server, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder / "rows.jsonl", count)
        words, began = command(folder, server.url, concurrency), time.perf_counter()
        for left in range(times, 0, -1):
            done = int(str(server.tally("rows")["rows"]))
            wanted = done + rng.uniform(1, 2 * (count - done) / (left + 1))
            with subprocess.Popen(words, cwd=folder, stderr=subprocess.DEVNULL) as process:
                while int(str(server.tally("rows")["rows"])) < wanted:
                    time.sleep(0.02)
                memory = max(memory, peak(process.pid))
                process.send_signal(signal.SIGKILL)
            with closing(sqlite3.connect(folder / "out.jsonl.ledger")) as ledger:
                sent |= {str(number) for (number,) in ledger.execute("SELECT n FROM row WHERE state = 'sent'")}
        ended = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
        seconds, tally = time.perf_counter() - began, server.tally()
        lines = list(map(json.loads, (folder / "out.jsonl").read_text().splitlines()))
        right = [(f"r{at}", f"p{at}" + "!" * 7) for at in range(count)]
        wrong = sum((line["id"], line.get("text")) != pair for line, pair in zip(lines, right, strict=True))
    again = tally["asked"]
    assert isinstance(again, dict)
    print(
        f"{count} rows, {times} kills, {concurrency} at once, {seconds:.0f} s: {len(lines)} answers in order,"
        f" {wrong} of them wrong; answered again {sum(again.values()) - len(again)}, of {times * concurrency} that may;"
        f" {len(again.keys() - sent)} of these rows had not been marked as sent\n  statuses {tally['statuses']};"
        f" {memory / 2**20:.0f} MB at most, and to the end {ended.stderr.strip()}; {ended.stdout.strip()}"
    )


def resume(count: int = 100_000) -> None:
    """A job that has done all rows but the last is started again: how long it takes until that row is asked."""
    from streamfold_jobs import Answer, Ledger

    with upstream() as server, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder / "rows.jsonl", count)
        words = command(folder, server.url, 50)
        asyncio.run(_nearly_done(folder, server.url, count, Ledger, Answer))
        server.tally("reset")
        began = time.perf_counter()
        pipe = subprocess.PIPE
        with subprocess.Popen(words, cwd=folder, stdout=pipe, stderr=pipe, text=True) as process:
            while not server.tally()["rows"]:
                time.sleep(0.01)
            seconds = time.perf_counter() - began
            said, memory = process.communicate()
        whole = time.perf_counter() - began
        size = (folder / "out.jsonl.ledger").stat().st_size / 2**20
        print(f"{count} rows resume in {seconds:.2f} s (with Python's start), done with the output in {whole:.2f} s")
        print(f"  {memory.strip()}, ledger {size:.0f} MB; {said.strip()}")
        for verb in (["export", "out.jsonl.ledger", "-o", "again.jsonl"], ["status", "out.jsonl.ledger"]):
            began = time.perf_counter()
            run = subprocess.run([*words[:4], *verb], cwd=folder, check=True, capture_output=True, text=True)
            print(f"  {verb[0]}: {time.perf_counter() - began:.2f} s, {run.stderr.strip()}")


async def _nearly_done(folder: Path, url: str, count: int, ledgers: type, answers: type) -> None:
    """Makes the ledger of a job whose last row is missing: one that is stopped at once, and answers of no server."""
    from streamfold import Provider
    from streamfold_jobs import batch

    path = folder / "out.jsonl.ledger"
    provider = Provider.from_config("main", config=folder / "streamfold.toml", max_retries=0)
    async with provider, batch(provider, folder / "rows.jsonl", ledger=path):
        pass
    reply = {
        "text": "p0" + "!" * 400, "reasoning": None, "refusal": None, "tool_calls": [], "finish_reason": "stop",
        "model": "m", "request_id": None, "cost": None, "warnings": [],
        "usage": {"input_tokens": 12, "output_tokens": 8, "total_tokens": 20, "cached_tokens": None,
                  "reasoning_tokens": None, "cache_write_tokens": None},
    }  # fmt: skip
    with ledgers(path) as ledger:
        writing = asyncio.create_task(ledger.commit())
        for number in range(count - 1):
            ledger.ended(answers(f"r{number}", number, reply, None, 1, 0.5))
            if number % 5000 == 0:
                await ledger.written()
        await ledger.written()
        writing.cancel()
        await asyncio.wait([writing])


def connections(count: int = 3000) -> None:
    """How many connections a job opens that has so many rows at once."""
    for transport in ("httpx", "aiohttp"):
        for concurrency in (10, 100, 1000):
            with upstream(latency=0.2) as server, tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                write_rows(folder / "rows.jsonl", min(count, concurrency * 20))
                words = command(folder, server.url, concurrency)
                with (folder / "streamfold.toml").open("a") as file:
                    file.write(f'transport = "{transport}"\n')
                subprocess.run(words, cwd=folder, check=True, capture_output=True)
                tally = server.tally()
            streams, opened = tally["streams"], tally["connections"]
            print(f"{transport} {concurrency}: {streams} streams at most, {opened} connections in all")


def main() -> None:
    words = sys.argv[1:]
    if words[:1] == ["--contestant"]:
        contestant(*words[1:5])
        return
    os.environ.pop("STREAMFOLD_CONFIG", None)
    wanted = {"rate": rate, "kills": kills, "resume": resume, "connections": connections}
    if words:
        wanted[words[0]](*(float(word) if "." in word else int(word) for word in words[1:]))
        return
    for measure in wanted.values():
        measure()


if __name__ == "__main__":
    main()
