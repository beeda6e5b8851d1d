"""Where the time of an event goes: each layer alone, on what the layers before it made of the same bytes.

The layers are those of `StreamDecoder`, which has the lines between them, and of `ChatStream` round it, here over a
transport in memory. Beside them stands what nobody can do without: the bare loop, which splits at blank lines, parses
and collects. Microseconds of CPU per event; of many short rounds, in which all layers take turns, the quickest counts.

    python benchmarks/bench_layers.py [PAYLOAD ...]
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from time import process_time_ns
from typing import Any

import httpx
from bare import BareLoop
from payloads import PAYLOADS, TOOLS, Payload, payload

from streamfold import Provider, StreamDecoder
from streamfold.adapters import find_adapter
from streamfold.engine.accumulator import StreamAccumulator
from streamfold.engine.dialects import Dialect, DialectContext, find_dialect
from streamfold.engine.pipeline import Pipeline
from streamfold.engine.sse import SSEDecoder
from streamfold.types.tools import read_tool

SIZE = 400  # events
ROUNDS = 60
BULK = 16 * 1024  # bytes
READ_TOOLS = tuple(read_tool(tool) for tool in TOOLS)


def pieces_of(events: Iterable[bytes], delivery: str) -> list[bytes]:
    if delivery == "one":
        return list(events)
    body = b"".join(events)
    return [body[at : at + BULK] for at in range(0, len(body), BULK)]


class Layers:
    """The layers for one payload in one delivery, each as a function that does its work for all events."""

    def __init__(self, answer: Payload, delivery: str) -> None:
        self.answer = answer
        self.pieces = pieces_of(answer.events, delivery)
        self.loop = asyncio.new_event_loop()
        decoder = SSEDecoder()
        self.sent = [event for piece in self.pieces for event in decoder.feed(piece)]
        self.adapter = find_adapter(answer.api)()
        self.decoded = [list(self.adapter.decode(event)) for event in self.sent]
        self.filtered = self.dialect_out()
        transport = httpx.MockTransport(self.respond)
        self.client = httpx.AsyncClient(transport=transport, timeout=None)
        self.provider = Provider.from_config(
            {"adapter": answer.api, "base_url": "http://test/v1", "model": "any", "dialect": answer.dialect},
            http_client=self.client,
        )

    def all(self) -> dict[str, Callable[[], object]]:
        layers: dict[str, Callable[[], object]] = {
            "bare: split, json, collect": self.bare,
            "sse": self.sse,
            "adapter": self.adapt,
            "dialect": self.dialect_out,
            "fold": self.fold,
            "pipeline, dialect and fold in it": self.pipeline,
            "StreamDecoder, all of it": self.decode,
            "bare over httpx in memory": lambda: self.loop.run_until_complete(self.bare_stream()),
            "ChatStream over httpx in memory": lambda: self.loop.run_until_complete(self.stream()),
        }
        if self.answer.dialect is None:
            del layers["dialect"]
        return layers

    def bare(self) -> None:
        bare = BareLoop(self.answer.api)
        for piece in self.pieces:
            bare.feed(piece)
        assert bare.chunks

    def sse(self) -> None:
        decoder = SSEDecoder()
        for piece in self.pieces:
            for _ in decoder.feed(piece):
                pass

    def adapt(self) -> None:
        decode = self.adapter.decode
        for event in self.sent:
            list(decode(event))

    def dialect(self) -> Dialect | None:
        return self.answer.dialect and find_dialect(self.answer.dialect, DialectContext(READ_TOOLS))  # type: ignore[return-value]

    def dialect_out(self) -> list[Any]:
        if (dialect := self.dialect()) is None:
            return [delta for deltas in self.decoded for delta in deltas]
        found = [made for deltas in self.decoded for delta in deltas[:-1] for made in dialect.feed(delta)]
        return [*found, *dialect.finish(), self.decoded[-1][-1]]

    def fold(self) -> None:
        fold = StreamAccumulator(tools=READ_TOOLS)
        for delta in self.filtered:
            if delta is not self.filtered[-1]:
                fold.feed(delta)

    def pipeline(self) -> None:
        pipeline = Pipeline(StreamAccumulator(tools=READ_TOOLS), self.dialect())
        for event, deltas in zip(self.sent[:-1], self.decoded[:-1], strict=True):
            pipeline.feed(deltas, event.data, [])

    def decode(self) -> None:
        decoder = StreamDecoder(self.answer.api, dialect=self.answer.dialect, tools=READ_TOOLS, coalesce=True)
        for piece in self.pieces:
            decoder.feed(piece)
        decoder.close()
        assert decoder.finished

    async def bare_stream(self) -> None:
        bare = BareLoop(self.answer.api)
        async with self.client.stream("POST", "http://test/v1/any", content=b"{}") as response:
            async for piece in response.aiter_bytes():
                bare.feed(piece)

    async def stream(self) -> None:
        async with self.provider.chat_stream("Hi", TOOLS) as stream:
            async for _ in stream:
                pass

    def respond(self, _: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=self.body())

    async def body(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece


def measure(answer: Payload, delivery: str) -> dict[str, float]:
    layers = Layers(answer, delivery).all()
    best = dict.fromkeys(layers, float("inf"))
    for _ in range(ROUNDS):
        for name, work in layers.items():
            began = process_time_ns()
            work()
            best[name] = min(best[name], process_time_ns() - began)
    return {name: least / 1000 / len(answer.events) for name, least in best.items()}


def main() -> None:
    for name in sys.argv[1:] or PAYLOADS:
        answer = payload(name, SIZE)
        one, bulk = measure(answer, "one"), measure(answer, "bulk")
        print(f"\n{answer.title} ({name}): us per event")
        print(f"{'':34s} {'one per piece':>14s} {'bulk':>10s}")
        for layer in one:
            ratios = "   "
            if layer in ("StreamDecoder, all of it", "ChatStream over httpx in memory"):
                beside = "bare: split, json, collect" if "Decoder" in layer else "bare over httpx in memory"
                ratios = f"   {one[layer] / one[beside]:.2f}x, {bulk[layer] / bulk[beside]:.2f}x"
            print(f"{layer:34s} {one[layer]:14.2f} {bulk[layer]:10.2f}{ratios}")


if __name__ == "__main__":
    main()
