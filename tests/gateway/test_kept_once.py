"""Keeping an answer costs no second reading and no second writing: whoever keeps it listens to its writer."""

from __future__ import annotations

import json
from typing import Any

import anyio
import httpx
import pytest

from folding import DONE, fin, text
from gateways import RESPONSES, client_of
from servers import END, STREAM, Connection, framed, serving
from streamfold.adapters.responses import emit
from streamfold.gateway import Gateway, gateway, handler
from streamfold.stores import Store
from streamfold.text import parse_object


class Counts:
    """How often bodies were parsed, and events written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.parsed: list[str] = []
        self.written: list[bytes] = []
        write = emit.event

        def parse(given: str) -> Any:
            self.parsed.append(given)
            return parse_object(given)

        def written(*args: Any, **how: Any) -> bytes:
            self.written.append(write(*args, **how))
            return self.written[-1]

        monkeypatch.setattr(handler, "parse_object", parse)
        monkeypatch.setattr(emit, "event", written)


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


async def answered(client: httpx.AsyncClient, body: str) -> bytes:
    """The body of an answer, waited for if nobody else does."""
    answer = await client.post(RESPONSES, content=body)
    while json.loads(body).get("background") and answer.json()["status"] in ("queued", "in_progress"):
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
async def test_a_body_is_parsed_once_and_an_event_written_once(
    how: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the answer is kept or not, streamed or not, and whatever the request refers to."""
    async with serving(says_hello) as upstream, upstream.provider() as main, gateway({"main": main}) as app:
        async with client_of(app) as client:
            before = (await client.post(RESPONSES, json={"model": "main", "input": "One"})).json()
            counts = Counts(monkeypatch)
            body = json.dumps({"model": "main", "input": "Two", "previous_response_id": before["id"], **how})
            answer = await answered(client, body)
        assert counts.parsed == [body]
        payloads = [json.loads(event.partition(b"data: ")[2]) for event in counts.written]
        assert [payload["sequence_number"] for payload in payloads] == list(range(len(payloads)))
        assert (payloads[0]["type"], payloads[-1]["type"]) == ("response.created", "response.completed")
        response = payloads[-1]["response"]
        stored = how.get("store") is not False
        assert response["store"] is stored
        events = b"".join(counts.written)
        if how.get("stream"):
            assert answer == events
        else:
            assert json.loads(answer) == response
        resumable = stored and len(how) > 0
        assert await kept_events(app, response["id"]) == (events if resumable else b"")
