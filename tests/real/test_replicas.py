"""Two gateways behind a real reverse proxy, by the files of `examples/replicas`, with Valkey or Redis between them."""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import anyio
import httpx
import pytest
from proxies import program, running_proxy

from folding import DONE, call, entry, event, fin, text
from processes import free_port
from servers import END, STREAM, Connection, framed, serving
from streamfold import APIError, Provider, Tool
from valkeys import valkey_program

pytest.importorskip("streamfold_gateway")
from gateways import Command, running_command

EXAMPLE = Path(__file__).parents[2] / "examples" / "replicas"
KINDS = {"haproxy": "haproxy.cfg", "nginx": "nginx.conf"}
USAGE = event({"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}})
F = Tool("f", "", {"type": "object", "properties": {"x": {"type": "integer"}}})
CONFIG = """\
[providers.main]
base_url = "{upstream}"
model = "m"
prices = {{input = 1000, output = 2000}}
[rate_limits]
store = "valkey://127.0.0.1:{store}"
[gateway]
turn_cache = "valkey://127.0.0.1:{store}"
responses = "valkey://127.0.0.1:{store}"
metrics = true
json_log = true
max_requests = 512
{settings}
[gateway.keys.team]
key_env = "TEAM_KEY"
max_concurrent = 1000
[gateway.keys.few]
key_env = "FEW_KEY"
rpm = 60
"""
PIECES = 20  # of an answer, one each 50 ms

FEW = {"authorization": "Bearer few"}
log = logging.getLogger(__name__)

if not any(map(program, KINDS)):
    pytest.skip("no reverse proxy is there: nox -s servers", allow_module_level=True)

pytestmark = pytest.mark.one_loop  # uvicorn's


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, started: set[str]) -> str:
    """A proxy that is there."""
    if program(request.param) is None:
        pytest.skip(f"STREAMFOLD_{request.param.upper()} names no {request.param}: nox -s servers")
    started.add(request.param)
    return str(request.param)


async def provider(connection: Connection) -> None:
    """Says which gateway asked, twenty words, and a call."""
    while True:
        await connection.request()
        gateway = re.search(rb" /(.)/", connection.server.requests[-1])
        assert gateway is not None
        await connection.send(STREAM, framed(text(gateway[1].decode())))
        for _ in range(PIECES):
            await anyio.sleep(0.05)
            await connection.send(framed(text(".")))
        await connection.send(framed(call(entry(0, "a", "f", '{"x":1}')), fin("tool_calls"), USAGE, DONE), END)


@asynccontextmanager
async def replicas(
    kind: str, folder: Path, settings: str = ""
) -> AsyncIterator[tuple[str, list[Command], list[bytes]]]:
    """The address of a proxy, the two gateways behind it, and the requests that their provider gets."""
    port, store = free_port(), free_port()
    async with AsyncExitStack() as stack:
        command = [valkey_program(), "--port", str(store), "--dir", str(folder), "--save", ""]
        valkey = await stack.enter_async_context(await anyio.open_process(command, stdout=None))
        stack.callback(valkey.kill)
        upstream = await stack.enter_async_context(serving(provider))
        gateways = []
        for name in "ab":
            file = folder / f"{name}.toml"
            upstream_url = f"http://127.0.0.1:{upstream.port}/{name}/v1"
            file.write_text(CONFIG.format(upstream=upstream_url, store=store, settings=settings), "utf-8")
            gateways.append(await stack.enter_async_context(running_command(file, TEAM_KEY="team", FEW_KEY="few")))
        config = (EXAMPLE / KINDS[kind]).read_text("utf-8")
        for name, gateway in zip(("gateway-1:8100", "gateway-2:8100"), gateways, strict=True):
            config = config.replace(name, gateway.address.removeprefix("http://"))
        config = config.replace("bind :8080", f"bind 127.0.0.1:{port}").replace(
            "listen 8080", f"listen 127.0.0.1:{port}"
        )
        await stack.enter_async_context(running_proxy(kind, config, port, folder))
        yield f"http://127.0.0.1:{port}/v1", gateways, upstream.requests


async def load(address: str, ends: Counter[str], busy: anyio.Event, clients: int, rounds: int) -> None:
    """Clients that ask one question after the other, and count how each answer ended, by the gateway that gave it."""
    begun = 0

    async def client() -> None:
        nonlocal begun
        config = {"base_url": address, "model": "main", "api_key": "team", "max_retries": 0}
        async with Provider.from_config(config) as model:
            for _ in range(rounds):
                gateway = "none"
                try:
                    async for chunk in model.chat_stream("Hi", [F]):
                        if chunk.delta and gateway == "none":
                            gateway, begun = chunk.delta[0], begun + 1
                            if begun == clients // 2:
                                busy.set()
                        if chunk.finished:
                            assert chunk.tool_calls
                    ends[f"{gateway} whole"] += 1
                except APIError as error:
                    with_calls = error.partial is not None and error.partial.tool_calls
                    ends[f"{gateway} {'to be retried' if error.retryable and not with_calls else 'failed'}"] += 1

    async with anyio.create_task_group() as tasks:
        for _ in range(clients):
            tasks.start_soon(client)


async def test_one_is_killed_under_load(kind: str, tmp_path: Path) -> None:
    """200 clients: those of the other gateway notice nothing, and the killed one's get an error that they may retry."""
    ends, busy = Counter[str](), anyio.Event()
    async with replicas(kind, tmp_path) as (address, gateways, _), anyio.create_task_group() as tasks:
        tasks.start_soon(load, address, ends, busy, 200, 2)
        await busy.wait()
        gateways[0].process.kill()
    log.info("%s: %s", kind, dict(sorted(ends.items())))
    assert sum(ends.values()) == 400
    assert not [end for end in ends if end.endswith("failed")]
    assert ends["b to be retried"] == 0
    assert 0 < ends["a to be retried"] + ends["none to be retried"] <= 120  # what it was answering
    assert ends["b whole"] >= 200


async def test_one_is_told_to_stop_under_load(kind: str, tmp_path: Path) -> None:
    """Nobody notices anything: it finishes its answers, and others are asked of the other gateway."""
    ends, busy = Counter[str](), anyio.Event()
    async with (
        replicas(kind, tmp_path, "drain = 3.0\nshutdown = 60.0\nworkers = 2") as (address, gateways, _),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(load, address, ends, busy, 200, 2)
        await busy.wait()
        gateways[0].stop()
    log.info("%s: %s", kind, dict(sorted(ends.items())))
    assert {end.split()[1] for end in ends} == {"whole"}
    assert sum(ends.values()) == 400


async def test_limits_hold_for_both(kind: str, tmp_path: Path) -> None:
    """A key with 60 requests a minute has them once, whichever gateway it reaches, also when one of them is killed."""
    statuses: list[int] = []
    async with replicas(kind, tmp_path) as (address, gateways, requests), httpx.AsyncClient(timeout=30) as client:
        body = {"model": "main", "messages": [{"role": "user", "content": "Hi"}]}

        async def ask() -> None:
            with suppress(httpx.TransportError):  # of the one that is killed
                answer = await client.post(f"{address}/chat/completions", json=body, headers=FEW)
                statuses.append(answer.status_code)

        began = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            for _ in range(80):
                tasks.start_soon(ask)
        most = 61 + (anyio.current_time() - began)
        assert 59 <= statuses.count(200) <= most
        assert set(statuses) == {200, 429}
        assert len(requests) == statuses.count(200)
        asked = Counter(request.split(b" ", 2)[1] for request in requests)
        assert len(asked) == 2  # both have answered
        gateways[0].process.kill()
        for _ in range(3):  # its part is not given anew
            async with anyio.create_task_group() as tasks:
                for _ in range(20):
                    tasks.start_soon(ask)
        assert statuses.count(200) <= 61 + (anyio.current_time() - began)


async def test_workers_under_load(kind: str, tmp_path: Path) -> None:
    """Their metrics add up to what clients have got, and all of it is in the log, with what it cost."""
    ends, busy = Counter[str](), anyio.Event()
    async with replicas(kind, tmp_path, "workers = 2") as (address, gateways, _):
        await load(address, ends, busy, 100, 2)
        counted = 0.0
        for gateway in gateways:
            async with httpx.AsyncClient(timeout=20) as client:
                metrics = await client.get(f"{gateway.address}/metrics", headers={"authorization": "Bearer team"})
            counted += sum(float(each) for each in re.findall(r"streamfold_requests_total{.*} (\S+)", metrics.text))
        assert counted == sum(ends.values()) == 200
    said = [line for gateway in gateways for line in gateway.said.decode().splitlines()]
    lines = [json.loads(line) for line in said if line.startswith("{")]
    assert Counter((line["key"], line["outcome"], line["cost"]) for line in lines) == {
        ("team", "completed", 0.018): 200
    }
