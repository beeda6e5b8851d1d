"""Compactions of a conversation that another provider made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..errors import ConfigError
from ..types import Message, ReplyWarning, user
from .request import Request

_SUMMARY = "Summary of the conversation so far:\n\n"


def read_foreign_compactions(request: Request) -> tuple[Request, list[ReplyWarning]]:
    """Returns the request with the summaries of other providers as text, and a warning for each.

    Only messages with a compaction alone count: in front of others is what was compacted.

    Raises:
        ConfigError: the model would not see what was said, because only the other provider can read it.
    """
    messages, warnings = list(request.messages), list[ReplyWarning]()
    for number, (at, message) in enumerate(request.numbered):
        found = None if request.came_from_here(message) else _compaction(message)
        if found is None:
            continue
        summary = found.get("content")
        if not isinstance(summary, str) or not summary:
            why = f"only the provider that made it can read it ({message.origin})"
            raise ConfigError(f"messages[{at}] is a compaction of the conversation, and {why}")
        messages[number] = user(f"{_SUMMARY}{summary}")
        detail = f"messages[{at}]: the compaction of another provider was sent as the text of its summary"
        warnings.append(ReplyWarning("provider_data_dropped", detail))
    return (replace(request, messages=tuple(messages)), warnings) if warnings else (request, warnings)


def _compaction(message: Message) -> Mapping[str, Any] | None:
    """Returns the compaction that a message consists of; None for any other message."""
    if message.role != "assistant" or message.content or message.tool_calls or not message.extras:
        return None
    found = [part for part in message.hosted if part.kind == "compaction"]
    return found[0].raw if found and len(found) == len(message.hosted) else None
