"""Finds damage in the bytes of a response, such as damage by a proxy or by a network fault."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from streamfold import Reply, StreamError
from streamfold.engine import event_ranges
from streamfold.recording import Recording

from .questions import COUNT, LINE_WORDS, UNICODE_TEXT, prompt_words
from .values import ProbeResponse

Damage: TypeAlias = Literal["comment", "utf8", "half", "truncated", "garbage", "repeated"]
_FIELDS = (b"data", b"event", b"id", b"retry")
_LINES = {LINE_WORDS: LINE_WORDS, UNICODE_TEXT: UNICODE_TEXT, COUNT: " ".join(map(str, range(1, 101)))}
# An escaped, unpaired surrogate: half of a character above U+FFFF that was split in two.
_HALF = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_CONTENT = ("content", "text", "reasoning_content", "reasoning", "thinking", "arguments", "partial_json", "delta")


def damage(body: bytes) -> set[Damage]:
    """Returns the kinds of damage in the body of an event stream."""
    found: set[Damage] = set()
    before: bytes | None = None
    for start, end, payloads, ended in event_ranges(body):
        block = body[start:end]
        lines = block.splitlines()
        if any(line.startswith(b":") for line in lines):
            found.add("comment")
        if any(line.strip() and line[:1] != b":" and line.split(b":")[0] not in _FIELDS for line in lines):
            found.add("garbage")
        if not payloads or not ended:
            continue
        payload = b"\n".join(body[first:last] for first, last in payloads).strip()
        if kind := _payload_damage(payload):
            found.add(kind)
        elif _HALF.search(payload):
            found.add("half")
        # A model may write the same text twice in a row, so only an event without text and arguments can be recognized
        # as repeated.
        elif block == before and (payload == b"[DONE]" or not any(_contents(json.loads(payload)))):
            found.add("repeated")
        before = block
    return found


def _payload_damage(payload: bytes) -> Damage | None:
    if payload == b"[DONE]" or not payload:
        return None
    try:
        json.loads(payload.decode("utf-8"))
    except UnicodeDecodeError:
        return "utf8"
    except ValueError:
        return "truncated" if payload.startswith(b"{") else "garbage"
    return None


def _contents(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for name, member in value.items():
                if name in _CONTENT and isinstance(member, str) and member:
                    yield member
                else:
                    yield from _contents(member)
        case list():
            for member in value:
                yield from _contents(member)


def wanted(seen: ProbeResponse) -> str:
    """Returns the line that the request asked the model to repeat; empty for requests without such a line."""
    sent = json.dumps(seen.sent, ensure_ascii=False)
    return next((line for asked, line in _LINES.items() if asked in sent), "")


def said(text: str) -> str:
    """Returns a text without the reasoning before `</think>`."""
    return text.rpartition("</think>")[2]


def repeats(seen: ProbeResponse) -> bool:
    """Returns whether a response contains repeated events, and is the requested line without these repetitions."""
    line = prompt_words(wanted(seen))
    if seen.recording is None or not line or prompt_words(said(seen.text)) == line:
        return False
    body = seen.recording.body
    blocks = [body[start:end] for start, end, _, _ in event_ranges(body)]
    once = [block for at, block in enumerate(blocks) if at == 0 or block != blocks[at - 1]]
    without = replace(seen.recording, body=b"".join(once), cuts=())
    return len(once) < len(blocks) and prompt_words(said(reread(without).text)) == line


def reread(recording: Recording) -> Reply:
    """Decodes a recorded response again and returns the reply. Returns an empty reply if the recording can't be
    decoded.
    """
    try:
        return recording.reply()
    except StreamError:
        return Reply()


def has_gap(text: str, whole: str) -> bool:
    """Returns whether `text` is `whole` without some of its middle, as after lost events.

    >>> has_gap("alpha charlie", "alpha bravo charlie"), has_gap("alpha", "alpha bravo charlie")
    (True, False)
    """
    cut: Callable[[str], Sequence[str]] = str.split if whole[:1].isdigit() else lambda text: "".join(text.split())
    parts, left = cut(text), iter(cut(whole))
    if not parts or "".join(cut(whole)).startswith("".join(parts)):
        return False
    return all(part in left for part in parts)
