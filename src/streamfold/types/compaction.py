"""The result of `Provider.compact`."""

from __future__ import annotations

from dataclasses import dataclass

from .messages import Message
from .replies import Reply


@dataclass(frozen=True, slots=True)
class Compaction:
    """A conversation that its provider has compacted.

    Attributes:
        messages: the conversation to continue with, in place of the earlier one. Only its provider can read all of it.
        reply: the answer to the request, with `usage`, `cost` and `warnings`.
    """

    messages: list[Message]
    reply: Reply

    @property
    def summary(self) -> str | None:
        """The text that stands for the conversation; None if only the provider can read it, as with OpenAI."""
        found = (part.raw.get("content") for part in self.reply.hosted if part.kind == "compaction")
        return next((text for text in found if isinstance(text, str)), None)
