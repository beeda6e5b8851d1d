"""The gateway's log: plain lines that say what happened to each request."""

from __future__ import annotations

import logging
import re

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from folding import DONE, call, entry, event, fin, text
from gateways import CHAT, PATHS, asking, behind, client_of
from mirror import APIS
from streamfold import Fallback, Provider
from streamfold.recording import Recording, ReplayTransport
from streamfold_gateway import gateway
from streamfold_gateway.request_log import one_line
from streamfold_gateway.worker import OneLine

USAGE = event({"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}})
HELLO = text("Hello") + USAGE + fin("stop") + DONE
BOTH = pytest.mark.parametrize("api", APIS)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines of the gateway, without ids and seconds."""
    said = [record.getMessage() for record in caplog.records if record.name == "streamfold.gateway"]
    return [re.sub(r"after \d+\.\d\d s", "after N s", line.partition(" ")[2]) for line in said]


@BOTH
@pytest.mark.parametrize("stream", [True, False])
async def test_a_whole_answer(api: str, stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    """It is one line with the provider, the finish reason and the tokens."""
    caplog.set_level(logging.INFO, "streamfold.gateway")
    async with behind(HELLO, name="kimi") as client:
        answer = await client.post(PATHS[api], json=asking(PATHS[api], stream=stream))
    assert lines(caplog) == ["main: completed by kimi after N s: stop, 12 input and 3 output tokens"]
    assert caplog.records[-1].getMessage().split(" ")[0] == answer.headers["x-request-id"]


@BOTH
@pytest.mark.parametrize("begun", [True, False])
async def test_a_failure(api: str, begun: bool, caplog: pytest.LogCaptureFixture) -> None:
    """It is called one, with the status that the client got and what the provider said."""
    caplog.set_level(logging.INFO, "streamfold.gateway")
    body = (text("Hel") if begun else b"") + event({"error": {"message": "overloaded", "code": 529}})
    async with behind(body, name="kimi") as client:
        await client.post(PATHS[api], json=asking(PATHS[api], stream=True))
    assert lines(caplog) == ["main: failed after N s (HTTP 529): UpstreamError: kimi: overloaded"]
    assert caplog.records[-1].levelno == logging.WARNING


async def test_the_provider_of_a_fallback(caplog: pytest.LogCaptureFixture) -> None:
    """The line names the one that answered; the others have lines of their own."""
    caplog.set_level(logging.INFO, "streamfold.gateway")
    busy = Recording("busy", b'{"error":{"message":"slow down"}}', status=429)
    async with (
        httpx.AsyncClient(transport=ReplayTransport([busy])) as first,
        httpx.AsyncClient(transport=ReplayTransport([Recording("hello", HELLO)])) as second,
    ):
        config = {"base_url": "http://u/v1", "model": "m", "max_retries": 0}
        providers = [
            Provider.from_config({**config, "name": name}, http_client=client)
            for name, client in (("one", first), ("two", second))
        ]
        async with client_of(gateway({"main": Fallback(*providers)})) as client:
            await client.post(CHAT, json=asking(CHAT))
    tried, done = lines(caplog)
    assert tried.startswith("main: attempt failed: one: slow down")
    assert done.startswith("main: completed by two after N s")


async def test_a_request_that_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """It is one line with the reason, at a level of its own: nothing is wrong with the server."""
    caplog.set_level(logging.INFO, "streamfold.gateway")
    async with behind(HELLO) as client:
        await client.post(CHAT, json=asking(CHAT, temperature="hot"))
        await client.post(CHAT, json=asking(CHAT, model="nobody"))
        await client.post(CHAT, content=b"{")
    said = lines(caplog)
    assert said[0].startswith("main: refused after N s (HTTP 400): temperature")
    assert said[1].startswith("nobody: refused after N s (HTTP 404): unknown model 'nobody'")
    assert said[2].startswith("-: refused after N s (HTTP 400): the request body is not JSON: ")
    assert {record.levelno for record in caplog.records} == {logging.INFO}


FORGED = 'x\nINFO:     203.0.113.9:1 - "POST /v1/admin HTTP/1.1" 200 OK\x1b]0;pwned\x07\x1b[2J\x85\u2028\u202e'


async def test_adversary_21_nothing_in_the_log_is_forged(caplog: pytest.LogCaptureFixture) -> None:
    """What clients and providers say stays on its line, and does nothing to a terminal."""
    caplog.set_level(logging.INFO, "streamfold.gateway")
    refusal = {"error": {"message": f"no {FORGED}"}}
    warned = call(entry(0, None, f"f{FORGED}", "{}")) + fin("stop") + DONE
    async with behind(HELLO, event(refusal), warned) as client:
        for model in (f"main:{FORGED}", FORGED, "main", "main"):
            await client.post(CHAT, json=asking(CHAT, model=model))
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 5
    assert all(line.isprintable() for line in said)
    assert sum("\\x1b]0;pwned" in line for line in said) == 3


@given(st.text())
def test_a_line_of_the_log(said: str) -> None:
    """Any text becomes one printable line, and a plain one stays as it is."""
    line = one_line(said)
    assert line.isprintable()
    assert line == said or not said.isprintable()


def test_lines_of_other_modules_are_plain_too() -> None:
    """The server's handler escapes what other modules log of providers and clients."""
    record = logging.LogRecord("streamfold", logging.WARNING, "", 0, "%s: 100%%\n%s", ("kimi", "a\x1b"), None)
    assert (OneLine().filter(record), record.getMessage()) == (True, "kimi: 100%\\na\\x1b")
