"""`Pipeline`, which runs the steps between the adapter and the accumulator."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias, get_args

from ..deltas import (
    Block,
    BlockEnd,
    BlockPiece,
    BlockSummary,
    Delta,
    Failure,
    Finish,
    ItemSummary,
    MessageStart,
    Meta,
    RanOnServer,
    ReasoningDelta,
    RefusalDelta,
    Sequence,
    StreamEnd,
    TextDelta,
    UsageUpdate,
    Warn,
)
from ..errors import ProtocolError
from ..types import ChunkDetails, ExtraPart, Limits, StreamChunk, ToolCallDelta, Usage, live_part
from .accumulator import PartialCalls, StreamAccumulator, text_buffers
from .deduplication import EventDeduplicator, PartedDelta, TextDeduplicator
from .dialects import Dialect, DialectContext, leak_warning

_TEXTS = frozenset({TextDelta, ReasoningDelta, RefusalDelta})
_RARE = frozenset({StreamEnd, ExtraPart, Failure, Finish})
_ITEMS = (TextDelta, ReasoningDelta, RefusalDelta, ToolCallDelta)  # the deltas of an item that count as content
_COUNTED = ("text", "reasoning", "call")  # kinds of blocks whose text has a limit of its own
_NO_PROGRESS = frozenset({MessageStart, Meta, Sequence, Usage, UsageUpdate, Warn})  # never a part of the answer
_SHOWN = frozenset({TextDelta, ReasoningDelta, ToolCallDelta})  # deltas that the accumulator gets from pieces of blocks
_OfBlocks: TypeAlias = Block | BlockPiece | BlockEnd | RanOnServer | MessageStart
_OF_BLOCKS = frozenset(get_args(_OfBlocks))


class Pipeline:
    """Passes an adapter's deltas to the accumulator. On the way, the pipeline removes repetitions, assembles content
    blocks, and lets the dialect find tool calls in text.

    Args:
        read: the names of the configured dialects. If the text contains tool calls in another dialect's format, the
            reply has a warning.
    """

    def __init__(
        self,
        accumulator: StreamAccumulator,
        dialect: Dialect | None = None,
        *,
        read: Collection[str] = (),
        limits: Limits | None = None,
        drafts: PartialCalls | None = None,
        context: DialectContext | None = None,
    ) -> None:
        self._accumulator = accumulator
        self._dialect = dialect
        self._drafts = drafts
        self._read = read
        self._context = context or DialectContext()
        # A dialect changes texts, so its input is compared with the server's complete texts.
        self._buffers = accumulator.buffers if dialect is None else text_buffers(limits or Limits())
        self._begin_part()

    def _begin_part(self) -> None:
        self._parts = TextDeduplicator(self._buffers)
        self._message: str | None = None
        self._meta: Delta | None = None
        self.numbers = EventDeduplicator()
        self._finished = False  # a finish reason has arrived, after which no content should follow
        self._has_items = False  # an output item has arrived that is complete, or neither text nor a tool call
        self._has_late_text = False  # text arrived after a finish reason
        self._is_direct = self._dialect is None  # deltas go to the accumulator unchanged

    def feed(self, deltas: Iterable[Delta], data: str, chunks: list[StreamChunk]) -> None:
        """Appends the chunks of one SSE event to `chunks`. `data` is the event's data, which shows whether the event is
        a repetition.

        Raises:
            StreamError: the event reports an error, or exceeds a limit.
        """
        accumulator, kept = self._accumulator, False
        for delta in deltas:
            kind = type(delta)
            if kind in _TEXTS:
                if (delta.part is not None or delta.whole) and not self._parts.append_to_last(delta):  # type: ignore[arg-type, union-attr]
                    if delta.part is None:  # type: ignore[union-attr]
                        self._show_texts(self._parts.release(), chunks)
                    for new in self._parts.feed(delta):  # type: ignore[arg-type]
                        self._through_dialect(new, chunks)
                elif not self._is_direct:
                    self._through_dialect(delta, chunks)
                elif (chunk := accumulator.feed(delta)) is not None:  # nearly every event
                    chunks.append(chunk)
            elif kind is ToolCallDelta and self._is_direct:
                if (chunk := accumulator.feed(delta)) is not None:
                    chunks.append(chunk)
            elif kind is BlockPiece and delta.kind in _COUNTED and _is_counted(delta):  # type: ignore[union-attr, arg-type]
                made = accumulator.blocks.grow(delta)  # type: ignore[arg-type]
                if len(made) == 1 and type(made[0]) in _SHOWN and self._is_direct:
                    if (chunk := accumulator.feed(made[0])) is not None:  # nearly every event
                        chunks.append(chunk)
                elif made:
                    self.feed(made, data, chunks)
            elif kind is Meta:
                if not accumulator.identified and delta is not self._meta:  # some APIs send it with every event
                    self._meta = delta
                    accumulator.feed(delta)
            elif kind is UsageUpdate:
                accumulator.count_usage(delta)  # type: ignore[arg-type]
            elif kind is ItemSummary:
                for fact in self._missing_deltas(delta):  # type: ignore[arg-type]
                    if isinstance(fact, TextDelta | ReasoningDelta | RefusalDelta) and fact.part is not None:
                        self._show_texts(self._parts.feed(fact), chunks)
                    else:
                        self.feed([fact], "", chunks)  # the `ExtraPart` that follows counts the characters
            elif kind is BlockSummary:
                for index, facts in delta.blocks:  # type: ignore[union-attr]
                    if not accumulator.blocks.has(index):
                        self.feed(facts, "", chunks)  # the summary itself counts no characters
            elif kind is Sequence:
                if delta.id:  # type: ignore[union-attr]
                    accumulator.blocks.note_event_id()
                if (warning := self.numbers.feed(delta, data)) is not None:  # type: ignore[arg-type]
                    accumulator.warn(warning.code, warning.detail)
                    if warning.code == "repeated_event":
                        return
                    accumulator.calls.mark_gap()
            elif kind in _OF_BLOCKS:
                if self._feed_block(delta, data, chunks):  # type: ignore[arg-type]
                    return
            elif not self._is_direct or kind in _RARE:
                if kind is ExtraPart and not kept:
                    is_list = delta.name == "output" and delta.whole  # type: ignore[union-attr]
                    accumulator.count_other_chars(len(data), repeats=is_list)
                    kept = self._has_items = True
                self._through_dialect(delta, chunks)
                if kind is ExtraPart and delta.name == "output":  # type: ignore[union-attr]
                    self._show_texts(self._parts.finish_item(delta.place), chunks)  # type: ignore[union-attr]
            elif (chunk := accumulator.feed(delta)) is not None:
                chunks.append(chunk)

    def feed_cut(self, deltas: Iterable[Delta], chunks: list[StreamChunk]) -> None:
        """Appends the chunks for the texts of a truncated SSE event to `chunks`. Ignores other deltas, because the
        missing end of the event could change them."""
        wholes: set[type[Delta]] = set()  # kinds whose complete text in the response precedes the texts of its parts
        for delta in deltas:
            if isinstance(delta, Block | BlockPiece):
                if delta.kind not in ("text", "reasoning"):
                    continue
            elif not isinstance(delta, TextDelta | ReasoningDelta | RefusalDelta):
                continue
            elif delta.whole:
                shown = self._parts.shown(type(delta), delta.part)
                if type(delta) in wholes or not delta.text.startswith(shown):
                    continue
                if delta.part is None:
                    wholes.add(type(delta))
                delta = replace(delta, text=delta.text[len(shown) :], whole=False)
            self.feed([delta], "", chunks)

    def _missing_deltas(self, summary: ItemSummary) -> list[Delta]:
        """Returns the deltas of the items in the server's final list that haven't arrived yet.

        The result is empty if the items that have arrived aren't the first items of the list.
        """
        came = {kind: self._parts.received(kind) for kind in (TextDelta, ReasoningDelta, RefusalDelta)}
        calls = len(self._accumulator.calls)
        if not (any(came.values()) or calls or self._has_items):
            return [fact for item in summary.items for fact in item]
        for number, item in enumerate(summary.items):
            if not (any(came.values()) or calls):
                # Items of other kinds may have begun; the final list has all of them.
                new = [item for item in summary.items[number:] if any(isinstance(fact, _ITEMS) for fact in item)]
                left = [fact for item in new for fact in item]
                if any(isinstance(fact, TextDelta | RefusalDelta) for fact in left):
                    return [
                        Warn(
                            "text_mismatch",
                            "parts of the response were missing in the deltas and arrived only in the final response",
                        ),
                        *left,
                    ]
                return []
            for fact in item:
                if isinstance(fact, TextDelta | ReasoningDelta | RefusalDelta):
                    if not came[type(fact)].startswith(fact.text):
                        return []
                    came[type(fact)] = came[type(fact)][len(fact.text) :]
                elif isinstance(fact, ToolCallDelta):
                    calls -= 1
        return []

    def _show_texts(self, texts: Iterable[Delta], chunks: list[StreamChunk]) -> None:
        for text in texts:
            shown: list[StreamChunk] = []
            self._through_dialect(text, shown)
            for chunk in shown:
                if (chunk.refusal or not chunk.silent) and isinstance(text, PartedDelta):
                    chunk.details = ChunkDetails(
                        chunk.preceding_calls, chunk.marks, part=text.part, refusal=chunk.refusal
                    )
            chunks += shown

    def _feed_block(self, delta: _OfBlocks, data: str, chunks: list[StreamChunk]) -> bool:
        """Processes a delta of an API whose messages consist of content blocks. Returns true if the rest of the SSE
        event must be skipped.

        Raises:
            ProtocolError: another message begins inside this message.
        """
        accumulator, blocks = self._accumulator, self._accumulator.blocks
        if isinstance(delta, MessageStart):
            is_first, self._message = self._message is None, self._message or delta.id or ""
            if is_first:
                return False
            if delta.id and delta.id != self._message:
                raise ProtocolError(f"message {delta.id} begins inside message {self._message}")
            accumulator.warn("repeated_event", "the server sent message_start twice; the second one was ignored")
            return True
        if not isinstance(delta, BlockEnd):
            accumulator.count_other_chars(len(data))
        if isinstance(delta, RanOnServer):
            if (number := blocks.take_from_client(delta)) is not None:
                accumulator.calls.take_from_client(number)
            return False
        if made := blocks.feed(delta):
            self.feed(made, data, chunks)
        if isinstance(delta, Block) and delta.kind == "other" and delta.index is not None:  # more content follows
            self._show(delta.value, chunks)
        for mark in blocks.marks(delta):
            accumulator.mark(mark)
            if mark.name == blocks.name.removesuffix("s"):
                self._show(mark.value, chunks)
        return False

    def _show(self, block: Any, chunks: list[StreamChunk]) -> None:
        if (part := live_part(block, self._accumulator.blocks.name)) is not None:
            self._accumulate([part], chunks)

    def end(self, chunks: list[StreamChunk]) -> None:
        """Ends the response's text. Appends chunks with text that was held back to `chunks`. Warns if the text contains
        tool calls that the dialect didn't find."""
        if self.numbers.unreliable:
            self._accumulator.calls.unmark_gap()
        if self._accumulator.blocks.has_skipped:
            self._accumulator.warn("repeated_event", "repeated SSE events were skipped")
        self._show_texts(self._parts.release(), chunks)
        self.feed(self._accumulator.blocks.release(), "", chunks)
        self._accumulate(self._held_back(), chunks)
        if leak := leak_warning(self._accumulator.buffers[TextDelta].text, self._read, self._context):
            self._accumulator.warn("leaked_markup", leak)

    def next_part(self, chunks: list[StreamChunk]) -> None:
        """Begins the next part of a paused answer. The dialect keeps its state."""
        self._show_texts(self._parts.release(), chunks)
        held = self._accumulator.blocks.next_part()
        self._accumulator.next_part()
        self.feed(held, "", chunks)
        self._begin_part()

    def give_up(self, chunks: list[StreamChunk]) -> None:
        """Appends chunks with text that was held back to `chunks`. There are no chunks for tool calls, because the
        response ends with an error."""
        self._show_texts(self._parts.release(), chunks)
        self._accumulate(self._accumulator.blocks.release_texts(), chunks)
        self._accumulate((held for held in self._held_back() if isinstance(held, TextDelta | ReasoningDelta)), chunks)

    def _through_dialect(self, delta: Delta, chunks: list[StreamChunk]) -> None:
        if self._finished:
            if isinstance(delta, TextDelta) and delta.text:
                self._accumulator.warn("late_content", "text arrived after the finish reason")
            elif isinstance(delta, ToolCallDelta) and (delta.id or delta.name or delta.arguments):
                self._accumulator.warn("late_content", "tool calls arrived after a finish reason")
        if isinstance(delta, Finish):
            self._show_texts(self._parts.release(), chunks)
            self._finished = not delta.more
            self._is_direct = self._is_direct and delta.more
            self._accumulator.feed(delta)
            return
        if isinstance(delta, (StreamEnd, Failure)) and not self._accumulator.will_continue:
            self.end(chunks)
        if self._dialect is not None:
            if isinstance(delta, (TextDelta, ReasoningDelta, RefusalDelta)):
                self._buffers[type(delta)].add(delta.text)
                self._has_late_text = self._has_late_text or self._accumulator.has_finish_reason
            self._accumulate(self._dialect.feed(delta), chunks)
            if self._drafts and (drawn := self._drafts.take_chunks()) and not self._accumulator.calls_begun:
                chunks += drawn  # if the server sends structured tool calls, tool calls in the text are ignored
        else:
            self._accumulate([delta], chunks)

    def _accumulate(self, deltas: Iterable[Delta], chunks: list[StreamChunk]) -> None:
        for delta in deltas:
            if (chunk := self._accumulator.feed(delta)) is not None:
                chunks.append(chunk)

    def _held_back(self) -> Iterator[Delta]:
        dialect, self._dialect = self._dialect, None
        for delta in dialect.finish() if dialect else ():
            yield replace(delta, held=not self._has_late_text) if isinstance(delta, ToolCallDelta) else delta


def _is_counted(piece: BlockPiece) -> bool:
    """Other limits apply to text and arguments, so `limits.other_chars` doesn't include them."""
    return piece.how != "set" and (piece.how != "add" or type(piece.value) is str)


def is_progress(deltas: list[Delta]) -> bool:
    """Returns whether an SSE event contains a part of the model's answer and therefore restarts the timeouts."""
    for delta in reversed(deltas):
        kind = type(delta)
        if kind in _TEXTS:
            if delta.text:  # type: ignore[union-attr]
                return True
        elif kind is BlockPiece:
            if delta.value != "":  # type: ignore[union-attr]
                return True
        elif kind is ToolCallDelta:
            if delta.arguments or delta.id or delta.name or delta.extra or delta.whole:  # type: ignore[union-attr]
                return True
        elif kind not in _NO_PROGRESS:
            return True
    return False
