"""The served gateway under load, with everything happening to it at once that happens to servers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import httpx
import pytest

from folding import DONE, fin, text
from gateways import CHAT, Command, asking
from servers import END, STREAM, Connection, framed, serving

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.one_loop,
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]
STREAMS, LEAVE = 2000, 201

# `streamfold serve` whose workers say what they hold.
PROGRAM = """
import asyncio, json, os, sys
from streamfold_gateway import run, server

class Worker(server.Worker):
    async def __call__(self, scope, receive, send):
        if scope.get("path") != "/tasks":
            return await super().__call__(scope, receive, send)
        body = json.dumps({os.getpid(): len(asyncio.all_tasks())}).encode()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

server.Worker = Worker
run(sys.argv[1], port=0)
"""


class Load:
    """Streams that begin, and end when the test says so.

    Attributes:
        go_on: set when the provider may end its answers.
        leave: set when the clients may leave that are to leave.
        begun: streams whose first text has arrived.
        whole: streams that came to their end.
        lost: the ports of clients whose answer was something else.
        reset: connections that were reset before their worker had accepted them.
    """

    def __init__(self) -> None:
        self.go_on, self.leave = asyncio.Event(), asyncio.Event()
        self.begun = self.whole = self.reset = 0
        self.lost: dict[int, bytes] = {}
        self.port = 0

    async def provider(self, connection: Connection) -> None:
        """Says "Hel", and "lo" when it may."""
        await connection.request()
        await connection.send(STREAM.replace(END[1:], b"\r\nConnection: close\r\n\r\n"), framed(text("Hel")))
        async with anyio.create_task_group() as tasks:

            async def end() -> None:
                await self.go_on.wait()
                await connection.send(framed(text("lo"), fin("stop"), DONE), END)
                tasks.cancel_scope.cancel()

            tasks.start_soon(end)
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                await connection.gone()
            tasks.cancel_scope.cancel()

    async def ask(self, *, leaves: bool = False) -> None:
        body = json.dumps(asking(CHAT, stream=True)).encode()
        head = f"POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        received = b""
        while not received:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except ConnectionResetError:
                self.reset += 1
                continue
            writer.write(head.encode() + body)
            with suppress(ConnectionError):
                while data := await reader.read(65536):
                    self.begun += b"Hel" in data
                    received += data
                    if leaves and b"Hel" in received:
                        await self.leave.wait()
                        break
            self.reset += not received
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
        if b"data: [DONE]" in received:
            self.whole += 1
        elif not leaves:
            self.lost[writer.get_extra_info("sockname")[1]] = received

    @asynccontextmanager
    async def streams(self, number: int, leaving: int = 0) -> AsyncIterator[asyncio.TaskGroup]:
        """A block in which this number of streams has begun. Behind it all have ended."""
        self.go_on, self.leave, self.begun = asyncio.Event(), asyncio.Event(), 0
        async with asyncio.TaskGroup() as clients:
            for count in range(number):
                clients.create_task(self.ask(leaves=count < leaving))
                if count % 100 == 99:  # as fast as the machine takes them
                    await until(lambda count=count: self.begun == count + 1)
            await until(lambda: self.begun == number)
            yield clients
            self.go_on.set()

    def clients_of(self, pid: int) -> set[int]:
        """The ports of the clients that are connected to a process."""
        inodes = {target.removeprefix("socket:[").rstrip("]") for target in open_files(pid)}
        rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
        ours = [row for row in rows if int(row[1].rpartition(":")[2], 16) == self.port and row[9] in inodes]
        return {int(row[2].rpartition(":")[2], 16) for row in ours} - {0}


def open_files(pid: int) -> list[str]:
    found = []
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(str(file.readlink()))
    return found


async def until(condition: Callable[[], object]) -> None:
    with anyio.fail_after(240):
        while not condition():
            await anyio.sleep(0.05)


async def tasks_of(port: int) -> dict[int, int]:
    """How many tasks each of the two workers has."""
    found: dict[int, int] = {}
    async with httpx.AsyncClient(timeout=60) as client:
        while len(found) < 2:
            found.update((await client.get(f"http://127.0.0.1:{port}/tasks", headers={"Connection": "close"})).json())
    return {int(pid): tasks for pid, tasks in found.items()}


@asynccontextmanager
async def served(folder: Path, base_url: str) -> AsyncIterator[Command]:
    program, file = folder / "served.py", folder / "streamfold.toml"
    program.write_text(PROGRAM)
    file.write_text(
        f'[providers.main]\nbase_url = "{base_url}"\nmodel = "m"\nmax_retries = 0\n'
        "timeouts = {connect = 600, first_event = 600, read = 600, stall = 600}\n"
        "[gateway]\nworkers = 2\nmax_requests = 3000\nshutdown = 60\nhead_timeout = 2\n"
    )
    process = await anyio.open_process([sys.executable, str(program), str(file)], stderr=subprocess.STDOUT)
    command = Command(process)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(command.read)
        try:
            await command.says(b" is ready", 2)
            yield command
        finally:
            process.terminate()
            await process.wait()
            (folder / "log").write_bytes(command.said)


async def test_2000_streams_while_workers_are_replaced_and_killed(tmp_path: Path) -> None:
    """Clients leave, workers are reloaded and killed: nothing is lost but the streams of those that were killed.

    No open file and no task is left in the workers.
    """
    load, lost = Load(), 0
    async with serving(load.provider) as upstream, served(tmp_path, upstream.base_url) as command:
        load.port = int(command.address.rpartition(":")[2])
        for times in range(3):
            ready = len(command.workers)
            async with load.streams(STREAMS, LEAVE // 3) as clients:
                load.leave.set()
                await until(lambda: upstream.open == STREAMS - LEAVE // 3)
                command.stop(signal.SIGHUP)
                await until(lambda ready=ready: len(command.workers) == ready + 1)
                for _ in range(100):
                    clients.create_task(load.ask())
                await until(lambda: load.begun == STREAMS + 100)
            await until(lambda times=times: command.said.count(b" stops, with ") == 2 * (times + 1))
            assert len(command.workers) == ready + 2
            async with load.streams(STREAMS):
                worker = max(command.workers[-2:], key=lambda pid: len(load.clients_of(pid)))
                assert load.lost == {}
                killed = load.clients_of(worker)
                os.kill(worker, signal.SIGKILL)
                await until(lambda ready=ready: len(command.workers) == ready + 3)
            assert load.lost.keys() == killed
            lost += len(killed)
            load.lost.clear()
        assert load.whole == 3 * (2 * STREAMS + 100 - LEAVE // 3) - lost
        # Linux resets connections that wait at a port that is closed, unless it is told to give them to another worker.
        migrates = Path("/proc/sys/net/ipv4/tcp_migrate_req").read_text().strip() == "1"
        assert load.reset <= (0 if migrates else 100)
        for _ in range(2):
            await until(lambda: upstream.open == 0)
            two = [pid for pid in command.workers if Path(f"/proc/{pid}").exists()]
            await until(lambda two=two: not any(load.clients_of(pid) for pid in two))
            sockets = [len([file for file in open_files(pid) if file.startswith("socket:")]) for pid in two]
            tasks = await tasks_of(load.port)
            assert sorted(tasks) == sorted(two)
            assert all(number <= 8 for number in [*sockets, *tasks.values()]), (sockets, tasks)
            async with load.streams(100, 50):
                load.leave.set()
    assert command.process.returncode == 0
