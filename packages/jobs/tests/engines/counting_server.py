"""A server that answers each prompt with itself, as a process of its own: it notes what it was asked, whoever dies.

Arguments: the port, the file for its notes, and the seconds that an answer takes. A prompt with `bad` in it is refused,
one with `flaky` fails the first time, and one with `key` has a key that is refused.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from pathlib import Path

PORT, NOTES, SECONDS = int(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
HEAD = "HTTP/1.1 {}\r\ncontent-type: {}\r\ncontent-length: {}\r\n\r\n"


def event(value: object) -> str:
    return f"data: {json.dumps(value)}\n\n"


def streamed(prompt: str) -> bytes:
    chunks = [
        {"choices": [{"index": 0, "delta": {"content": f"{prompt}!"}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 1}},
    ]
    body = "".join(map(event, chunks)) + "data: [DONE]\n\n"
    return (HEAD.format("200 OK", "text/event-stream", len(body)) + body).encode()


def refused(status: str, message: str) -> bytes:
    body = json.dumps({"error": {"message": message}})
    return (HEAD.format(status, "application/json", len(body)) + body).encode()


async def main() -> None:
    notes = NOTES.open("a", buffering=1, encoding="utf-8")
    flaky: set[str] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = next(
                    (int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:")), 0
                )
                body = await reader.readexactly(length)
                if not length:
                    writer.write(refused("200 OK", "ready"))
                    continue
                prompt = json.loads(body)["messages"][-1]["content"]
                notes.write(f"asked {time.monotonic()} {prompt}\n")
                await asyncio.sleep(SECONDS * random.lognormvariate(0, 0.5))
                if "bad" in prompt:
                    data = refused("400 Bad Request", "no such thing")
                elif "key" in prompt:
                    data = refused("401 Unauthorized", "Incorrect API key provided")
                elif "flaky" in prompt and prompt not in flaky:
                    flaky.add(prompt)
                    data = refused("500 Internal Server Error", "oops")
                else:
                    data = streamed(prompt)
                notes.write(f"answered {time.monotonic()} {prompt}\n")
                writer.write(data)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", PORT, limit=2**24, backlog=1000) as server:
        await server.serve_forever()


asyncio.run(main())
