"""`HostedPart`, `Citation` and `GeneratedFile`, which are the results of hosted tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from .pydantic_support import PydanticField


class TextOffsets:
    """Finds the positions of text passages in an answer. The passages must be passed in the order of the answer.

    >>> offsets = TextOffsets("Hello, world")
    >>> offsets.next("Hello, "), offsets.next("world")
    (0, 7)
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def next(self, said: str) -> int | None:
        """Returns the position of the next passage, or None if the answer doesn't contain it. A passage is missing if
        the server sent two different versions of the text. The reply then has the warning `text_mismatch`.
        """
        at = self._text.find(said, self._at)
        if at < 0:
            return None
        self._at = at + len(said)
        return at


class UTF8Offsets:
    """Converts positions in a text from UTF-8 bytes to characters.

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
    """A step of a hosted tool, or another part of the answer that is neither text nor a function call.

    Attributes:
        kind: one of "web_search", "web_fetch", "code_execution", "file_search", "mcp", "image_generation",
            "tool_search", "shell", "custom", "compaction" and others, or "unknown" for a type that streamfold doesn't
            know.
        part: what the step contains: a tool call, its result or both, a request for approval, a list of tools, a state
            of the tool, or a file.
        runs: who runs the tool: the provider ("server") or your program ("client"). Tool calls that your program must
            run are also in `Reply.tool_calls`.
        call_id: for a result, the id of its tool call. For a tool call that your program must run, the id that its
            result must contain.
        name: the tool's name, if the provider sends it.
        server: the name of the MCP server.
        input: the tool's input, which is a text or an object.
        status: the raw status that the provider sent for the step.
        error: the reason why the hosted tool failed. streamfold raises no exception if a hosted tool fails.
        raw: the step exactly as the provider sent it, as JSON data.
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
    """A source that the answer cites.

    Attributes:
        kind: what kind of source it is: a web page, a file, a place on a map, or a document in the request.
        url: the source's URL, or None for a file or a document.
        cited_text: the text of the source that the model quotes.
        start, end: the range of characters in `Reply.text` for which the answer cites the source, if known.
    """

    kind: CitationKind
    url: str | None = None
    title: str | None = None
    cited_text: str | None = None
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class GeneratedFile(PydanticField):
    """A file that a hosted tool created, with either its bytes or an id to pass to `Provider.fetch_file`."""

    media_type: str | None = None
    name: str | None = None
    data: bytes | None = field(default=None, repr=False)
    file_id: str | None = None
    container_id: str | None = None
    url: str | None = None
