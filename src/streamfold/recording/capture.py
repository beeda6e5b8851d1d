"""Turns a captured exchange into a recording: decoded, without secrets, and with the reply that it folds to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import httpx

from ..adapters import find_adapter
from ..engine import StreamDecoder
from ..net import secrets_in_headers
from .cleaning import cleaned_body
from .files import Cut, Recording
from .outcome import expected
from .requests import Request

__all__ = ["Capture", "own_name", "recorded"]

# Headers that a reader of the answer may need. Others may identify the account.
_KEPT = re.compile(
    r"content-type|cache-control|retry-after(-ms)?|server|openai-(processing-ms|version|model)|x-ratelimit-[a-z-]+"
    r"|(x-|msh-|apim-)?request-id|x-trace-id",
    re.IGNORECASE,
)
_WIRES = ("chat", "responses")  # recognised by the end of their path
_NO_WIRE = "none"
_LONGEST_NAME = 100  # characters; file systems allow 255 bytes with all suffixes


@dataclass(slots=True)
class Capture:
    """A request and its answer, as they passed.

    Attributes:
        address: of the server.
        pieces: of the body, as they came over the network, each with the seconds since the one before.
        ended: how the body ended; empty if it came to its end.
        broken: the network or the server ended it, not the reader.
    """

    request: Request
    address: str
    status: int
    headers: httpx.Headers
    conversation: str
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    ended: str = ""
    broken: bool = False


def own_name(request: Request) -> str:
    """Returns a name for an unnamed recording: the model's, else the last part of the path."""
    text = request.model or request.path.partition("?")[0].rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9_.]+", "-", text)[:_LONGEST_NAME].strip("-._") or "answer"


def recorded(capture: Capture, secrets: Sequence[str], adapter: str | None) -> Recording:
    """Returns the recording of an exchange. `adapter` is used if the path is its own."""
    request = capture.request
    cookies = [("set-cookie", value) for value in capture.headers.get_list("set-cookie")]
    redactor = request.redactor.with_secrets([*secrets, *request.secrets(), *secrets_in_headers(cookies)], guess=True)
    pieces, encoding, problem = _decoded(capture)
    body, cuts = cleaned_body(b"".join(piece for _, piece in pieces), _cuts(pieces), redactor)
    sent = request.sent(redactor)
    model = f" for the model {request.model!r}" if request.model else ""
    return _judged(
        Recording(
            name="",
            body=body,
            adapter=_adapter_of(request.path.partition("?")[0], adapter),
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
            conversation=capture.conversation,
            sent=sent,
        )
    )


def _judged(recording: Recording) -> Recording:
    """Returns the recording with `complete` and, if its wire format is known, `expect` filled in."""
    ended, said_so = recording.ended, False
    if recording.adapter != _NO_WIRE:
        decoder = StreamDecoder(recording.adapter, **recording.options())
        decoder.feed(recording.body)
        said_so = decoder.done  # then it does not matter who closed it, and when
    complete = not ended or said_so
    broken = recording.broken or not complete
    recording = replace(recording, complete=complete, broken=broken, ended=ended if broken else "")
    return recording if recording.adapter == _NO_WIRE else replace(recording, expect=expected(recording))


def _adapter_of(path: str, adapter: str | None) -> str:
    for name in (adapter, *_WIRES):
        if name and find_adapter(name)().serves(path):
            return name
    return _NO_WIRE


def _cuts(pieces: Sequence[tuple[float, bytes]]) -> list[Cut]:
    """Returns the pieces as cuts. An empty piece leaves its delay to the next one."""
    cuts, waited = [], 0.0
    for wait, piece in pieces:
        waited += wait
        if piece:
            cuts.append(Cut(len(piece), waited))
            waited = 0.0
    return cuts


# --- Compressed bodies -----------------------------------------------------------------------------------------------


def _decoded(capture: Capture) -> tuple[list[tuple[float, bytes]], str, str]:
    """Returns the pieces without compression, the compression, and the problem with it if there was one.

    Each piece is what could be read once the network's piece was there, so that the times still hold.
    """
    encoding = capture.headers.get("content-encoding", "").lower().strip()
    if encoding in ("", "identity"):
        return capture.pieces, "", ""
    known = _codings()
    if not all(coding.strip() in known for coding in encoding.split(",")):
        return [], encoding, f"the body is compressed ({encoding}) and can't be read: install what httpx needs for it"
    feed = _Feed([piece for _, piece in capture.pieces])
    out: list[tuple[float, bytes]] = [(wait, b"") for wait, _ in capture.pieces]
    response = httpx.Response(200, headers={"content-encoding": encoding}, stream=feed)
    try:
        for data in response.iter_bytes():
            wait, before = out[feed.given - 1]
            out[feed.given - 1] = (wait, before + data)
    except httpx.DecodingError as exc:
        return out, encoding, f"the body is not {encoding}: {exc}"
    return out, encoding, ""


class _Feed(httpx.SyncByteStream):
    """Pieces, and how many of them have been taken."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces
        self.given = 0

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self.given += 1
            yield piece


def _codings() -> set[str]:
    """Returns the compressions that this installation of httpx can read."""
    with httpx.Client(transport=httpx.MockTransport(lambda request: httpx.Response(200))) as client:
        return {coding.strip() for coding in client.headers["accept-encoding"].split(",")}
