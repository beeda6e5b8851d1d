"""Acme's imaginary wire format, and the way in which Acme's imaginary model writes tool calls into its text.

An event is `{"say": "text"}`, `{"end": "stop"}` or `{"oops": "message"}`. A call is a line `>> name {"argument": 1}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from httpx_sse import ServerSentEvent

from streamfold import ConfigError, Message
from streamfold.adapters import (
    Adapter,
    Delta,
    EncodingReport,
    Failure,
    Finish,
    Request,
    StreamEnd,
    TextDelta,
    ToolCallDelta,
    error_info,
)
from streamfold.types import DialectContext

__all__ = ["AcmeAdapter", "AcmeDialect"]


class AcmeAdapter(Adapter):
    """A wire format is a stateless value: it turns a request into a body, and an event into its facts."""

    name = "acme"
    sends = ("tools",)

    def request_path(self, request: Request) -> str:
        return f"/models/{request.model}/talk"

    def encode(self, request: Request, report: EncodingReport) -> dict[str, Any]:
        messages = [
            {"by": message.role, "words": self._words(message, f"messages[{at}]")}
            for at, message in enumerate(request.messages)
        ]
        body = {"messages": messages, "tools": {tool.name: tool.parameters for tool in request.tools}}
        return {**body, **request.options.extra_body}

    def _words(self, message: Message, where: str) -> str:
        """Messages are text here. Whatever else a message has must be refused, or dropped with a warning."""
        if message.tool_calls:
            return "\n".join(f">> {call.name} {call.raw_arguments}" for call in message.tool_calls)
        if not isinstance(message.content, str):
            raise ConfigError(f"{where}.content must be text: Acme accepts nothing else")
        return message.content

    def decode(self, event: ServerSentEvent) -> Iterator[Delta]:
        said = json.loads(event.data)
        if "say" in said:
            yield TextDelta(said["say"])
        if "oops" in said:
            yield Failure(error_info(said["oops"]))
        if "end" in said:
            yield Finish("stop", said["end"])
            yield StreamEnd()


class AcmeDialect:
    """A dialect is a filter: what may still become a call is held back, the rest goes through at once."""

    marker = ">> "

    def __init__(self, context: DialectContext) -> None:
        self._reads = bool(context.tools) and context.tool_choice != "none"
        self._line = ""  # the beginning of a line that may be a call
        self._is_text = False  # the rest of this line can't be one
        self._calls: list[Delta] = []

    def feed(self, delta: Delta) -> Iterator[Delta]:
        if not isinstance(delta, TextDelta) or not self._reads:
            yield delta
            return
        for piece in delta.text.splitlines(keepends=True):
            self._line += piece
            yield from self._take(ended=piece.endswith("\n"))

    def finish(self) -> Iterator[Delta]:
        yield from self._take(ended=True)
        yield from self._calls

    def _take(self, *, ended: bool) -> Iterator[Delta]:
        is_call = self._line.startswith(self.marker) and not self._is_text
        if not ended and not self._is_text and (is_call or self.marker.startswith(self._line)):
            return
        line, self._line = self._line, ""
        self._is_text = not ended
        if is_call:
            name, _, arguments = line.removeprefix(self.marker).strip().partition(" ")
            self._calls.append(ToolCallDelta(len(self._calls), None, name, arguments, whole=True))
        elif line:
            yield TextDelta(line)
