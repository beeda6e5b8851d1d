"""The reader that all built-in dialects share. The reader separates text, reasoning and tool calls.

    in text        <think> at the start              -> in reasoning
                   </think> (see below)              removed
                   `message_markers`, `removed_markers`   removed
                   `openers` of a format             -> its read(): creates tool calls, or declines
    in reasoning   its own </think>                  -> in text
                   `end_reasoning` of a format       -> in text, and read there

White space after a structure (for example, a tool call), or at the start of the message, belongs to the text that
follows. If no text follows, the reader drops this white space. A message that contains only white space is text. The
reader outputs all other text unchanged.

Reasoning starts only at the start of the message, or in the prompt (`start_in_reasoning`). The first closing tag of the
same kind ends reasoning. The reader removes a closing tag in text if the tag directly follows a structure, or if no tag
has ended reasoning yet.

A special token in `end_reasoning` also ends reasoning. If `required_after` contains a pattern for this token, the text
after the token must match the pattern. If a format's markers consist of ordinary characters, its markers never end
reasoning: see `MarkupDialect`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from itertools import groupby
from typing import ClassVar

from ...deltas import Delta, ReasoningDelta, TextDelta, Warn
from ...jsontext import join_surrogates
from ...types import ToolCallDelta
from .dialect import DialectContext
from .grammar import TokenPattern
from .scanner import NOT_SPACE, Markers, Reading, Scanner, markers

# DeepSeek, Qwen, Kimi K2-Thinking and most others; then Kimi-VL and the early Kimi preview.
THINK = {"<think>": "</think>", "◁think▷": "◁/think▷"}


class ReadResult(Enum):
    """The result of a format's attempt to parse the text after one of its markers."""

    CONSUMED = auto()  # it was structure
    PLAIN_TEXT = auto()  # it looked like a call, and is text, all of it
    NOT_MINE = auto()  # not its own: another family may read it


class MarkupFormat:
    """The tool call format of a family of models.

    Attributes:
        heads: markers that may begin a structure only at the start of the message.
        openers: markers that may begin a structure anywhere in text.
        followers: markers that are recognized only directly after a tool call or after one of `message_markers`.
        removed_markers: markers that are removed from text.
        message_markers: markers that are never text, even if tool calls aren't parsed.
        end_reasoning: the markers of `openers` and `message_markers` that also end reasoning.
        always_end_reasoning: the markers of `end_reasoning` that end reasoning even if tool calls aren't parsed.
        required_after: the text that must follow a marker of `end_reasoning`, if the marker alone isn't enough.
        think: the markers that open reasoning at the start of the message, with their closing markers.
        closers: the markers that close reasoning if the prompt has opened it. By default these are the closing markers
            in `think`.
        prompted: opening markers, besides those in `think`, that the model may repeat after the prompt has opened
            reasoning, with their closing markers.
        framing: true if the format also marks where messages begin and end (Harmony). The reader then always parses it,
            even if the request allows no tool calls.
        tools: the schemas of the declared tools, by name.
    """

    heads: ClassVar[tuple[str, ...]] = ()
    openers: ClassVar[tuple[str, ...]] = ()
    followers: ClassVar[tuple[str, ...]] = ()
    removed_markers: ClassVar[tuple[str, ...]] = ()
    end_reasoning: ClassVar[tuple[str, ...]] = ()
    message_markers: ClassVar[tuple[str, ...]] = ()
    always_end_reasoning: ClassVar[tuple[str, ...]] = ()
    required_after: ClassVar[Mapping[str, TokenPattern]] = {}
    think: ClassVar[Mapping[str, str]] = THINK
    closers: ClassVar[tuple[str, ...] | None] = None
    prompted: ClassVar[Mapping[str, str]] = {}
    framing: ClassVar[bool] = False

    def __init__(self, context: DialectContext) -> None:
        self.tools = {tool.name: tool.parameters for tool in context.tools}

    def declared_name(self, written: str) -> str:
        """Returns the declared tool that the model means by `functions.NAME` or `NAMESPACE.NAME`. If there is no such
        tool, returns the name without `functions.`."""
        names = [written.removeprefix("functions."), written, written.rpartition(".")[2]]
        return next((name for name in names if name in self.tools), names[0])

    def read(self, text: MarkupReader, marker: str) -> Reading[ReadResult]:
        """Parses a structure that begins with one of the format's markers."""
        yield from ()
        return ReadResult.NOT_MINE


class ThinkTags(MarkupFormat):
    """Parses only reasoning and no tool calls. The format includes the tags that Amazon Bedrock uses for gpt-oss
    (fixtures/bedrock)."""

    think: ClassVar[Mapping[str, str]] = {**THINK, "<reasoning>": "</reasoning>"}


class MarkupReader(Scanner):
    """Parses the markup in a response's text or in its reasoning.

    Args:
        kind: the class of the deltas whose text the reader parses. The reader outputs text that isn't markup as deltas
            of the same class.
        calls: true to parse tool calls.
        reasoning: true to parse reasoning markup.
        inside: true if the input begins inside reasoning.
        draft: see `DialectContext`.

    Attributes:
        warnings: the warnings about tool calls that could not be parsed.
        behind: the marker of `message_markers` that was parsed last, or "". A format may set this attribute.
        thought: the reasoning so far, which the dialect may parse again at the end of the response. Otherwise None.
    """

    def __init__(
        self,
        families: Sequence[MarkupFormat],
        kind: type[TextDelta | ReasoningDelta] = TextDelta,
        *,
        calls: bool,
        reasoning: bool = False,
        inside: bool = False,
        draft: Callable[[int, str, str], None] | None = None,
    ) -> None:
        super().__init__()
        self._on_draft = draft
        self._drafted = 0  # calls of which a piece has been shown
        self._kind = kind
        self._families = [family for family in families if calls or family.framing]
        self._framing = any(family.framing for family in families)
        self._removed_markers = _all(family.removed_markers for family in self._families)
        self._message_markers = _all(family.message_markers for family in families)
        openers = _all(family.openers for family in self._families)
        self._openers = openers + self._removed_markers + self._message_markers
        self._heads = _all(family.heads for family in self._families)
        self._followers = _all(family.followers for family in self._families)
        self._end_reasoning = _all(each.end_reasoning if calls else each.always_end_reasoning for each in families)
        self._required_after = {marker: shape for family in families for marker, shape in family.required_after.items()}
        self._think = {opener: closer for family in families if reasoning for opener, closer in family.think.items()}
        self._prompted = {**self._think, **{key: end for family in families for key, end in family.prompted.items()}}
        given = _all(tuple(f.think.values()) if f.closers is None else f.closers for f in families)
        self._all_closers = tuple(dict.fromkeys(given)) if reasoning else ()
        self._closers = self._all_closers  # what closes the reasoning
        self._inside = inside  # in reasoning
        self._repeatable = inside  # the opener may still come, although the prompt has opened reasoning
        self._opened = inside  # reasoning was opened once
        self._closed = False  # a closer has ended it
        self._at_start = True  # neither text nor a call so far
        self._after_structure = True  # nothing but white space since the last structure
        self._structured = False
        self._held_space: list[str] = []  # white space that belongs to the text that follows, if any
        self._out: list[TextDelta | ReasoningDelta] = []
        self.calls: list[ToolCallDelta] = []
        self.warnings: list[Warn] = []
        self.behind = ""
        self.thought: list[str] | None = None

    def feed(self, piece: str) -> list[Delta]:
        self.push(piece)
        return self._take_output()

    def finish(self) -> list[Delta]:
        self.end()
        if not self._structured and self._held_space:
            self._output("".join(self._held_space))
        self._held_space.clear()
        return self._take_output()

    def call(self, name: str, arguments: str, call_id: str | None = None) -> ReadResult:
        if self._drafted <= len(self.calls):
            self.draft(name, arguments)
        made_id = join_surrogates(call_id) if call_id else None
        self.calls.append(ToolCallDelta(len(self.calls), made_id, join_surrogates(name), arguments.strip(), whole=True))
        self._at_start = False
        self.begin_structure()
        return ReadResult.CONSUMED

    def draft(self, name: str, piece: str) -> None:
        """Reports the next piece of a tool call's arguments. The tool call may still turn out to be text."""
        self._drafted = len(self.calls) + 1
        if self._on_draft:
            self._on_draft(len(self.calls), join_surrogates(name), piece)

    def begin_structure(self) -> None:
        """Records that the parsed characters belong to a structure, so that they aren't output as text."""
        self._structured = self._after_structure = True
        self._held_space.clear()
        self._recorded = None

    def unfinished(self, what: str) -> ReadResult:
        """Drops an incomplete structure at the end of the input, with a warning."""
        self._at = len(self._window)
        self.warnings.append(Warn("unfinished_markup", f"the response ended inside {what}"))
        self.begin_structure()
        return ReadResult.CONSUMED

    def think(self, *closers: str) -> ReadResult:
        """Begins reasoning, which ends at one of the markers `closers`."""
        self._opened = self._inside = True
        self._closers = closers
        self.begin_structure()
        return ReadResult.CONSUMED

    def emit_recorded(self) -> None:
        """Outputs the structure that is being parsed as text."""
        self._emit_text("".join(self._recorded or ()))

    def broken(self, marker: str, end: str, name: str = "", header: str = "") -> Reading[ReadResult]:
        """Parses an invalid tool call again from its first marker.

        Args:
            name: the name of the declared tool, or "" if no tool with this name is declared. With a name, the reader
                delivers the tool call with an error. With "", the complete tool call becomes text.
            header: the text between the marker and the arguments.
        """
        pieces = [self.rewind(marker)]
        if not (yield from self.until(markers(end), pieces.append)):
            return self.unfinished("a tool call")
        return self.call(name, "".join(pieces).removeprefix(header)) if name else ReadResult.PLAIN_TEXT

    @property
    def unclosed(self) -> bool:
        """True if the input ended inside reasoning, or was empty."""
        return self._inside or (self._at_start and not self._opened)

    def dropped(self, why: str) -> None:
        self.warnings.append(Warn("markup_dropped", why))

    def read(self) -> Reading[None]:
        while marker := (yield from self._read_reasoning() if self._inside else self._read_text()):
            if self._inside:
                yield from self._read_markup_in_reasoning(marker)
            else:
                yield from self._read_markup_in_text(marker)

    def _read_text(self) -> Reading[str]:
        if self._after_structure:
            yield from self.span(NOT_SPACE, self._held_space.append)
            marker = yield from self.expect(self._wanted())
            if marker or self.at_end():
                return marker
            self._begin()
        return (yield from self.until(self._wanted(), self._output))

    def _wanted(self) -> Markers:
        wanted = self._openers
        if self._after_structure:
            wanted += self._heads if self._at_start else ()
            wanted += self._followers if self.calls or self.behind else ()
        wanted += self._all_closers if self._after_structure or not self._closed else ()
        wanted += tuple(self._think) if self._after_structure and self._at_start and not self._opened else ()
        return markers(*wanted)

    def _read_markup_in_text(self, marker: str) -> Reading[None]:
        if marker in self._message_markers:
            self.begin_structure()
            self.behind = marker
        elif marker in self._all_closers:
            self._opened = self._closed = True
            self.begin_structure()
        elif marker in self._think:
            self.think(self._think[marker])
        elif marker not in self._removed_markers:
            yield from self._offer_to_formats(marker)

    def _offer_to_formats(self, marker: str) -> Reading[None]:
        self._at_start = self._at_start and marker not in self._heads
        for family in self._families:
            if marker not in family.openers + family.heads + family.followers:
                continue
            self._recorded = [marker]
            result = yield from family.read(self, marker)
            recorded, self._recorded = "".join(self._recorded or ()), None
            if result is ReadResult.PLAIN_TEXT:
                self._emit_text(recorded)
            if result is not ReadResult.NOT_MINE:
                return
            self.put_back(recorded[len(marker) :])
        self._emit_text(marker)

    def _read_reasoning(self) -> Reading[str]:
        wanted = self._closers + self._end_reasoning
        if self._repeatable:
            yield from self.span(NOT_SPACE, self._emit_reasoning)
            marker = yield from self.expect(markers(*wanted, *self._prompted))
            self._repeatable = False
            if marker or self.at_end():
                return marker
        return (yield from self.until(markers(*wanted), self._emit_reasoning))

    def _read_markup_in_reasoning(self, marker: str) -> Reading[None]:
        if marker in self._closers:
            self._closed = True
        elif marker in self._prompted:
            self._closers = (self._prompted[marker],)
            return
        elif marker in self._required_after and not (yield from self.match(self._required_after[marker], take=False)):
            if self.cut and self._framing:
                self.unfinished("a header")
            else:
                self._emit_reasoning(marker)
            return
        else:
            self.put_back(marker)
        self._inside = False
        self.begin_structure()
        self.behind = marker if marker in self._message_markers else ""

    def _begin(self) -> None:
        self._at_start = self._after_structure = False
        if self._held_space:
            self._output("".join(self._held_space))
            self._held_space.clear()

    def _emit_text(self, text: str) -> None:
        if self._after_structure:
            self._begin()
        self._output(text)

    def _output(self, piece: str) -> None:
        self._out.append(self._kind(piece))

    def _emit_reasoning(self, piece: str) -> None:
        self._out.append(ReasoningDelta(piece))
        if self.thought is not None:
            self.thought.append(piece)

    def _take_output(self) -> list[Delta]:
        out, self._out = self._out, []
        if len(out) < 2:
            return [*out]
        return [kind("".join(delta.text for delta in group)) for kind, group in groupby(out, type)]


def _all(groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(word for group in groups for word in group)
