"""What a gateway adds to one request, asked for alone: whole answers, in rounds that take turns with direct ones.

    python benchmarks/run.py --setup streamfold [litellm-proxy]      once
    python benchmarks/bench_gateway_overhead.py [ROUNDS]

The method is that of https://github.com/cuihuan/llm-gateway-bench, so that the numbers can be held beside its table:
15 requests that do not count, then 7 rounds of 25 direct requests and 25 through each gateway, one after the other on
loopback before an upstream that answers at once. What a gateway adds is the median of what its rounds' medians are
above those of the direct rounds beside them; the quartiles say how far the rounds agree. It is no test under load:
that is `bench_gateway_load.py`.

Portkey takes part where STREAMFOLD_BENCH_PORTKEY names the folder of the npm package `@portkey-ai/gateway`.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter

import bench_gateway
from bench_gateway import COMMANDS, CONTESTANTS, KEY, serving
from environments import is_set_up
from run import replay_server

ROUNDS, PER_ROUND, WARM = 7, 25, 15
PATH = "/chat-text/one/1/v1"
PORTKEY = "STREAMFOLD_BENCH_PORTKEY"


def portkey_command(folder: Path, base: str, port: int) -> list[str]:
    return ["node", f"{os.environ[PORTKEY]}/build/start-server.js", f"--port={port}", "--headless"]


class Client:
    """Asks for whole answers over one connection."""

    def __init__(self, address: str, path: str, model: str, headers: dict[str, str]) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=60)
        self._path = path
        self._headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}", **headers}
        messages = [{"role": "user", "content": "ping"}]
        self._body = json.dumps({"model": model, "messages": messages, "max_tokens": 1})

    def burst(self, requests: int) -> list[float]:
        """Returns the milliseconds of so many requests, one after the other, on a connection that has been used."""
        self._connection.close()  # the server may have: it was idle while others were asked
        return [self._milliseconds() for _ in range(requests + 1)][1:]

    def _milliseconds(self) -> float:
        began = perf_counter()
        self._connection.request("POST", self._path, self._body, self._headers)
        answer = self._connection.getresponse()
        data = answer.read()
        took = perf_counter() - began
        if answer.status != 200 or not json.loads(data)["choices"][0]["message"]["content"]:
            sys.exit(f"{self._path}: HTTP {answer.status}: {data[:300]!r}")
        return took * 1e3


def clients(stack: ExitStack, folder: Path, base: str) -> Iterator[tuple[str, Client]]:
    """Starts the gateways, and yields a client of each; the first one asks the upstream itself."""
    model = "chat-text-one"
    upstream = base.removeprefix("http://")
    yield "direct", Client(upstream, f"{PATH}/chat/completions", model, {})
    for name, environment in CONTESTANTS.items():
        if is_set_up(environment):
            _, address = stack.enter_context(serving(name, folder, base))
            yield name, Client(address, "/v1/chat/completions", model, {})
    if os.environ.get(PORTKEY):
        _, address = stack.enter_context(serving("portkey", folder, base))
        headers = {"x-portkey-provider": "openai", "x-portkey-custom-host": f"{base}{PATH}"}
        yield "portkey", Client(address, "/v1/chat/completions", model, headers)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    bench_gateway.upstreams = lambda base: {"chat-text-one": f"{base}{PATH}"}
    COMMANDS["portkey"] = portkey_command
    os.environ["TRUSTED_CUSTOM_HOSTS"] = "127.0.0.1,localhost"  # Portkey asks no others
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        asked = dict(clients(stack, folder, stack.enter_context(replay_server())))
        for client in asked.values():
            client.burst(WARM)
        found: dict[str, list[list[float]]] = {name: [] for name in asked}
        for _ in range(rounds):
            for name, client in asked.items():
                found[name].append(client.burst(PER_ROUND))
    for line in table(found):
        print(line)


def table(found: dict[str, list[list[float]]]) -> Iterator[str]:
    """Yields a Markdown table of what each gateway adds, and of the times of all of its requests."""
    yield "| one at a time, ms | median | it adds (quartiles) | p50 | p95 | p99 |"
    yield "|---|---|---|---|---|---|"
    direct = [median(times) for times in found["direct"]]
    for name, rounds in found.items():
        middles = [median(times) for times in rounds]
        added = [middle - beside for middle, beside in zip(middles, direct, strict=True)]
        low, _, high = quantiles(added, n=4, method="inclusive") if len(added) > 1 else (added[0], 0, added[0])
        adds = "" if name == "direct" else f"{median(added):.2f} ({low:.2f} to {high:.2f})"
        times = sorted(each for once in rounds for each in once)
        most = " | ".join(f"{times[len(times) * part // 100]:.2f}" for part in (50, 95, 99))
        yield f"| {name} | {median(middles):.2f} | {adds} | {most} |"


if __name__ == "__main__":
    main()
