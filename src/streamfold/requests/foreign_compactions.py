"""Handles compactions that another provider created."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..errors import ConfigError
from ..types import Message, ReplyWarning, user
from .request import Request

_SUMMARY = "Summary of the conversation so far:\n\n"


def read_foreign_compactions(request: Request) -> tuple[Request, list[ReplyWarning]]:
    """Converts summaries in another provider's compactions to text. Returns the request, and a warning for each
    summary.

    A message is a compaction only if it has no other content.

    Raises:
        ConfigError: only the other provider can read the compaction, so this model wouldn't see the earlier messages.
    """
    if not any(message.extras for message in request.messages):
        return request, []
    messages, warnings = list(request.messages), list[ReplyWarning]()
    for number, (at, message) in enumerate(request.numbered):
        found = None if request.came_from_here(message) else _compaction(message)
        if found is None:
            continue
        summary = found.get("content")
        if not isinstance(summary, str) or not summary:
            why = f"only the provider that created it can read it ({message.origin})"
            raise ConfigError(f"messages[{at}] is a compaction, and {why}: pass the earlier messages instead")
        messages[number] = user(f"{_SUMMARY}{summary}")
        detail = f"messages[{at}]: the summary of another provider's compaction was sent as text"
        warnings.append(ReplyWarning("provider_data_dropped", detail))
    return (replace(request, messages=tuple(messages)), warnings) if warnings else (request, warnings)


def _compaction(message: Message) -> Mapping[str, Any] | None:
    if message.role != "assistant" or message.content or message.tool_calls or not message.extras:
        return None
    found = [part for part in message.hosted if part.kind == "compaction"]
    return found[0].raw if found and len(found) == len(message.hosted) else None
