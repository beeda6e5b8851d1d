"""`MarkupDialect`, a dialect that separates the model's output into text, reasoning and tool calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ...deltas import CallSummary, Delta, ReasoningDelta, TextDelta, Warn
from ...types import ToolCallDelta
from .dialect import DialectContext
from .reader import MarkupFormat, MarkupReader
from .scanner import is_object


class MarkupDialect:
    """A dialect for one or several tool call formats.

    If markers consist of ordinary characters, a model may quote a tool call in its reasoning. But some models call a
    tool without closing their reasoning. So at the end of the response, the dialect delivers a tool call in unclosed
    reasoning if the tool call is complete and its tool is declared.
    """

    def __init__(self, families: Sequence[MarkupFormat], context: DialectContext) -> None:
        on, inside = context.calls_allowed, context.start_in_reasoning
        reasoning = inside or any(family.think for family in families)
        self._draft = context.draft
        self._text = MarkupReader(families, calls=on, reasoning=reasoning, inside=inside, draft=self._draft_in_text)
        # Older servers leave a call that Kimi makes while it thinks in `reasoning_content`.
        aloud = [family for family in families if family.end_reasoning]
        self._thoughts = MarkupReader(aloud, ReasoningDelta, calls=True, draft=context.draft) if on and aloud else None
        self._quiet = [family for family in families if family.openers and not family.end_reasoning] if on else []
        self._text.thought = [] if self._quiet else None
        self._tools = {tool.name for tool in context.tools}
        self._structured = False

    def feed(self, delta: Delta) -> Iterable[Delta]:
        if isinstance(delta, TextDelta) and delta.text:
            return self._text.feed(delta.text)
        if isinstance(delta, ReasoningDelta) and delta.text:
            if self._thoughts:
                return self._thoughts.feed(delta.text)
            if self._text.thought is not None:
                self._text.thought.append(delta.text)
        calls = delta.calls if isinstance(delta, CallSummary) else [delta] if isinstance(delta, ToolCallDelta) else ()
        if any(call.id or call.name or call.arguments for call in calls):
            self._structured = True
        return (delta,)

    def _draft_in_text(self, number: int, name: str, piece: str) -> None:
        """Reports a piece of an incomplete tool call in the text. The numbers of these tool calls follow the numbers of
        the tool calls in the reasoning."""
        if self._draft and not self._structured:
            self._draft(number + (len(self._thoughts.calls) if self._thoughts else 0), name, piece)

    def finish(self) -> Iterable[Delta]:
        lanes = [self._thoughts, self._text] if self._thoughts else [self._text]
        out = [delta for lane in lanes for delta in lane.finish()]
        out += [warning for lane in lanes for warning in lane.warnings]
        calls = [call for lane in lanes for call in lane.calls] + self._late()
        if calls and self._structured:
            names = ", ".join(call.name or "" for call in calls)
            out.append(
                Warn(
                    "markup_dropped",
                    f"the server sent structured tool calls, so these tool calls in the text were dropped: {names}",
                )
            )
            return out
        return [*out, *(replace(call, index=number, markup=True) for number, call in enumerate(calls))]

    def _late(self) -> list[ToolCallDelta]:
        if self._structured or not self._text.unclosed or not self._text.thought:
            return []
        reader = MarkupReader(self._quiet, calls=True)
        reader.feed("".join(self._text.thought))
        reader.finish()
        return [
            call
            for call in reader.calls
            if call.name in self._tools and (not call.arguments or is_object(call.arguments))
        ]
