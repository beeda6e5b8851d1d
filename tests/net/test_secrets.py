"""Canaries: whatever goes wrong, a key is in no text that an error, a log or a traceback shows."""

from __future__ import annotations

import base64
import html
import io
import json
import logging
import os
import re
import traceback
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any
from urllib.parse import quote, quote_plus, unquote

import anyio
import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import servers
from folding import fin, text
from scale import examples
from servers import STREAM, Connection, answer, framed, sends, serving
from streamfold import APIError, ConfigError, IncompleteStreamError, Provider, StreamfoldError
from streamfold.net import Redactor, clear_frames, error_redaction, redact_error
from tables import each_row

CANARY = "canary/4711+xyz=="
KEYS: dict[str, dict[str, Any]] = {
    "Authorization": {"api_key": CANARY},
    "key of a variable": {"api_key_env": "CANARY"},
    "key_header": {"api_key": CANARY, "key_header": "api-key"},
    "api-key header": {"headers": {"api-key": CANARY}},
    "header of a variable": {"headers": {"X-Team": "${CANARY}"}},
    "any header": {"headers": {"X-Session-Id": CANARY}},
    "extra_headers": {"extra_headers": {"X-Api-Key": CANARY}},
    "path": {"base_url": "/${CANARY}/v1"},
    "query": {"base_url": "/v1?tenant=${CANARY}"},
    "plain query": {"base_url": "/v1?key=" + CANARY.replace("+", "%2B")},
}

pytestmark = pytest.mark.transports


@pytest.fixture(autouse=True)
def canary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", CANARY)


@pytest.fixture
def logs() -> Iterator[io.StringIO]:
    """All that any logger says at DEBUG."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    root, level = logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield out
    root.setLevel(level)
    root.removeHandler(handler)


ECHO = json.dumps({"error": {"message": f"no key {CANARY} here", "code": CANARY}}).encode()
ESCAPED = ECHO.replace(b"/", b"\\/")  # as PHP writes it


async def status(peer: Connection) -> None:
    await peer.request()
    await peer.send(answer("401 No", ECHO, f"x-request-id: {CANARY}"))


async def escaped(peer: Connection) -> None:
    await peer.request()
    await peer.send(answer("400 No", ESCAPED))


async def status_as_event(peer: Connection) -> None:
    await peer.request()
    await peer.send(answer("500 No", b"event: error\ndata: " + ESCAPED + b"\n\n"))


async def redirect(peer: Connection) -> None:
    await peer.request()
    await peer.send(answer("307 Moved", b"", f"Location: https://elsewhere.test/{CANARY}?key={CANARY}"))


async def inside(peer: Connection) -> None:
    await peer.request()
    await peer.send(answer("200 OK", text(f"You said {CANARY}") + b"data: " + ESCAPED + b"\n\n"))


async def unreadable(peer: Connection) -> None:
    await peer.request()
    await peer.send(answer("200 OK", text(CANARY) + b'data: {"key": "' + CANARY.encode() + b"\n\n"))


async def cut(peer: Connection) -> None:
    await peer.request()
    await peer.send(STREAM, framed(text(f"You said {CANARY}")), b"ff\r\n")


async def stalled(peer: Connection) -> None:
    await peer.request()
    await peer.send(STREAM, framed(text(f"You said {CANARY}")))
    await peer.gone()


async def hung_up(peer: Connection) -> None:
    await peer.request()


async def nonsense(peer: Connection) -> None:
    await peer.request()
    await peer.send(f"{CANARY} HTTP/9.9 what\r\n\r\n".encode())


SCRIPTS = [status, escaped, status_as_event, redirect, inside, unreadable, cut, stalled, hung_up, nonsense]
FEW = [status, inside, stalled]


def shown(error: BaseException, *, variables: bool = True) -> str:
    """All that may be printed of an error, by the most talkative tool there is."""
    texts = ["".join(traceback.TracebackException.from_exception(error, capture_locals=variables).format())]
    seen: list[BaseException] = []
    waiting = [error]
    while waiting:
        exc = waiting.pop()
        if exc in seen:
            continue
        seen.append(exc)
        waiting += [led for led in (exc.__cause__, exc.__context__) if led is not None]
        texts += [str(exc), repr(exc), repr(vars(exc)), repr(exc.args)]
        texts.append("".join(traceback.format_exception(exc)))
    return "\n".join(texts)


def spellings(secret: str) -> list[str]:
    return [secret, secret.replace("/", "\\/"), secret.replace("/", "%2F"), secret.split("/")[1]]


async def failure(port: int, config: Mapping[str, Any], **more: Any) -> tuple[Provider, StreamfoldError]:
    """How a request fails, through a function whose own variables hold no key."""
    options = {"extra_headers": config["extra_headers"]} if "extra_headers" in config else {}
    rest = {key: value for key, value in config.items() if key != "extra_headers"}
    rest["base_url"] = f"http://127.0.0.1:{port}{rest.get('base_url', '/v1')}"
    base = {"model": "m", "max_retries": 0, "transport": servers.transport, "timeouts": {"read": 0.1}}
    provider = Provider.from_config({**base, **rest, **more})
    try:
        async with provider:
            await provider.chat("Hello", **options)
    except StreamfoldError as error:
        # This function's own frame is the first one, and holds the configuration.
        return provider, error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
    raise AssertionError("it did not fail")


@pytest.mark.parametrize(
    ("key", "script"),
    # Every failure with one key, and every key with those failures that take different ways out.
    [*(("Authorization", script) for script in SCRIPTS), *((key, script) for key in KEYS for script in FEW)],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
async def test_n1_no_key_in_any_text(key: str, script: Any, logs: io.StringIO) -> None:
    """Not in the error, its causes, partial answer or transcript, not in a traceback with variables, not in a log."""
    async with serving(script) as server:
        provider, error = await failure(server.port, KEYS[key])
        assert CANARY in unquote(server.requests[0].decode())
    assert isinstance(error, APIError)
    assert "in read" in "".join(traceback.format_tb(error.__traceback__))
    assert "in next_batch" in shown(error) or "in open" in shown(error)  # deep inside, and still there
    everything = shown(error) + repr(provider) + repr(provider.profile)
    # httpcore logs the headers of answers at DEBUG, and we don't reach into other people's loggers.
    echoed = {status, redirect, nonsense}
    if script not in echoed:
        everything += logs.getvalue()
    for spelling in spellings(CANARY):
        assert spelling not in everything
    if script in (status, escaped, status_as_event, inside):
        assert "***" in str(error)


@pytest.mark.parametrize("key", ["path", "query"])
async def test_n1_url_in_the_log(key: str, logs: io.StringIO) -> None:
    """httpx logs the URL of each request at INFO: what came from a variable is not in it."""
    async with serving(sends(answer("200 OK", text("Hi") + fin("stop")))) as server:
        base_url = f"http://127.0.0.1:{server.port}{KEYS[key]['base_url']}"
        config = {"base_url": base_url, "model": "m", "transport": servers.transport}
        async with Provider.from_config(config) as provider:
            assert (await provider.chat("Hello")).text == "Hi"
        request = server.requests[0].split(b"\r\n")[0]
    path = "/***/v1/chat/completions" if key == "path" else "/v1/chat/completions?***"
    assert f"HTTP Request: POST http://127.0.0.1:{server.port}{path} " in logs.getvalue()
    assert CANARY.split("/")[1] not in logs.getvalue()
    sent = f"/{CANARY}/v1/chat/completions" if key == "path" else f"/v1/chat/completions?tenant={CANARY}"
    assert request == f"POST {sent} HTTP/1.1".encode()


@pytest.mark.parametrize("key", KEYS)
async def test_n1_no_connection(key: str, logs: io.StringIO) -> None:
    """The same of a server that is not there."""
    async with serving(status) as server:
        pass
    provider, error = await failure(server.port, KEYS[key])
    assert CANARY.split("/")[1] not in shown(error) + repr(provider) + logs.getvalue()


@each_row(
    ("config", "message"),
    [
        ({"headers": {"api-key": f"{CANARY}\n"}}, r"headers\.api-key: contains a character"),
        ({"extra_headers": {"api-key": f"{CANARY}é"}}, r"extra_headers\.api-key: contains a character"),
        ({"extra_headers": {"api-key": CANARY.encode()}}, r"extra_headers\.api-key: must be a string, not bytes"),
        ({"api_key": f"{CANARY}\x00"}, "api_key: contains a character"),
        ({"headers": {"api-key": CANARY, "X-A": "${UNSET_VARIABLE}"}}, r"headers\.X-A: UNSET_VARIABLE is not set"),
    ],
)
async def test_n1_what_can_not_be_sent(config: Any, message: str) -> None:
    """A header that can't be sent is told by its name."""
    _, error = await _refused(config)
    assert isinstance(error, ConfigError)
    with pytest.raises(ConfigError, match=message):
        raise error
    assert CANARY.split("/")[1] not in "".join(
        traceback.TracebackException(type(error), error, error.__traceback__.tb_next, capture_locals=True).format()
    )


async def _refused(config: Mapping[str, Any]) -> tuple[None, StreamfoldError]:
    options = {"extra_headers": config["extra_headers"]} if "extra_headers" in config else {}
    rest = {key: value for key, value in config.items() if key != "extra_headers"}
    provider = Provider.from_config({"base_url": "http://a.test/v1", "model": "m", **rest})
    try:
        await provider.chat("Hello", **options)
    except StreamfoldError as error:
        return None, error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
    raise AssertionError("it did not fail")


def test_from_config_shows_no_key() -> None:
    """A mistake in a configuration is told without the rest of it, also by a traceback with variables."""
    with pytest.raises(ConfigError, match="did you mean") as caught:
        Provider.from_config("opnai", api_key=os.environ["CANARY"])
    assert CANARY not in shown(caught.value)


async def test_a_url_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a variable gives is not quoted if it makes no URL."""
    monkeypatch.setenv("CANARY", "http://host:canary/v1")
    async with Provider.from_config({"base_url": "${CANARY}", "model": "m"}) as provider:
        with pytest.raises(ConfigError, match="base_url") as caught:
            await provider.chat("Hello")
    assert "host:canary" not in str(caught.value)


async def test_whole_url_of_a_variable(monkeypatch: pytest.MonkeyPatch, logs: io.StringIO) -> None:
    """No part of a URL that comes from a variable is shown: neither its host nor its path."""
    async with serving(status) as server:
        monkeypatch.setenv("CANARY", f"http://localhost:{server.port}/tenant-canary/v1/")
        config = {"base_url": "${CANARY}", "model": "m", "max_retries": 0, "transport": servers.transport}
        async with Provider.from_config(config) as provider:
            with pytest.raises(APIError):
                await provider.chat("Hello")
        assert server.requests[0].startswith(b"POST /tenant-canary/v1/chat/completions ")
    assert "HTTP Request: POST http://***/chat/completions " in logs.getvalue()
    assert "tenant-canary" not in logs.getvalue()


async def test_ones_own_client_gets_the_url_as_it_is() -> None:
    """A transport of the caller's may read the URL's text; so with `http_client` it is whole, and httpx logs it."""
    seen: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(str(request.url))
        return httpx.Response(200, content=text("Hi") + fin("stop"))

    async with httpx.AsyncClient(transport=httpx.MockTransport(handler)) as client:
        provider = Provider.from_config({"base_url": "http://a.test/${CANARY}/v1", "model": "m"}, http_client=client)
        await provider.chat("Hello")
    assert seen == [f"http://a.test/{CANARY}/v1/chat/completions"]


SECRET = 'Sk+CANARY/0123=456&789 "xyz'


def _percent(secret: str, *, upper: bool = True) -> str:
    written = quote(secret, safe="")
    return written if upper else re.sub("%..", lambda found: found[0].lower(), written)


@each_row(
    "written",
    [
        SECRET,
        json.dumps(SECRET)[1:-1],
        json.dumps(json.dumps(SECRET)[1:-1])[1:-1],
        SECRET.replace("/", "\\/"),
        SECRET.replace("+", "\\u002B").replace('"', "\\u0022"),
        SECRET.replace("&", "\\u0026").replace('"', '\\"'),
        "".join(f"\\u{ord(char):04x}" for char in SECRET),
        _percent(SECRET),
        _percent(SECRET, upper=False),
        quote_plus(SECRET),
        quote(SECRET),
        html.escape(SECRET),
        "".join(f"&#{ord(char)};" if not char.isalnum() else char for char in SECRET),
        base64.b64encode(SECRET.encode()).decode(),
        base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("="),
    ],
)
def test_redaction_in_every_spelling(written: str) -> None:
    """A secret is found as it is and as JSON, PHP, .NET, URLs, HTML and base64 write it, in text and in bytes."""
    redactor = Redactor([SECRET])
    assert redactor.text(f"<{written}>").rstrip("=").replace("=>", ">") == "<***>"
    assert redactor.value({"key": [f"<{written}>".encode()]})["key"][0].replace(b"=>", b">") == b"<***>"


@settings(deadline=None, max_examples=examples(300))
@example("<abc%", "", "")
@example("a&b&&", "", "")
@given(st.text(min_size=4, max_size=40), st.text(max_size=20), st.text(max_size=20))
def test_no_secret_survives(secret: str, before: str, after: str) -> None:
    """Whatever a secret is made of: it is not in the redacted text, and text around it stays."""
    redactor = Redactor([secret])
    for written in (secret, json.dumps(secret)[1:-1], quote(secret, safe="")):
        if redactor.spans(f" {written} "):
            assert redactor.text(f" {written} ").strip() == "***"
    assert secret not in redactor.text(f"{before} {secret} {after}") or secret in "*** " or len(secret.strip("* ")) < 4


def test_plain_words_are_removed_as_words_only() -> None:
    """A placeholder such as EMPTY is not cut out of other words; shorter texts are left alone."""
    redactor = Redactor(["EMPTY", "key", "prod"])
    assert redactor.text("EMPTYHANDED keys of the product: EMPTY, prod.") == (
        "EMPTYHANDED keys of the product: ***, ***."
    )


def test_a_secret_in_pieces_over_several_events() -> None:
    """A secret that a model writes token by token is not in the transcript of an error."""
    events = [
        f'{{"choices":[{{"delta":{{"content":{json.dumps(part)}}}}}]}}' for part in ("a Sk+CAN", "ARY/01", "23= b")
    ]
    error = IncompleteStreamError("broke off")
    error.transcript = events
    redact_error(error, Redactor(["Sk+CANARY/0123="]))
    texts = [json.loads(event)["choices"][0]["delta"]["content"] for event in error.transcript]
    assert texts == ["a ***", "", " b"]


@pytest.mark.slow
async def test_no_key_in_the_traceback_of_a_cancelled_request() -> None:
    """Somebody else's timeout around a request: tracebacks with variables show no key."""

    async def silent(peer: Connection) -> None:
        await peer.request()
        await peer.gone()

    for how in KEYS:
        async with serving(silent) as server:
            error = await timed_out(server.port, how)
        for spelling in spellings(CANARY):
            assert spelling not in shown(error), how


async def timed_out(port: int, how: str) -> BaseException:
    """How a request ends that somebody else's timeout cancels, through a function that holds no key itself."""
    provider = made(port, how)
    try:
        with anyio.fail_after(0.1):
            await provider.chat("Hello", **{name: KEYS[how][name] for name in KEYS[how] if name == "extra_headers"})
    except TimeoutError as error:
        return error
    finally:
        await provider.aclose()
    raise AssertionError("it did not time out")


def made(port: int, how: str) -> Provider:
    config = {key: value for key, value in KEYS[how].items() if key != "extra_headers"}
    config["base_url"] = f"http://127.0.0.1:{port}{config.get('base_url', '/v1')}"
    return Provider.from_config({"model": "m", "transport": servers.transport, **config})


def test_locals_are_forgotten_and_tracebacks_stay() -> None:
    """`clear_frames` clears the variables of our frames; file, line and function stay."""
    with pytest.raises(ConfigError) as caught:
        Provider.from_config({"base_url": "http://a.test/v1", "model": "m", "api_key": CANARY, "nonsense": 1})
    clear_frames(caught.value)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert any("config" in frame.filename and "streamfold" in frame.filename for frame in frames)


@pytest.mark.parametrize("key", [key for key in KEYS if key != "extra_headers"])
async def test_no_variable_of_ours_has_a_key_when_an_error_is_raised(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even in tracebacks with all our frames as they are: a status, a broken connection, and none at all."""
    monkeypatch.setattr(error_redaction, "_clear", lambda frame: None)
    monkeypatch.setattr(error_redaction, "is_network_error", lambda error: False)

    async def refuses(peer: Connection) -> None:
        await peer.request()
        await peer.send(answer("401 No", b'{"error":{"message":"no"}}'))

    async def breaks_off(peer: Connection) -> None:
        await peer.request()
        await peer.send(STREAM, framed(text("Hel")), b"ff\r\n")

    for script in (refuses, breaks_off, hung_up):
        async with serving(script) as server:
            _, error = await failure(server.port, KEYS[key])
        assert "in read" in shown(error)
        for spelling in spellings(CANARY):
            assert spelling not in shown(error)


async def test_an_error_that_several_tasks_have_ends_none_of_them() -> None:
    """The frames of a coroutine that is still suspended in the handling of a shared error are left alone."""
    shared, waiting, ended = httpx.ReadError("gone"), anyio.Event(), []

    async def cleans_up() -> None:
        try:
            raise shared
        except httpx.ReadError:
            await waiting.wait()
            ended.append("cleaned up")

    ours = FunctionType(
        cleans_up.__code__, {**globals(), "__name__": "streamfold.net"}, None, None, cleans_up.__closure__
    )
    with anyio.move_on_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ours)
            await anyio.wait_all_tasks_blocked()
            clear_frames(shared)
            waiting.set()
    assert ended == ["cleaned up"]


def test_a_cause_that_can_not_be_cleaned_goes() -> None:
    """Somebody else's error that still shows the secret is left out; any other stays."""

    class Stubborn(Exception):
        def __str__(self) -> str:
            return CANARY

    error = APIError("it failed")
    error.__cause__ = ValueError(f"for {CANARY}")
    error.__cause__.__context__ = Stubborn()
    redact_error(error, Redactor([CANARY]))
    assert str(error.__cause__) == "for ***"
    assert error.__cause__.__context__ is None
