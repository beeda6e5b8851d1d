"""Streams in a row, and streams at once: what they leave behind, and what closing one costs.

10,000 answers over an in-memory transport must leave no memory behind, however they end. And closing one of many open
streams looks at all of the connections in httpcore's pool: what that costs with 1,000 of them, in microseconds for
each, over both transports.

    python benchmarks/bench_streams.py [STREAMS]
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import resource
import sys
import tracemalloc
from contextlib import suppress
from time import process_time

import httpx

from streamfold import APIError, Provider

TEXT = b'data: {"choices":[{"delta":{"content":"Hello"}}]}\n\n'
FINISH = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
FAILURE = b'data: {"error":{"message":"full","code":503}}\n\n'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


async def in_a_row(streams: int) -> None:
    bodies = itertools.cycle([TEXT + FINISH, TEXT + FAILURE, TEXT])
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=next(bodies)))
    async with httpx.AsyncClient(transport=transport) as client:
        provider = Provider.from_config({"base_url": "http://test/v1", "model": "m"}, http_client=client)

        async def some(number: int) -> None:
            for _ in range(number):
                with suppress(APIError):
                    await provider.chat("Hello")
                await asyncio.sleep(0)

        await some(300)
        tracemalloc.start()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for part in range(1, 5):
            await some(streams // 4)
            gc.collect()
            grown = tracemalloc.get_traced_memory()[0] - before
            print(f"{streams // 4 * part:8d} streams in a row   {grown / 1000:8.1f} kB more than before")
        tracemalloc.stop()


async def at_once(streams: int, transport: str) -> None:
    all_gone, gone = asyncio.Event(), itertools.count(1)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + TEXT)
        await writer.drain()
        while await reader.read(65536):
            pass
        writer.close()
        if next(gone) == streams:
            all_gone.set()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
    port = server.sockets[0].getsockname()[1]
    config = {"base_url": f"http://127.0.0.1:{port}/v1", "model": "m", "transport": transport}
    async with server, Provider.from_config(config) as provider:
        open_streams = [provider.chat_stream("Hello") for _ in range(streams)]
        began = process_time()
        for at in range(0, streams, 50):
            await asyncio.gather(*(anext(stream) for stream in open_streams[at : at + 50]))
        opened = process_time()
        for stream in open_streams:
            await stream.aclose()
        closed = process_time()
        await all_gone.wait()
    each = [(opened - began) / streams * 1e6, (closed - opened) / streams * 1e6]
    print(f"{streams:8d} streams at once over {transport:8s} {each[0]:8.0f} us to open   {each[1]:8.0f} us to close")


def main() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, hard), hard))
    asyncio.run(in_a_row(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
    for transport in ("httpx", "aiohttp"):
        for streams in (125, 1000):
            asyncio.run(at_once(streams, transport))


if __name__ == "__main__":
    main()
