"""Collects what `encode` changes in a request or leaves out of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import join_limited
from ..types import (
    RESPONSE_STATES,
    TURN_EXTRAS,
    AudioPart,
    FilePart,
    ImagePart,
    Message,
    ReplyWarning,
    WarningCode,
    hosted_kind,
)

if TYPE_CHECKING:
    from ..requests import Request
    from ..types import ToolCall


@dataclass(slots=True)
class EncodingReport:
    """Collects the parts of a request that are sent in a changed form or not at all.

    Attributes:
        reasoning: the paths of messages whose reasoning isn't sent.
        members: the paths of fields that aren't sent, in messages, tool calls, content parts and tools.
        ids: maps tool call ids to the ids that are sent instead.
        changes: a warning for each other change.
        prefix: the value for `Message.prefix` of the response.
    """

    reasoning: list[str] = field(default_factory=list)
    members: list[str] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)
    changes: list[ReplyWarning] = field(default_factory=list)
    prefix: str | None = None

    def warn(self, code: WarningCode, detail: str) -> None:
        self.changes.append(ReplyWarning(code, detail))

    def warnings(self) -> list[ReplyWarning]:
        """Returns the warnings in `changes`, and one warning for each of `reasoning`, `members` and `ids` that isn't
        empty."""
        found = []
        if self.reasoning:
            why = "the reasoning was not sent, because this provider doesn't accept it"
            found.append(ReplyWarning("reasoning_dropped", f"{join_limited(self.reasoning)}: {why}"))
        if self.members:
            why = "not sent, because this provider doesn't support it or can't read it"
            found.append(ReplyWarning("provider_data_dropped", f"{join_limited(self.members)}: {why}"))
        if changed := [f"{old!r} as {new!r}" for old, new in self.ids.items() if old != new]:
            detail = f"tool call ids were changed to the provider's format: {join_limited(changed)}"
            found.append(ReplyWarning("ids_renumbered", detail))
        return [*found, *self.changes]

    def add_message(
        self, message: Message, where: str, request: Request, call_extras: Callable[[ToolCall], bool]
    ) -> None:
        """Records which parts of a message get lost when the message is converted to new content blocks.

        Args:
            call_extras: a function that returns True if the API supports the extras of a tool call.
        """
        if message.reasoning:
            self.reasoning.append(where)
        self.add_call_extras(message, where, request, call_extras)
        unread = {name: value for name, value in message.extras.items() if name != "cache_control"}
        if not has_unmodelled_blocks(unread.get("blocks")):
            unread.pop("blocks", None)
        self.add_extras(where, unread)

    def add_call_extras(
        self, message: Message, where: str, request: Request, supported: Callable[[ToolCall], bool]
    ) -> None:
        """Records the extras of tool calls as not sent, if another endpoint wrote the message or if `supported` returns
        False."""
        here = request.came_from_here(message)
        for number, call in enumerate(message.tool_calls):
            if call.extra and not (here and supported(call)):
                self.members.append(f"{where}.tool_calls[{number}].extra")

    def add_name_and_detail(
        self, message: Message, where: str, *, details: Collection[str] = (), files: bool = True
    ) -> None:
        """Records the name of a message, the `detail` of its images and the names of its files as not sent.

        Args:
            details: the values of `detail` that the API supports.
            files: False if the API supports file names.
        """
        if message.name and message.role != "tool":
            self.members.append(f"{where}.name")
        for at, part in enumerate(message.content if isinstance(message.content, tuple) else ()):
            if isinstance(part, ImagePart) and part.detail is not None and part.detail not in details:
                self.members.append(f"{where}: detail of an image")
            if files and isinstance(part, FilePart) and part.name is not None:
                self.members.append(f"{where}.content[{at}].name")

    def add_extras(self, where: str, extras: Mapping[str, Any]) -> None:
        """Records entries of `Message.extras` as not sent, and the kinds of hosted tools in each entry."""
        for name, value in extras.items():
            if name in RESPONSE_STATES:
                continue  # this entry describes how a response ended
            steps = value if name in TURN_EXTRAS and isinstance(value, list | tuple) else ()
            kinds = dict.fromkeys(kind for step in steps if (kind := hosted_kind(step, name)))
            self.members.append(f"{where}.{name}" + (f" ({', '.join(kinds)})" if kinds else ""))

    def add_media_members(self, message: Message, where: str, *, names: bool = True) -> None:
        """Records the media types of files that are sent as a URL or an id, because few APIs accept a media type there.

        Args:
            names: True to record the names of these files, too.
        """
        for at, part in enumerate(message.content if isinstance(message.content, tuple) else ()):
            if isinstance(part, ImagePart | FilePart | AudioPart) and part.data is None:
                if part.media_type is not None:
                    self.members.append(f"{where}.content[{at}].media_type")
                if names and isinstance(part, FilePart) and part.name is not None:
                    self.members.append(f"{where}.content[{at}].name")


def has_unmodelled_blocks(blocks: Any) -> bool:
    """Returns True if the content blocks contain more than text, reasoning and tool calls.

    The blocks are in Anthropic's format, which has a field `type`, or in Gemini's format.

    >>> has_unmodelled_blocks([{"type": "text", "text": "Hi"}, {"type": "thinking", "thinking": "Hm", "signature": ""}])
    False
    >>> has_unmodelled_blocks([{"type": "thinking", "thinking": "Hm", "signature": "c2lnbmVk"}])
    True
    """
    if not isinstance(blocks, list):
        return bool(blocks)
    for block in blocks:
        if not isinstance(block, Mapping):
            return True
        kind = block.get("type")
        modelled = _MODELLED.get(kind, set()) if isinstance(kind, str | None) else set()
        if {name for name, value in block.items() if value not in _EMPTY} - modelled:
            return True
    return False


_EMPTY: tuple[Any, ...] = (None, "", [], {})
# The fields of a block, by its type, that the message's text, reasoning and tool calls contain, too.
_MODELLED: dict[Any, set[str]] = {
    None: {"text", "thought", "functionCall"},
    "text": {"type", "cache_control", "text"},
    "thinking": {"type", "cache_control", "thinking"},
    "tool_use": {"type", "cache_control", "id", "name", "input", "caller"},  # the call's extras contain `caller`
}
