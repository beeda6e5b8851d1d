"""What of a conversation a wire has no place for, or only another provider can read: left out, and always told.

Where leaving it out would change what the conversation says, it is refused instead; that is not done here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..values import AudioPart, FilePart, ImagePart, Message, MessageLike, ProtocolWarning

if TYPE_CHECKING:
    from ..requests import Request
    from .chat import ChatQuirks

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


def losses_of_chat(request: Request, quirks: ChatQuirks) -> Losses:
    """What Chat Completions can't carry of a conversation. Dicts are sent as they are."""
    losses = Losses()
    for at, message in enumerate(request.messages):
        where = f"messages[{at}]"
        if not quirks.message_names and _is_named_result(message):  # its id says whose result it is
            losses.members.append(f"{where}.name")
        if not isinstance(message, Message):
            continue
        details = message.extras.get("reasoning_details") if quirks.reasoning_details else None
        sent = details if request.came_from_here(message) else None  # instead of the reasoning's text
        if not _is_told(message.reasoning, sent, takes_text=quirks.reasoning_field is not None):
            losses.reasoning.append(where)
        lost = [name for name, value in message.extras.items() if _says_more(name, value)]
        losses.members += [f"{where}.{name}" for name in lost if not (name == "reasoning_details" and sent)]
        losses.members += unsent_of_parts(message, where)
        if not request.came_from_here(message):
            calls = enumerate(message.tool_calls)
            losses.members += [f"{where}.tool_calls[{number}].extra" for number, call in calls if call.extra]
    for tool in request.tools:
        if tool.kind != "function" and tool.description:  # declared by its name alone
            losses.members.append(f"the description of the tool {tool.name}")
        if tool.kind != "function" and tool.parameters.get("properties"):
            losses.members.append(f"the parameters of the tool {tool.name}")
    return losses


def _is_named_result(message: MessageLike) -> bool:
    if isinstance(message, Message):
        return message.role == "tool" and bool(message.name)
    return message.get("role") == "tool" and bool(message.get("name"))


def _is_told(reasoning: str | None, details: Any, *, takes_text: bool) -> bool:
    """Whether reasoning is sent: as a text, or in the details that are sent instead of it."""
    if not reasoning:  # an empty one says nothing to a provider that wants none
        return True
    if not details:
        return takes_text
    pieces = [piece for piece in details if isinstance(piece, Mapping)]
    said = "".join(str(piece.get("text") or piece.get("summary") or "") for piece in pieces)
    return "".join(reasoning.split()) in "".join(said.split())


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
