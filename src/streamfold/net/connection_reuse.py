"""Finds where a response ends and whether bytes arrived after it, to decide whether a connection may be reused.

A connection is reused only if it is silent, which means that no bytes have arrived after the response. Otherwise such
bytes would be read as the response to the next request, which RFC 9112, section 9.2, forbids. A server or a proxy may
send a second or late response, a 408 before it closes the connection, or an extra chunk. Such bytes may be in the
parser, in a read buffer, in the TLS layer or in the socket.

- httpx and httpx2: `guard_connections` creates an httpcore pool with streamfold's network backend, which inspects every
  received byte. If surplus bytes have arrived, the backend reports that the socket is readable. The pool then closes
  the connection and sends the request on another connection.
- aiohttp: `aiohttp_transport` passes only the bytes of a response to the parser, and closes a connection on which
  surplus bytes arrive.
- A client that the caller passed: `end_unless_silent` inspects internal objects of httpx and httpcore.

HTTP/2 numbers its responses and needs no check. If the state of a connection is unknown, the connection is closed.
"""

from __future__ import annotations

import re
import select
import ssl
from typing import Any

import httpx

from ..errors import ConfigError
from .timeouts_and_cancellation import event_loop, shut_down

_BLANK_LINE = re.compile(rb"\n\r?\n")  # as h11 does, which also takes lines without a CR
_STATUS = re.compile(rb"HTTP/\d\.\d (\d\d\d)")
_FIELD = re.compile(rb"\n(content-length|transfer-encoding):[ \t]*([^\r\n]*?)[ \t]*\r?(?=\n)", re.IGNORECASE)
_FOLDED = re.compile(rb"\n[ \t]+[^ \t\r\n]")  # a field that continues on the next line
_LENGTH = re.compile(rb"[0-9]{1,20}")
_CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;|\r?$)").match
_PLAIN_SIZE = re.compile(rb"([0-9a-fA-F]{1,8})\r\n").match  # without an extension
_LONGEST_HEAD = 100 * 1024  # httpcore's limit
_LONGEST_LINE = 64 * 1024  # bytes of a chunk's size with its extensions, or of a trailer
_SMALL = 2048  # bytes; copying a larger chunk takes longer than parsing it
KEEPALIVE_EXPIRY = 5.0  # seconds that an idle connection is kept: httpx's default


class MalformedHead(ValueError):
    """The status line and headers of a response can't be parsed."""


class ResponseFraming:
    """Finds where responses end in the bytes of one connection (RFC 9112, section 6).

    Contradictory lengths in the headers are handled as in h11, the parser that httpx and httpx2 use.

    Attributes:
        ended: True if the last response has ended and no response is expected.
        surplus: True if bytes arrived that don't belong to a response.
    """

    def __init__(self) -> None:
        self.ended = True
        self.surplus = False
        self._head: bytes | None = None  # the part that has arrived; None if the headers are complete
        self._left: int | None = 0  # missing bytes of the body, or of the chunk with its line end; None if unknown
        self._line: bytes | None = None  # the incomplete line; None if the body isn't chunked
        self._trailer = False  # whether the last chunk has arrived

    def begin(self) -> None:
        """Prepares for the response to another request. Must be called when the request is sent."""
        self.ended, self._head, self._left, self._line, self._trailer = False, b"", 0, None, False

    def feed(self, data: bytes) -> list[bytes]:
        """Returns the received bytes as pieces for an HTTP parser. Status line and headers are one piece. Bytes after
        the end of the body are left out.

        Raises:
            MalformedHead: the bytes aren't a response.
        """
        pieces: list[bytes] = []
        while self._head is not None and not self.ended:
            seen = len(self._head)
            self._head += data
            found = _BLANK_LINE.search(self._head, max(0, seen - 2))
            if found is None:
                self._check(self._head)
                return pieces
            data = data[found.end() - seen :]
            pieces.append(self._read_head(self._head[: found.end()]))
        rest = self._left  # missing bytes of the current chunk
        if self._line == b"" and rest is not None and rest < len(data) and not (self._trailer or self.ended):
            whole, end = self._whole_chunks(data, rest)
            if whole:
                if rest:
                    pieces.append(data[:rest])
                pieces.append(whole)
                self._left = 0
                if end == len(data):
                    return pieces
                data = data[end:]
        end = self._end_in(data)
        if end < len(data):
            self.surplus = True
        if end:
            pieces.append(data[:end])
        return pieces

    def _check(self, head: bytes) -> None:
        """Raises MalformedHead for status lines and headers that h11 refuses. aiohttp's parser before 3.14 accepts NUL
        bytes.
        """
        if b"\0" in head:
            raise MalformedHead("it contains a NUL character")
        if head and head[0] <= ord(" "):
            raise MalformedHead(f"it does not begin with a status line: {head[:20]!r}")
        if len(head) > _LONGEST_HEAD:
            raise MalformedHead(f"the head has more than {_LONGEST_HEAD} bytes")

    def _read_head(self, head: bytes) -> bytes:
        if _is_usual(head):
            self._head, self._line = None, b""
            return head
        self._check(head)
        status = _STATUS.match(head)
        if status is not None and status[1][:1] == b"1" and status[1] != b"101":
            self._head = b""  # an interim response: the final one follows
            return head
        self._head = None
        fields = [(found[1].lower(), found[2].lower()) for found in _FIELD.finditer(head)]
        lengths = {part.strip() for name, value in fields if name == b"content-length" for part in value.split(b",")}
        codings = [value for name, value in fields if name == b"transfer-encoding"]
        if len(lengths) > 1 or not all(map(_LENGTH.fullmatch, lengths)):
            raise MalformedHead(f"Content-Length: {b', '.join(sorted(lengths))[:100]!r}")
        if codings not in ([], [b"chunked"]):
            raise MalformedHead(f"Transfer-Encoding: {b', '.join(codings)[:100]!r}")
        stated = b"Transfer-Encoding: chunked" if codings else b"Content-Length: " + b"".join(lengths)
        if status is None or status[1] == b"101" or _FOLDED.search(head):
            self._left = None
        elif status[1] in (b"204", b"304"):
            self.ended = True
        elif codings:
            self._line = b""
        else:
            self._left = int(lengths.pop()) if lengths else None
            self.ended = self._left == 0
        if len(fields) > 1 or any(b"," in value for _, value in fields):  # several lengths, or chunks and a length
            first, _, rest = _FIELD.sub(b"", head).partition(b"\n")
            head = b"\n".join((first, stated + b"\r", rest))
        return head

    def _end_in(self, data: bytes) -> int:
        if self.ended:
            return 0
        if self._left is None:
            return len(data)
        if self._line is not None:
            return self._chunks(data)
        end = min(self._left, len(data))
        self._left -= end
        self.ended = not self._left
        return end

    def _whole_chunks(self, data: bytes, at: int) -> tuple[bytes, int]:
        """Joins small chunks of a chunked body into one, because HTTP parsers are slow for many small chunks.

        Returns:
            The joined chunk, and the position after the last small chunk. Incomplete chunks, large chunks and chunks
            with extensions aren't joined.
        """
        texts: list[bytes] = []
        end, size_of, last = at, len(data), b""
        while end < size_of and not last and (size := _PLAIN_SIZE(data, end)) is not None:
            start = size.end()
            behind = start + int(size[1], 16)
            if behind - start > _SMALL or not data.startswith(b"\r\n", behind):
                break
            if behind == start:
                last, self.ended = b"0\r\n\r\n", True
            texts.append(data[start:behind])
            end = behind + 2
        if len(texts) <= 1 + self.ended:
            return data[at:end], end
        return b"%x\r\n%b\r\n%b" % (sum(map(len, texts)), b"".join(texts), last), end

    def _chunks(self, data: bytes) -> int:
        at, left, size_of = 0, self._left, len(data)
        while left is not None:
            at += left
            if at >= size_of:
                self._left = at - size_of
                return size_of
            end = data.find(b"\n", at)
            if end < 0:
                self._left = 0
                self._line = (self._line or b"") + data[at:]
                if len(self._line) > _LONGEST_LINE:
                    self._left = None
                return size_of
            line, at = data[at:end], end + 1
            if self._line:  # the line began in an earlier read
                line = self._line + line
                self._line = b""
            left = self._read_line(line)
            if self.ended:
                return at
        self._left = None
        return size_of

    def _read_line(self, line: bytes) -> int | None:
        if self._trailer:
            self.ended = line in (b"", b"\r")
            return 0
        size = _CHUNK_SIZE(line)
        if size is None:
            return None  # the parser raises the error
        left = int(size[1], 16)
        self._trailer = not left
        return left + 2 if left else 0


def _is_usual(head: bytes) -> bool:
    lower = head.lower()
    return (
        head.startswith(b"HTTP/1.1 200 ")
        and lower.count(b"\ntransfer-encoding: chunked\r\n") == 1
        and lower.count(b"\ntransfer-encoding") == 1
        and not (b"\ncontent-length" in lower or b"\n " in head or b"\n\t" in head or b"\0" in head)
        and len(head) <= _LONGEST_HEAD
    )


def guard_connections(transport: Any, httpcore: Any, verify: ssl.SSLContext, *, http2: bool, proxy: str | None) -> None:
    """Replaces the connection pool of an httpx or httpx2 transport with a pool that reuses only silent connections.

    The number of connections in the pool isn't limited.

    Args:
        httpcore: the package `httpcore` or `httpcore2`. Both packages have the same interface.
    """
    # If tests have replaced the class, there are no connections to check.
    if type(transport).__name__ == "AsyncHTTPTransport" and not hasattr(transport, "_pool"):
        name = type(transport).__module__.partition(".")[0]
        raise ConfigError(f"connections can't be checked with this version of {name}: install an older version")
    options: dict[str, Any] = {"ssl_context": verify, "http2": http2, "keepalive_expiry": KEEPALIVE_EXPIRY}
    options["max_connections"] = options["max_keepalive_connections"] = None
    pool, begins_with_http = httpcore.AsyncConnectionPool, True
    if proxy is not None:
        url, auth = httpx.Proxy(proxy).url, httpx.Proxy(proxy).raw_auth
        options["proxy_url"] = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target="/")
        options["proxy_auth"] = auth
        begins_with_http = url.scheme in ("http", "https")
        pool = httpcore.AsyncHTTPProxy if begins_with_http else httpcore.AsyncSOCKSProxy
    backend = _Backend(httpcore, begins_with_http=begins_with_http)
    transport._pool = pool(**options, network_backend=backend)  # httpx has no option for the network backend


class _Backend:
    """Implements the methods of httpcore's `AsyncNetworkBackend` that streamfold's pools need. Opens `GuardedStream`
    connections.

    Args:
        begins_with_http: False for a SOCKS proxy, whose connections are reused only with TLS.
    """

    def __init__(self, httpcore: Any, *, begins_with_http: bool) -> None:
        self._httpcore = httpcore
        self._begins_with_http = begins_with_http

    async def connect_tcp(self, *args: Any, **options: Any) -> GuardedStream:
        trio = event_loop() is None
        backend = self._httpcore.TrioBackend() if trio else self._httpcore.AnyIOBackend()
        stream = await backend.connect_tcp(*args, **options)
        return GuardedStream(self._httpcore, stream, follows=self._begins_with_http)


class GuardedStream:
    """Implements httpcore's `AsyncNetworkStream`. Detects bytes that arrive after the end of a response.

    Args:
        stream: the wrapped stream.
        outside: the stream below TLS, or None if this stream doesn't use TLS.
        follows: True if the connection carries only HTTP/1.1.
    """

    def __init__(
        self, httpcore: Any, stream: Any, outside: GuardedStream | None = None, *, follows: bool = True
    ) -> None:
        self._httpcore = httpcore
        self._inner = stream
        self._outside = outside
        self._framing = ResponseFraming() if follows else None
        self._answered = False  # whether anything has arrived since the current request began
        if self._framing is not None:
            self._framing.begin()

    async def read(self, *args: Any, **options: Any) -> bytes:
        data: bytes = await self._inner.read(*args, **options)
        if self._framing is not None:
            self._answered = True
            try:
                self._framing.feed(data)
            except MalformedHead:  # its end isn't known, so the connection won't be used again
                self._framing = None
        return data

    async def write(self, *args: Any, **options: Any) -> None:
        if self._framing is not None and self._answered:  # another request begins
            if not self.is_silent():
                raise self._httpcore.ConnectionNotAvailable  # the pool uses another connection
            self._framing.begin()
            self._answered = False
        await self._inner.write(*args, **options)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(self, *args: Any, **options: Any) -> Any:
        stream = await self._inner.start_tls(*args, **options)
        tls = stream.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() == "h2":
            return stream
        return GuardedStream(self._httpcore, stream, self)

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable" and (self._framing is None or self._answered):  # httpcore closes idle ones that are
            return not self.is_silent()
        return self._inner.get_extra_info(info)

    def is_silent(self) -> bool:
        """Returns True if the last response has ended and no bytes follow it. Returns False if this is unknown."""
        if self._framing is None or self._framing.surplus or not self._framing.ended:
            return False
        try:
            stream = self
            while stream._outside is not None:
                if has_decrypted(stream._inner.get_extra_info("ssl_object")):
                    return False
                stream = stream._outside
            return not (_has_queued(stream._inner) or is_readable(stream._inner.get_extra_info("socket")))
        except AttributeError:
            return False


def end_unless_silent(response: httpx.Response) -> None:
    """Shuts down a response's connection, unless it is certain that no bytes followed the response.

    Call this function before the response is closed. The pool then finds that the socket is readable, and closes the
    connection. Does nothing for in-memory transports, aiohttp, HTTP/2 and `GuardedStream`.
    """
    network = response.extensions.get("network_stream")
    if network is None or isinstance(network, GuardedStream) or not response.http_version.startswith("HTTP/1"):
        return
    socket = network.get_extra_info("socket")  # httpcore itself closes a connection that has none
    if socket is not None and not _is_silent(response, network):
        shut_down(socket)


def _is_silent(response: httpx.Response, network: Any) -> bool:
    """Returns True if an httpx connection has no unread bytes in h11, TLS, anyio's stream and the socket.

    Returns False if this is unknown, and for TLS on trio, because nested TLS looks like a single layer there.
    """
    try:
        tls = network.get_extra_info("ssl_object")
        if tls is not None and (event_loop() is None or has_decrypted(tls)):
            return False
        stream: Any = response.stream
        # h11 keeps bytes that follow the response; httpx and httpcore have no public attribute for them.
        rest, _ = stream._stream._httpcore_stream._stream._connection._h11_state.trailing_data
        return not (rest or _has_queued(network) or is_readable(network.get_extra_info("socket")))
    except AttributeError:
        return False


def _has_queued(network: Any) -> bool:
    """Returns True if anyio has read bytes from the socket that httpcore hasn't fetched yet. anyio reads ahead on
    asyncio only.

    Raises:
        AttributeError: the connection has nested TLS, which can't be inspected.
    """
    if event_loop() is None:
        return False
    stream = network._stream
    below_tls = getattr(stream, "transport_stream", stream)
    # anyio has no public way to find out whether `receive` would return at once.
    return bool(below_tls._protocol.read_queue)


def is_readable(socket: Any) -> bool:
    """Returns True if a socket has unread bytes or was closed on either side, and if `socket` is None."""
    if socket is None or (descriptor := socket.fileno()) < 0:
        return True
    if not hasattr(select, "poll"):
        return bool(select.select([descriptor], [], [], 0)[0])
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def has_decrypted(tls: ssl.SSLObject) -> bool:
    """Returns True if TLS has decrypted bytes that aren't read yet. The check reads and drops one byte."""
    try:
        tls.read(1)
    except ssl.SSLWantReadError:
        return False
    except ssl.SSLError:
        pass  # the end, or unreadable
    return True
