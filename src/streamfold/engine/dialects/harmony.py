"""Harmony, which gpt-oss writes: every message has a header, which says whom it is for and on which channel it goes.

    header    <|start|> role, recipient, <|channel|> channel, type, <|message|>; the first one, and one behind the end
              of a message, may begin without <|start|> and role
    body      up to <|end|>, <|return|> or <|call|>, or the next header: a call if the header names a recipient,
              reasoning on the channel `analysis`, else text; a message of anybody but the model is dropped

Headers are read whether calls may be made or not. Without them all is text.
"""

from __future__ import annotations

from functools import partial

from .dialect import DialectContext
from .reader import Family, Reader, Verdict
from .scanner import NOT_SPACE, Reading, drop, is_object, markers
from .shapes import SPACES, Shape, lit, opt, run

__all__ = ["Harmony"]

START, CHANNEL, MESSAGE, TO = "<|start|>", "<|channel|>", "<|message|>", "to="
ENDS = "<|end|>", "<|return|>", "<|call|>"
ROLES = "assistant", "commentary"
_NAME, _WORD = r"[\w.\-]", "[A-Za-z_]"
_REST = (
    opt(SPACES, lit(TO), run(_NAME, "second", least=1)),
    opt(SPACES, opt(lit("<|constrain|>")), SPACES, run("[A-Za-z_/]", least=1)),
    SPACES,
    lit(MESSAGE),
)
_CHANNEL = opt(SPACES, lit(CHANNEL), SPACES, run(_WORD, "channel", least=1))
_TO = opt(SPACES, lit(TO), run(_NAME, "first", least=1))
_HEADERS = {
    START: Shape(SPACES, run(_NAME, "role", least=1), _TO, _CHANNEL, *_REST, longest=256),
    TO: Shape(run(_NAME, "first", least=1), _CHANNEL, *_REST, longest=256),
    CHANNEL: Shape(SPACES, run(_WORD, "channel", least=1), *_REST, longest=256),
}


class Harmony(Family):
    """The messages of one answer."""

    heads = followers = (*ROLES, TO, CHANNEL)
    openers = interrupts = boundaries = (START,)
    full = {START: _HEADERS[START]}
    frames = closers = ENDS
    think = {}
    framing = True

    def __init__(self, context: DialectContext) -> None:
        super().__init__(context)
        self._calls = context.calls_allowed

    def read(self, text: Reader, marker: str) -> Reading[Verdict]:
        if marker != START and text.behind not in ("", *ENDS):
            return Verdict.DECLINED  # the body of a message has begun
        if marker in ROLES:
            yield from text.span(NOT_SPACE, drop)
            marker = yield from text.expect(markers(TO, CHANNEL))
        header = (yield from text.match(_HEADERS[marker])) if marker else None
        if header is None:
            return text.unfinished("the header of a message") if marker and text.cut else Verdict.DECLINED
        found = header.groupdict()
        recipient = found.get("first") or found["second"]
        if found.get("role", ROLES[0]) not in ROLES:
            return (yield from self._drop(text))
        if recipient and recipient not in ("assistant", "user", "all"):
            return (yield from self._call(text, recipient))
        text.event()
        if found.get("channel") == "analysis":
            text.think(*ENDS)
        text.behind = MESSAGE
        return Verdict.TAKEN

    def _call(self, text: Reader, recipient: str) -> Reading[Verdict]:
        name = self._name(recipient)
        show = partial(text.draft, name) if self._calls else None
        arguments, end = yield from text.body(markers(*ENDS, START), show)
        if end == START:
            text.unread(end)
        if not self._calls:
            text.say_all()
        elif end or is_object(arguments):  # <|call|> is a stop token, which most servers leave out
            text.call(name, arguments)
        else:
            return text.unfinished("a tool call")
        text.event()
        text.behind = ENDS[-1]
        return Verdict.TAKEN

    def _name(self, recipient: str) -> str:
        names = [recipient.removeprefix("functions."), recipient, recipient.rpartition(".")[2]]
        return next((name for name in names if name in self.tools), names[0])

    def _drop(self, text: Reader) -> Reading[Verdict]:
        """Drops a message that the model has put into the mouth of somebody else, such as the result of a tool."""
        text.event()
        while (end := (yield from text.until(markers(*ENDS, START), drop))) == START:
            if (yield from text.match(_HEADERS[START], take=False)):
                text.unread(START)
                break
            if text.cut:
                return text.unfinished("the header of a message")
        text.event()
        text.behind = end or ENDS[0]
        return Verdict.TAKEN
