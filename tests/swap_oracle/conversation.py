"""A conversation with its tools and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from streamfold.requests import Request
from streamfold.types import MessageLike

__all__ = ["Conversation"]


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a provider is to be asked.

    Attributes:
        options: options of `Provider.chat_stream`, including `model` and `repair`.
    """

    messages: tuple[MessageLike, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: Any = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)

    def request(self, model: str) -> Request:
        """Returns it as a request. Raises ConfigError."""
        options = {name: value for name, value in self.options.items() if name not in ("model", "repair_history")}
        return Request.read(model, self.messages, list(self.tools), self.tool_choice, options)
