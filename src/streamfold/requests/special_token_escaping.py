"""Escapes special tokens in messages, so that the model's tokenizer treats them as plain text.

streamfold inserts an invisible word joiner (U+2060) after the first character of each special token. The caller's
messages stay unchanged.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote_to_bytes

from ..types import FilePart, Message, ReplyWarning, TextPart, to_base64
from .request import Request

_WORD_JOINER = "\u2060"


def escape_special_tokens(
    request: Request, text: re.Pattern[str], history: re.Pattern[str] | None
) -> tuple[Request, list[ReplyWarning]]:
    """Escapes special tokens in a request. Returns the new request, and the warnings, which list the changed messages.

    Args:
        text: a pattern for the special tokens to escape in texts, names and text files that come from users or tools.
        history: a pattern for the special tokens to escape in the model's earlier answers, because the chat template
            would cut or refuse an answer with these tokens.
    """
    patterns = {"user": text, "tool": text, "function": text, "assistant": history}
    messages = list(request.messages)
    found: dict[str, list[int]] = {}
    for run in _runs(messages):
        role = messages[run.start].role
        if pattern := patterns.get(role):
            texts = iter(_escaped_texts([text for at in run for text in _texts(messages[at])], pattern))
            for at in run:
                changed = _with_texts(messages[at], texts, pattern)
                if changed is not messages[at]:
                    messages[at] = changed
                    found.setdefault("assistant" if role == "assistant" else "text", []).append(at)
    warnings = []
    for kind, places in found.items():
        shown = ", ".join(f"messages[{at}]" for at in places[:5])
        more = f" and {len(places) - 5} more" if len(places) > 5 else ""
        warnings.append(ReplyWarning("special_tokens_escaped", _DETAILS[kind].format(shown + more)))
    return (replace(request, messages=tuple(messages)), warnings) if found else (request, [])


_DETAILS = {
    "text": "{}: special tokens of the model were escaped, so that the model reads them as text",
    "assistant": "{}: special tokens that break the model's chat template were escaped",
}


def _runs(messages: Sequence[Message]) -> Iterator[range]:
    # Consecutive user messages become one turn on the Messages API and on Gemini's API, so a token may be split across
    # messages.
    start = 0
    for at, message in enumerate(messages, 1):
        if at == len(messages) or message.role != "user" or messages[at].role != "user":
            yield range(start, at)
            start = at


def _texts(message: Message) -> list[str]:
    if isinstance(message.content, str):
        return [message.content]
    return [text for part in message.content or () if (text := _text_of(part)) is not None]


def _with_texts(message: Message, texts: Iterator[str], pattern: re.Pattern[str]) -> Message:
    content, name = message.content, message.name
    if isinstance(content, str):
        content = next(texts)
    elif content:
        content = tuple(_escaped_part(part, texts, pattern) for part in content)
    if name:
        name = _escaped(name, pattern)
    same = content == message.content and name == message.name
    return message if same else replace(message, content=content, name=name)


def _escaped(text: str, pattern: re.Pattern[str]) -> str:
    (escaped,) = _escaped_texts([text], pattern)
    return escaped


def _escaped_texts(texts: Sequence[str], pattern: re.Pattern[str]) -> list[str]:
    # A chat template joins the texts, so a token may be split across texts.
    joined = "".join(texts)
    starts = []
    found = pattern.search(joined)
    while found:  # tokens may overlap, and each must be escaped
        starts.append(found.start())
        found = pattern.search(joined, found.start() + 1)
    if not starts:
        return list(texts)
    escaped, begin, left = [], 0, iter([*starts, len(joined)])
    start = next(left)
    for text in texts:
        end, made, at = begin + len(text), [], 0
        while start < end:
            made.append(text[at : start - begin + 1])
            at, start = start - begin + 1, next(left)
        escaped.append(_WORD_JOINER.join([*made, text[at:]]) if made else text)
        begin = end
    return escaped


def _escaped_part(part: Any, texts: Iterator[str], pattern: re.Pattern[str]) -> Any:
    if (text := _text_of(part)) is not None:
        if (changed := next(texts)) == text:
            return part
        return replace(part, text=changed) if isinstance(part, TextPart) else {**part, "text": changed}
    return _escaped_file(part, pattern) if isinstance(part, FilePart) else part


def _text_of(part: Any) -> str | None:
    text = part.text if isinstance(part, TextPart) else part.get("text") if isinstance(part, Mapping) else None
    return text if isinstance(text, str) else None


def _escaped_file(part: FilePart, pattern: re.Pattern[str]) -> FilePart:
    name, data, url = part.name and _escaped(part.name, pattern), part.data, part.url
    if data is not None and (part.media_type or "").startswith("text/"):
        data = _escaped_bytes(data, pattern)
    elif url is not None and url.startswith("data:text/"):
        head, _, encoded = url.partition(",")
        kind = head.removesuffix(";base64")
        content = base64.b64decode(encoded) if kind != head else unquote_to_bytes(encoded)
        if (escaped := _escaped_bytes(content, pattern)) != content:
            url = f"{kind};base64,{to_base64(escaped)}"
    same = (name, data, url) == (part.name, part.data, part.url)
    return part if same else replace(part, name=name, data=data, url=url)


def _escaped_bytes(data: bytes, pattern: re.Pattern[str]) -> bytes:
    try:
        text = data.decode()
    except UnicodeDecodeError:  # not text, so it contains no special tokens
        return data
    return _escaped(text, pattern).encode()
