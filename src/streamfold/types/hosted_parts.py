"""What tools of the provider did, what was cited, and which files were made, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from .pydantic_support import PydanticField


class TextOffsets:
    """Finds the texts of an answer one after the other.

    They follow each other without anything between them. Only where what was shown differs from what was said at the
    end (`text_mismatch`) is a text looked for, and may have no place.

    >>> places = Places("Hello, world")
    >>> places.next("Hello, "), places.next("world")
    (0, 7)
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def next(self, said: str) -> int | None:
        """Returns where the next text begins; None if it is not in the answer."""
        at = self._text.find(said, self._at)
        if at < 0:
            return None
        self._at = at + len(said)
        return at


class UTF8Offsets:
    """Positions in the UTF-8 bytes of a text, as positions in its characters.

    >>> Bytes("92°F")(5)
    4
    """

    def __init__(self, text: str) -> None:
        self._bytes = text.encode("utf-8", "surrogatepass")
        self._plain = len(self._bytes) == len(text)

    def __call__(self, at: int) -> int:
        return min(at, len(self._bytes)) if self._plain else len(self._bytes[:at].decode("utf-8", "ignore"))


PartKind: TypeAlias = Literal["call", "result", "both", "approval", "listing", "state", "file"]
Runner: TypeAlias = Literal["server", "client"]
CitationKind: TypeAlias = Literal["url", "file", "place", "document"]


@dataclass(frozen=True, slots=True)
class HostedPart(PydanticField):
    """A step of a tool that the provider runs, or a part of an answer that only the provider understands.

    Attributes:
        kind: what it is of: "web_search", "web_fetch", "code_execution", "file_search", "mcp", "image_generation",
            "tool_search", "shell", "custom", "compaction" and others; "unknown" for a type that is new.
        part: whether it is the call, its result, both in one, a request for approval, a list of tools, a state of the
            conversation, or a file.
        runs: who runs it. What the client runs is in `Reply.tool_calls` too.
        id: of this part; None where it has none.
        call_id: of the call that a result is of, or that a client answers.
        name: of the tool, where the provider names it.
        server: of an MCP tool.
        input: what the model wrote: a text or an object, as its tool takes it.
        status: the provider's word, where it has one.
        error: why it failed. A failed tool is a part of the answer, not an exception.
        raw: the part as it came.
    """

    kind: str
    part: PartKind
    runs: Runner = "server"
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    server: str | None = None
    input: Any = None
    status: str | None = None
    error: str | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Citation(PydanticField):
    """A source that the answer names.

    Attributes:
        kind: a page, a file, a place on a map, or a document of the request.
        url: where the source is; None for a file or a document.
        title: of the source; the name of a file.
        cited_text: what the source says, where the provider quotes it.
        start, end: the characters of `Reply.text` that the source stands for. None: the provider names no place.
    """

    kind: CitationKind
    url: str | None = None
    title: str | None = None
    cited_text: str | None = None
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class GeneratedFile(PydanticField):
    """A file that a provider's tool made: its bytes, or how they are fetched with `Provider.fetch_file`.

    Attributes:
        media_type: as the provider says; None if it does not.
        name: of the file, where it has one.
        data: the bytes, where they came with the answer.
        file_id, container_id: under which the provider keeps it.
        url: where it is.
    """

    media_type: str | None = None
    name: str | None = None
    data: bytes | None = field(default=None, repr=False)
    file_id: str | None = None
    container_id: str | None = None
    url: str | None = None
