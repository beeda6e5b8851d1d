"""Parts of a conversation that a wire format can't send, or that only another provider can read.

Each is left out, with a warning. Where leaving it out would change the meaning of the conversation, the adapter raises
ConfigError instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..values import AudioPart, FilePart, ImagePart, Message, ProtocolWarning

__all__ = ["DroppedParts", "dropped_media_members"]

_LONGEST_REPORT = 20  # places


@dataclass(slots=True)
class DroppedParts:
    """The places of what is not sent.

    Attributes:
        reasoning: messages whose reasoning is not sent.
        members: members of messages, calls, parts and tools that are not sent.
    """

    reasoning: list[str] = field(default_factory=list)
    members: list[str] = field(default_factory=list)

    def warnings(self) -> list[ProtocolWarning]:
        """Returns at most one warning of each kind, with the places."""
        found = []
        if self.reasoning:
            detail = f"{_listed(self.reasoning)}: the reasoning was not sent, this provider takes none back"
            found.append(ProtocolWarning("reasoning_dropped", detail))
        if self.members:
            detail = f"{_listed(self.members)}: not sent, this provider has no place for it or can't read it"
            found.append(ProtocolWarning("extras_dropped", detail))
        return found


def dropped_media_members(message: Message, where: str) -> Iterator[str]:
    """Yields what is said about images, files and audio that are sent as a URL or an id: no wire has a place for it."""
    if isinstance(message.content, str | None):
        return
    for at, part in enumerate(message.content):
        if isinstance(part, ImagePart | FilePart | AudioPart) and part.data is None:
            if part.media_type is not None:
                yield f"{where}.content[{at}].media_type"
            if isinstance(part, FilePart) and part.name is not None:
                yield f"{where}.content[{at}].name"


def _listed(places: list[str]) -> str:
    more = len(places) - _LONGEST_REPORT
    return ", ".join(places[:_LONGEST_REPORT]) + (f" and {more} more" if more > 0 else "")
