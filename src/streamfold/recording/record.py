"""Live answers, recorded on their way through httpx.

Bytes are captured and passed on at once. The files are written when the answer has ended, however it did, because a
key that the network cut in two can be taken out only where the whole body is known: nothing with a secret in it is on
the disk at any time, not even for a moment.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import anyio
import anyio.lowlevel
import httpx

from ..adapters import find_adapter
from ..values import ConfigError
from .capture import Capture, build_recording, default_name
from .description import check_writer
from .files import Recording
from .request_matching import RecordedRequest

_SHORTEST = 4  # characters of a secret
_LONGEST_PART = 180  # characters; with suffixes it must be a file name
_NAME = re.compile(r"[A-Za-z0-9_][\w.+@-]*(/[A-Za-z0-9_][\w.+@-]*)*", re.ASCII)


class RecordTransport(httpx.AsyncBaseTransport):
    """Records the answers that come through another transport, as `<name>.sse` and `<name>.toml`.

    The first answer is `<name>`, the next ones `<name>-2`, `<name>-3` in the order in which they began. What is there
    under these names is replaced. Incomplete answers are recorded as far as they came and are marked as incomplete.

    Secrets are taken out: of the headers by naming those that are kept, of the bodies what the request sent as a key,
    what is given here, and whatever looks like a key.

    Args:
        transport: sends the requests.
        directory: where the files go; it is created if needed.
        name: of the recordings; a folder may stand before it. Without one it is the model's, and nothing is replaced.
        secrets: texts that must not be in the files. Under a provider its own secrets are known.
        adapter: the wire format of the answers; else it is found by the path of the request.

    Attributes:
        written: the recordings so far, in the order in which they ended, without a suffix.

    Raises:
        ConfigError: the name or a secret can't be used; or, when it happens, the files can't be written.
    """

    def __init__(
        self,
        transport: httpx.AsyncBaseTransport,
        directory: str | os.PathLike[str],
        *,
        name: str | None = None,
        secrets: Iterable[str] = (),
        adapter: str | None = None,
    ) -> None:
        if name is not None and (not _NAME.fullmatch(name) or name.endswith((".sse", ".toml"))):
            raise ConfigError(
                f"a recording can't be called {name!r}: a name has letters, digits and _.-+@, and folders with a /"
            )
        if name is not None and max(map(len, name.split("/"))) > _LONGEST_PART:
            raise ConfigError(f"the name of a recording may have {_LONGEST_PART} characters, not {len(name)}")
        self._transport = transport
        self._directory = Path(directory)
        self._name = name
        self._secrets = [secrets] if isinstance(secrets, str) else list(secrets)
        self._adapter = adapter
        self._numbers: dict[str, count[int]] = {}
        self._open: set[Capture] = set()
        self._conversation = ""
        self.written: list[Path] = []
        if any(0 < len(secret) < _SHORTEST for secret in self._secrets):
            raise ConfigError(f"a secret of less than {_SHORTEST} characters stands in too many other texts")
        if adapter is not None:
            find_adapter(adapter)
        check_writer()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends the request; the answer is recorded while it is read."""
        self._make_folder(self._directory)
        await request.aread()
        response = await self._transport.handle_async_request(request)
        if not isinstance(response.stream, httpx.AsyncByteStream):
            raise ConfigError(f"{self._transport!r} gave an answer that can't be read asynchronously")
        asked, address = RecordedRequest.of(request), f"{request.url.scheme}://{request.url.netloc.decode('ascii')}"
        self._conversation = self._conversation or datetime.now(UTC).isoformat()
        path, status, headers = self._next_path(asked), response.status_code, response.headers
        capture = Capture(asked, address, status, headers, self._conversation, path, self._write)
        self._open.add(capture)
        # A new one, because the content of one that was read already would never pass here.
        return httpx.Response(
            status, headers=headers, stream=_Tap(response.stream, capture), extensions=response.extensions
        )

    async def aclose(self) -> None:
        """Saves abandoned answers, and closes the transport."""
        try:
            for capture in list(self._open):
                capture.end("abandoned: neither read to its end nor closed")
        finally:
            await self._transport.aclose()

    def _next_path(self, request: RecordedRequest) -> Path:
        name = self._name or default_name(request)
        numbers = self._numbers.setdefault(name, count(1))
        while True:
            number = next(numbers)
            path = self._directory / (name if number == 1 else f"{name}-{number}")
            taken = [path.with_name(path.name + suffix) for suffix in (".sse", ".toml")]
            if self._name or not any(file.exists() for file in taken):
                return path

    def _write(self, capture: Capture) -> None:
        """Writes the files of an answer that has ended. Raises ConfigError if they can't be written."""
        self._open.discard(capture)
        recording = build_recording(capture, self._secrets, self._adapter)
        self._make_folder(capture.path.parent)
        try:  # without waiting, so that a reader who is being cancelled leaves a whole recording behind
            self._save(recording, capture)
        except OSError as exc:
            raise ConfigError(f"the recording {capture.path} can't be written: {exc.strerror or exc}") from exc
        self.written.append(capture.path)

    def _save(self, recording: Recording, capture: Capture) -> None:
        while True:
            try:
                return recording.save(capture.path, replace_older=self._name is not None)
            except FileExistsError:  # another recorder has taken the name
                capture.path = self._next_path(capture.request)

    def _make_folder(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise ConfigError(f"there can't be recordings in {folder}: {exc.strerror or exc}") from exc


class _Tap(httpx.AsyncByteStream):
    """Hands on a body, and notes what passes."""

    def __init__(self, stream: httpx.AsyncByteStream, capture: Capture) -> None:
        self._stream = stream
        self._capture = capture
        self._pieces: AsyncIterator[bytes] | None = None

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._pieces is None:
            self._pieces = aiter(self._stream)
        try:
            piece = await anext(self._pieces)
            await anyio.lowlevel.checkpoint_if_cancelled()  # a body in memory never waits
        except StopAsyncIteration:
            self._capture.end()
            raise
        except Exception as exc:
            self._capture.end(": ".join(filter(None, (type(exc).__name__, str(exc)))), broken=True)
            raise
        except BaseException:
            self._capture.end("cancelled: the reader did not wait any longer")
            raise
        self._capture.came(piece)
        return piece

    async def aclose(self) -> None:
        try:
            self._capture.end("closed by the reader")
        finally:
            await self._stream.aclose()


def recording_client(
    client: httpx.AsyncClient,
    directory: str | os.PathLike[str],
    *,
    name: str | None = None,
    secrets: Iterable[str] = (),
    adapter: str | None = None,
) -> tuple[httpx.AsyncClient, RecordTransport]:
    """A client that sends through another one, with all that that is set up with (proxies, certificates), and records.

    Closing it closes the other one. The arguments, and what they raise, are those of `RecordTransport`.
    """
    transport = RecordTransport(_Through(client), directory, name=name, secrets=secrets, adapter=adapter)
    return httpx.AsyncClient(transport=transport, timeout=None), transport


class _Through(httpx.AsyncBaseTransport):
    """Sends by means of a client. A client with a transport of its own would not look for proxies."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._client.send(request, stream=True, follow_redirects=False)
        response.extensions.pop("streamfold.body", None)  # the body is to be read through the tap
        return response

    async def aclose(self) -> None:
        await self._client.aclose()
