"""Gateways under load: one process on one core before 1, 100 and 1,000 clients, beside LiteLLM's proxy and a bare one.

    python benchmarks/run.py --setup streamfold litellm-proxy        once
    python benchmarks/bench_gateway_load.py [CLIENTS ...] [--workers N] [--table]

Two questions, each with servers of their own:

- **requests**: every client asks again as soon as its answer has come (a short one, of EVENTS events). Requests per
  second, and the gateway's CPU time for an event.
- **paced**: every client streams one answer of 20 events per second, each of which says when it was sent. Late is from
  there to where the client has read it; `direct` is what it takes without a gateway, so that the rest is the gateway's.

`--table` asks the first question alone, and writes a Markdown table of what each gateway adds to the time of a whole
answer without one, as https://github.com/cuihuan/llm-gateway-bench does; `nox -s bench_gateway` runs that.

On Linux the gateway has one core for itself (with `--workers N`, N of them, as far as there are any); the upstream and
the clients share the others. Memory is the resident set of the gateway's processes at the end, and what it has grown.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

import bench_gateway
from bench_gateway import COMMANDS, CONTESTANTS, KEY, cpu, serving, streamfold_command
from environments import is_set_up
from replay import LAST, allow_sockets
from run import replay_server

EVENTS = 20  # of a short answer
SECONDS = 4  # of each question
WARM = 1.0  # seconds that do not count
NAMES = ("direct", *CONTESTANTS)
_STAMP = re.compile(rb'"content": ?"([0-9]+\.[0-9]{6}) "')


# --- the clients: a process of its own --------------------------------------------------------------------------------


Where = tuple[str, int, str, str]  # host, port, path, model


async def asked(host: str, port: int, path: str, model: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Sends a request on a connection of its own, and reads the head of the response."""
    reader, writer = await asyncio.open_connection(host, port)
    body = json.dumps({"model": model, "stream": True, "messages": [{"role": "user", "content": "?"}]}).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-type: application/json\r\n"
    head += f"authorization: Bearer {os.environ['BENCH_KEY']}\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    status = await reader.readuntil(b"\r\n\r\n")
    if b" 200 " not in status[:20]:
        raise SystemExit(f"{model}: {status[:300]!r} {await reader.read(300)!r}")
    return reader, writer


async def requests(where: Where, clients: int) -> dict[str, float]:
    """Every client asks again and again."""
    began = monotonic()
    times: list[float] = []
    answers = 0

    async def one() -> None:
        nonlocal answers
        while (now := monotonic()) < began + WARM + SECONDS:
            reader, writer = await asked(*where)
            data = await reader.readuntil(LAST)
            writer.close()
            if b"[DONE]" not in data:
                raise SystemExit(f"not a whole answer: {data[-300:]!r}")
            answers += 1
            if (end := monotonic()) > began + WARM:
                times.append(end - now)

    await asyncio.gather(*(one() for _ in range(clients)))
    took = monotonic() - began - WARM
    rate, times = len(times) / took, sorted(times) or [math.inf]  # so slow that nobody was answered in time
    return {
        "rate": rate,
        "events": answers * (EVENTS + 1),
        "p50": times[len(times) // 2],
        "p95": times[len(times) * 95 // 100],
        "p99": times[len(times) * 99 // 100],
    }


async def paced(where: Where, clients: int) -> dict[str, float]:
    """Every client reads one answer, event by event."""
    late: list[tuple[float, float]] = []

    async def one() -> None:
        reader, writer = await asked(*where)
        rest = b""
        while not rest.endswith(LAST) and (data := await reader.read(2**16)):
            now, rest = monotonic(), rest + data
            end = 0
            for found in _STAMP.finditer(rest):
                sent, end = float(found[1]), found.end()
                late.append((sent, now - sent))
            rest = rest[max(end, len(rest) - 200) :]
        writer.close()

    await asyncio.gather(*(one() for _ in range(clients)))
    first = min(late)[0]
    counted = sorted(delay for sent, delay in late if sent > first + WARM)
    return {
        "rate": len(late) / (max(sent + delay for sent, delay in late) - first),
        "events": len(late),
        "p50": counted[len(counted) // 2],
        "p99": counted[len(counted) * 99 // 100],
    }


# --- one question to one contestant -----------------------------------------------------------------------------------


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    children = " ".join((task / "children").read_text() for task in Path(f"/proc/{pid}/task").iterdir())
    return [pid, *(found for child in children.split() for found in family(int(child)))]


def resident(pid: int) -> float:
    """MiB of memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def measured(name: str, question: str, clients: int, workers: int) -> dict[str, float]:
    """What a contestant, in servers of its own, makes of a question."""
    path = f"chat-text/one/{EVENTS}" if question == "requests" else f"any/paced-{clients}/{SECONDS * 20}"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        base = stack.enter_context(replay_server())
        bench_gateway.upstreams = lambda base: {"chat-text-one": f"{base}/{path}/v1"}
        address, url, pids = base.removeprefix("http://"), f"/{path}/v1/chat/completions", list[int]()
        if name != "direct":
            COMMANDS["streamfold"] = lambda *words: [*streamfold_command(*words), "--workers", str(workers)]
            pid, address = stack.enter_context(serving(name, folder, base))
            url, pids = "/v1/chat/completions", family(pid)
            for each in pids:
                os.sched_setaffinity(each, list(os.sched_getaffinity(0))[:workers])
        host, port = address.removesuffix("/").rsplit(":", 1)
        environment = {**os.environ, "BENCH_KEY": KEY}
        words = [sys.executable, __file__, "--client", question, host, port, url, "chat-text-one"]
        if question == "requests":  # once before, for what is loaded late
            subprocess.run([*words, "1", "0.2"], stdout=subprocess.DEVNULL, check=True, env=environment)
        used = sum(map(cpu, pids))
        run = subprocess.run([*words, str(clients), str(SECONDS)], stdout=subprocess.PIPE, check=True, env=environment)
        result: dict[str, float] = json.loads(run.stdout)
        result["cpu"] = (sum(map(cpu, pids)) - used) / result["events"] * 1e6
        result["memory"] = sum(map(resident, pids))
        return result


def main() -> None:
    global SECONDS
    allow_sockets()
    if sys.argv[1:2] == ["--client"]:
        question, host, port, path, model, clients, seconds = sys.argv[2:]
        SECONDS = float(seconds)
        where = (host, int(port), path, model)
        print(json.dumps(asyncio.run((requests if question == "requests" else paced)(where, int(clients)))))
        return
    if not Path("/proc/self/stat").exists():
        print("left out: there is no /proc, which tells the CPU time of another process")
        return
    words = sys.argv[1:]
    workers = int(words.pop(words.index("--workers") + 1)) if "--workers" in words else 1
    only = words.pop(words.index("--only") + 1).split(",") if "--only" in words else list(NAMES)
    counts = [int(word) for word in words if word.isdigit()]
    if "--table" in words:
        table([name for name in only if name == "direct" or is_set_up(CONTESTANTS[name])], counts, workers)
        return
    counts = counts or [1, 100, 1000]
    print(f"{'':28s}{'per second':>12s}{'p50':>12s}{'p99':>12s}{'CPU per event':>16s}{'memory':>12s}")
    for question in ("requests", "paced"):
        for clients in counts:
            print(f"{question}, {clients} clients")
            for name in only:
                if name == "direct" or is_set_up(CONTESTANTS[name]):
                    print(f"  {name:26s}{shown(measured(name, question, clients, workers))}", flush=True)


def table(names: list[str], counts: list[int], workers: int) -> None:
    """Writes what the gateways add to a streamed answer of `EVENTS` events: p50, p95 and p99, in milliseconds."""
    print("| clients at once | gateway | answers per second | p50, ms | p95, ms | p99, ms | CPU per answer, ms |")
    print("|---|---|---|---|---|---|---|")
    for clients in counts or [1, 50, 200, 1000]:
        direct = measured("direct", "requests", clients, workers)
        for name in names:
            found = direct if name == "direct" else measured(name, "requests", clients, workers)
            less = {} if name == "direct" else direct
            times = " | ".join(f"{(found[at] - less.get(at, 0.0)) * 1e3:.1f}" for at in ("p50", "p95", "p99"))
            used = found["cpu"] * (EVENTS + 1) / 1e3
            print(f"| {clients} | {name} | {found['rate']:.0f} | {times} | {used:.2f} |", flush=True)


def shown(found: dict[str, float]) -> str:
    times = f"{found['p50'] * 1e3:9.1f} ms{found['p99'] * 1e3:9.1f} ms"
    return f"{found['rate']:12.0f}{times}{found['cpu']:13.1f} us{found['memory']:8.0f} MiB"


if __name__ == "__main__":
    main()
