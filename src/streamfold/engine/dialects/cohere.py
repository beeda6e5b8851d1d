"""Cohere's Command models: an array of tool calls between two markers. Reasoning and text also have markers."""

from __future__ import annotations

import re

from .grammar import SPACES, TokenPattern, literal
from .json_calls import read_calls
from .reader import MarkupFormat, MarkupReader, ReadResult
from .scanner import Reading

_BEGIN, _END = "<|START_ACTION|>", "<|END_ACTION|>"
_ANSWERS = "<|START_RESPONSE|>", "<|START_TEXT|>"


class Cohere(MarkupFormat):
    """Command R7B and Command A. The ids in their tool calls are only consecutive numbers, so streamfold generates an
    id for each tool call."""

    openers = (_BEGIN,)
    message_markers = (
        *_ANSWERS,
        "<|END_RESPONSE|>",
        "<|END_TEXT|>",
        "<|START_OF_TURN_TOKEN|>",
        "<|END_OF_TURN_TOKEN|>",
        "<|CHATBOT_TOKEN|>",
    )
    end_reasoning = always_end_reasoning = (_BEGIN, *_ANSWERS)
    required_after = {_BEGIN: TokenPattern(SPACES, literal("[", "{"))}
    think = {"<|START_THINKING|>": "<|END_THINKING|>"}

    def read(self, text: MarkupReader, marker: str) -> Reading[ReadResult]:
        if not (yield from text.match(self.required_after[_BEGIN], take=False)):
            return text.unfinished("a list of tool calls") if text.cut else ReadResult.NOT_MINE
        result, body = yield from read_calls(text, _END, ("parameters", "arguments"), ("tool_name", "name"))
        if result:
            return result
        names = _NAME.findall(body)
        return text.call(names[0], body) if len(names) == 1 and names[0] in self.tools else ReadResult.PLAIN_TEXT


_NAME = re.compile(r'"tool_name"\s*:\s*"([^"\\]+)"')
