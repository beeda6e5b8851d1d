"""Which strings of an event an adapter hands on as they are: what `engine/known.py` may read without parsing again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from ..values import Delta

F = TypeVar("F", bound=Callable[..., Any])


class PassedList(NamedTuple):
    """A list of objects that is read by itself, wherever nothing else of the event says anything new.

    Attributes:
        member: the member whose value it is.
        first: the first member of its first object.
        read: returns the deltas of the list, as `from_json` of pydantic_core makes it. Raises ValueError if it can't be
            read.
    """

    member: str
    first: str
    read: Callable[[Any], list[Delta]]


@dataclass(frozen=True, slots=True)
class Passed:
    """The members of an event's JSON whose values change nothing but one text in what the event is decoded to.

    Attributes:
        texts: a string that is not empty becomes the text of one delta, unchanged, whatever is in it.
        ignored: a string that is never read.
        number: the member with the number of the event, which becomes a `Sequence`; "" on wires without.
        counts: the member with the counts of tokens so far, an object in which only numbers change. It becomes a whole
            `UsageUpdate`, behind the text; "" on wires without.
        whole: a list that comes whole, with a call in it; None on wires where calls come in pieces.
    """

    texts: frozenset[str]
    ignored: frozenset[str] = frozenset()
    number: str = ""
    counts: str = ""
    whole: PassedList | None = None


def passes_on(
    *texts: str,
    ignored: tuple[str, ...] = (),
    number: str = "",
    counts: str = "",
    whole: PassedList | None = None,
) -> Callable[[F], F]:
    """Declares it of a `decode` method. A subclass with a `decode` of its own inherits nothing: it may do otherwise."""

    def declare(decode: F) -> F:
        decode.passes_on = Passed(frozenset(texts), frozenset(ignored), number, counts, whole)  # type: ignore[attr-defined]
        return decode

    return declare


def passed_on(decode: Callable[..., Any]) -> Passed | None:
    """What is declared of a `decode` method; None if nothing is."""
    return getattr(decode, "passes_on", None)
