"""Several processes that serve one port: nothing is lost when they stop, are replaced, or die."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from typer.testing import CliRunner

from commands import start
from folding import DONE, event, fin, text
from gateways import CHAT, RESPONSES, asking, running_command
from mirror import read
from processes import free_port
from servers import END, STREAM, Connection, Server, framed, serving
from streamfold import APIConnectionError, ConfigError, IncompleteStreamError, Provider
from streamfold.cli.app import app as cli
from streamfold.config import read_config
from streamfold_gateway import create_app
from streamfold_gateway.factory import settings
from streamfold_gateway.metrics import METRICS_FOLDER
from valkeys import valkey_server

pytestmark = [pytest.mark.skipif(os.name != "posix", reason="workers need POSIX"), pytest.mark.one_loop]  # uvicorn's
USAGE = event({"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}})


class Upstream:
    """A provider that says "Hel", and "lo" when it may."""

    def __init__(self) -> None:
        self.go_on = anyio.Event()

    async def script(self, connection: Connection) -> None:
        while True:
            await connection.request()
            await connection.send(STREAM, framed(text("Hel")))
            await self.go_on.wait()
            await connection.send(framed(text("lo"), USAGE, fin("stop"), DONE), END)


@asynccontextmanager
async def workers(folder: Path, upstream: Upstream, settings: str = "", **environment: str) -> AsyncIterator[Any]:
    """A command with workers, and the server behind them."""
    async with serving(upstream.script) as server:
        file = folder / "streamfold.toml"
        file.write_text(written(server, settings))
        async with running_command(file, "--workers", "2", TMPDIR=str(folder), **environment) as command:
            await command.says(b" is ready", 2)
            yield command, server, file


def written(server: Server, settings: str) -> str:
    provider = f'[providers.main]\nbase_url = "{server.base_url}"\nmodel = "m"\nmax_retries = 0\n'
    provider += "prices = {input = 1000, output = 2000}\n"
    return f"{provider}[gateway]\n{settings}\n"


async def ask(address: str, found: list[str], begun: list[Any], path: str = CHAT) -> None:
    """Asks over a connection of its own, so that any worker may answer."""
    received = b""
    async with (
        httpx.AsyncClient(timeout=30) as client,
        client.stream("POST", f"{address}{path}", json=asking(path, stream=True)) as answer,
    ):
        async for data in answer.aiter_raw():
            if not received and b"Hel" in data:
                begun.append(answer)
            received += data
    found.append(read("chat", received).text)


async def until(condition: Any) -> None:
    with anyio.fail_after(20):
        while not condition():
            await anyio.sleep(0.02)


def alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


async def get(address: str, path: str) -> httpx.Response:
    """A request over a connection of its own."""
    async with httpx.AsyncClient(timeout=20) as client:
        return await client.get(f"{address}{path}")


@pytest.mark.slow
async def test_told_to_stop_the_workers_finish_their_answers(tmp_path: Path) -> None:
    """All of them say that they are not ready, all answers come to their end, and then nobody listens any more."""
    pytest.importorskip("prometheus_client")
    upstream, found, begun = Upstream(), list[str](), list[Any]()
    statuses: list[int] = []
    async with workers(tmp_path, upstream, "drain = 1.0\nmetrics = true") as (command, server, _):
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(ask, command.address, found, begun)
            await until(lambda: len(begun) == 20)
            assert "streamfold_requests_running 20.0" in (await get(command.address, "/metrics")).text
            assert len(list(tmp_path.glob("streamfold-serve-*"))) == 1  # what the workers share
            command.stop()
            with suppress(httpx.TransportError):
                while True:
                    statuses.append((await get(command.address, "/readyz")).status_code)
            assert statuses[-5:] == [503] * 5
            assert (server.open, found) == (20, [])
            upstream.go_on.set()
        assert found == ["Hello"] * 20
        await command.process.wait()
        assert command.process.returncode == 0
        assert not list(tmp_path.glob("streamfold-serve-*"))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
async def test_workers_that_are_not_forked(method: str, tmp_path: Path) -> None:
    """They serve too: macOS and Windows spawn processes, and Python 3.14 has a fork server on Linux."""
    folder = tmp_path / "first"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(f"import multiprocessing\nmultiprocessing.set_start_method('{method}')\n")
    upstream, found = Upstream(), list[str]()
    upstream.go_on.set()
    async with workers(tmp_path, upstream, "metrics = true", PYTHONPATH=str(folder)) as (command, _, _):
        await ask(command.address, found, [])
    assert found == ["Hello"]


@pytest.mark.slow
async def test_a_worker_that_is_killed(tmp_path: Path) -> None:
    """Its clients get an error that they may retry, nobody else notices, and another worker takes its place.

    What it has counted is not lost, and answers that are kept are there for whoever asks next.
    """
    pytest.importorskip("prometheus_client")
    upstream = Upstream()
    ends: list[str] = []

    async def stream(address: str, begun: list[int]) -> None:
        async with Provider.from_config({"base_url": f"{address}/v1", "model": "main", "max_retries": 0}) as provider:
            try:
                async for chunk in provider.chat_stream("Hi"):
                    if chunk.delta == "Hel":
                        begun.append(1)
                ends.append("whole")
            except (IncompleteStreamError, APIConnectionError) as error:
                ends.append("cut, to be retried" if error.retryable else "cut")

    async with workers(tmp_path, upstream, "metrics = true") as (command, _, _):
        upstream.go_on.set()
        for _ in range(12):
            answer = httpx.AsyncClient(timeout=20)
            async with answer:
                first = await answer.post(f"{command.address}{RESPONSES}", json=asking(RESPONSES))
            async with httpx.AsyncClient(timeout=20) as other:  # over another connection: perhaps by the other worker
                body = asking(RESPONSES, previous_response_id=first.json()["id"])
                assert (await other.post(f"{command.address}{RESPONSES}", json=body)).status_code == 200
        upstream.go_on = anyio.Event()
        begun: list[int] = []
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(stream, command.address, begun)
            await until(lambda: len(begun) == 20)
            os.kill(command.workers[0], signal.SIGKILL)
            await command.says(b" is ready", 3)
            upstream.go_on.set()
        assert set(ends) == {"whole", "cut, to be retried"}  # a burst of connections is shared
        assert len(ends) == 20
        assert len(set(command.workers)) == 3
        counted = (await get(command.address, "/metrics")).text
        wanted = 'api="responses",model="main",outcome="completed",provider="main",status="200"'
        assert f"streamfold_requests_total{{{wanted}}} 24.0" in counted
        assert "streamfold_requests_running 0.0" in counted


@pytest.mark.slow
async def test_limits_hold_for_all_workers(tmp_path: Path) -> None:
    """A key with 60 requests a minute has them once, whichever worker it reaches, and its money too."""
    upstream, statuses, spent = Upstream(), list[int](), list[int]()
    keys = (
        '[gateway.keys.few]\nkey_env = "FEW"\nrpm = 60\n[gateway.keys.poor]\nkey_env = "POOR"\nmax_cost_per_day = 0.1'
    )
    upstream.go_on.set()

    async def one(address: str, key: str, found: list[int]) -> None:
        async with httpx.AsyncClient(timeout=20, headers={"authorization": f"Bearer {key}"}) as client:
            found.append((await client.post(f"{address}{CHAT}", json=asking(CHAT))).status_code)

    async with workers(tmp_path, upstream, keys, FEW="few", POOR="poor") as (command, server, _):
        began = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            for _ in range(80):
                tasks.start_soon(one, command.address, "few", statuses)
        assert 59 <= statuses.count(200) <= 62 + (anyio.current_time() - began)
        assert len(server.requests) == statuses.count(200)
        for _ in range(10):
            await one(command.address, "poor", spent)
        assert spent == [200] * 5 + [429] * 5  # 0.018 each, of 0.1


@pytest.mark.slow
async def test_responses_on_a_server_outlive_the_workers(tmp_path: Path) -> None:
    """Only what would be kept in each process is in files of the workers, which are removed with them."""
    upstream, port = Upstream(), free_port()
    upstream.go_on.set()
    kept = f'responses = "valkey://127.0.0.1:{port}"'
    with valkey_server(tmp_path, "--port", str(port)):
        async with workers(tmp_path, upstream, kept) as (command, _, _), httpx.AsyncClient(timeout=20) as client:
            made = (await client.post(f"{command.address}{RESPONSES}", json=asking(RESPONSES))).json()
        async with workers(tmp_path, upstream, kept) as (command, _, _):
            again = (await get(command.address, f"{RESPONSES}/{made['id']}")).json()
    assert again == made


@pytest.mark.thorough
async def test_the_configuration_is_read_again(tmp_path: Path) -> None:
    """By new workers: running answers are finished by the old ones. A mistake in it changes nothing."""
    upstream, found, begun = Upstream(), list[str](), list[Any]()
    async with workers(tmp_path, upstream) as (command, server, file), anyio.create_task_group() as tasks:
        tasks.start_soon(ask, command.address, found, begun)
        await until(lambda: begun)
        file.write_text(written(server, "zzz = 1"))
        command.stop(signal.SIGHUP)
        await command.says(b"zzz: unknown key")
        await command.says(b" is ready", 3)  # with the configuration as it was
        file.write_text(written(server, 'aliases = {other = "main"}'))
        command.stop(signal.SIGHUP)
        upstream.go_on.set()  # granian replaces one worker after the other
        await command.says(b" is ready", 6)
        await command.says(b" stops, with ", 4)
        names = [model["id"] for model in (await get(command.address, "/v1/models")).json()["data"]]
        assert names == ["main", "other"]
    assert found == ["Hello"]


class Kept:
    """A client that keeps its connection, as the pool of a proxy does, and heeds `Connection: close`."""

    def __init__(self, address: str) -> None:
        host, port = address.removeprefix("http://").split(":")
        self.address = (host, int(port))
        body = json.dumps(asking(CHAT, stream=True)).encode()
        head = f"POST {CHAT} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        self.request = f"{head}\r\n\r\n".encode() + body
        self.whole = self.told = self.closed = self.lost = 0
        self.stop = False

    async def ask(self) -> None:
        """Asks one thing after another, at once. A request is sent again only if an idle connection was closed."""
        stream, used = await anyio.connect_tcp(*self.address), False
        while not self.stop:
            received = b""
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                await stream.send(self.request)
                while not received.endswith(b"0\r\n\r\n"):
                    received += await stream.receive()
            whole = received.endswith(b"0\r\n\r\n") and b"[DONE]" in received
            told = b"\r\nconnection: close\r\n" in received.partition(b"\r\n\r\n")[0].lower() + b"\r\n"
            self.whole += whole
            self.told += told
            self.closed += used and not received
            self.lost += not whole and (not used or bool(received))
            used = whole and not told
            if not used:
                await stream.aclose()
                stream = await anyio.connect_tcp(*self.address)
        await stream.aclose()


@pytest.mark.slow
async def test_connections_that_are_kept_are_told_before_their_worker_leaves(tmp_path: Path) -> None:
    """Two rolling restarts under clients that ask at once: no answer is cut, and nobody is left without one."""
    upstream = Upstream()
    upstream.go_on.set()
    async with workers(tmp_path, upstream) as (command, _, _), anyio.create_task_group() as tasks:
        clients = [Kept(command.address) for _ in range(8)]
        for client in clients:
            tasks.start_soon(client.ask)
        for restart in (1, 2):
            old = set(command.workers)
            answers = sum(client.whole for client in clients)
            command.stop(signal.SIGHUP)
            await command.says(b" stops, with ", 2 * restart)
            await until(lambda old=old: not any(map(alive, old - set(command.workers[-2:]))))
            await until(lambda answers=answers: sum(client.whole for client in clients) > answers + 50)
        for client in clients:
            client.stop = True
    assert [client.lost for client in clients] == [0] * 8
    # A client that is kept from running for a second finds its connection closed; nearly none does.
    assert sum(client.told for client in clients) >= 8 > sum(client.closed for client in clients)


@pytest.mark.thorough
async def test_workers_do_not_outlive_their_supervisor(tmp_path: Path) -> None:
    """Also when that is killed: they finish what they do, and stop."""
    async with workers(tmp_path, Upstream()) as (command, _, _):
        command.process.kill()
        await command.process.wait()
        await until(lambda: not any(map(alive, command.workers)))


@pytest.mark.thorough
async def test_ctrl_c_in_a_terminal(tmp_path: Path) -> None:
    """It reaches all processes at once, and means one thing: finish, and stop."""
    upstream, found, begun = Upstream(), list[str](), list[Any]()
    async with workers(tmp_path, upstream) as (command, _, _), anyio.create_task_group() as tasks:
        tasks.start_soon(ask, command.address, found, begun)
        await until(lambda: begun)
        for pid in [command.process.pid, *command.workers]:
            os.kill(pid, signal.SIGINT)
        await command.says(b" stops, with ")
        upstream.go_on.set()
        await command.process.wait()
        assert command.process.returncode == 0
    assert found == ["Hello"]


def test_what_several_processes_can_not_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page of the last answers shows those of one process: both together are refused, with what to change."""
    monkeypatch.setenv(METRICS_FOLDER, "")  # `serve` sets it in this process
    file = tmp_path / "streamfold.toml"
    file.write_text('[providers.main]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n[gateway]\nworkers = 2\n')
    with pytest.raises(ConfigError, match=r"ui: .* workers is 2"):
        settings(read_config(file), ui=True)
    said = CliRunner().invoke(cli, ["serve", "-c", str(file), "--ui"])
    assert (said.exit_code, "workers is 2" in said.output) == (2, True)


@pytest.mark.slow
def test_a_port_that_is_taken(tmp_path: Path) -> None:
    """It is said once, before any worker is started."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        file = tmp_path / "streamfold.toml"
        file.write_text('[providers.main]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n')
        words = ["serve", "-c", str(file), "--workers", "2", "--port", str(taken.getsockname()[1])]
        assert start(tmp_path, *words).returncode == 3  # in a process of its own: it sets up the log


LOADED_LATE = """
import json, sys, anyio, httpx
from streamfold.config import read_config
from streamfold_gateway.factory import app_from_settings, preload, settings

config = read_config("streamfold.toml")
app = app_from_settings(config, settings(config))

async def ask():
    global before
    await preload(app)
    before = set(sys.modules)
    async with app, httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        answer = await client.post("/v1/chat/completions", json={"model": "main", "messages": MESSAGES})
        assert answer.status_code == 200, answer.text

MESSAGES = [{"role": "user", "content": "Hi"}]
anyio.run(ask)
print(json.dumps(sorted({name.partition(".")[0] for name in set(sys.modules) - before})))
"""


@pytest.mark.slow
async def test_the_first_request_loads_nothing(tmp_path: Path) -> None:
    """What it needs is there before the server listens: the first clients do not wait for packages to be read."""
    upstream = Upstream()
    upstream.go_on.set()
    async with serving(upstream.script) as server:
        (tmp_path / "streamfold.toml").write_text(written(server, "").replace("prices =", "# prices ="))
        done = await anyio.run_process([sys.executable, "-c", LOADED_LATE], cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert {"aiohttp", "genai_prices", "ssl"}.isdisjoint(json.loads(done.stdout))


# --- other servers ----------------------------------------------------------------------------------------------------


async def test_the_app_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A factory makes it, for uvicorn, Granian or Gunicorn. Without a key it is for the machine that it runs on."""
    file = tmp_path / "streamfold.toml"
    file.write_text('[providers.main]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n')
    monkeypatch.setenv("STREAMFOLD_CONFIG", str(file))

    async def status(address: str, **headers: str) -> int:
        transport = httpx.ASGITransport(create_app(), client=("10.0.0.2", 1))
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{address}") as client:
            return (await client.get("/v1/models", headers={"host": "x", **headers})).status_code

    assert await status("127.0.0.1", host="127.0.0.1") == 200
    assert await status("10.0.0.1") == 403
    file.write_text(f"{file.read_text()}[gateway]\nopen = true\n")
    assert await status("10.0.0.1") == 200
    monkeypatch.setenv("TEAM_KEY", "k")
    file.write_text(file.read_text().replace("open = true", 'api_key_env = "TEAM_KEY"'))
    assert await status("10.0.0.1") == 401
    assert await status("10.0.0.1", authorization="Bearer k") == 200
