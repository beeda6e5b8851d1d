"""The client that providers make sends what httpx's own client sends."""

from __future__ import annotations

from typing import Any

import httpx

from folding import DONE, fin, text
from servers import answer, sends, serving
from streamfold import Provider
from streamfold.net.own_client import OwnClient
from tables import each_row

URL = httpx.URL("https://example.com/v1/chat?a=b")
TIMEOUT = {"timeout": {"connect": 1.0, "read": None, "write": None, "pool": 1.0}}


class Server:
    """Keeps what each request was; its answers set the cookies that it is given."""

    def __init__(self, *cookies: str) -> None:
        self.got: list[tuple[str, str, list[tuple[bytes, bytes]], bytes]] = []
        self._cookies = list(cookies)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.got.append((request.method, str(request.url), request.headers.raw, request.content))
        return httpx.Response(200, headers={"set-cookie": self._cookies.pop(0)} if self._cookies else {})


async def sent(client: httpx.AsyncClient, *requests: tuple[str, dict[str, str], bytes]) -> None:
    """Sends requests one after the other."""
    async with client:
        for method, headers, body in requests:
            options: dict[str, Any] = {"headers": headers, "content": body, "extensions": TIMEOUT}
            await client.send(client.build_request(method, URL, **options))


@each_row("cookies", [(), ("a=1",), ("a=1", "a=2; Path=/v1"), ("a=1; Max-Age=0",)])
async def test_the_same_requests(cookies: tuple[str, ...]) -> None:
    """Headers, their order, lengths, and cookies: nothing differs, however often it is sent."""
    one, other = {"Authorization": "Bearer k", "Accept": "a/b"}, {"X-Key": "s", "Content-Length": "2"}
    requests = [
        ("POST", one, b"{}"), ("POST", one, b"{...}"), ("POST", other, b"{}"), ("POST", other, b"{}"),
        ("GET", one, b""), ("GET", one, b""), ("POST", one, b""), ("POST", one, b"{}"),
    ]  # fmt: skip
    ours, theirs = Server(*cookies), Server(*cookies)
    await sent(OwnClient(httpx.MockTransport(ours)), *requests)
    await sent(httpx.AsyncClient(transport=httpx.MockTransport(theirs), timeout=None), *requests)
    assert ours.got == theirs.got


async def test_a_signature_stays_with_its_request() -> None:
    """What is added to the headers of one request is not in those of the next one."""
    async with OwnClient(httpx.MockTransport(Server())) as client:
        for _ in range(3):
            request = client.build_request("POST", URL, headers={"A": "b"}, content=b"{}", extensions=TIMEOUT)
            assert "x-signature" not in request.headers
            request.headers["X-Signature"] = "s"


async def test_hooks_see_every_request_and_its_answer() -> None:
    """The doctor counts connections and reads headers by them."""
    seen: list[str] = []

    async def asked(request: httpx.Request) -> None:
        seen.append(request.method)

    async def answered(response: httpx.Response) -> None:
        seen.append(str(response.status_code))

    client = OwnClient(httpx.MockTransport(Server()))
    client.event_hooks["request"].append(asked)
    client.event_hooks["response"].append(answered)
    await sent(client, ("POST", {}, b"{}"), ("GET", {}, b""))
    assert seen == ["POST", "200", "GET", "200"]


async def test_whoever_listens_behind_us_hears_every_step() -> None:
    """We listen until the connection is used; a listener that a hook puts in our place is left there."""
    steps: list[str] = []

    async def listen(request: httpx.Request) -> None:
        ours = request.extensions["trace"]

        async def trace(step: str, info: dict[str, Any]) -> None:
            steps.append(step.partition(".")[2])
            await ours(step, info)

        request.extensions["trace"] = trace

    client = httpx.AsyncClient(event_hooks={"request": [listen]})
    async with serving(sends(answer("200 OK", text("Hi") + fin("stop") + DONE))) as server, client:
        provider = Provider.from_config({"base_url": server.base_url, "model": "m"}, http_client=client)
        assert (await provider.chat("Hello")).text == "Hi"
    assert {"send_request_headers.complete", "receive_response_headers.complete"} <= set(steps)
