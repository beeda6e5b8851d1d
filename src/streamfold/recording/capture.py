"""Turns a captured exchange into a recording: decoded, without secrets, and with the reply that it folds to."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path

import anyio
import httpx

from ..adapters import adapter_by_path, find_adapter
from ..engine import StreamDecoder
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
from ..values import ProtocolError
from .expectations import expected
from .files import Cut, Recording
from .request_matching import RecordedRequest

# Headers that a reader of the answer may need. Others may identify the account.
_KEPT = re.compile(
    r"content-type|cache-control|retry-after(-ms)?|server|openai-(processing-ms|version|model)|x-ratelimit-[a-z-]+"
    r"|(x-|msh-|apim-)?request-id|x-trace-id",
    re.IGNORECASE,
)
_NO_WIRE = "none"
_LONGEST_NAME = 100  # characters; file systems allow 255 bytes with all suffixes


@dataclass(slots=True, eq=False)
class Capture:
    """A request and its answer, as they passed.

    Attributes:
        address: of the server.
        path: of the recording that it becomes, without a suffix.
        write: called once, when the body has ended.
        pieces: of the body, as they came over the network, each with the seconds since the one before.
        ended: how the body ended; empty if it came to its end.
        broken: the network or the server ended it, not the reader.
    """

    request: RecordedRequest
    address: str
    status: int
    headers: httpx.Headers
    conversation: str
    path: Path
    write: Callable[[Capture], None]
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    ended: str = ""
    broken: bool = False
    _last: float = field(default_factory=lambda: anyio.current_time())
    _over: bool = False

    def came(self, piece: bytes) -> None:
        """Notes a piece of the body."""
        now = anyio.current_time()
        self.pieces.append((now - self._last, piece))
        self._last = now

    def end(self, how: str = "", *, broken: bool = False) -> None:
        """The body has come to its end, or else `how` it ended. Only the first call counts."""
        if not self._over:
            self._over, self.ended, self.broken = True, how, broken
            self.write(self)


def default_name(request: RecordedRequest) -> str:
    """Returns a name for an unnamed recording: the model's, else the last part of the path."""
    text = request.model or request.path.partition("?")[0].rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9_.]+", "-", text)[:_LONGEST_NAME].strip("-._") or "answer"


def build_recording(capture: Capture, secrets: Sequence[str], adapter: str | None) -> Recording:
    """Returns the recording of an exchange. `adapter` is used if the path is its own."""
    request = capture.request
    cookies = [("set-cookie", value) for value in capture.headers.get_list("set-cookie")]
    redactor = request.redactor.with_secrets([*secrets, *request.secrets(), *secrets_in_headers(cookies)], guess=True)
    pieces, encoding, problem = _decoded(capture)
    body, cuts = cleaned_body(b"".join(piece for _, piece in pieces), _cuts(pieces), redactor)
    sent = request.sent(redactor)
    model = f" for the model {request.model!r}" if request.model else ""
    return _with_expectation(
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


def _with_expectation(recording: Recording) -> Recording:
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
    if adapter and find_adapter(adapter)().handles_path(path):
        return adapter
    return adapter_by_path(path) or _NO_WIRE


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


# --- Secrets ---------------------------------------------------------------------------------------------------------


def cleaned_body(body: bytes, cuts: Sequence[Cut], redactor: Redactor) -> tuple[bytes, tuple[Cut, ...]]:
    """Returns a body without secrets, also those that the network or the events cut in pieces, and its cuts."""
    found = [Replacement(start, end, HIDDEN.encode()) for start, end in redactor.spans(body.decode("latin-1"))]
    body, cuts = _changed(body, cuts, found)
    return _changed(body, cuts, secrets_in_body(body, redactor))


def _changed(body: bytes, cuts: Sequence[Cut], splices: Sequence[Replacement]) -> tuple[bytes, tuple[Cut, ...]]:
    """Makes the changes and moves the cuts along. A cut that vanishes leaves its delay to the next one."""
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
