"""A provider that counts what it is asked for, for `bench_batch.py`: a process of its own, as cheap as Python can be.

It answers `p12` with `p12!` as a stream, after a while, and now and then with 500 or 429 instead. One line of standard
output is its port. A line of standard input has it print what it has counted, as JSON: rows that were answered, those
answered more than once, statuses, how many streams there were at most, and how many connections in all. The word `rows`
has it print only the first of these, and `reset` begin anew. It ends with its standard input.

    python benchmarks/batch_server.py [LATENCY] [FAULTS]
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
from collections import Counter

ROW = re.compile(rb'"content": ?"p(\d+)')
LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
WORDS = 8  # events of an answer


def framed(*events: object) -> bytes:
    data = b"".join(b"data: " + (event if isinstance(event, bytes) else dumped(event)) + b"\n\n" for event in events)
    return b"%x\r\n%b\r\n" % (len(data), data)


def dumped(event: object) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode()


def delta(text: str, reason: str | None = None) -> dict[str, object]:
    choice = {"index": 0, "delta": {"content": text} if text else {}, "finish_reason": reason}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


USAGE = {"prompt_tokens": 12, "completion_tokens": WORDS, "total_tokens": 12 + WORDS}
REST = framed(*[delta("!")] * (WORDS - 1), {**delta("", "stop"), "usage": USAGE}, b"[DONE]") + b"0\r\n\r\n"


class Tally:
    def __init__(self) -> None:
        self.asked: Counter[int] = Counter()
        self.statuses: Counter[int] = Counter()
        self.open = self.most_open = self.connections = self.opened = 0

    def shown(self) -> str:
        return json.dumps(
            {
                "statuses": self.statuses,
                "streams": self.most_open,
                "connections": self.opened,
                "asked": {row: count for row, count in self.asked.items() if count > 1},
                "rows": len(self.asked),
            }
        )


class Server(asyncio.Protocol):
    def __init__(self, tally: list[Tally], latency: float, faults: float, rng: random.Random) -> None:
        self.tally, self.latency, self.faults, self.rng = tally, latency, faults, rng
        self.data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.at = self.tally[0]
        self.at.connections += 1
        self.at.opened += 1

    def connection_lost(self, error: Exception | None) -> None:
        self.at.connections -= 1

    def data_received(self, data: bytes) -> None:
        self.data += data
        while (end := self.data.find(b"\r\n\r\n")) >= 0:
            length = LENGTH.search(self.data, 0, end)
            whole = end + 4 + (int(length[1]) if length else 0)
            if len(self.data) < whole:
                return
            body, self.data = self.data[end + 4 : whole], self.data[whole:]
            self.asked(body)

    def asked(self, body: bytes) -> None:
        found = ROW.search(body)
        row = int(found[1]) if found else -1
        status = 200 if self.rng.random() >= self.faults else self.rng.choice((429, 500))
        self.at.statuses[status] += 1
        if status != 200:
            head = f"HTTP/1.1 {status} X\r\nretry-after: 0.05\r\ncontent-type: application/json\r\n"
            text = b'{"error": {"message": "try again"}}'
            self.transport.write(f"{head}content-length: {len(text)}\r\n\r\n".encode() + text)
            return
        self.at.asked[row] += 1
        self.at.open += 1
        self.at.most_open = max(self.at.most_open, self.at.open)
        wait = self.latency * self.rng.lognormvariate(0, 0.5)
        asyncio.get_running_loop().call_later(wait, self.answered, row)

    def answered(self, row: int) -> None:
        self.at.open -= 1
        if not self.transport.is_closing():
            self.transport.write(STREAM + framed(delta(f"p{row}")) + REST)


async def serve(latency: float, faults: float) -> None:
    tally, rng, loop = [Tally()], random.Random(7), asyncio.get_running_loop()
    listening = await loop.create_server(lambda: Server(tally, latency, faults, rng), "127.0.0.1", 0, backlog=4096)
    print(listening.sockets[0].getsockname()[1], flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps({"rows": len(tally[0].asked)}) if line.strip() == "rows" else tally[0].shown(), flush=True)
        if line.strip() == "reset":
            tally[0] = Tally()


if __name__ == "__main__":
    numbers = [float(word) for word in sys.argv[1:]]
    asyncio.run(serve(*numbers[:2], *[0.0] * (2 - len(numbers))))
