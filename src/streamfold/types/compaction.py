"""The result of `Provider.compact`."""

from __future__ import annotations

from dataclasses import dataclass

from .messages import Message
from .replies import Reply


@dataclass(frozen=True, slots=True)
class Compaction:
    """A conversation that the provider has compacted.

    Attributes:
        messages: the messages that replace the earlier conversation. Only the same provider can read all of these
            messages.
        reply: the answer to the compaction request, with `usage`, `cost` and `warnings`.
    """

    messages: list[Message]
    reply: Reply

    @property
    def summary(self) -> str | None:
        """The summary that replaces the conversation, or None if only the provider can read the summary (OpenAI)."""
        found = (part.raw.get("content") for part in self.reply.hosted if part.kind == "compaction")
        return next((text for text in found if isinstance(text, str)), None)
