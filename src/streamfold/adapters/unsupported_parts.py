"""Parts of a conversation that a wire format can't send, or that only another provider can read.

Each is left out, with a warning. Where leaving it out would change the meaning of the conversation, the adapter raises
ConfigError instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import join_limited
from ..types import AudioPart, FilePart, ImagePart, Message, ReplyWarning, hosted_kind


@dataclass(slots=True)
class UnsupportedParts:
    """The places of what is not sent.

    Attributes:
        reasoning: messages whose reasoning is not sent.
        members: members of messages, calls, parts and tools that are not sent.
    """

    reasoning: list[str] = field(default_factory=list)
    members: list[str] = field(default_factory=list)

    def warnings(self) -> list[ReplyWarning]:
        """Returns at most one warning of each kind, with the places."""
        found = []
        if self.reasoning:
            detail = f"{join_limited(self.reasoning)}: the reasoning was not sent, this provider takes none back"
            found.append(ReplyWarning("reasoning_dropped", detail))
        if self.members:
            detail = f"{join_limited(self.members)}: not sent, this provider has no place for it or can't read it"
            found.append(ReplyWarning("provider_data_dropped", detail))
        return found


def dropped_media_members(message: Message, where: str, *, names: bool = True) -> Iterator[str]:
    """Yields what is said about images, files and audio that are sent as a URL or an id: few APIs have a place for it.

    Args:
        names: whether there is none for the names of files either.
    """
    if isinstance(message.content, str | None):
        return
    for at, part in enumerate(message.content):
        if isinstance(part, ImagePart | FilePart | AudioPart) and part.data is None:
            if part.media_type is not None:
                yield f"{where}.content[{at}].media_type"
            if names and isinstance(part, FilePart) and part.name is not None:
                yield f"{where}.content[{at}].name"


def dropped_extra(where: str, name: str, value: Any) -> str:
    """Returns the place of a member that is not sent, with the kinds of tools whose steps are in it.

    >>> dropped_extra("messages[1]", "output", [{"type": "web_search_call", "id": "ws_1"}])
    'messages[1].output (web_search)'
    """
    steps = value if name in ("output", "blocks") and isinstance(value, list | tuple) else ()
    kinds = dict.fromkeys(kind for step in steps if (kind := hosted_kind(step)))
    return f"{where}.{name}" + (f" ({', '.join(kinds)})" if kinds else "")


def has_unmodelled_blocks(blocks: Any) -> bool:
    """Returns whether the blocks that a turn came as say something that is not in its text, reasoning and calls.

    Both APIs whose messages are lists of blocks are known: Anthropic's, whose blocks have a type, and Gemini's.

    >>> has_unmodelled_blocks([{"type": "text", "text": "Hi"}, {"type": "thinking", "thinking": "Hm", "signature": ""}])
    False
    >>> has_unmodelled_blocks([{"type": "thinking", "thinking": "Hm", "signature": "c2lnbmVk"}])
    True
    """
    if not isinstance(blocks, list):
        return bool(blocks)
    return any(not isinstance(block, Mapping) or not _said(block) <= _plain(block) for block in blocks)


def _said(block: Mapping[str, Any]) -> set[str]:
    return {name for name, value in block.items() if value not in (None, "", [], {})}


def _plain(block: Mapping[str, Any]) -> set[str]:
    """The members of a block that are also in the message's own text, reasoning and calls."""
    common = {"type", "cache_control"}
    match block.get("type"):
        case None:
            return {"text", "thought", "functionCall"}
        case "text":
            return {*common, "text"}
        case "thinking":
            return {*common, "thinking"}
        case "tool_use":
            return {*common, "id", "name", "input", "caller"}  # the last one is also an extra of the call
    return set()
