"""What of a conversation a wire has no place for, or only another provider can read: left out, and always told.

Where leaving it out would change what the conversation says, it is refused instead; that is not done here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..content import AudioPart, FilePart, ImagePart
from ..messages import Message
from ..types import ProtocolWarning

if TYPE_CHECKING:
    from ..request import Request

__all__ = ["Losses", "losses_of_chat", "unsent_of_parts"]

_LONGEST_REPORT = 20  # places


@dataclass(slots=True)
class Losses:
    """The places of what stays behind.

    Attributes:
        reasoning: messages whose reasoning is not sent.
        members: members of messages, calls, parts and tools that are not sent.
    """

    reasoning: list[str] = field(default_factory=list)
    members: list[str] = field(default_factory=list)

    def warnings(self) -> list[ProtocolWarning]:
        """One warning of each kind, with the places; none where nothing stays behind."""
        found = []
        if self.reasoning:
            detail = f"{_listed(self.reasoning)}: the reasoning was not sent, this provider takes none back"
            found.append(ProtocolWarning("reasoning_dropped", detail))
        if self.members:
            detail = f"{_listed(self.members)}: not sent, this provider has no place for it or can't read it"
            found.append(ProtocolWarning("extras_dropped", detail))
        return found


def losses_of_chat(request: Request, *, takes_reasoning: bool, takes_details: bool = False) -> Losses:
    """What Chat Completions can't carry of a conversation. Dicts are sent as they are.

    Args:
        takes_details: `reasoning_details` go back where they came from, and say what the reasoning says.
    """
    losses = Losses()
    for at, message in enumerate(request.messages):
        if not isinstance(message, Message):
            continue
        where = f"messages[{at}]"
        own = request.came_from_here(message)
        details = takes_details and own and message.extras.get("reasoning_details")
        sent = (message.reasoning or "") in _told_by(details) if details else takes_reasoning
        if message.reasoning and not sent:  # an empty one says nothing to a provider that wants none
            losses.reasoning.append(where)
        losses.members += [
            f"{where}.{name}"
            for name, value in message.extras.items()
            if _says_more(name, value) and not (details and name == "reasoning_details")
        ]
        losses.members += unsent_of_parts(message, where)
        if not own:
            calls = enumerate(message.tool_calls)
            losses.members += [f"{where}.tool_calls[{number}].extra" for number, call in calls if call.extra]
    for tool in request.tools:
        if tool.kind != "function" and tool.description:  # declared by its name alone
            losses.members.append(f"the description of the tool {tool.name}")
        if tool.kind != "function" and tool.parameters.get("properties"):
            losses.members.append(f"the parameters of the tool {tool.name}")
    return losses


def _told_by(details: Any) -> str:
    """The text of `reasoning_details`, without what is encrypted in them."""
    pieces = [piece for piece in details if isinstance(piece, Mapping)]
    return "".join(str(piece.get("text") or piece.get("summary") or "") for piece in pieces)


def _says_more(name: str, value: Any) -> bool:
    """Whether something is in it that is not also in the text and the calls of the message.

    The items that an answer of the Responses API came as are often just these.
    """
    if name != "output" or not isinstance(value, list):
        return True
    for item in value:
        if not isinstance(item, Mapping) or item.get("type") not in ("message", "function_call"):
            return True
        parts = item.get("content")
        if any(isinstance(part, Mapping) and part.get("annotations") for part in parts or ()):
            return True
    return False


def unsent_of_parts(message: Message, where: str) -> Iterator[str]:
    """What is said about images, files and audio that the provider is to find by itself: no wire has a place for it."""
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
