"""How often the gateway writes: as often as it reads."""

from __future__ import annotations

import json
from typing import Any

import anyio
import httpx

from folding import DONE, fin, fragments, text
from gateways import CHAT, MESSAGES, RESPONSES, asking
from streamfold import Provider
from streamfold_gateway import gateway
from tables import each_row

READS = [
    text("Hel") + text("lo") + text("!"),
    fragments('0 c1 f {"a": ', "0 - - [1, ", "0 - - 2]}"),
    fin("tool_calls") + DONE,
]


async def bodies(path: str) -> list[bytes]:
    """What was sent in each message of the response."""

    async def upstream() -> Any:
        for read in READS:
            yield read

    client = httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(200, content=upstream())))
    provider = Provider.from_config({"base_url": "http://upstream/v1", "model": "m"}, http_client=client)
    sent: list[bytes] = []
    asked = json.dumps({**asking(path, stream=True), "max_tokens": 9}).encode()
    received = [{"type": "http.request", "body": asked, "more_body": False}]

    async def receive() -> Any:
        if received:
            return received.pop()
        return await anyio.sleep_forever()

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))

    async with client, gateway({"main": provider}) as app:
        headers = [(b"content-type", b"application/json"), (b"host", b"gateway")]
        scope = {
            "type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"",
            "headers": headers, "root_path": "", "scheme": "http", "http_version": "1.1", "client": ("127.0.0.1", 1),
            "server": ("gateway", 80),
        }  # fmt: skip
        await app(scope, receive, send)
    return [body for body in sent if body]


@each_row("path", [CHAT, MESSAGES, RESPONSES])
async def test_what_was_read_in_one_go_is_written_in_one_go(path: str) -> None:
    """The text of a read is one event, the pieces of a call are several in one write; the end is a write of its own."""
    text_sent, call_sent, *rest = await bodies(path)
    assert text_sent.count(b"Hello!") == 1
    assert b"[1" in call_sent
    assert b"2]" in call_sent
    assert len(rest) <= 2
