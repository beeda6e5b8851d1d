"""Harmony, the format of gpt-oss. Every message has a header with its recipient and its channel.

- A header consists of, in this order, `<|start|>`, the role, the recipient, `<|channel|>`, the channel, the type and
  `<|message|>`. The first header, and a header after the end of a message, may lack `<|start|>` and the role.
- The body is the text up to `<|end|>`, `<|return|>`, `<|call|>` or the next header. A body whose header names a
  recipient is a tool call. Without a recipient, it is reasoning on the channel `analysis`, and text on other channels.
  streamfold drops the messages of roles other than `assistant` and `commentary`.

Headers are parsed even if the request allows no tool calls. Output without any header is text.
"""

from __future__ import annotations

from functools import partial

from .dialect import DialectContext
from .grammar import SPACES, TokenPattern, literal, optional, repeat
from .reader import MarkupFormat, MarkupReader, ReadResult
from .scanner import NOT_SPACE, Reading, ignore, is_object, markers

_START, CHANNEL, _MESSAGE, TO = "<|start|>", "<|channel|>", "<|message|>", "to="
_ENDS = "<|end|>", "<|return|>", "<|call|>"
_ROLES = "assistant", "commentary"
_NAME, _WORD = r"[\w.\-]", "[A-Za-z_]"
_REST = (
    optional(SPACES, literal(TO), repeat(_NAME, "second", least=1)),
    optional(SPACES, optional(literal("<|constrain|>")), SPACES, repeat("[A-Za-z_/]", least=1)),
    SPACES,
    literal(_MESSAGE),
)
_CHANNEL = optional(SPACES, literal(CHANNEL), SPACES, repeat(_WORD, "channel", least=1))
_TO = optional(SPACES, literal(TO), repeat(_NAME, "first", least=1))
_HEADERS = {
    _START: TokenPattern(SPACES, repeat(_NAME, "role", least=1), _TO, _CHANNEL, *_REST, longest=256),
    TO: TokenPattern(repeat(_NAME, "first", least=1), _CHANNEL, *_REST, longest=256),
    CHANNEL: TokenPattern(SPACES, repeat(_WORD, "channel", least=1), *_REST, longest=256),
}


class Harmony(MarkupFormat):
    heads = followers = (*_ROLES, TO, CHANNEL)
    openers = end_reasoning = always_end_reasoning = (_START,)
    required_after = {_START: _HEADERS[_START]}
    message_markers = closers = _ENDS
    think = {}
    framing = True

    def __init__(self, context: DialectContext) -> None:
        super().__init__(context)
        self._calls = context.calls_allowed

    def read(self, text: MarkupReader, marker: str) -> Reading[ReadResult]:
        if marker != _START and text.behind not in ("", *_ENDS):
            return ReadResult.NOT_MINE  # the body of a message has begun
        if marker in _ROLES:
            yield from text.span(NOT_SPACE, ignore)
            marker = yield from text.expect(markers(TO, CHANNEL))
        header = (yield from text.match(_HEADERS[marker])) if marker else None
        if header is None:
            return text.unfinished("the header of a message") if marker and text.cut else ReadResult.NOT_MINE
        found = header.groupdict()
        recipient = found.get("first") or found["second"]
        if found.get("role", _ROLES[0]) not in _ROLES:
            return (yield from self._drop(text))
        if recipient and recipient not in ("assistant", "user", "all"):
            return (yield from self._call(text, recipient))
        text.begin_structure()
        if found.get("channel") == "analysis":
            text.think(*_ENDS)
        text.behind = _MESSAGE
        return ReadResult.CONSUMED

    def _call(self, text: MarkupReader, recipient: str) -> Reading[ReadResult]:
        name = self.declared_name(recipient)
        show = partial(text.draft, name) if self._calls else None
        arguments, end = yield from text.body(markers(*_ENDS, _START), show)
        if end == _START:
            text.put_back(end)
        if not self._calls:
            text.emit_recorded()
        elif end or is_object(arguments):  # <|call|> is a stop token, which most servers leave out
            text.call(name, arguments)
        else:
            return text.unfinished("a tool call")
        text.begin_structure()
        text.behind = _ENDS[-1]
        return ReadResult.CONSUMED

    def _drop(self, text: MarkupReader) -> Reading[ReadResult]:
        text.begin_structure()
        while (end := (yield from text.until(markers(*_ENDS, _START), ignore))) == _START:
            if (yield from text.match(_HEADERS[_START], take=False)):
                text.put_back(_START)
                break
            if text.cut:
                return text.unfinished("the header of a message")
        text.begin_structure()
        text.behind = end or _ENDS[0]
        return ReadResult.CONSUMED
