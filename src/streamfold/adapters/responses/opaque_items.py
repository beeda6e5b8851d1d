"""Items that are being written, and what those of a provider of this API say beside texts and calls of functions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...jsontext import int_or_none
from ...types import item_part
from .content_parts import TEXT, PartKind, flat_annotation
from .output import as_object

PREFIXES = {"message": "msg", "reasoning": "rs"}  # of ids
_POSITIONS = ("start_index", "end_index", "index")


@dataclass(slots=True, eq=False)
class OpenItem:
    """A message or a reasoning that is being written.

    Attributes:
        key: what the pieces of this item say of their place, if they say any.
        kind, number, pieces: of the part that is open.
    """

    item: dict[str, Any]
    index: int
    key: int | str | None
    kind: PartKind | None = None
    number: int | None = None
    pieces: list[str] = field(default_factory=list)

    @property
    def position(self) -> dict[str, Any]:
        """Where the open part is, as events say it."""
        kind = self.kind or TEXT
        number = len(self.item[kind.container]) - 1
        return {"item_id": self.item["id"], "output_index": self.index, kind.number: number}

    @property
    def text(self) -> str:
        """What has been written of a text."""
        return "".join([*map(_text, _parts(self.item)[:-1]), *self.pieces])

    def begin_part(self, kind: PartKind, number: int | None) -> None:
        """Begins a part."""
        self.kind, self.number = kind, number
        self.item.setdefault(kind.container, []).append({**kind.empty})

    def end_part(self, said: Collection[str]) -> dict[str, Any]:
        """Ends the part that is open. Returns it, with its text.

        Args:
            said: see `StreamSerializer.said`.
        """
        kind, text = self.kind or TEXT, "".join(self.pieces)
        self.kind, self.pieces = None, []
        part: dict[str, Any] = self.item[kind.container][-1]
        part[kind.member] = next((known for known in said if known == text), text)
        return part

    def leave(self, said: Collection[str]) -> None:
        """Ends the item where it is, because nobody knows where it would have ended."""
        if self.kind is not None:
            self.end_part(said)
        if self.item["type"] == "message":
            self.item["status"] = "incomplete"


def begun_item(kind: str, item_id: str) -> dict[str, Any]:
    """Returns a message or a reasoning of which nothing has been written."""
    members = {"status": "in_progress", "role": "assistant", "content": []} if kind == "message" else {"summary": []}
    return {"id": item_id, "type": kind, **members}


def key_of(item: Mapping[str, Any]) -> str:
    """Returns what tells an item from others."""
    return str(item.get("id") or item.get("call_id") or item)


def is_run_by_client(item: Mapping[str, Any]) -> bool:
    """Returns whether an item is a call that is not a function's, and that the client runs."""
    part = item_part(item)
    return part is not None and part.runs == "client"


def said_in(item: Mapping[str, Any]) -> str:
    """Returns the text of a message or of reasoning."""
    return "".join(map(_text, _parts(item)))


def text_in(message: Mapping[str, Any]) -> str:
    """Returns the text of a message, without its refusals."""
    return "".join([_text(part) for part in _parts(message) if "refusal" not in part])


def refusals_in(message: Mapping[str, Any]) -> list[str]:
    """Returns the refusals of a message."""
    return [_text(part) for part in _parts(message) if "refusal" in part and _text(part)]


def annotations_of(message: Mapping[str, Any], *, joined: bool) -> list[list[dict[str, Any]]]:
    """Returns the citations of each text of a message.

    Args:
        joined: the parts are written as one: positions count from the beginning of the first.
    """
    offset, by_part = 0, list[list[dict[str, Any]]]()
    for part in _parts(message):
        if "refusal" in part:
            continue
        found = part.get("annotations")
        given = [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
        by_part.append([_moved(flat_annotation(one), offset) for one in given])
        offset += len(_text(part)) if joined else 0
    return [[one for found in by_part for one in found]] if joined or not by_part else by_part


def _moved(annotation: dict[str, Any], offset: int) -> dict[str, Any]:
    places = {name: at + offset for name in _POSITIONS if (at := int_or_none(annotation.get(name))) is not None}
    return {**annotation, **places}


def _parts(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = item.get("summary") or item.get("content")
    return [as_object(part) for part in content] if isinstance(content, list) else [{"text": content}]


def _text(part: Mapping[str, Any]) -> str:
    said = part.get("text", part.get("refusal"))
    return said if isinstance(said, str) else ""
