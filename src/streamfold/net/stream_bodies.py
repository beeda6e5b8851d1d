"""Bodies without unfinished generators: the garbage collector would end them, and trio complains of that."""

from __future__ import annotations

from typing import Any, NoReturn, Self

import anyio
import httpx

from .transport_errors import is_network_error

_BUFFERED = 1000  # pieces; a body in memory may be endless, and never wait


class Pieces:
    """A body in pieces of at most so many bytes."""

    def __init__(self, body: bytes, size: int) -> None:
        self._pieces = iter([body[at : at + size] for at in range(0, len(body), size)])

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        for piece in self._pieces:
            return piece
        raise StopAsyncIteration


class ExceptionMappingStream(httpx.AsyncByteStream):
    """A body of a package whose exceptions have the names of httpx's."""

    def __init__(self, stream: Any, package: str) -> None:
        self._stream = stream
        self._package = package
        self._pieces = stream.__aiter__()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await self._pieces.__anext__()  # type: ignore[no-any-return]
        except Exception as exc:
            raise_as_httpx(exc, self._package)

    async def aclose(self) -> None:
        await self._stream.aclose()


def raise_as_httpx(exc: BaseException, package: str) -> NoReturn:
    """Raises httpx's exception for one of a package whose exceptions have the same names; any other one as it is."""
    if type(exc).__module__.partition(".")[0] != package:
        try:
            raise exc
        finally:
            del exc  # its traceback has this frame
    found = (getattr(httpx, kind.__name__, None) for kind in type(exc).__mro__)
    raise next(filter(None, found), httpx.TransportError)(str(exc)) from exc


class RequestBody(httpx.ByteStream):
    """A body in one piece, which may be read as often as it is sent."""

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self._body = body

    def __aiter__(self) -> Pieces:
        return Pieces(self._body, len(self._body) or 1)


async def aclose_generators(body: Any) -> None:
    """Ends the generators through which a body is read, from the innermost one outwards, unless a task is in them.

    On asyncio it must be called in a task of ours, because it cancels what it awaits.
    """
    if getattr(body, "ag_frame", None) is None or body.ag_running:
        return
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            for _ in range(_BUFFERED):  # what has been read of it, then the cancelled wait for more
                await anext(body)
        except StopAsyncIteration:
            pass
        except Exception as exc:  # that is an end, too
            if not is_network_error(exc):
                raise
