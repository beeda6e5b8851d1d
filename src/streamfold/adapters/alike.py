"""Requests that differ in nothing but what is asked: what is known of one holds for the next."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING

from ..requests import plain_roles

if TYPE_CHECKING:
    from ..requests import Options, Request
    from ..values import ProtocolWarning

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
            and all(mine is theirs for mine, theirs in zip(self.around, other.around, strict=True))
            and self.roles == other.roles
            and _SETTINGS(self.request) == _SETTINGS(other.request)
        )


def _are_same(one: Options, other: Options) -> bool:
    """Whether options are written alike. Members of a body count as others: true is equal to 1, but not to a server."""
    return one is other or (not one.extra_body and one == other)


class Known:
    """What became of a question whose messages are sent as they are: see `Prepared`."""

    __slots__ = ("changes", "headers", "path", "question", "ready")

    def __init__(
        self,
        question: Question,
        ready: Request,
        path: str,
        headers: Mapping[str, str],
        changes: tuple[ProtocolWarning, ...],
    ) -> None:
        self.question = question
        self.ready = ready
        self.path = path
        self.headers = headers
        self.changes = changes
