"""Keeping an answer costs no second reading and no second writing: whoever keeps it listens to its writer."""

from __future__ import annotations

import json
import sys
from copy import deepcopy
from types import FrameType
from typing import Any, Self

import anyio
import httpx
import pytest

from folding import DONE, fin, text
from gateways import RESPONSES, client_of
from servers import END, STREAM, Connection, framed, serving
from streamfold.jsontext import parse_object
from streamfold.serving.responses import serializer
from streamfold.stores import Store
from streamfold_gateway import Gateway, gateway

_READS = {parse_object.__code__: "text", json.JSONDecoder.raw_decode.__code__: "s"}  # and what it is that they read


class Walk:
    """All JSON that is read and written while a request is answered, whoever does it: a tracer sees each call."""

    def __init__(self) -> None:
        self.read: list[str] = []
        self.written: list[Any] = []

    def __enter__(self) -> Self:
        sys.setprofile(self._step)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _step(self, frame: FrameType, what: str, _: object) -> None:
        if what == "call" and frame.f_code in _READS:
            self.read.append(frame.f_locals[_READS[frame.f_code]])
        elif what == "call" and frame.f_code is json.JSONEncoder.encode.__code__:
            self.written.append(deepcopy(frame.f_locals["o"]))


async def says_hello(connection: Connection) -> None:
    """A provider that answers in five events."""
    await connection.request()
    pieces = [text(word) for word in ("Hel", "lo, ", "you")]
    await connection.send(STREAM, *(framed(piece) for piece in [*pieces, fin("stop"), DONE]), END)


async def kept_events(app: Gateway, response_id: str) -> bytes:
    """The events of a response as they lie in the store."""
    assert app._responses is not None
    store: Store = app._responses.store
    parts = await store.parts("", response_id, "event/")
    return b"".join(value for name, value in parts.items() if name.startswith("event/"))


async def answered(client: httpx.AsyncClient, body: str, *, background: bool) -> bytes:
    """The body of an answer, waited for if nobody else does."""
    answer = await client.post(RESPONSES, content=body)
    while background and answer.json()["status"] in ("queued", "in_progress"):
        await anyio.sleep(0.01)
        answer = await client.get(f"{RESPONSES}/{answer.json()['id']}")
    return answer.content


@pytest.mark.parametrize(
    "how",
    [
        {"stream": True},
        {"stream": True, "store": True},
        {"stream": True, "store": False},
        {"store": True},
        {"background": True},
        {},
    ],
)
async def test_a_body_is_parsed_once_and_an_event_written_once(how: dict[str, Any]) -> None:
    """Whether the answer is kept or not, streamed or not, and whatever the request refers to."""
    async with serving(says_hello) as upstream, upstream.provider() as main, gateway({"main": main}) as app:
        async with client_of(app) as client:
            before = (await client.post(RESPONSES, json={"model": "main", "input": "One"})).json()
            body = json.dumps({"model": "main", "input": "Two", "previous_response_id": before["id"], **how})
            with Walk() as walk:
                answer = await answered(client, body, background="background" in how)
        assert [text for text in walk.read if "Two" in text and "previous_response_id" in text] == [body]
        assert [text for text in walk.read if "sequence_number" in text] == []
        payloads = [value for value in walk.written if isinstance(value, dict) and "sequence_number" in value]
        assert [payload["sequence_number"] for payload in payloads] == list(range(len(payloads)))
        assert (payloads[0]["type"], payloads[-1]["type"]) == ("response.created", "response.completed")
        response = payloads[-1]["response"]
        stored = how.get("store") is not False
        assert response["store"] is stored
        events = b"".join(serializer.event(payload, payload["type"]) for payload in payloads)
        if how.get("stream"):
            assert answer == events
        else:
            assert json.loads(answer) == response
        resumable = stored and len(how) > 0
        assert await kept_events(app, response["id"]) == (events if resumable else b"")
