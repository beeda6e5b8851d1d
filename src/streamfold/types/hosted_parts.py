"""Tools that the provider ran, citations, and generated files, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from .pydantic_support import PydanticField


class TextOffsets:
    """Finds the texts of an answer one after the other, without gaps.

    >>> offsets = TextOffsets("Hello, world")
    >>> offsets.next("Hello, "), offsets.next("world")
    (0, 7)
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def next(self, said: str) -> int | None:
        """Returns where the next text begins; None if it isn't in the answer (after a `text_mismatch`)."""
        at = self._text.find(said, self._at)
        if at < 0:
            return None
        self._at = at + len(said)
        return at


class UTF8Offsets:
    """Converts positions in UTF-8 bytes to positions in characters.

    >>> UTF8Offsets("92°F")(5)
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
    """A step of a tool that the provider runs, or another part that only the provider understands.

    Attributes:
        kind: "web_search", "web_fetch", "code_execution", "file_search", "mcp", "image_generation", "tool_search",
            "shell", "custom", "compaction" and others; "unknown" for a new type.
        part: the call, its result, both, a request for approval, a list of tools, a state of the conversation, a file.
        runs: what the client runs is in `Reply.tool_calls` too.
        call_id: of the call that a result answers, or that the client answers.
        name: of the tool, where the provider names it.
        server: of an MCP tool.
        input: text or an object, depending on the tool.
        status: the provider's word.
        error: why the tool failed. That is not an exception.
        raw: the part as sent.
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
        url: None for a file or a document.
        cited_text: the quoted text of the source.
        start, end: the characters of `Reply.text` that cite it, if the provider says which.
    """

    kind: CitationKind
    url: str | None = None
    title: str | None = None
    cited_text: str | None = None
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class GeneratedFile(PydanticField):
    """A file that a provider's tool made: its bytes, or its id for `Provider.fetch_file`."""

    media_type: str | None = None
    name: str | None = None
    data: bytes | None = field(default=None, repr=False)
    file_id: str | None = None
    container_id: str | None = None
    url: str | None = None
