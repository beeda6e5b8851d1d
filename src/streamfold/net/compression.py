"""Bodies of responses as bytes: uncompressed, or unpacked in bounded pieces where compression was requested.

Requests ask for no compression, because proxies hold compressed streams back. A server that compresses nevertheless is
refused: a few hundred bytes in stacked codings may unpack to gigabytes. A caller who asks for gzip or deflate in
`extra_headers` gets it.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator

import httpx

from ..values import ProtocolError, Reply

__all__ = ["body_bytes"]

_PIECE = 64 * 1024  # bytes that are unpacked at once
_FORMATS = {"gzip": 31, "x-gzip": 31, "deflate": 47}  # zlib's window bits: with a gzip header, with either header


def body_bytes(response: httpx.Response, requested: str) -> AsyncIterator[bytes]:
    """Returns the bytes of a response's body.

    Args:
        requested: the request's `Accept-Encoding`.

    Raises:
        ProtocolError: the body has a content coding that was not requested.
    """
    coding = response.headers.get("content-encoding", "").strip().lower()
    if coding not in ("", "identity"):
        if coding not in _FORMATS or coding not in _tokens(requested):
            raise ProtocolError(
                f"the response has the content-encoding {coding[:100]!r}, which was not requested", partial=Reply()
            )
        return _unpacked(response, _FORMATS[coding])
    # Without httpx's layers, which cost a microsecond a piece.
    stream = response.extensions.get("streamfold.body", response.stream)
    if response.is_stream_consumed or not isinstance(stream, httpx.AsyncByteStream):
        return response.aiter_bytes()
    return stream.__aiter__()


def _tokens(header: str) -> set[str]:
    return {part.partition(";")[0].strip().lower() for part in header.split(",")}


async def _unpacked(response: httpx.Response, bits: int) -> AsyncIterator[bytes]:
    unpack = zlib.decompressobj(bits)
    async for piece in response.aiter_raw():
        rest = piece
        while rest:
            try:
                data = unpack.decompress(rest, _PIECE)
            except zlib.error as exc:
                raise httpx.DecodingError(str(exc)) from exc
            if data:
                yield data
            rest = unpack.unconsumed_tail
            if unpack.eof:  # another member may follow
                rest, unpack = unpack.unused_data, zlib.decompressobj(bits)
