"""Marks of a model's own language in what is sent: written so that its tokenizer reads them as text.

Only the request is changed, never the messages of the caller. A word joiner (U+2060), which shows nowhere, stands
behind the first character of each mark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..values import Message, ProtocolWarning, TextPart
from .request import Request

_WORD_JOINER = "\u2060"


def defused(
    request: Request, text: re.Pattern[str], history: re.Pattern[str] | None
) -> tuple[Request, list[ProtocolWarning]]:
    """Returns the request without marks in its messages, and a warning that says where some were.

    Args:
        text: the marks in what users and tools say.
        history: the marks in earlier answers at which the model's chat template would cut or refuse a turn.
    """
    patterns = {"user": text, "tool": text, "function": text, "assistant": history}
    messages = list(request.messages)
    found: dict[str, list[int]] = {}
    for at, message in enumerate(messages):
        pattern = patterns.get(message.role)
        if pattern and (changed := _changed(message, pattern)) is not message:
            messages[at] = changed
            found.setdefault("assistant" if message.role == "assistant" else "text", []).append(at)
    warnings = [
        ProtocolWarning("markup_defused", _SAID[kind].format(_places(places))) for kind, places in found.items()
    ]
    return (replace(request, messages=tuple(messages)), warnings) if found else (request, [])


_SAID = {
    "text": "{}: marks of the model's own language were sent so that it reads them as text",
    "assistant": "{}: marks at which the model's chat template cuts or refuses a turn were sent so that it reads them"
    " as text",
}


def _places(places: list[int]) -> str:
    shown = ", ".join(f"messages[{at}]" for at in places[:5])
    return f"{shown} and {len(places) - 5} more" if len(places) > 5 else shown


def _changed(message: Message, pattern: re.Pattern[str]) -> Message:
    content = message.content
    if isinstance(content, str):
        text = _defused(content, pattern)
        return message if text == content else replace(message, content=text)
    parts = [_part(part, pattern) for part in content or ()]
    same = all(one is other for one, other in zip(parts, content or (), strict=True))
    return message if same else replace(message, content=tuple(parts))


def _part(part: Any, pattern: re.Pattern[str]) -> Any:
    if isinstance(part, TextPart):
        text = _defused(part.text, pattern)
        return part if text == part.text else replace(part, text=text)
    if isinstance(part, Mapping) and isinstance(part.get("text"), str):
        text = _defused(part["text"], pattern)
        return part if text == part["text"] else {**part, "text": text}
    return part


def _defused(text: str, pattern: re.Pattern[str]) -> str:
    return pattern.sub(lambda found: found[0][0] + _WORD_JOINER + found[0][1:], text)
