"""What an application asked for, as values that a test can compare."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from ..requests import Options, Request
from ..values import Message, MessageLike, ReadToolChoice, TextPart, Tool

__all__ = ["SentRequest"]


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request as the application made it, and as it was sent.

    Attributes:
        messages: as they were given, dicts as dicts; a bare string is one user message.
        tools: each as a `Tool`.
        body: the JSON that went over the wire.
    """

    model: str
    messages: tuple[MessageLike, ...]
    tools: tuple[Tool, ...] = ()
    tool_choice: ReadToolChoice = "auto"
    options: Options = field(default_factory=Options)
    body: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, asked: Request, body: bytes) -> Self:
        """The request that this body was made of."""
        return cls(asked.model, asked.messages, asked.tools, asked.tool_choice, asked.options, json.loads(body))

    @property
    def text(self) -> str:
        """The text of the last message: what the user says, or what a tool answered."""
        last = self.messages[-1]
        content: Any = last.content if isinstance(last, Message) else last.get("content", last.get("output"))
        if isinstance(content, str | None):
            return content or ""
        return "".join(part.text if isinstance(part, TextPart) else part["text"] for part in content if _has_text(part))


def _has_text(part: Any) -> bool:
    return isinstance(part, TextPart) or (isinstance(part, Mapping) and isinstance(part.get("text"), str))
