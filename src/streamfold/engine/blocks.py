"""Assembles messages that consist of content blocks (Anthropic, Gemini).

One SSE event starts a block, and later events with the same index add content to the block. The next request contains
the complete block again (https://docs.anthropic.com/en/docs/build-with-claude/streaming). Blocks may overlap: llama.cpp
and Vercel's gateway close all blocks at the end of the message. The assembler holds a block's text back until all
earlier blocks of the same kind are closed.

If the start of a tool call is missing, its arguments become a tool call without a name. Each other tool call to which
these arguments may belong gets an error (`ToolCallAssembler.mark_ambiguous`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ..deltas import Block, BlockEnd, BlockKind, BlockPiece, Delta, RanOnServer, ReasoningDelta, TextDelta, Warn
from ..errors import ProtocolError
from ..jsontext import PathValue, PathValues, clean_json, join_surrogates, parse_object, read_arguments
from ..types import ExtraPart, ToolCall, ToolCallDelta

_SHOWN: dict[BlockKind, type[TextDelta] | type[ReasoningDelta]] = {"text": TextDelta, "reasoning": ReasoningDelta}


class _BlockState:
    """The state of a content block.

    Attributes:
        value: the block's fields, except texts that arrive in pieces. The dict is replaced, never modified.
        pieces: the pieces of texts that have arrived, by field name. The fields in `json` contain JSON text.
        values: the arguments of a tool call, if the server sends each value with its path in the arguments (Gemini).
        lists: lists that arrive in pieces, by field name.
        waiting: text that is held back until all earlier blocks of the same kind are closed.
        next: the next block of the same kind (text and reasoning only).
        counted: true if the assembler has returned the arguments that the block's first event contained.
        late: true for a tool call that began or grew after a finish reason.
    """

    json: tuple[str, ...] = ()
    values: PathValues | None = None
    next: _BlockState | None = None
    counted = False

    def __init__(self, number: int, begun: Block) -> None:
        self.number = number
        self.begun = begun
        self.value = begun.value
        self.pieces: dict[str, list[str]] = {}
        self.lists: dict[str, list[Any]] = {}
        self.waiting: list[str] = []
        self.closed = self.marked = begun.whole
        self.late = False

    def whole(self, call: ToolCall | None) -> dict[str, Any]:
        """Returns the block as the next request must contain it, with the delivered tool call's arguments."""
        write = None if call is None else self.begun.write
        whole = {**self.value, **{member: list(values) for member, values in self.lists.items()}}
        for member, pieces in self.pieces.items():
            if member in self.json:
                text = "".join(pieces)
                if text.strip() and write is None:
                    whole[member] = read_arguments([text], repair=False).value
            else:
                start = self.value.get(member)
                whole[member] = join_surrogates("".join([start if isinstance(start, str) else "", *pieces]))
        if self.begun.join:
            whole = self.begun.join(whole)
        return write(whole, call) if write is not None and call is not None else whole

    def path_values(self) -> PathValues:
        if self.values is None:
            start = parse_object(self.begun.call.arguments or "{}") if self.begun.call else {}
            self.values = PathValues(start if isinstance(start, dict) else {})
        return self.values

    def end_marks(self) -> list[ExtraPart]:
        match self.begun.kind:
            case "other":
                return [ExtraPart("block", self.whole(None))]
            case "text":
                grown = ("type", self.begun.member)
                said = {**self.value, **self.lists}
                return [ExtraPart("text_end", {name: value for name, value in said.items() if name not in grown})]
            case "reasoning" if isinstance(signature := self.begun.value.get("signature"), str) and signature:
                return [ExtraPart("signature", signature)]
        return []


class _ExpectedAgain:
    """The content that the server may send again after a reconnect.

    Attributes:
        blocks: the numbers of blocks that the server may repeat.
        texts: the text that the server may repeat, by block number and field name.
        others: how many pieces other than text the server may repeat, by block number and field name.
        skipped: true if the decoder skipped a repetition.
    """

    def __init__(self) -> None:
        self.blocks: set[int] = set()
        self.texts: dict[tuple[int, str], str] = {}
        self.others: dict[tuple[int, str], int] = {}
        self.skipped = False

    def add(self, number: int, member: str | None, value: Any) -> None:
        """Records a piece of a block. With `member=None`, records that the block has begun."""
        if member is None:
            self.blocks.add(number)
        elif type(value) is str:
            self.texts[number, member] = self.texts.get((number, member), "") + value
        else:
            self.others[number, member] = self.others.get((number, member), 0) + 1

    def new_part(self, number: int, member: str, value: Any) -> Any:
        """Returns the part of `value` that hadn't arrived before the reconnect. Returns None if all of it had arrived.

        Raises:
            ProtocolError: `value` differs from the text that arrived before the reconnect.
        """
        key = number, member
        if type(value) is str and (known := self.texts.get(key)):
            size = min(len(known), len(value))
            if known[:size] != value[:size]:
                raise ProtocolError("after a reconnect, the server sent a different response")
            self.texts[key], self.skipped = known[size:], True
            return value[size:] or None
        if type(value) is not str and self.others.get(key):
            self.others[key] -= 1
            self.skipped = True
            return None
        return value


class BlockAssembler:
    """Assembles the content blocks of one message. `name` is the key under which `Reply.extras` contains the blocks
    (`Adapter.blocks_name`)."""

    def __init__(self, name: str = "blocks") -> None:
        self.name = name
        self._blocks: list[_BlockState] = []
        self._by_index: dict[int, _BlockState] = {}
        self._showing: dict[BlockKind, _BlockState] = {}  # the block of each kind whose text isn't held back
        self._last: dict[BlockKind, _BlockState] = {}  # the newest block of each kind
        self._named_call: _BlockState | None = None  # the tool call with the newest name
        self._named: dict[tuple[str, str | None], _BlockState] = {}  # tool calls by id and name
        self._headless_calls: dict[int | None, _BlockState] = {}  # tool calls whose first event is missing
        self._has_finish_reason = False
        self._stopped = False
        self._again: _ExpectedAgain | None = None
        self._recent: list[tuple[int, str | None, Any]] = []  # since the last event with an id; None: a new block

    def __len__(self) -> int:
        return len(self._blocks)

    def feed(self, delta: Block | BlockPiece | BlockEnd) -> list[Delta]:
        """Returns the text, reasoning and tool call fragments that a delta contains."""
        if isinstance(delta, BlockPiece):
            return self.grow(delta)
        if isinstance(delta, Block):
            return self._open(delta)
        block = self._find_ended(delta)
        return [] if block is None or block.closed else self._close(block)

    def marks(self, delta: Delta) -> list[ExtraPart]:
        """Returns the entries that a delta adds to `StreamChunk.marks`."""
        if self.name != "blocks":  # Interactions API
            block = self._find_ended(delta) if isinstance(delta, BlockEnd) else None
            if block is None or block.marked or block.begun.kind == "call":
                return []
            block.marked = True
            return [ExtraPart(self.name.removesuffix("s"), block.whole(None))]
        match delta:
            case BlockPiece(kind="reasoning", member="signature", value=str(signature)) if signature:
                return [ExtraPart("signature", signature)]
            case BlockEnd() if (block := self._find_ended(delta)) is not None and not block.marked:
                block.marked = True
                return block.end_marks()
        return []

    def note_finish_reason(self, *, stopped: bool) -> None:
        """Records that a finish reason arrived. `stopped` is true if the finish reason is "stop"."""
        self._has_finish_reason, self._stopped = True, stopped
        for block in self._blocks:
            block.late = False

    def next_part(self) -> list[Delta]:
        """Closes all blocks with an index, because the next part of the answer uses the same indices again. Returns the
        deltas that were held back.

        A block without an index stays open, because Gemini continues the block's text in the next part.
        """
        out = [delta for block in self._by_index.values() if not block.closed for delta in self._close(block)]
        self._by_index.clear()
        self._headless_calls.clear()
        return out

    def held_calls(self) -> list[tuple[str, str]]:
        """Returns the name and the arguments so far of each tool call that the server may still run itself
        (`Block.held`)."""
        return [
            (call.name, call.arguments)
            for block in self._blocks
            if (call := block.begun.call) is not None and block.begun.held and not block.counted and call.name
        ]

    def release(self) -> list[Delta]:
        """Ends the response. Returns the deltas that were held back."""
        return [*(delta for block in self._blocks for delta in self._count(block, ended=True)), *self.release_texts()]

    def release_texts(self) -> list[Delta]:
        return [delta for kind in _SHOWN for delta in self._show_waiting(kind, ended=True)]

    def content(self, calls: Mapping[int | None, ToolCall], first: int = 0) -> list[dict[str, Any]]:
        """Returns the blocks as the next request must contain them, without dropped tool calls.

        Args:
            calls: the delivered tool calls by block number.
            first: the number of the first block to return.
        """
        return [
            block.whole(calls.get(block.number))
            for block in self._blocks[first:]
            if block.begun.call is None or block.number in calls
        ]

    def _find(self, index: int | None) -> _BlockState | None:
        if index is None:
            return self._blocks[-1] if self._blocks else None
        return self._by_index.get(index)

    def _find_call(self, index: int | None) -> _BlockState | None:
        """Returns the newest named tool call if `index` is None and that tool call is still open, otherwise the block
        that `_find` returns."""
        if index is None and self._named_call is not None and not self._named_call.closed:
            return self._named_call
        return self._find(index)

    def _find_ended(self, end: BlockEnd) -> _BlockState | None:
        return self._find_call(end.index) if end.call else self._find(end.index)

    def has(self, index: int) -> bool:
        return index in self._by_index

    def note_event_id(self) -> None:
        """Records that an SSE event had an id. After a reconnect, the server repeats only events that came after
        this event."""
        self._recent.clear()

    def expect_again(self, *, whole: bool) -> None:
        """Skips, in the next response body, content that has already arrived.

        Args:
            whole: true if the body repeats all blocks, false if it repeats only blocks after the last SSE event with an
                id.
        """
        if self.name == "blocks":
            return
        self._again = _ExpectedAgain()
        expected = self._recent
        if whole:
            expected = [(block.number, None, None) for block in self._by_index.values()]
            for block in self._blocks:
                pieces = [*block.pieces.items(), *block.lists.items()]
                expected += [(block.number, member, value) for member, values in pieces for value in values]
        for number, member, value in expected:
            self._again.add(number, member, value)

    @property
    def has_skipped(self) -> bool:
        """True if a repetition was skipped after the last reconnect."""
        return self._again is not None and self._again.skipped

    def _open(self, begun: Block) -> list[Delta]:
        out: list[Delta] = []
        known = self._by_index.get(begun.index) if self._again and begun.index is not None else None
        if self._again and known is not None and known.number in self._again.blocks:
            self._again.blocks.discard(known.number)
            self._again.skipped = True
            known.value = {**known.value, **begun.value}
            return [replace(call, index=known.number, whole=True)] if (call := begun.call) and call.arguments else out
        call = begun.call
        name = (call.id, call.name) if call is not None and call.id else None
        if name in self._named and begun.held:  # another piece of an open tool call: Gemini may repeat its name
            named = self._named[name]
            if not named.closed and named.begun.call is not None:
                self._named_call = named
                return self._close(named) if begun.whole else out
        if begun.index is not None:  # a second block with the same index is another block
            before = self._by_index.pop(begun.index, None)
            out += self._close(before) if before is not None and not before.closed else []
        elif self._blocks and not self._blocks[-1].closed and not self._blocks[-1].begun.held:
            out += self._close(self._blocks[-1])  # but a held tool call ends with an event
        block = _BlockState(len(self._blocks), begun)
        self._blocks.append(block)
        if self.name != "blocks":
            self._recent.append((block.number, None, None))
        if begun.kind in _SHOWN:
            if begun.kind in self._last:
                self._last[begun.kind].next = block
            self._last[begun.kind] = block
            self._showing.setdefault(begun.kind, block)
            out += self._show_waiting(begun.kind)
        if begun.index is not None:
            self._by_index[begun.index] = block
        if begun.kind == "call":
            self._named_call, block.late = block, self._has_finish_reason
        if call is not None:
            if name is not None:
                self._named[name] = block
            return out if begun.held else [*out, replace(call, index=block.number, arguments="")]
        shown = begun.value.get(begun.member)
        if isinstance(shown, str) and shown:
            self._show(block, shown, out)
        return out

    def _headless_call(self, piece: BlockPiece) -> _BlockState:
        if (block := self._headless_calls.get(piece.index)) is None:
            begun = Block(piece.index, "call", {}, piece.member, ToolCallDelta(None))
            block = self._headless_calls[piece.index] = _BlockState(len(self._blocks), begun)
            self._blocks.append(block)
        return block

    def _close(self, block: _BlockState) -> list[Delta]:
        block.closed = True
        return [*self._count(block), *self._show_waiting(block.begun.kind)]

    def take_from_client(self, answered: RanOnServer) -> int | None:
        """Converts a tool call that the server ran itself into a block of another kind, so that the client doesn't
        run it. Returns the block's number; None if there is no such tool call."""
        for block in reversed(self._blocks):
            call = block.begun.call
            if call is not None and (call.id == answered.id if answered.id and call.id else call.name == answered.name):
                block.begun = replace(block.begun, kind="other", call=None)
                return block.number
        return None

    def grow(self, piece: BlockPiece) -> list[Delta]:
        out: list[Delta] = []
        block = self._find_call(piece.index) if piece.kind == "call" else self._find(piece.index)
        fits = block is not None and block.begun.kind == piece.kind and not block.closed
        if piece.opens is not None and (block is None or (piece.index is None and not fits)):
            out = self._open(piece.opens)
            block = self._blocks[-1]
        if piece.how == "path" and piece.value == "" and (block is None or block.closed or block.begun.kind != "call"):
            return [*out, Warn("calls_dropped", "a tool call without a name and arguments was dropped")]
        # A block of the kind "other" takes any piece: the input of a hosted tool arrives like a tool call's arguments.
        if block is None or block.begun.kind not in (piece.kind, "other"):
            if piece.kind != "call" or piece.value == "":
                return out
            block = self._headless_call(piece)
        value, member, how = piece.value, piece.member, piece.how
        if self.name != "blocks" and how in ("append", "json", "add"):
            if self._again and (value := self._again.new_part(block.number, member, value)) is None:
                return out
            self._recent.append((block.number, member, value))
        if self._has_finish_reason and piece.kind == "call":
            block.late = True
        if how == "append" or how == "json":
            if how == "json" and member not in block.json:
                block.json = (*block.json, member)
            if (pieces := block.pieces.get(member)) is None:
                pieces = block.pieces[member] = []
            pieces.append(value)
            if not value:
                pass
            elif block.begun.call is not None:
                out.append(ToolCallDelta(block.number, arguments=value))
            elif member == block.begun.member:
                self._show(block, value, out)
            return out
        if type(value) is PathValue:
            with _as_protocol_error():
                block.path_values().feed(value)
            return out
        if how == "call":
            out.append(replace(value, index=block.number))
            return out
        if how == "add":
            if member not in block.lists:
                before = block.value.get(member)
                block.lists[member] = list(before) if isinstance(before, list) else []
            block.lists[member].append(value if type(value) is str else clean_json(value))
            if type(value) is str and member == block.begun.member:
                self._show(block, value, out)
            return out
        block.value = {**block.value, member: clean_json(value)}
        return out

    def _show(self, block: _BlockState, text: str, out: list[Delta]) -> None:
        kind = block.begun.kind
        if block.number <= self._showing[kind].number:  # also a piece that arrives after the end of its block
            out.append(_SHOWN[kind](text))
        else:
            block.waiting.append(text)

    def _show_waiting(self, kind: BlockKind, *, ended: bool = False) -> list[Delta]:
        out: list[Delta] = []
        block = self._showing.get(kind)
        while block is not None and block.next is not None and (block.closed or ended):
            self._showing[kind] = block = block.next
            if block.waiting:
                out.append(_SHOWN[kind]("".join(block.waiting)))
                block.waiting = []
        return out

    def _count(self, block: _BlockState, *, ended: bool = False) -> list[Delta]:
        """Returns a delta with the arguments that the tool call's first event contained. Leaves the arguments out if
        later events contained arguments."""
        call = block.begun.call
        if call is None or block.counted or (block.begun.held and not ended):
            return []
        block.counted = True
        # Without its last event, a held tool call is complete only if the model stopped by itself.
        goes_on = block.begun.held and not (block.closed or (self._stopped and not block.late))
        brought = bool(block.pieces) and any(piece.strip() for pieces in block.pieces.values() for piece in pieces)
        if goes_on or block.values:
            with _as_protocol_error():
                text = block.path_values().text(whole=not goes_on)
        elif brought:
            text = ""
        else:
            text = call.arguments
        done = block.closed or None  # shows that a tool call without arguments is complete
        if not (block.begun.held or text or (done and not brought)):
            return []
        part = ToolCallDelta(
            block.number, arguments=text, markup=call.markup, ended=done, held=ended and not block.late
        )
        return [replace(part, id=call.id, name=call.name, extra=call.extra) if block.begun.held else part]


@contextmanager
def _as_protocol_error() -> Iterator[None]:
    try:
        yield
    except (ValueError, RecursionError) as exc:
        raise ProtocolError(f"the arguments of a tool call can't be assembled: {exc}") from exc
