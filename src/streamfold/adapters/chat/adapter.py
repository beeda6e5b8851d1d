"""OpenAI's Chat Completions, and what a hundred servers have made of it.

`encode.py` writes requests, `decode.py` reads answers. Deviations that are read here, always, because they are harmless
for everybody else, each have a comment with the server they come from. Deviations in what may be *sent* are
`ChatQuirks`, in `quirks.py`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Self

from ...requests import HistoryRules, Request, Rules, does_without, prepare, schema_passes
from ...values import APIError, BadRequestError, ProtocolWarning
from ..losses import losses_of_chat
from .content import results_without_media
from .decode import EventReader
from .encode import RequestWriter
from .history import ids_changed, with_short_ids
from .quirks import ChatQuirks
from .thinking import grade_dropped, only_allowed_tools, possible_choice, thinks

__all__ = ["ChatAdapter", "ChatQuirks"]


class ChatAdapter(RequestWriter, EventReader):
    """Requests and events of Chat Completions."""

    name = "chat"
    path = "/chat/completions"
    Quirks = ChatQuirks

    def __init__(self, quirks: ChatQuirks | None = None) -> None:
        self.quirks = quirks or ChatQuirks()

    def history_rules(self, request: Request) -> HistoryRules:
        """What this wire demands of a conversation."""
        roles = HistoryRules().roles - (set() if self.quirks.developer_role else {"developer"})
        return HistoryRules(roles, wants_reasoning=self.quirks.reasoning_required and thinks(request))

    def does_without(self, request: Request) -> Collection[str]:
        """The capabilities that `prepare` makes up for."""
        return does_without(request, self._rules())

    def prepare(self, request: Request) -> tuple[Request, list[ProtocolWarning]]:
        """The request as this wire takes it, and what was changed. Raises ConfigError for what it would refuse."""
        lost = losses_of_chat(request, self.quirks).warnings()
        moved: list[ProtocolWarning] = []
        if not self.quirks.result_images:
            messages, moved = results_without_media(request.messages)
            if moved:  # what can't be sent is told with the positions that the caller knows
                self._messages(request)
            request = replace(request, messages=messages)
        request, changes = prepare(request, self._rules())
        only: list[ProtocolWarning] = []
        if not self.quirks.allowed_tools:
            request, only = only_allowed_tools(request)
        request, dropped = self._forced_choice(request)
        if self.quirks.call_ids == "nine_alphanumeric":
            dropped = [*dropped, *ids_changed(request.messages, with_short_ids)]
        return request, [*lost, *moved, *changes, *only, *dropped, *grade_dropped(request, self.quirks)]

    def _forced_choice(self, request: Request) -> tuple[Request, list[ProtocolWarning]]:
        return possible_choice(request, self.quirks)

    def relent(self, error: APIError) -> tuple[Self, ProtocolWarning] | None:
        """Without `stream_options`, if the server refused the request and named them (older vLLM, LM Studio, Azure)."""
        refused = isinstance(error, BadRequestError) and "stream_options" in f"{error.message} {error.body}"
        if not (refused and self.quirks.stream_usage):
            return None
        told = f"the server refuses stream_options, and may send no usage without: set stream_usage = false ({error})"
        return type(self)(replace(self.quirks, stream_usage=False)), ProtocolWarning("option_dropped", told)

    def _rules(self) -> Rules:
        quirks = self.quirks
        return Rules(
            response_format=quirks.response_format,
            strict_tools=True,
            strict_output=quirks.strict_output,
            passes=schema_passes(inline=quirks.inline_refs, unsupported=quirks.unsupported_keywords),
        )
