"""Messages that are lists of blocks: what is shown, and what goes back into the history."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

from streamfold import ToolCall
from streamfold.deltas import Block, BlockEnd, BlockPiece, Delta, RanOnServer, ReasoningDelta, TextDelta
from streamfold.engine.blocks import BlockAssembler
from streamfold.jsontext import PathValue
from streamfold.types import ToolCallDelta


def text(index: int | None, start: str = "") -> Block:
    return Block(index, "text", {"type": "text", "text": start}, "text")


def piece(index: int | None, value: str) -> BlockPiece:
    return BlockPiece(index, "text", "text", value, opens=text(index))


def shown(blocks: BlockAssembler, *deltas: Any) -> list[Delta]:
    return [made for delta in deltas for made in blocks.feed(delta)]


def test_text_of_overlapping_blocks_is_not_mixed() -> None:
    """llama.cpp and Vercel's gateway close all blocks at the end: a later text waits for the earlier one."""
    blocks = BlockAssembler()
    made = shown(blocks, text(0), piece(0, "a"), text(1), piece(1, "x"), piece(0, "b"), BlockEnd(0), piece(1, "y"))
    assert made == [TextDelta("a"), TextDelta("b"), TextDelta("x"), TextDelta("y")]
    assert blocks.release() == []
    assert [block["text"] for block in blocks.content({})] == ["ab", "xy"]


def test_texts_come_in_the_order_of_their_blocks() -> None:
    """However their pieces take turns, and whichever speaks first, no text is lost and none is mixed with another."""
    words = ["ab", "cd", "", "ef"]
    turns = [at for at, word in enumerate(words) for _ in range(len(word) + 1)]  # each piece, and the end
    for seed in range(200):
        order = Random(seed).sample(turns, len(turns))
        left = [[*map(partial(piece, at), word), BlockEnd(at)] for at, word in enumerate(words)]
        blocks = BlockAssembler()
        made = shown(blocks, *map(text, range(len(words))), *(left[at].pop(0) for at in order))
        assert "".join(delta.text for delta in made if isinstance(delta, TextDelta)) == "abcdef"
        assert blocks.release() == []
        assert [block["text"] for block in blocks.content({})] == words


def test_a_piece_behind_the_end_of_its_block_is_not_lost() -> None:
    """The end of a block says nothing that is needed."""
    assert shown(BlockAssembler(), text(0), piece(0, "a"), BlockEnd(0), text(1), piece(1, "x"), piece(0, "b")) == [
        TextDelta("a"),
        TextDelta("x"),
        TextDelta("b"),
    ]


def test_text_that_still_waits_is_shown_at_the_end() -> None:
    """Nothing is lost where no block is ever closed."""
    blocks = BlockAssembler()
    assert shown(blocks, text(0), piece(0, "a"), text(1), piece(1, "x"), text(2), piece(2, "y")) == [TextDelta("a")]
    assert blocks.release() == [TextDelta("x"), TextDelta("y")]


def test_the_input_of_a_server_tool_is_nobody_s_call() -> None:
    """It grows like that of a call, and is kept in its block alone."""
    blocks = BlockAssembler()
    server = Block(0, "other", {"type": "server_tool_use", "name": "search", "input": {}})
    made = shown(
        blocks, server, *(BlockPiece(0, "call", "input", part, "json") for part in ('{"q":', '"x"}')), BlockEnd(0)
    )
    assert made == []
    assert blocks.content({}) == [{"type": "server_tool_use", "name": "search", "input": {"q": "x"}}]


def test_fragments_beat_the_input_of_the_start() -> None:
    """What stands in the first event counts only where nothing follows."""
    call = ToolCallDelta(None, "a", "f", '{"x":1}')
    one, other = BlockAssembler(), BlockAssembler()
    start = Block(0, "call", {"input": {"x": 1}}, "input", call)
    assert shown(one, start, BlockEnd(0)) == [
        ToolCallDelta(0, "a", "f"),
        ToolCallDelta(0, arguments='{"x":1}', ended=True),
    ]
    made = shown(other, start, BlockPiece(0, "call", "input", '{"x":2}', "json"), BlockEnd(0))
    assert made == [ToolCallDelta(0, "a", "f"), ToolCallDelta(0, arguments='{"x":2}')]


def test_a_call_that_the_server_ran_is_not_handed_out() -> None:
    """Both halves stay in the message; the call is not the client's."""
    blocks = BlockAssembler()
    call = Block(None, "call", {"functionCall": {"name": "f"}}, "args", ToolCallDelta(None, None, "f", "{}"), held=True)
    result = Block(None, "other", {"functionResponse": {"name": "f"}})
    assert shown(blocks, call, BlockEnd(None, call=True)) == []
    assert blocks.take_from_client(RanOnServer(None, "f")) == 0
    assert shown(blocks, result) == []
    assert blocks.release() == []
    assert len(blocks.content({})) == 2


def test_calls_that_were_dropped_are_not_in_the_history() -> None:
    """Nobody could answer them."""
    blocks = BlockAssembler()
    shown(blocks, text(0, "Hi"), Block(1, "call", {"type": "tool_use"}, "input", ToolCallDelta(None, "a", "f")))
    assert blocks.content({}) == [{"type": "text", "text": "Hi"}]
    write = lambda value, made: {**value, "id": made.id}  # noqa: E731
    blocks = BlockAssembler()
    shown(blocks, Block(1, "call", {"type": "tool_use"}, "input", ToolCallDelta(None, "a", "f"), write))
    assert blocks.content({0: ToolCall("fresh", "f", {}, "")}) == [{"type": "tool_use", "id": "fresh"}]


def test_texts_without_indexes_are_joined_unless_they_are_complete() -> None:
    """A part that is signed stands alone (Gemini); reasoning between texts keeps its place."""
    blocks = BlockAssembler()
    signed = Block(None, "text", {"text": "c", "thoughtSignature": "s"}, "text")
    thought = BlockPiece(None, "reasoning", "text", "hm", opens=Block(None, "reasoning", {"text": ""}, "text"))
    made = shown(blocks, piece(None, "a"), piece(None, "b"), signed, BlockEnd(None), piece(None, "d"), thought)
    assert made == [TextDelta("a"), TextDelta("b"), TextDelta("c"), TextDelta("d"), ReasoningDelta("hm")]
    assert [block["text"] for block in blocks.content({})] == ["ab", "c", "d", "hm"]


def test_arguments_at_paths() -> None:
    """They are put together, and handed out whole at the end."""
    blocks = BlockAssembler()
    call = Block(None, "call", {"functionCall": {"name": "f"}}, "args", ToolCallDelta(None, "a", "f"), held=True)
    value = BlockPiece(None, "call", "args", PathValue("$.city", "Paris"), "path")
    assert shown(blocks, call, value, BlockEnd(None, call=True)) == []
    assert blocks.release() == [ToolCallDelta(0, "a", "f", '{"city":"Paris"}', ended=True, held=True)]
