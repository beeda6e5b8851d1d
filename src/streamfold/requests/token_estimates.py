"""Estimates the number of tokens in a request or a text, for providers that can't count tokens."""

from __future__ import annotations

import json
from math import ceil

from ..types import Message, TextPart, Tool
from .request import Request

_BYTES = 4  # UTF-8 bytes per token: right for English and code, close for scripts with three bytes per character
_OTHER_SCRIPT = 0.4  # minimum tokens per character that isn't ASCII
_MESSAGE = 4  # tokens around the text of a message
_MEDIA = 1600  # tokens of a large image; documents and audio vary too much for an estimate


def estimated_tokens(request: Request) -> int:
    """Estimates the number of tokens in the messages and tools of a request. The result is at least 1.

    >>> estimated_tokens(Request("", (Message("user", "How many tokens are these?"),)))
    11
    """
    messages = sum(map(_message, request.messages))
    added = (tool for message in request.messages for tool in message.tools)
    tools = {tool.name: tool for tool in added} | {tool.name: tool for tool in request.tools}
    return max(1, messages + sum(map(_tool, tools.values())))


def least_text_tokens(request: Request) -> int:
    """Returns a low estimate of the number of tokens in the messages' texts. Tools, media and reasoning aren't counted,
    because some providers don't count them.
    """
    texts = [part for message in request.messages for part in _texts(message)]
    plain = sum(len(text.encode("ascii", "ignore")) for text in texts)
    return round(plain / _BYTES + (sum(map(len, texts)) - plain) * _OTHER_SCRIPT)


def _texts(message: Message) -> list[str]:
    content = message.content
    parts = [TextPart(content)] if isinstance(content, str) else content or ()
    return [part.text for part in parts if isinstance(part, TextPart)]


def _message(message: Message) -> int:
    texts, content = _texts(message), message.content
    media = 0 if content is None or isinstance(content, str) else len(content) - len(texts)
    calls = [text for call in message.tool_calls for text in (call.name, call.raw_arguments)]
    written = text_tokens("".join([*texts, *calls, message.reasoning or ""]))
    return _MESSAGE + written + _MEDIA * media


def _tool(tool: Tool) -> int:
    declared = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return text_tokens(json.dumps(declared, ensure_ascii=False))


def text_tokens(text: str) -> int:
    """Estimates the number of tokens in a text."""
    return ceil(len(text.encode("utf-8", "replace")) / _BYTES)
