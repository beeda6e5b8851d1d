"""Converts a response to a row of the page's list, to the inspector's timeline, or to a recording."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from streamfold import NamedTool, StreamDecoder, StreamError
from streamfold.adapters import find_adapter
from streamfold.recording import Cut, Recording, cleaned_body

from ..inspection import inspect_stream, render_page
from .recent_answers import WatchedAnswer

_WINDOW = 4000  # how many of the last characters are searched for secrets
_SHOWN = 300  # how many of these characters the list shows


class AnswerSummary:
    """The row of a response in the page's list. While the response grows, this class decodes only the new bytes."""

    def __init__(self, watched: WatchedAnswer) -> None:
        self._watched = watched
        self._decoder: StreamDecoder | None = None
        self._read = 0
        self._tail = self._thought = ""
        self._pieces: list[tuple[float, bytes]] | None = None

    def line(self) -> dict[str, Any]:
        """Returns the row's content as JSON data, without secrets."""
        watched, reply, error = self._watched, self._watched.reply, self._watched.error
        text = self._text()
        redact: Callable[[str], str] = watched.info.redactor.text
        warned = reply.warnings if reply else error.warnings if error else ()
        return {
            "number": watched.number,
            "provider": watched.info.provider,
            "adapter": watched.info.adapter,
            "model": watched.info.model,
            "state": watched.state,
            "began": watched.began,
            "seconds": round((watched.ended or monotonic()) - watched.since, 3),
            "bytes": watched.size,
            "text": redact(text[-_WINDOW:])[-_SHOWN:],
            "calls": [call.name for call in reply.tool_calls] if reply else [],
            "finish": reply.finish_reason if reply else None,
            "warnings": list(dict.fromkeys(warning.code for warning in warned)),
            "error": error and {"kind": type(error).__name__, "message": error.message},
            "retries": len(watched.failed),
            "tokens": [reply.usage.input_tokens, reply.usage.output_tokens] if reply and reply.usage else None,
        }

    def _text(self) -> str:
        """The last characters of the text so far, or of the reasoning before any text has arrived."""
        watched = self._watched
        outcome = watched.reply or (watched.error and watched.error.partial)
        if outcome:
            self._decoder = None
            return outcome.text or outcome.reasoning
        if self._pieces is not watched.pieces:  # a retry begins from the beginning
            self._pieces, self._read, self._tail, self._thought = watched.pieces, 0, "", ""
            self._decoder = StreamDecoder(find_adapter(watched.info.adapter)(), **_reading(watched))
        if self._decoder is not None:
            pieces = watched.pieces[self._read :]
            self._read += len(pieces)
            try:
                chunks = [chunk for _, piece in pieces for chunk in self._decoder.feed(piece)]
            except StreamError:  # the client's own decoder reports the error
                self._decoder, chunks = None, []
            self._tail = (self._tail + "".join(chunk.delta for chunk in chunks))[-_WINDOW:]
            self._thought = (self._thought + "".join(chunk.reasoning for chunk in chunks))[-_WINDOW:]
        return self._tail or self._thought


def timeline(watched: WatchedAnswer) -> str:
    """Returns the inspector's HTML page for a response, or for the part that has arrived so far. Slow for a large
    response.
    """
    body, cuts = _clean(watched)
    info, error = watched.info, watched.error
    about = {
        "provider": info.provider,
        "model": info.model,
        "began": datetime.fromtimestamp(watched.began, UTC).isoformat(timespec="milliseconds"),
        "state": watched.state,
    }
    if watched.dropped:
        about["kept"] = f"the first {len(body):,} of {watched.size:,} bytes"
    if error is not None:
        about["error"] = f"{type(error).__name__}: {error.message}"
    if watched.failed:
        about["failed before"] = "; ".join(f"{attempt.provider}: {attempt.problem}" for attempt in watched.failed)
    inspection = inspect_stream(
        body,
        name=f"{info.provider} {watched.number}",
        adapter=info.adapter,
        cuts=[(cut.size, cut.delay) for cut in cuts],
        interrupted=_ending(watched),
        about=about,
        **_reading(watched),
    )
    return render_page(inspection)


def recording_of(watched: WatchedAnswer, name: str) -> Recording:
    """Returns a completed response as a recording, without secrets."""
    body, cuts = _clean(watched)
    info, choice = watched.info, watched.info.request.tool_choice
    address = urlsplit(info.url)
    whole = watched.state == "finished"
    made = Recording(
        name=name,
        body=body,
        adapter=info.adapter,
        cuts=tuple(Cut(cut.size, round(cut.delay, 6)) for cut in cuts),
        broken=not whole,
        source="recorded",
        origin=f"{address.scheme}://{address.netloc}, recorded by the gateway",
        date=datetime.fromtimestamp(watched.began, UTC).date().isoformat(),
        request=info.redactor.text(f"POST {address.path} for the model {info.model!r}"),
        complete=whole,
        ended=_ending(watched) or "",
        dialect=info.dialect or "",
        tools=tuple(tool.name for tool in info.request.tools),
        tool_choice=choice.name if isinstance(choice, NamedTool) else choice if isinstance(choice, str) else "auto",
    )
    return replace(made, expect=made.expectation())


def _clean(watched: WatchedAnswer) -> tuple[bytes, tuple[Cut, ...]]:
    redactor = watched.info.redactor.with_secrets((), guess=True)
    body, cuts = watched.taken()
    return cleaned_body(body, [Cut(size, wait) for size, wait in cuts], redactor)


def _reading(watched: WatchedAnswer) -> dict[str, Any]:
    request = watched.info.request
    return {"dialect": watched.info.dialect, "tools": request.tools, "tool_choice": request.tool_choice}


def _ending(watched: WatchedAnswer) -> str | None:
    if watched.state == "finished":
        return None
    if watched.error is not None:
        return watched.error.message
    return "the reader left" if watched.state == "left" else "the response isn't complete yet"
