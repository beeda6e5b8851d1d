"""How many tokens a request has, for clients that only want to know whether it will fit: counted, or estimated."""

from __future__ import annotations

import json
from math import ceil

from ..requests import Request
from ..values import APIError, BadRequestError, ConfigError, Message, TextPart, Tool
from .failures import of_error
from .models import Served

__all__ = ["count_tokens", "estimated_tokens", "text_tokens"]

_SECONDS = 10.0  # that a client waits for a count; it asks often

_BYTES = 4  # of UTF-8, for one token: right for English and code, and near for scripts of three bytes a character
_MESSAGE = 4  # tokens around the text of a message
_MEDIA = 1600  # tokens of a large image; those of documents and audio vary more than can be guessed


async def count_tokens(request: Request, served: Served) -> tuple[int | None, str]:
    """Returns the provider's count, and a note for the log; None and the reason if there is no count.

    Raises:
        Refused: the provider refused the request itself.
    """
    try:
        number = await served.count(request, {"total": _SECONDS})
    except BadRequestError as error:
        raise of_error(error) from error
    except (APIError, ConfigError) as error:
        return None, f"the provider could not count ({type(error).__name__})"
    if number is None:
        return None, "no provider was asked, because its API can't count tokens"
    return number, "counted by the provider"


def estimated_tokens(request: Request) -> int:
    """Returns an estimate of the tokens of messages and tools, at least 1.

    >>> estimated_tokens(Request("", (Message("user", "How many tokens are these?"),)))
    11
    """
    messages = sum(map(_message, request.messages))
    return max(1, messages + sum(map(_tool, request.tools)))


def _message(message: Message) -> int:
    content = message.content
    parts = [TextPart(content)] if isinstance(content, str) else content or ()
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    calls = [text for call in message.tool_calls for text in (call.name, call.raw_arguments)]
    written = text_tokens("".join([*texts, *calls, message.reasoning or ""]))
    return _MESSAGE + written + _MEDIA * (len(parts) - len(texts))


def _tool(tool: Tool) -> int:
    declared = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return text_tokens(json.dumps(declared, ensure_ascii=False))


def text_tokens(text: str) -> int:
    """Returns an estimate of the tokens of a text."""
    return ceil(len(text.encode("utf-8", "replace")) / _BYTES)
