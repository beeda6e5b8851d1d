"""Which reasoning of earlier turns goes back, and how it is written.

It goes to the endpoint that it came from while a tool loop is open, for the calls of a loop are one train of thought.
That of finished turns is sent where the model's family says so: others leave it out themselves, and it costs tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .quirks import ChatQuirks
from .thinking import may_reason

if TYPE_CHECKING:
    from ...requests import Request
    from ...types import Message


def should_resend_reasoning(request: Request, quirks: ChatQuirks, *, finished: bool = False) -> list[bool]:
    """Returns for each message whether its reasoning is sent as a text, if it has any.

    Args:
        finished: that of finished turns is sent for every model.
    """
    family = request.family
    thinking = family.thinking not in (None, "never") or (family.thinking is None and not quirks.reasoning_of_thinkers)
    if quirks.reasoning_field is None or not thinking:
        return [False] * len(request.messages)
    start = 0 if finished or family.reasoning_back in ("all", "required") else _open_turn(request.messages)
    textual = quirks.reasoning_field == "thinking_part"  # and a text that is to be continued stays one
    return [
        at >= start and request.came_from_here(message) and not (message.partial and textual)
        for at, message in enumerate(request.messages)
    ]


def _open_turn(messages: tuple[Message, ...]) -> int:
    """Returns where the turn begins that the model is in. A user's message behind results does not end it."""
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].role == "user" and (at == 0 or messages[at - 1].role != "tool"):
            return at
    return 0


def with_reasoning_to_send(request: Request, sent: list[bool]) -> Request:
    """Returns the request without the reasoning that does not go back."""
    stays = [at for at, message in enumerate(request.messages) if message.reasoning is not None and not sent[at]]
    if not stays:
        return request
    messages = list(request.messages)
    for at in stays:
        messages[at] = replace(messages[at], reasoning=None)
    return replace(request, messages=tuple(messages))


def reasoning_members(
    message: Message, reasoning: str, content: Any, quirks: ChatQuirks, parts: Any = None
) -> dict[str, Any]:
    """Returns the members of a turn that hold its reasoning, in the place where the endpoint wants it.

    Args:
        parts: the pieces of reasoning parts as this endpoint sent them, with their signatures.
    """
    match quirks.reasoning_field:
        case None:
            return {}
        case "think_tag":
            text = content if isinstance(content, str) else ""
            return {"content": f"<think>{reasoning}</think>{text}"} if reasoning else {}
        case "thinking_part":
            if not reasoning or message.partial:
                return {}
            said = [{"type": "text", "text": content}] if isinstance(content, str) and content else content or []
            return {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": reasoning}]}, *said]}
        case "reasoning_part":
            texts = [{"type": "text", "text": content}] if isinstance(content, str) and content else content or []
            summary = merge_summaries(parts or []) or [{"type": "summary_text", "text": reasoning}]
            return {"content": [{"type": "reasoning", "summary": summary}, *texts]} if reasoning else {}
        case field:
            return {field: reasoning}


def merge_summaries(parts: Iterable[Any]) -> list[dict[str, Any]]:
    """Joins the summaries of streamed reasoning parts, as an answer that is not streamed has them.

    The signature comes with the last piece of a text, so that whatever follows is another text.
    """
    out: list[dict[str, Any]] = []
    pieces = (piece for part in parts if isinstance(part, Mapping) for piece in part.get("summary") or ())
    for piece in pieces:
        if not isinstance(piece, Mapping):
            continue
        if out and not out[-1].get("signature") and out[-1].get("type") == piece.get("type"):
            said = {name: value for name, value in piece.items() if value}
            out[-1] = {**out[-1], **said, "text": f"{out[-1].get('text') or ''}{piece.get('text') or ''}"}
        else:
            out.append(dict(piece))
    return out


def keep_reasoning_members(request: Request, body: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the members that ask the server to keep the reasoning of finished turns, where some is sent."""
    keep = request.family.keep
    start = _open_turn(request.messages)
    if not keep or request.family.reasoning_back != "all" or not may_reason(request):
        return {}
    if not any(message.reasoning for message in request.messages[:start]):
        return {}
    out: dict[str, Any] = {}
    for path, value in keep.items():
        name, _, inner = path.partition(".")
        known = body.get(name)
        switched = {"type": "enabled"} if name == "thinking" else {}
        base = known if isinstance(known, Mapping) else switched
        out[name] = {**base, inner: value} if inner else value
    return out
