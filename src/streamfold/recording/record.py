"""RecordTransport captures responses, removes secrets and saves recordings. RecordingDraft replaces older recordings.

The files are written when a response is complete, because an API key that the network has split is found only in the
complete body. So secrets are never written to the disk.
"""

from __future__ import annotations

import os
import re
import shutil
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import accumulate, count
from pathlib import Path

import anyio
import anyio.lowlevel
import httpx

from ..adapters import adapter_by_path, find_adapter
from ..engine import StreamDecoder
from ..errors import ConfigError, ProtocolError
from ..net import (
    HIDDEN,
    Redactor,
    Replacement,
    apply_replacements,
    body_codings,
    secrets_in_body,
    secrets_in_headers,
    unpacked_pieces,
)
from .recording import Cut, Recording, check_writer, temporary_path
from .replay import load_source
from .request_matching import RecordedRequest

# Headers that a reader of the answer may need. Others may identify the account.
_KEPT = re.compile(
    r"content-type|cache-control|retry-after(-ms)?|server|openai-(processing-ms|version|model)|x-ratelimit-[a-z-]+"
    r"|(x-|msh-|apim-)?request-id|x-trace-id",
    re.IGNORECASE,
)
_NO_API = "none"
_LONGEST_NAME = 100  # characters; file systems allow 255 bytes with all suffixes
_SHORTEST = 4  # characters of a secret
_LONGEST_PART = 180  # characters; with suffixes it must be a file name
_NAME = re.compile(r"[A-Za-z0-9_][\w.+@-]*(/[A-Za-z0-9_][\w.+@-]*)*", re.ASCII)


class Capture(httpx.AsyncByteStream):
    """A response body that is captured while the application reads it.

    Attributes:
        address: the server's address.
        path: the path of the new recording, without a suffix.
        pieces: the pieces of the body as the network delivered them, each with the seconds since the previous piece.
        ended: the reason why the body is incomplete, or "" if the body is complete.
        broken: True if the network or the server ended the body early. False if the application stopped reading.
    """

    def __init__(
        self,
        request: RecordedRequest,
        address: str,
        response: httpx.Response,
        path: Path,
        save: Callable[[Capture], None],
    ) -> None:
        if not isinstance(response.stream, httpx.AsyncByteStream):
            raise ConfigError(f"{request.path}: the transport returned a response that can't be read asynchronously")
        self.request, self.address, self.path = request, address, path
        self.status, self.headers = response.status_code, response.headers
        self.pieces: list[tuple[float, bytes]] = []
        self.ended, self.broken = "", False
        self._stream = response.stream
        self._chunks = aiter(response.stream)
        self._last = anyio.current_time()
        self._save: Callable[[Capture], None] | None = save

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            piece = await anext(self._chunks)
            await anyio.lowlevel.checkpoint_if_cancelled()  # a body in memory never waits
        except StopAsyncIteration:
            self.end()
            raise
        except Exception as exc:
            self.end(": ".join(filter(None, (type(exc).__name__, str(exc)))), broken=True)
            raise
        except BaseException:
            self.end("cancelled: the reader did not wait any longer")
            raise
        now = anyio.current_time()
        self.pieces.append((now - self._last, piece))
        self._last = now
        return piece

    async def aclose(self) -> None:
        try:
            self.end("closed by the reader")
        finally:
            await self._stream.aclose()

    def end(self, how: str = "", *, broken: bool = False) -> None:
        """Saves the recording. A second call has no effect.

        Args:
            how: the reason why the body is incomplete, or "" if the body is complete.
            broken: True if the network or the server ended the body early.
        """
        save, self._save = self._save, None
        if save is not None:
            self.ended, self.broken = how, broken
            save(self)


def default_name(request: RecordedRequest) -> str:
    """Returns the default name of a recording: the model's name, or else the last part of the URL's path."""
    text = request.model or request.path.partition("?")[0].rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9_.]+", "-", text)[:_LONGEST_NAME].strip("-._") or "answer"


def build_recording(capture: Capture, secrets: Sequence[str], adapter: str | None, conversation: str = "") -> Recording:
    """Returns the recording of a captured response and its request, without secrets.

    Args:
        adapter: the wire format. With None, or if this wire format doesn't use the request's path, the path determines
            the wire format.
    """
    request, path = capture.request, capture.request.path.partition("?")[0]
    cookies = [("set-cookie", value) for value in capture.headers.get_list("set-cookie")]
    redactor = request.redactor.with_secrets([*secrets, *request.secrets(), *secrets_in_headers(cookies)], guess=True)
    pieces, encoding, problem = _decoded(capture)
    body, cuts = cleaned_body(b"".join(piece for _, piece in pieces), _cuts(pieces), redactor)
    if adapter is None or not find_adapter(adapter)().handles_path(path):
        adapter = adapter_by_path(path) or _NO_API
    model = f" for the model {request.model!r}" if request.model else ""
    return _with_expectation(
        Recording(
            name="",
            body=body,
            adapter=adapter,
            status=capture.status,
            headers={name: redactor.text(text) for name, text in capture.headers.items() if _KEPT.fullmatch(name)},
            cuts=tuple(Cut(size, round(wait, 6)) for size, wait in cuts),
            broken=capture.broken,
            source="recorded",
            origin=redactor.text(f"{capture.address}, recorded on its way through httpx"),
            date=datetime.now(UTC).date().isoformat(),
            request=redactor.text(f"{request.method} {request.path}{model}"),
            ended=redactor.text(problem or capture.ended),
            encoding=encoding,
            conversation=conversation,
            sent=request.sent(redactor),
        )
    )


def _with_expectation(recording: Recording) -> Recording:
    ended, said_so = recording.ended, False
    if recording.adapter != _NO_API:
        decoder = StreamDecoder(recording.adapter, **recording.options())
        decoder.feed(recording.body)
        said_so = decoder.done  # then it does not matter how the connection ended
    complete = not ended or said_so
    broken = recording.broken or not complete
    recording = replace(recording, complete=complete, broken=broken, ended=ended if broken else "")
    return recording if recording.adapter == _NO_API else replace(recording, expect=recording.expectation())


def _cuts(pieces: Sequence[tuple[float, bytes]]) -> list[Cut]:
    """Returns the size and the delay of each captured piece. Skips empty pieces, and adds their delays to the next
    piece.
    """
    cuts, waited = [], 0.0
    for wait, piece in pieces:
        waited += wait
        if piece:
            cuts.append(Cut(len(piece), waited))
            waited = 0.0
    return cuts


def _decoded(capture: Capture) -> tuple[list[tuple[float, bytes]], str, str]:
    """Decompresses the pieces of a captured body. Returns the pieces, the names of the compression methods, and an
    error message if the decompression failed.

    Each returned piece contains the data that could be decompressed after one network read. So each piece keeps the
    time of its network read.
    """
    codings = body_codings((name.lower(), value) for name, value in capture.headers.multi_items())
    encoding, out = ", ".join(reversed(codings)), [(wait, b"") for wait, _ in capture.pieces]
    try:
        for number, data in unpacked_pieces((piece for _, piece in capture.pieces), codings):
            wait, before = out[number]
            out[number] = (wait, before + data)
    except ProtocolError as exc:
        return [], encoding, f"the body is compressed ({encoding}) and can't be read: {exc.message}"
    except httpx.DecodingError as exc:
        return out, encoding, f"the body is not {encoding}: {exc}"
    return out, encoding, ""


def cleaned_body(body: bytes, cuts: Sequence[Cut], redactor: Redactor) -> tuple[bytes, tuple[Cut, ...]]:
    """Removes secrets from a body. Returns the new body, and the size and delay of each of its pieces. Also finds
    secrets that are split between pieces or events.
    """
    found = [Replacement(start, end, HIDDEN.encode()) for start, end in redactor.spans(body.decode("latin-1"))]
    body, cuts = _changed(body, cuts, found)
    return _changed(body, cuts, secrets_in_body(body, redactor))


def _changed(body: bytes, cuts: Sequence[Cut], splices: Sequence[Replacement]) -> tuple[bytes, tuple[Cut, ...]]:
    """Applies replacements to a body, and returns it with the new sizes and delays of its pieces."""
    if not splices:
        return body, tuple(cuts)
    grown = list(accumulate((len(new) - (end - start) for start, end, new in splices), initial=0))
    ends = [splice.end for splice in splices]

    def place(offset: int) -> int:
        number = bisect_left(ends, offset)
        if number == len(splices) or offset <= splices[number].start:
            return offset + grown[number]
        start, end, new = splices[number]
        return start + grown[number] + (len(new) if offset == end else min(offset - start, len(new)))

    moved: list[Cut] = []
    before, waited = 0, 0.0
    for cut, end in zip(cuts, accumulate(cut.size for cut in cuts), strict=True):
        waited += cut.delay
        if place(end) > before:
            moved.append(Cut(place(end) - before, waited))
            before, waited = place(end), 0.0
    return apply_replacements(body, splices), tuple(moved)


def failure_in(recording: Recording) -> str | None:
    """Returns the reason why a recorded response failed: its HTTP status, its early end or its error. Returns None if
    the response succeeded.
    """
    answer = f"the response {recording.name.rpartition('/')[2]}"
    if recording.status >= 400:
        return f"{answer} has the status {recording.status}"
    if not recording.complete:
        return f"{answer} is not complete ({recording.ended})"
    error = recording.expect.get("error")
    return f"{answer} ends with {error}" if error else None


class RecordingDraft:
    """The new recordings of one conversation, in a temporary folder next to the target folder.

    Attributes:
        folder: the temporary folder, which is created when the first recording is written.
    """

    def __init__(self, directory: str | os.PathLike[str], name: str) -> None:
        self._directory = Path(directory)
        self._name = name
        self.folder = temporary_path(self._directory / "recording")

    @property
    def target(self) -> Path:
        """The path of the first recording, without a suffix."""
        return self._directory / self._name

    @property
    def has_older(self) -> bool:
        """True if an older recording exists at the target path."""
        return self.target.with_name(f"{self.target.name}.sse").is_file()

    def problem(self) -> str | None:
        """Returns None if the new recordings may replace older ones, otherwise the reason: a response is missing or has
        failed.
        """
        if not (files := self._files()):
            return "there was no response, or it is still open"
        return next(filter(None, (failure_in(Recording.load(file)) for file in files)), None)

    def keep(self) -> list[Path]:
        """Replaces the older recordings with the new ones, and returns the paths of the new ones, without a suffix."""
        try:
            older = load_source(self.target) if self.has_older else []
        except ConfigError:  # unreadable: only files of the same names are replaced
            older = []
        kept = []
        for file in self._files():
            kept.append(self._directory / file.relative_to(self.folder).with_name(file.stem))
            kept[-1].parent.mkdir(parents=True, exist_ok=True)
            Recording.load(file).save(kept[-1])
        names = {place.name for place in kept}
        for left in {old.name.rpartition("/")[2] for old in older} - names:  # the older one was longer
            for suffix in (".sse", ".toml"):
                self.target.with_name(left + suffix).unlink(missing_ok=True)
        return kept

    def discard(self) -> None:
        """Removes the temporary folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _files(self) -> list[Path]:
        return sorted(self.folder.rglob("*.sse"))


class RecordTransport(httpx.AsyncBaseTransport):
    """An httpx transport that records the responses of another transport, as `<name>.sse` and `<name>.toml`.

    The recording of the first response is named `<name>`, those of later responses `<name>-2`, `<name>-3` and so on.
    New recordings replace older files with these names. An incomplete response is recorded too, and marked as
    incomplete.

    A recording contains only headers that can't contain secrets. The API keys of the request, `secrets`, and texts that
    look like an API key are removed from the bodies.

    Args:
        transport: the transport that sends the requests.
        directory: the folder for the files, which is created if it doesn't exist.
        name: the name of the recordings, such as `kimi/hello`. Without a name, each recording is named after its model,
            and no older file is replaced.
        secrets: additional texts to remove. The secrets of the provider that sends the requests are always removed.
        adapter: the wire format of the responses. By default, streamfold derives it from the path of each request.

    Attributes:
        written: the paths of the finished recordings, without a suffix, in the order in which the responses ended.

    Raises:
        ConfigError: the name or a secret is invalid, or the files of a response can't be written.
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
                f"a recording can't be called {name!r}: a name has letters, digits and _.-+@, and may"
                " begin with a folder (kimi/hello)"
            )
        if name is not None and max(map(len, name.split("/"))) > _LONGEST_PART:
            raise ConfigError(f"the name of a recording may have at most {_LONGEST_PART} characters, not {len(name)}")
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
            raise ConfigError(
                f"a secret must have at least {_SHORTEST} characters, because a shorter text occurs in too"
                " many other texts"
            )
        if adapter is not None:
            find_adapter(adapter)
        check_writer()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends the request. Records the response while the application reads it."""
        self._make_folder(self._directory)
        await request.aread()
        response = await self._transport.handle_async_request(request)
        sent, address = RecordedRequest.of(request), f"{request.url.scheme}://{request.url.netloc.decode('ascii')}"
        self._conversation = self._conversation or datetime.now(UTC).isoformat()
        capture = Capture(sent, address, response, self._next_path(sent), self._write)
        self._open.add(capture)
        # A new response, because the content of one that was already read would never pass through `capture`.
        return httpx.Response(capture.status, headers=capture.headers, stream=capture, extensions=response.extensions)

    async def aclose(self) -> None:
        """Saves the responses that the application hasn't closed, and closes the transport."""
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
        self._open.discard(capture)
        recording = build_recording(capture, self._secrets, self._adapter, self._conversation)
        self._make_folder(capture.path.parent)
        while capture.path not in self.written:  # no `await` in this loop: the task may be cancelled
            try:
                recording.save(capture.path, replace_older=self._name is not None)
                self.written.append(capture.path)
            except FileExistsError:  # another recorder has taken the name
                capture.path = self._next_path(capture.request)
            except OSError as exc:
                raise ConfigError(f"the recording {capture.path} can't be written: {exc.strerror or exc}") from exc

    def _make_folder(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise ConfigError(f"recordings can't be saved in {folder}: {exc.strerror or exc}") from exc


def recording_client(
    client: httpx.AsyncClient,
    directory: str | os.PathLike[str],
    *,
    name: str | None = None,
    secrets: Iterable[str] = (),
    adapter: str | None = None,
) -> tuple[httpx.AsyncClient, RecordTransport]:
    """Returns a client that records responses, and its transport. The new client sends requests with `client`, so it
    uses the proxies and certificates of `client`.

    Closing the new client closes `client`, too. For the arguments and errors, see `RecordTransport`.
    """
    transport = RecordTransport(_Through(client), directory, name=name, secrets=secrets, adapter=adapter)
    return httpx.AsyncClient(transport=transport, timeout=None), transport


class _Through(httpx.AsyncBaseTransport):
    """A transport that sends requests with a client, and so uses the client's proxy settings."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._client.send(request, stream=True, follow_redirects=False)
        response.extensions.pop("streamfold.body", None)  # the body is to be read through the tap
        return response

    async def aclose(self) -> None:
        await self._client.aclose()
