"""Decompresses response bodies piece by piece, so that memory is bounded.

Requests ask for uncompressed responses, because proxies delay compressed streams. Some servers and proxies compress
anyway. A few hundred bytes may decompress to gigabytes. So the size limits of an answer are checked after each
decompressed piece.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from importlib import import_module
from itertools import chain
from typing import Any, Protocol

import httpx

from ..errors import ProtocolError
from ..types import Reply, ReplyWarning

_PIECE = 64 * 1024  # bytes that are unpacked at once
_MOST_CODINGS = 5  # of one body
_WINDOW = 23  # log2 of the memory of zstd: the most that HTTP allows (RFC 9659)
_ZSTD_SLICE = 64  # bytes of input, which zstandard unpacks to 2 MiB at most: it can't limit its output


def body_codings(headers: Iterable[tuple[str, str]]) -> list[str]:
    """Returns a body's compression methods from its `Content-Encoding` headers. The method that was applied last comes
    first. Header names must be in lower case.
    """
    values = [value for name, value in headers if name == "content-encoding"]
    if not values:
        return values
    names = ",".join(values).lower().split(",")
    return [name for part in reversed(names) if (name := part.strip()) not in ("", "identity")]


def unrequested_codings(codings: list[str], accepted: str) -> tuple[ReplyWarning, ...]:
    """Returns a warning if a compression method of the response isn't in the request's `Accept-Encoding`."""
    known = {part.partition(";")[0].strip().lower() for part in accepted.split(",")}
    if "*" in known or known.issuperset(name.removeprefix("x-") for name in codings):
        return ()
    names = ", ".join(reversed(codings))
    detail = f"the response has the content-encoding {names!r}, which was not requested; it was unpacked"
    return (ReplyWarning("unrequested_encoding", detail),)


def unpacked(raw: AsyncIterator[bytes], codings: list[str], *, is_unpacked: bool = False) -> AsyncIterator[bytes]:
    """Returns an iterator over the decompressed bytes of a body.

    Args:
        is_unpacked: True if `raw` is already decompressed. Then the function only checks the names of the compression
            methods.

    Raises:
        ProtocolError: a compression method is unknown, or its package is not installed.
    """
    if not codings:
        return raw
    unpackers = _unpackers(codings)
    return raw if is_unpacked else _Unpacked(raw, unpackers)


def unpacked_pieces(pieces: Iterable[bytes], codings: list[str]) -> Iterator[tuple[int, bytes]]:
    """Yields the decompressed pieces of a body, each with the index of the compressed piece that it comes from.

    Raises:
        ProtocolError: a compression method is unknown, or its package is not installed.
        httpx.DecodingError: the body can't be decompressed with the declared methods.
    """
    unpackers = _unpackers(codings)
    errors = tuple(unpacker.error for unpacker in unpackers)
    for number, piece in enumerate(pieces):
        try:
            for data in _through(unpackers, piece):
                yield number, data
        except errors as exc:
            raise httpx.DecodingError(f"the body can't be decompressed: {exc}") from exc


class _Unpacker(Protocol):
    """Decompresses data that was compressed with one method. The data may be several compressed streams in a row."""

    error: type[Exception]

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Decompresses more data, and yields the result in pieces. A piece may be empty."""
        ...


class _Unpacked:
    """An iterator over a decompressed body. The class isn't a generator, because an abandoned generator would stay
    open.
    """

    def __init__(self, raw: AsyncIterator[bytes], unpackers: list[_Unpacker]) -> None:
        self._raw = raw
        self._unpackers = unpackers
        self._errors = tuple(unpacker.error for unpacker in unpackers)
        self._pieces: Iterator[bytes] = iter(())

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            for piece in self._pieces:
                return piece
        except self._errors as exc:
            raise httpx.DecodingError(f"the body can't be decompressed: {exc}") from exc
        self._pieces = _through(self._unpackers, await self._raw.__anext__())
        return b""


def _through(unpackers: list[_Unpacker], data: bytes) -> Iterator[bytes]:
    pieces: Iterator[bytes] = iter((data,))
    for unpacker in unpackers:
        pieces = chain.from_iterable(map(unpacker.feed, pieces))
    return pieces


def _unpackers(codings: list[str]) -> list[_Unpacker]:
    if len(codings) > _MOST_CODINGS:
        raise ProtocolError(f"the response has {len(codings)} content-encodings", partial=Reply())
    unpackers = []
    for name in codings:
        if (make := _UNPACKERS.get(name)) is None:
            raise ProtocolError(f"the response has the unknown content-encoding {name[:100]!r}", partial=Reply())
        try:
            unpackers.append(make())
        except ImportError as exc:
            raise ProtocolError(f"the response has the content-encoding {name!r}: {exc}", partial=Reply()) from exc
    return unpackers


class _Zlib:
    error: type[Exception] = zlib.error

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self._body = zlib.decompressobj(bits)

    def feed(self, data: bytes) -> Iterator[bytes]:
        while True:
            if self._body.eof:
                data = data.lstrip(b"\0")  # padding
                if not data:
                    return
                self._body = zlib.decompressobj(self._bits)
            piece = self._body.decompress(data, _PIECE)
            yield piece
            data = self._body.unused_data if self._body.eof else self._body.unconsumed_tail
            if not data and len(piece) < _PIECE:
                return


class _Deflate:
    """Decompresses "deflate" bodies in zlib format, as the standard says, or in raw format, as some servers send
    them.
    """

    error: type[Exception] = zlib.error

    def __init__(self) -> None:
        self._begin = b""
        self._body: _Zlib | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._body is None:
            data = self._begin = self._begin + data
            if len(data) < 2:
                return
            wrapped = data[0] & 15 == zlib.DEFLATED and int.from_bytes(data[:2], "big") % 31 == 0
            self._body = _Zlib(zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS)
        yield from self._body.feed(data)


class _Brotli:
    def __init__(self) -> None:
        brotli = _package("brotli", "brotlicffi")
        self.error: type[Exception] = brotli.error
        self._body = brotli.Decompressor()
        if not hasattr(self._body, "can_accept_more_data"):
            raise ImportError("needs brotli 1.2, which can limit the size of decompressed data")

    def feed(self, data: bytes) -> Iterator[bytes]:
        yield self._body.process(data, output_buffer_limit=_PIECE)
        while not self._body.can_accept_more_data():
            yield self._body.process(b"", output_buffer_limit=_PIECE)


class _Zstd:
    def __init__(self) -> None:
        zstd = _package("compression.zstd", "backports.zstd", "zstandard")
        self.error: type[Exception] = zstd.ZstdError
        self._make: Callable[[], Any]
        self._limit: tuple[int, ...]
        if hasattr(zstd, "DecompressionParameter"):
            options = {zstd.DecompressionParameter.window_log_max: _WINDOW}
            self._make = lambda: zstd.ZstdDecompressor(options=options)
            self._slice, self._limit = 2**62, (_PIECE,)
        else:
            self._make = zstd.ZstdDecompressor(max_window_size=2**_WINDOW).decompressobj
            self._slice, self._limit = _ZSTD_SLICE, ()
        self._body = self._make()

    def feed(self, data: bytes) -> Iterator[bytes]:
        while True:
            if self._body.eof:
                if not data:
                    return
                self._body = self._make()
            yield self._body.decompress(data[: self._slice], *self._limit)
            data = (self._body.unused_data if self._body.eof else b"") + data[self._slice :]
            if not data and getattr(self._body, "needs_input", True):
                return


def _package(*names: str) -> Any:
    for name in names:
        try:
            return import_module(name)
        except ImportError:
            continue
    raise ImportError(f"needs the package {' or '.join(names[-2:])}")


_UNPACKERS: dict[str, Callable[[], _Unpacker]] = {
    "gzip": lambda: _Zlib(31),
    "x-gzip": lambda: _Zlib(31),
    "deflate": _Deflate,
    "br": _Brotli,
    "zstd": _Zstd,
}
