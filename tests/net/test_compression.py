"""Compressed answers: unpacked whether or not they were asked for, as they arrive, and never without bound."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from types import ModuleType

import anyio
import httpx
import pytest

import servers
from folding import DONE, fin, text
from servers import STREAM, Connection, answer, framed, serving
from streamfold import AuthenticationError, IncompleteStreamError, ProtocolError, Provider, ServerError
from tables import each_row

pytestmark = pytest.mark.transports

ANSWER = text("Hi") + fin("stop") + DONE
ERROR = b'{"error":{"message":"wrong key"}}'


def package(*names: str) -> ModuleType:
    for name in names:
        if name.partition(".")[0] in sys.stdlib_module_names or find_spec(name.partition(".")[0]):
            try:
                return import_module(name)
            except ImportError:
                continue
    pytest.skip(f"needs {' or '.join(names)}")


def raw_deflate(data: bytes) -> bytes:
    return zlib.compress(data, wbits=-15)


def brotli(data: bytes) -> bytes:
    return bytes(package("brotli", "brotlicffi").compress(data))


def zstd(data: bytes) -> bytes:
    return bytes(package("compression.zstd", "backports.zstd", "zstandard").compress(data))


CODINGS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("X-GZip", gzip.compress),
    "two members": ("gzip", lambda data: gzip.compress(data[:50]) + gzip.compress(data[50:]) + bytes(100)),
    "deflate": ("deflate", zlib.compress),
    "raw deflate": ("deflate", raw_deflate),
    "identity": ("identity, gzip", gzip.compress),
    "gzip, gzip": ("gzip, gzip", lambda data: gzip.compress(gzip.compress(data))),
    "deflate, gzip": ("deflate, gzip", lambda data: gzip.compress(zlib.compress(data))),
    "br": ("br", brotli),
    "zstd": ("zstd", zstd),
    "zstd, two frames": ("zstd", lambda data: zstd(data[:50]) + zstd(data[50:])),
    "br, zstd": ("br, zstd", lambda data: zstd(brotli(data))),
}


def sends(response: bytes, size: int = 2**20) -> Callable[[Connection], object]:
    async def script(peer: Connection) -> None:
        await peer.request()
        for at in range(0, len(response), size):
            await peer.send(response[at : at + size])

    return script


@each_row(("name", "size"), list(product(CODINGS, [2**20, 7])))
async def test_a_compressed_answer(name: str, size: int) -> None:
    """It is read, with a warning if compression was not requested; so is the body of an error."""
    coding, pack = CODINGS[name]
    header = f"Content-Encoding: {coding}"
    async with (
        serving(sends(answer("200 OK", pack(ANSWER), header, "Connection: close"), size)) as server,
        server.provider() as provider,
    ):
        reply = await provider.chat("Hello")
        assert (reply.text, [warning.code for warning in reply.warnings]) == ("Hi", ["unrequested_encoding"])
        reply = await provider.chat("Hello", extra_headers={"Accept-Encoding": "gzip, deflate;q=0.5, br, zstd"})
        assert (reply.text, reply.warnings) == ("Hi", [])
    response = answer("401 Unauthorized", pack(ERROR), header)
    async with serving(sends(response, size)) as server, server.provider() as provider:
        with pytest.raises(AuthenticationError, match="wrong key") as caught:
            await provider.chat("Hello")
        assert [warning.code for warning in caught.value.warnings] == ["unrequested_encoding"]


async def test_a_client_that_was_passed_in() -> None:
    """The same with a transport of one's own, such as one that plays cassettes, also if it has read the body."""
    packed, headers = gzip.compress(ANSWER), {"content-encoding": "gzip"}
    for make in (
        lambda _: httpx.Response(200, headers=headers, stream=httpx.ByteStream(packed)),
        lambda _: httpx.Response(200, headers=headers, content=packed),
    ):
        async with httpx.AsyncClient(transport=httpx.MockTransport(make)) as client:
            provider = Provider.from_config({"base_url": "http://a.test/v1", "model": "m"}, http_client=client)
            reply = await provider.chat("Hello")
        assert (reply.text, [warning.code for warning in reply.warnings]) == ("Hi", ["unrequested_encoding"])


async def test_a_whole_answer_that_is_compressed() -> None:
    """So is an answer that is not a stream."""
    body = b'{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}'
    response = answer("200 OK", gzip.compress(body), "Content-Type: application/json", "Content-Encoding: gzip")
    async with serving(sends(response)) as server, server.provider() as provider:
        assert (await provider.chat("Hello")).text == "Hi"


def packer(coding: str) -> tuple[Callable[[bytes], bytes], Callable[[], bytes]]:
    """What compresses a stream, and what flushes it."""
    if coding == "br":
        compressor = package("brotli", "brotlicffi").Compressor()
        return compressor.process, compressor.flush
    if coding == "zstd":
        module = package("compression.zstd", "backports.zstd", "zstandard")
        if hasattr(module, "DecompressionParameter"):
            packing = module.ZstdCompressor()
            return packing.compress, lambda: packing.flush(packing.FLUSH_BLOCK)
        writing = module.ZstdCompressor().compressobj()
        return writing.compress, lambda: writing.flush(module.COMPRESSOBJ_FLUSH_BLOCK)
    body = zlib.compressobj(wbits={"gzip": 31, "deflate": 15, "raw deflate": -15}[coding])
    return body.compress, lambda: body.flush(zlib.Z_SYNC_FLUSH)


@each_row("coding", ["gzip", "deflate", "raw deflate", "br", "zstd"])
async def test_each_event_as_soon_as_it_is_there(coding: str) -> None:
    """What a server flushes is not held back for what follows."""
    pack, flush = packer(coding)
    shown = anyio.Event()

    async def script(peer: Connection) -> None:
        await peer.request()
        header = f"Content-Encoding: {coding.removeprefix('raw ')}\r\n\r\n".encode()
        await peer.send(STREAM[:-2] + header, framed(pack(text("Hel")) + flush()))
        await shown.wait()
        await peer.send(framed(pack(text("lo") + fin("stop") + DONE) + flush()), servers.END)

    async with serving(script) as server, server.provider() as provider:
        with anyio.fail_after(20):
            async with provider.chat_stream("Hello") as stream:
                assert (await anext(stream)).delta == "Hel"
                shown.set()
                assert (await anext(stream)).delta == "lo"


@pytest.mark.slow
@pytest.mark.parametrize("coding", ["gzip", "gzip, gzip", "deflate", "br", "zstd"])
async def test_a_body_that_grows_without_end(coding: str) -> None:
    """It is stopped by the limits of an answer, not by the memory."""
    packed = b": " + b" " * 2**26
    for name in coding.split(", "):
        packed = CODINGS[name][1](packed)
    response = answer("200 OK", packed, f"Content-Encoding: {coding}")
    async with serving(sends(response)) as server, server.provider(limits={"event_bytes": 2**20}) as provider:
        with pytest.raises(ProtocolError, match=r"limits\.event_bytes"):
            await provider.chat("Hello")
        await server.all_closed()


@each_row("coding", ["compress", "gzip, aws-chunked", "gzip, " * 5 + "gzip", "x" * 5000])
@each_row("status", ["200 OK", "500 No"])
async def test_codings_that_nobody_knows(coding: str, status: str) -> None:
    """They are refused by name; the status of an error counts."""
    named = "6 content-encodings" if coding.endswith("gzip") else coding.rpartition(" ")[2][:100]
    async with serving(sends(answer(status, ANSWER, f"Content-Encoding: {coding}"))) as server:
        async with server.provider() as provider:
            with pytest.raises(ProtocolError if status == "200 OK" else ServerError, match=named) as caught:
                await provider.chat("Hello")
            assert not isinstance(caught.value, ProtocolError) or caught.value.partial is not None
        await server.all_closed()


@pytest.mark.parametrize(("coding", "needed"), [("br", "brotli"), ("zstd", "zstandard")])
async def test_codings_whose_package_is_missing(coding: str, needed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the package."""
    for name in ("brotli", "brotlicffi", "zstandard", "backports.zstd", "compression.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    response = answer("200 OK", b"x", f"Content-Encoding: {coding}")
    async with serving(sends(response)) as server, server.provider() as provider:
        with pytest.raises(ProtocolError, match=f"content-encoding '{coding}': needs the package .*{needed}"):
            await provider.chat("Hello")


@each_row("coding", ["gzip", "deflate", "br", "zstd", "br, gzip"])
async def test_what_is_not_compressed_as_it_says(coding: str) -> None:
    """Nonsense breaks the answer off."""
    for name in coding.split(", "):
        CODINGS[name][1](b"")  # skips without the package
    async with serving(sends(answer("200 OK", b"\x1f" + ANSWER, f"Content-Encoding: {coding}"))) as server:
        async with server.provider() as provider:
            with pytest.raises(IncompleteStreamError, match="can't be decompressed"):
                await provider.chat("Hello")
        await server.all_closed()
