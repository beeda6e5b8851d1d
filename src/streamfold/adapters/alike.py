"""Requests that differ in nothing but what is asked: what is known of one holds for the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import attrgetter, is_
from typing import TYPE_CHECKING

from ..requests import plain_roles
from .prepared import quoted

if TYPE_CHECKING:
    from ..requests import Options, Request
    from ..values import Message, ProtocolWarning

_SETTINGS = attrgetter(
    "model", "tool_choice", "origin", "names", "answer_tool", "renames", "capabilities", "family", "stream"
)


class Question:
    """Texts of the user and of the system, without tools, and who asks how.

    Attributes:
        request: the first one of its kind.
        roles: of its messages.
        around: the same objects for the same answer: the endpoint, and what the adapter is set to.
    """

    __slots__ = ("around", "request", "roles")  # a dataclass is imported slowly

    def __init__(self, request: Request, roles: tuple[str, ...], around: tuple[object, ...]) -> None:
        self.request = request
        self.roles = roles
        self.around = around

    @classmethod
    def of(cls, request: Request, *around: object) -> Question | None:
        """Returns the question that a request is; None if it is more than that."""
        if (
            request.tools
            or request.options.response_format is not None
            or (roles := plain_roles(request.messages)) is None
        ):
            return None
        return cls(request, roles, around)

    def is_like(self, other: Question) -> bool:
        """Whether the two differ in their texts alone."""
        return (
            _are_same(self.request.options, other.request.options)
            and all(map(is_, self.around, other.around))
            and self.roles == other.roles
            and _SETTINGS(self.request) == _SETTINGS(other.request)
        )


def _are_same(one: Options, other: Options) -> bool:
    """Whether options are written alike. Members of a body count as others: true is equal to 1, but not to a server."""
    return one is other or (not one.extra_body and one == other)


class Known:
    """What became of a question whose messages are sent as they are: see `Prepared`.

    Attributes:
        around: what stands in the body round the texts, see `around_texts`.
    """

    __slots__ = ("around", "changes", "headers", "path", "question", "ready")

    def __init__(
        self,
        question: Question,
        ready: Request,
        path: str,
        headers: Mapping[str, str],
        changes: tuple[ProtocolWarning, ...],
        around: tuple[str, ...] | None,
    ) -> None:
        self.question = question
        self.ready = ready
        self.path = path
        self.headers = headers
        self.changes = changes
        self.around = around

    def body(self, messages: tuple[Message, ...]) -> str | None:
        """Returns the body with other texts; None if it has to be written."""
        return None if self.around is None else _filled(self.around, messages)


def around_texts(
    messages: tuple[Message, ...], body: str, write: Callable[[tuple[Message, ...]], str]
) -> tuple[str, ...] | None:
    """Returns what stands in a body before, between and behind the texts of its messages.

    Args:
        body: with these messages.
        write: writes the body with other messages.

    Returns:
        None if the texts do not stand in it as they are, once each and in their order.
    """
    probes = [f"~ {number} of the texts ~" for number in range(len(messages))]
    asked = zip(messages, probes, strict=True)
    rest, around = write(tuple([replace(message, content=probe) for message, probe in asked])), list[str]()
    for probe in map(quoted, probes):
        before, found, rest = rest.partition(probe)
        if not found or probe in rest:
            return None
        around.append(before)
    made = (*around, rest)
    return made if _filled(made, messages) == body else None


def _filled(around: tuple[str, ...], messages: tuple[Message, ...]) -> str:
    pieces = [around[0]]
    for message, behind in zip(messages, around[1:], strict=True):
        pieces += (quoted(message.content), behind)  # type: ignore[arg-type]
    return "".join(pieces)
