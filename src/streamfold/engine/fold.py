"""Deltas to chunks: the only maker of `finished=True`, and the only maker of a `ToolCall`.

Text passes through at once. Calls wait in `calls.py` until the stream has ended in order, because nothing before that
end is a sign that a call is whole: not its id and name, not arguments that parse, not even a finish reason, which some
servers send after every call. What counts as an end in order:

    a finish reason, then `Done` or the end of the input          finished
    `Done` without a finish reason                                finished, reason "unknown"
    the end of the input before either, or a `Failure`            an error, and no calls
    a finish reason `length` or `content_filter`                  finished, and no calls: they may be cut
    a `Failure` or a broken connection after a finish reason      finished, with a warning
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from ..values import (
    AllowedTools,
    Call,
    Delta,
    Done,
    EmptyResponseError,
    Extra,
    Failure,
    Finish,
    FinishReason,
    IncompleteStreamError,
    Limits,
    Meta,
    NamedTool,
    ProtocolWarning,
    ReadToolChoice,
    Reasoning,
    Refusal,
    Reply,
    StreamChunk,
    StreamfoldError,
    Summary,
    Text,
    ToolCall,
    UpstreamError,
    Usage,
    Warn,
    WarningCode,
    join_surrogates,
    read_arguments,
    word,
)
from .blocks import Blocks
from .calls import Calls, OpenCall

__all__ = ["Fold"]


class Fold:
    """Folds the deltas of one answer into chunks, and at its end into a `Reply`.

    Args:
        tool_names: the tools that the request declared.
        tool_choice: the tool choice of the request. After "none" no call is handed out.
        names: the tools' own names, by those that they have on the wire, where these differ.
        answer_tool: the tool whose arguments are the text of the answer.

    Attributes:
        finished: whether the finished chunk has been made.
        identified: whether id, model and time are known, so that a `Meta` says nothing new.
        calls_type: what sorts the fragments of calls. `inspection` has one that also says why.
    """

    calls_type: ClassVar[type[Calls]] = Calls

    def __init__(
        self,
        *,
        tool_names: Collection[str] = (),
        tool_choice: ReadToolChoice = "auto",
        limits: Limits | None = None,
        names: Mapping[str, str] | None = None,
        answer_tool: str | None = None,
    ) -> None:
        self._calls = self.calls_type(tool_names, limits)
        self._names = names or {}
        self._answer_tool = answer_tool
        self._answered = False
        self._tool_choice = tool_choice
        self._text = _Lane()
        self._reasoning = _Lane()
        self._refusal = _Lane()
        self._reasoned = False
        self._usage: Usage | None = None
        self._finish: Finish | None = None
        self._meta = Meta()
        self._begun = False
        self._calls_begun = 0
        self._extras: dict[str, list[Any]] = {}
        self._warnings: dict[ProtocolWarning, None] = {}  # a set that keeps its order
        self._reply: Reply | None = None
        self.finished = self.identified = False
        self.blocks = Blocks()

    @property
    def text(self) -> str:
        """The visible text so far."""
        return self._text.text

    def said(self, kind: type[Text | Reasoning | Refusal]) -> str:
        """The text of a kind so far."""
        return (self._text if kind is Text else self._reasoning if kind is Reasoning else self._refusal).text

    @property
    def has_finish_reason(self) -> bool:
        return self._finish is not None

    @property
    def reply(self) -> Reply:
        """The whole answer. Raises StreamfoldError before the finished chunk."""
        if self._reply is None:
            raise StreamfoldError("there is no reply yet: it exists once the finished chunk has been handed out")
        return self._reply

    def feed(self, delta: Delta) -> StreamChunk | None:
        """Takes one delta; returns the chunk that it makes, if it makes one.

        Raises:
            UpstreamError: the delta is a failure, and the answer is not finished.
            EmptyResponseError: the server is done, and there was nothing before.
            ProtocolError: a limit of the calls is exceeded.
        """
        if self.finished:  # the rest of the event that ended the answer
            return None
        if type(delta) is Text:  # what nearly every event is comes first
            self._begun = True
            if self._finish is not None and delta.text:
                self.warn("late_content", "text came after the finish reason")
            shown = self._text.add(delta.text)
            if self._calls_begun and shown:
                return StreamChunk(shown, calls_before=self._calls_begun)
            return StreamChunk(shown) if shown else None
        if type(delta) is Meta:
            self._identify(delta)
            return None
        if type(delta) is Reasoning:
            self._begun = self._reasoned = True
            shown = self._reasoning.add(delta.text)
            return StreamChunk(reasoning=shown, calls_before=self._calls_begun) if shown else None
        if type(delta) is Call:
            self._begun = True
            if self._calls.feed(delta) and self._finish is not None:
                self.warn("late_content", "tool calls came after a finish reason")
            self._calls_begun = len(self._calls)
            return None
        return self._feed_rare(delta)

    def _feed_rare(self, delta: Delta) -> StreamChunk | None:
        """What comes a few times in an answer."""
        match delta:
            case Usage():
                self._usage = delta
            case Finish():
                self._finish = delta
            case Refusal(text):
                self._refusal.add(text)
            case Summary(calls):
                self._calls.settle(calls)
            case Extra(name, value, whole):
                if whole:
                    self._extras[name] = list(value)
                else:
                    self._extras.setdefault(name, []).append(value)
            case Warn(code, detail):
                self.warn(code, detail)
                return None
            case Failure():
                return self._fail(delta)
            case Done():
                return self._done()
        self._begun = True
        return None

    def _identify(self, said: Meta) -> None:
        self._begun = True
        meta = self._meta
        meta.id, meta.model = meta.id or word(said.id), meta.model or word(said.model)
        meta.created = meta.created or said.created
        self.identified = bool(meta.id and meta.model and meta.created)

    def finish(self, interrupted: str | None = None) -> StreamChunk | None:
        """The input has ended: the finished chunk, or None if it was handed out already.

        Args:
            interrupted: how the input broke off, if it did not end by itself.

        Raises:
            IncompleteStreamError: the answer was not finished.
            EmptyResponseError: nothing came at all.
        """
        if self._reply is not None:
            return None
        how = interrupted or "the stream ended"
        if self._finish is None:
            if not self._begun and not interrupted:
                raise EmptyResponseError("the answer is empty: no event came before its end", retryable=True)
            raise IncompleteStreamError(f"{how} before the answer was finished", retryable=True)
        if interrupted:
            self.warn("interrupted_after_finish", interrupted)
        return self._finished()

    def partial(self) -> Reply:
        """What has come so far, without tool calls."""
        meta = self._meta
        return Reply(
            text=self._text.text,
            reasoning=self._reasoning.text,
            refusal=self._refusal.text or None,
            raw_finish_reason=self._finish.raw if self._finish else None,
            usage=self._usage,
            warnings=list(self._warnings),
            id=meta.id,
            model=meta.model,
            extras={name: list(values) for name, values in self._extras.items()},
            reasoned=self._reasoned,
        )

    @property
    def warnings(self) -> tuple[ProtocolWarning, ...]:
        """The warnings so far."""
        return tuple(self._warnings)

    def warn(self, code: WarningCode, detail: str) -> None:
        """Notes a warning for the reply; the same one twice is one."""
        self._warnings.setdefault(ProtocolWarning(code, detail))

    def _fail(self, failure: Failure) -> StreamChunk | None:
        info = failure.info
        if self._finish:
            self.warn("error_after_finish", info.message)
            return self._finished()
        raise UpstreamError(
            info.message,
            type=info.type,
            code=info.code,
            status_code=info.status,
            retryable=info.retryable,
            body=failure.body,
            info=info,
        )

    def _done(self) -> StreamChunk:
        if not self._begun:
            raise EmptyResponseError(
                "the answer is empty: the server said it was done and sent nothing", retryable=True
            )
        if self._finish is None:
            self.warn("missing_finish_reason", "the stream was declared done without a finish reason")
        return self._finished()

    def _finished(self) -> StreamChunk:
        text, reasoning = self._text.finish(), self._reasoning.finish()
        self._refusal.finish()
        reason: FinishReason = self._finish.reason if self._finish else "unknown"
        raw = self._finish.raw if self._finish else None
        opened, answer = self._take_answer(self._calls.finish())
        text += self._text.add(answer or "")
        calls = self._tool_calls(opened, reason)
        if (self._calls and self._tool_choice == "none") or (answer is not None and not calls):
            reason = "stop" if reason == "tool_calls" else reason
        if calls and reason == "stop":
            reason = "tool_calls"  # vLLM and others end so after a named tool choice: the calls decide, not the word
        if reason == "tool_calls" and not calls:
            self.warn("missing_tool_calls", f"finish reason {raw!r}, and no tool call to hand out")
        if reason not in ("length", "content_filter") and answer is None:
            self._check_choice([call.name for call in calls])
        reply = self.partial()
        reply.answer = answer
        if reason == "stop" and not (reply.text or reply.refusal or reply.extras):
            self.warn("empty_answer", "the answer has neither text nor tool calls")
        reply.tool_calls = calls
        if self.blocks:
            reply.extras["blocks"] = self.blocks.content(calls)
        reply.finish_reason = reason
        reply.raw_finish_reason = raw
        reply.warnings = list(self._warnings)
        self._reply, self.finished = reply, True
        return StreamChunk(text, calls or None, True, reasoning, reason, self._usage, self._calls_begun)

    def _check_choice(self, called: list[str]) -> None:
        match self._tool_choice:
            case NamedTool(name) if self._names.get(name, name) not in called:
                self.warn("tool_choice_unmet", f"the request demanded a call of {name}, and none came")
            case "required" | AllowedTools(mode="required") if not called:
                self.warn("tool_choice_unmet", "the request demanded a tool call, and none came")

    def _take_answer(self, opened: list[OpenCall]) -> tuple[list[OpenCall], str | None]:
        """The calls that are calls, and the text of the one that stands for the answer, whole or cut off like any."""
        if not self._answer_tool or not (answers := [call for call in opened if call.name == self._answer_tool]):
            return opened, None
        read = read_arguments(answers[0].pieces, answers[0].wholes, repair=not answers[0].markup)
        if read.repair:
            self.warn("repaired_arguments", f"{self._answer_tool}: {read.repair}")
        if len(answers) > 1:
            self.warn("calls_dropped", f"the answer was given {len(answers)} times: the first one counts")
        return [call for call in opened if call.name != self._answer_tool], read.raw

    def _tool_calls(self, opened: list[OpenCall], reason: FinishReason) -> list[ToolCall]:
        named = [call for call in opened if call.name]
        if len(named) < len(opened):
            self.warn("calls_dropped", "a call without a name can't be run: " + ", ".join(
                call.id or call.text[:80] or "(no id)" for call in opened if not call.name
            ))  # fmt: skip
        why = {"length": "the answer was cut off", "content_filter": "the answer was filtered"}.get(reason)
        if self._tool_choice == "none":
            why = "the request forbade tool calls"
        if why and named:
            self.warn("calls_dropped", f"{why}: {', '.join(call.name for call in named)}")
        if why:
            return []
        taken = {call.id for call in named}
        seen: set[str] = set()
        return [self._tool_call(call, seen, taken) for call in named]

    def _tool_call(self, call: OpenCall, seen: set[str], taken: set[str]) -> ToolCall:
        call_id = call.id
        if not call_id and not call.markup:
            self.warn("missing_id", f"{call.name} came without an id")
        elif call_id and call_id in seen:
            self.warn("duplicate_id", f"{call_id!r} stands for two calls; the call of {call.name} was given a fresh id")
        if not call_id or call_id in seen:
            call_id = self._fresh_id(call, taken)
        seen.add(call_id)
        read = read_arguments(call.pieces, call.wholes, repair=not call.markup)
        if read.differ:
            self.warn("arguments_mismatch", f"{call.name}: the arguments as pieces and as a whole differ")
        if read.repair:
            self.warn("repaired_arguments", f"{call.name}: {read.repair}")
        name = join_surrogates(call.name)
        made = ToolCall(join_surrogates(call_id), self._names.get(name, name), read.value, read.raw, call.extra)
        if made.error:
            self.warn("invalid_arguments", f"{call.name}: the arguments are not a JSON object")
        return made

    def _fresh_id(self, call: OpenCall, taken: set[str]) -> str:
        # Made from the answer, not at random: a recording folds to the same ids every time.
        meta = self._meta
        seed = f"{meta.id}|{meta.created}|{meta.model}|{call.number}|{call.name}|{call.text}"
        while True:
            fresh = "call_" + hashlib.sha256(seed.encode("utf-8", "replace")).hexdigest()[:24]
            if fresh not in taken:
                taken.add(fresh)
                return fresh
            seed += "|"


class _Lane:
    """Text that comes in pieces; the halves of a character that was cut in two are joined again."""

    __slots__ = ("_half", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._half = ""

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def add(self, piece: str) -> str:
        """Takes a piece and returns what of it can be shown."""
        if self._half or not piece.isascii():
            piece = self._joined(self._half + piece)
        if piece:
            self._pieces.append(piece)
        return piece

    def _joined(self, piece: str) -> str:
        self._half = ""
        if "\ud800" <= piece[-1] <= "\udbff":
            piece, self._half = piece[:-1], piece[-1]
        return join_surrogates(piece)

    def finish(self) -> str:
        """What was still held back: nothing, or U+FFFD for a half that stayed alone."""
        rest, self._half = join_surrogates(self._half), ""
        if rest:
            self._pieces.append(rest)
        return rest
