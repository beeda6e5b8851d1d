"""docs/failures.md says what a caller gets for each failure: here each row is made to happen."""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import h11
import httpx
import pytest

import streamfold
from folding import DONE, call, entry, event, fin, text
from streamfold import APIError, Fallback, Provider
from streamfold.client import Backoff, retry_backoff

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "failures.md"
Handler = Callable[[httpx.Request], Any]
PING = b": ping\n\n"


def rows() -> list[list[str]]:
    lines = PAGE.read_text("utf-8").splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]


FAILURES = {cells[0]: cells[1:] for cells in rows() if len(cells) == 7 and cells[0] != "what happens"}


def body(*pieces: bytes, then: Exception | str | None = None) -> Handler:
    """An answer of these pieces, which then breaks off, falls silent, or sends comments for ever."""

    async def stream() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece
        if isinstance(then, Exception):
            raise then
        while then is not None:
            await anyio.sleep(0.002 if then == "comments" else 60)
            yield PING

    return lambda _: httpx.Response(200, content=stream())


def status(code: int, error: Any = None, **headers: str) -> Handler:
    return lambda _: httpx.Response(code, json={"error": error or {"message": "no"}}, headers=headers)


def raising(error: Exception, cause: Exception | None = None) -> Handler:
    def handler(_: httpx.Request) -> httpx.Response:
        raise error from cause

    return handler


async def never(_: httpx.Request) -> httpx.Response:
    await anyio.sleep_forever()
    raise AssertionError


OVERLOADED = event({"error": {"message": "full", "type": "overloaded_error"}})
INVALID = event({"error": {"message": "no", "type": "some_error"}})
FILTERED = event({"error": {"message": "no", "code": "content_filter"}})
BROKEN = httpx.ReadError("peer reset")
HAPPENS: dict[str, tuple[Handler, dict[str, Any]]] = {
    "no connection": (raising(httpx.ConnectError("refused")), {}),
    "the server's certificate": (
        raising(httpx.ConnectError("verify failed"), ssl.SSLCertVerificationError("self-signed")),
        {},
    ),
    "no connection within": (raising(httpx.ConnectTimeout("slow"), TimeoutError()), {}),
    "no event with content": (never, {"first_event": 0.05}),
    "no bytes": (body(text("Hel"), then="silence"), {"read": 0.05}),
    "only bytes without content": (body(text("Hel"), then="comments"), {"stall": 0.05}),
    "no text within": (never, {"total": 0.05}),
    "the answer is not complete": (body(text("Hel"), then="silence"), {"total": 0.5}),
    "another error with status 400": (status(422), {}),
    "status 401": (status(401), {}),
    "status 403": (status(403), {}),
    "another error with status 404": (status(404), {}),
    "the prompt is too long": (status(400, {"message": "no", "code": "context_length_exceeded"}), {}),
    "a content filter rejects": (status(403, {"message": "no", "code": "content_filter"}), {}),
    "a content filter stops": (body(FILTERED), {}),
    "the model does not accept": (status(400, {"message": "no", "code": "unsupported_parameter"}), {}),
    "the model does not exist": (status(400, {"message": "no", "code": "model_not_found"}), {}),
    "status 429": (status(429), {}),
    "the account has no credit": (status(429, {"message": "pay", "code": "insufficient_quota"}), {}),
    "status 5xx": (status(502), {}),
    "a redirect": (status(307, location="https://elsewhere.test/"), {}),
    "a temporary error inside a response with status 200, before": (body(OVERLOADED), {}),
    "a temporary error inside a response with status 200, after": (body(text("Hel"), OVERLOADED), {}),
    "another error inside a response": (body(INVALID), {}),
    "the response breaks off before": (body(b": hello\n\n", then=BROKEN), {}),
    "the response breaks off after": (body(text("Hel"), call(entry(0, "a", "f", '{"x":1}')), then=BROKEN), {}),
    "the server resets the HTTP/2": (
        body(text("Hel"), then=httpx.RemoteProtocolError("<StreamReset stream_id:1>")),
        {},
    ),
    "the response is not valid HTTP": (raising(httpx.RemoteProtocolError("bad"), h11.RemoteProtocolError("bad")), {}),
    "the response is a web page": (body(b"<!doctype html><title>Log in</title>"), {}),
    "the response has an unknown compression": (
        lambda _: httpx.Response(200, headers={"content-encoding": "compress"}, content=text("Hi")),
        {},
    ),
    "the response exceeds": (body(text("x" * 5000)), {}),
    "an empty answer": (body(DONE), {}),
}


def scenario(row: str) -> tuple[Handler, dict[str, Any]]:
    return HAPPENS[max((start for start in HAPPENS if row.startswith(start)), key=len)]


@pytest.mark.parametrize("row", FAILURES)
async def test_the_table_is_true(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Class, phase, whether it is retryable, was sent again, went to the next provider, and has the partial answer."""
    error, retryable, again, following, partial, _ = FAILURES[row]
    handler, clocks = scenario(row)
    monkeypatch.setattr(retry_backoff, "_BACKOFF", Backoff(first=0.001))
    asked: list[str] = []

    async def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        if request.url.host == "second.test":
            return httpx.Response(200, content=text("Hi") + fin("stop"))
        made = handler(request)
        return made if isinstance(made, httpx.Response) else await made

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:

        def provider(name: str) -> Provider:
            config = {"base_url": f"http://{name}.test/v1", "model": "m", "max_retries": 1, "timeouts": clocks}
            return Provider.from_config({**config, "limits": {"event_bytes": 4000}}, http_client=client)

        with pytest.raises(APIError) as caught:
            await provider("first").chat("Hello")
        failure = caught.value
        seen = f"`{type(failure).__name__}` {getattr(failure, 'phase', '')}".strip()
        was_sent_again, had_partial = len(asked) == 2, failure.partial is not None
        if failure.partial is not None:
            assert failure.partial.tool_calls == []
            assert failure.partial.text in ("", "Hel")
        try:
            moved_on = (await Fallback(provider("first"), provider("second")).chat("Hello")).text == "Hi"
        except APIError:
            moved_on = False
    words = ["yes" if value else "no" for value in (failure.retryable, was_sent_again, moved_on, had_partial)]
    assert [seen, *words] == [error, retryable, again, following, partial]


def test_each_failure_of_the_table_is_made_to_happen() -> None:
    """No row without a scenario, and no scenario without a row."""
    assert {id(scenario(row)) for row in FAILURES} == {id(made) for made in HAPPENS.values()}
    assert len(FAILURES) == len(HAPPENS)


def test_every_test_that_is_named_exists() -> None:
    """The last column leads somewhere."""
    names = [name for cells in rows() for name in re.findall(r"`(test_\w+\.py(?:::test_\w+)?)`", cells[-1])]
    assert len(names) > len(FAILURES)
    for name in names:
        file, _, function = name.partition("::")
        [text, *_] = [
            found.read_text("utf-8") for found in [*TESTS.rglob(file), *TESTS.parent.glob(f"packages/*/tests/{file}")]
        ]
        assert not function or re.search(rf"^(async )?def {function}\(", text, re.MULTILINE), name


def test_every_error_of_a_request_is_in_the_table() -> None:
    """Each kind of `APIError` that can be raised has a row."""
    kinds = {
        kind.__name__ for kind in vars(streamfold).values() if isinstance(kind, type) and issubclass(kind, APIError)
    }
    told = {re.sub(r"`(\w+)`.*", r"\1", cells[0]) for cells in FAILURES.values()}
    assert kinds - told == {"APIError", "StreamError"}  # the bases of the others
