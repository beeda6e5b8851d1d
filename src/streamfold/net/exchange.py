"""Sends one HTTP request, reads the response within the timeouts, and always closes the connection.

No cancel scope or task group stays open between two reads. So any task may close the exchange. If another task is
waiting for data, closing the exchange wakes that task.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, TypeVar

import anyio
import httpx

from ..engine import error_body
from ..errors import APIConnectionError, APIError, APITimeoutError, ConfigError, ProtocolError, status_error
from ..types import RateLimit, Reply, ReplyWarning, Timeouts
from ..urls import shown_url
from .cloud_auth import Signature, may_be_expired
from .compression import body_codings, unpacked, unrequested_codings
from .connection_reuse import end_unless_silent
from .error_redaction import clear_frames
from .httpx_transport import ConnectCleanup, HTTPRequest, aclose_generators, build_request, sent_url
from .rate_limit_headers import read_rate_limit, read_retry_after
from .redaction import secrets_in_headers
from .timeouts_and_cancellation import Interrupted, ReadTimer, StreamTimeouts, make_steps, next_or_none, shut_down
from .transport_errors import describe, has_cause, is_malformed, is_network_error, is_timeout

T = TypeVar("T")

_CLOSING = 5.0  # seconds: a peer that doesn't respond must not delay a cancellation
_ERROR_BODY = 10.0  # seconds for the body of an error status, which may never end
# For the end of the body after the end of the answer, so that the connection can be reused.
_DRAIN = Timeouts(connect=None, first_event=None, read=None, stall=None, total=0.1)

# Headers with the id that a provider's support asks for: OpenAI and most others, Anthropic, Moonshot, Azure, Amazon.
_REQUEST_IDS = (
    "x-request-id", "request-id", "msh-request-id", "x-trace-id", "apim-request-id", "x-amzn-requestid",
)  # fmt: skip
_UNREACHABLE = "check base_url and that the server is running"
_REDIRECTS = (301, 302, 303, 307, 308)
_SHOULD_RETRY = {"true": True, "false": False}


class Exchange:
    """One HTTP request and the bytes of its response.

    Args:
        loop: the running asyncio event loop; None on trio.

    Attributes:
        request_id: the server's id for the request, from the response headers.
        rate_limit: the rate limits in the response headers.
        redactor: removes the request's secrets, including its signature, from texts.
        closed: True after `aclose` was called.
        now: a function that returns the event loop's time in seconds.
        warnings: warnings about the response. The warnings are available after `open`.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        request: HTTPRequest,
        timeouts: StreamTimeouts,
        loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        self._client = client
        self._request = request
        self._timeouts = timeouts
        self._loop = loop
        self._steps = make_steps(loop)
        self.now = anyio.current_time if loop is None else loop.time
        self._response: httpx.Response | None = None
        self._raw: AsyncIterator[bytes] | None = None  # the compressed body
        self._body: AsyncIterator[bytes] | None = None  # the decompressed body; None at the end
        self._socket: Any = None  # of the connection, if no other body is read from it
        self._timer: ReadTimer | None = None  # shuts down the connection
        self._timeout_error: APITimeoutError | None = None  # the reason why the timer has shut down the connection
        self._events = 0
        self._signature: Signature | None = None
        self._at_end = False  # whether the body was read to its end
        self.closed = False
        self.request_id: str | None = None
        self.rate_limit: RateLimit | None = None
        self.warnings: tuple[ReplyWarning, ...] = ()
        self.redactor = request.redactor

    async def pause(self, seconds: float) -> None:
        """Sleeps before the request is sent. If `aclose` is called, the sleep ends."""
        if seconds and not self.closed:
            await self.wait_for(partial(anyio.sleep, seconds))

    async def wait_for(self, step: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Runs an async function before the request is sent. `aclose` and the timeout `total` cancel the function.

        Raises:
            APITimeoutError: the timeout `total` expired.
        """
        self._timeouts.pause()
        await self._run(step)

    async def open(self) -> None:
        """Sends the request, and reads the status and the headers of the response.

        Raises:
            APIStatusError: the status is not 2xx.
            APITimeoutError, APIConnectionError: no response arrived.
            ProtocolError: the response is malformed, or its compression is unknown.
            ConfigError: the URL can't be used, or there are no credentials to sign the request with.
        """
        if self.closed:
            return
        self._timeouts.start(self.now())
        response = await self._run(self._send)
        if response is None:
            await self.aclose()
            return
        self.request_id = next(filter(None, map(response.headers.get, _REQUEST_IDS)), None)
        self.rate_limit = read_rate_limit(response.headers.multi_items())
        if not 200 <= response.status_code < 300:
            if (error := await self._status_error(response)) is not None:
                raise error
            return
        self._open_body(response)

    async def read(self, events: int = 0) -> bytes | None:
        """Returns the next bytes of the response body. Returns None at the end of the body and after `aclose`.

        Args:
            events: the number of SSE events so far that contained a part of the answer. If the number has increased,
                the timeout `stall` restarts.

        Raises:
            APITimeoutError: a timeout expired. Earlier reads have returned all data that had arrived.
            APIConnectionError: the connection broke.
        """
        if (body := self._body) is None:
            return None
        now = self.now()
        due = self._timeouts.start_read(now, made_progress=events != self._events)
        self._events = events
        if self._timeout_error is None and now >= due:  # the deadline passed although no read had to wait
            self._expire()
        if self._timeout_error is not None and self._timer is None:  # a timer ends the connection, and the read fails
            raise self._timeout_error
        try:
            if self._timer is not None:
                with self._timer.until(due):
                    data = await next_or_none(body)
            else:
                data = await self._steps.run(partial(next_or_none, body), due)
            self._at_end = data is None
        except Interrupted:
            if not self.closed:
                raise self._timeouts.timeout(self.request_id) from None
            return None
        except Exception as exc:
            if self._timeout_error is not None and not self.closed:
                raise self._timeout_error from None
            error = self._failed(exc)
            if self.closed:
                return None
            raise error from exc
        except BaseException as exc:
            clear_frames(exc)
            raise
        if self.closed:  # closed by another task, which can't close generators that this task is running
            with suppress(Interrupted):
                await make_steps(self._loop).run(partial(aclose_generators, self._raw), self.now() + _CLOSING)
            return None
        if data is None and self._timeout_error is not None:
            raise self._timeout_error
        return data

    async def drain(self) -> None:
        """Reads and drops the bytes after the end of the answer, for at most 0.1 seconds. The connection can then be
        reused.
        """
        self._timeouts = StreamTimeouts(_DRAIN, self.now())
        try:
            while await self.read() is not None:
                pass
        except APIConnectionError:
            self.closed = True  # the answer was complete before

    async def aclose(self) -> None:
        """Closes the connection. If the body was read to its end, the connection goes back to the pool instead.

        May be called from any task, and repeatedly.
        """
        self.closed, self._body = True, None
        if self._timer is not None:
            self._timer.close()
            self._timer = None  # a reference cycle
        await self._steps.end()
        response, self._response = self._response, None
        if response is None:
            return
        with anyio.CancelScope(shield=True):
            try:
                if self._at_end:
                    end_unless_silent(response)
                    await response.aclose()
                else:
                    await make_steps(self._loop).run(partial(self._abandon, response), self.now() + _CLOSING)
            except Interrupted:
                pass
            except Exception as exc:  # a connection that breaks while it is closed is closed
                if not is_network_error(exc):
                    raise
        response.stream = httpx.ByteStream(b"")  # breaks the reference cycle of httpx's response and stream

    async def _abandon(self, response: httpx.Response) -> None:
        await aclose_generators(self._raw)
        await response.aclose()

    async def _send(self) -> httpx.Response:
        wanted, request = self._request, build_request(self._client, self._request)
        if wanted.signer is not None:
            url = sent_url(request.url)
            signed = self._signature = await wanted.signer.sign(wanted.method, url, wanted.headers, wanted.body)
            self.redactor = wanted.redactor.with_secrets(secrets_in_headers(signed.headers.items()))
            request.extensions["streamfold.redactor"] = self.redactor
            request.headers.update(signed.headers)
        handshake = ConnectCleanup(self._client, request.extensions)
        try:
            self._response = await self._client.send(request, stream=True, follow_redirects=False)
            return self._response
        finally:
            handshake.end(self._response)
            if not handshake.is_clean():
                with anyio.move_on_after(_CLOSING, shield=True):
                    await handshake.aclose()

    def discard_credentials(self, error: APIError) -> bool:
        """Discards the cloud credentials of this request if the error may mean that they have expired. Returns True if
        the credentials were discarded.
        """
        signer, signature = self._request.signer, self._signature
        if signer is None or signature is None or not may_be_expired(error):
            return False
        signer.discard(signature)
        return True

    def _open_body(self, response: httpx.Response) -> AsyncIterator[bytes]:
        codings = body_codings(response.headers.multi_items())
        read = response.is_stream_consumed  # by a hook of the caller's client, or a mock
        stream = response.stream
        self._raw = aiter(stream) if isinstance(stream, httpx.AsyncByteStream) and not read else response.aiter_bytes()
        self._body = unpacked(self._raw, codings, is_unpacked=read)
        if codings:
            accepted = httpx.Headers(dict(self._request.headers)).get("accept-encoding", "")
            self.warnings = unrequested_codings(codings, accepted)
        # Only with streamfold's own client is it certain that the read fails when the connection is shut down.
        extensions = response.extensions if self._request.own_client else {}
        connection = extensions.get("network_stream") or extensions.get("streamfold.connection")
        if connection is not None and self._loop is not None and response.http_version.startswith("HTTP/1"):
            self._socket = connection.get_extra_info("socket")
        if self._socket is not None and self._loop is not None:
            self._timer = ReadTimer(self._loop, self._expire)
        return self._body

    def _expire(self) -> None:
        self._timeout_error = self._timeouts.timeout(self.request_id)
        if self._timer is not None:
            self._timer.close()
            shut_down(self._socket)

    async def _run(self, step: Callable[[], Coroutine[Any, Any, T]], due: float = inf) -> T | None:
        try:
            result = await self._steps.run(step, min(due, self._timeouts.due()))
            return None if self.closed else result
        except Interrupted:
            if not self.closed:
                raise self._timeouts.timeout(self.request_id) from None
        except ConfigError:
            raise
        except APIError:  # an error of the body or the credentials
            if not self.closed:
                raise
        except Exception as exc:
            error = self._failed(exc)
            if not self.closed:
                raise error from exc
        except BaseException as exc:
            clear_frames(exc)
            raise
        return None

    def _failed(self, exc: Exception) -> APIError:
        if isinstance(exc, ProtocolError):
            return exc
        if isinstance(exc, httpx.InvalidURL | UnicodeError):  # about the response: the request's URL is valid
            return APIConnectionError(f"the response's status line and headers can't be read: {type(exc).__name__}")
        if not is_network_error(exc):
            clear_frames(exc)
            raise exc
        # A client of httpx-aiohttp calls every lost connection a ConnectTimeout.
        if isinstance(exc, httpx.TimeoutException) and is_timeout(exc) and self._response is None:
            what = "no free connection in the pool" if isinstance(exc, httpx.PoolTimeout) else None
            timeout = self._timeouts.error("connect", what)
            timeout.hint = _UNREACHABLE
            return timeout
        if self._response is None and is_malformed(exc):
            what = f"the server sent a malformed response: {describe(exc) or type(exc).__name__}"
            malformed = ProtocolError(what, retryable=True, partial=Reply())
            malformed.hint = "check base_url and any proxy"
            return malformed
        final = isinstance(exc, httpx.UnsupportedProtocol | httpx.LocalProtocolError)
        connected = self._response is not None
        error = APIConnectionError(
            f"{'the connection broke' if connected else 'no connection'}: {describe(exc) or type(exc).__name__}",
            retryable=not final and not has_cause(exc, ssl.SSLCertVerificationError),
        )
        error.hint = None if connected else _UNREACHABLE
        return error

    async def _status_error(self, response: httpx.Response) -> APIError | None:
        body = bytearray()
        with suppress(APITimeoutError):  # the status is more important than an incomplete body
            try:
                await self._run(partial(self._read_error_body, response, body), self.now() + _ERROR_BODY)
            except (APIConnectionError, ProtocolError) as exc:
                body = body or bytearray(f"(the body could not be read: {exc.message})".encode())
        if self.closed:
            return None
        await self.aclose()
        text = body[: self._request.limits.error_body_bytes].decode("utf-8", "replace").strip()
        read = error_body(text) or response.reason_phrase or "no message"
        headers = response.headers
        location = response.extensions.get("location") or headers.get("location")
        if location and response.status_code in _REDIRECTS:
            target = shown_url(location)
            read = f"redirects are not followed, and this one leads to {target}: set base_url to the final address"
        info = self._request.read_error(read, response.status_code)
        return status_error(
            info,
            request_id=self.request_id,
            retry_after=read_retry_after(headers) if info.retry_after is None else info.retry_after,
            rate_limit=self.rate_limit,
            should_retry=_SHOULD_RETRY.get(headers.get("x-should-retry", "").lower()),
            body=read if isinstance(read, dict | list) else text,
        )

    async def _read_error_body(self, response: httpx.Response, body: bytearray) -> None:
        async for piece in self._open_body(response):
            body += piece
            if len(body) >= self._request.limits.error_body_bytes:
                return
        self._at_end = True
