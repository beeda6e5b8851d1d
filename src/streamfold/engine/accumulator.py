"""`StreamAccumulator`, which converts deltas to chunks and to the reply, and the classes that collect their content."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from ..deltas import (
    CallSummary,
    Delta,
    Failure,
    Finish,
    Meta,
    ReasoningDelta,
    RefusalDelta,
    ServedBy,
    StopSequenceHit,
    StreamEnd,
    TextDelta,
    ToolRequests,
    UsageUpdate,
    Warn,
)
from ..errors import (
    EmptyResponseError,
    IncompleteStreamError,
    ProtocolError,
    StreamfoldError,
    join_limited,
    upstream_error,
)
from ..jsontext import amount, as_count, join_surrogates, str_or_none, whole_characters
from ..types import (
    ChunkDetails,
    ExtraPart,
    HostedPart,
    Limits,
    PartialToolCall,
    PartRef,
    ReadToolChoice,
    Reply,
    ReplyWarning,
    StreamChunk,
    Tool,
    ToolCallDelta,
    ToolCallUpdate,
    Usage,
    WarningCode,
    is_paused,
    join_extras,
)
from .blocks import BlockAssembler
from .output_items import HostedToolTracker, in_order
from .tool_call_assembly import CallMatch, IncomingCall, Listener, ToolCallAssembler
from .tool_call_delivery import CallDelivery, ToolNameMap, is_cut_inside_call


class TextBuffer:
    """Joins the pieces of a streamed text. If the two halves of a surrogate pair arrive in different pieces, the
    buffer joins them to one character."""

    __slots__ = ("_half", "_limit", "_name", "_pieces", "size")

    def __init__(self, limit: int, name: str) -> None:
        self._pieces: list[str] = []
        self._half = ""
        self._limit = limit
        self._name = name
        self.size = 0

    @property
    def text(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    @property
    def raw(self) -> str:
        """The text received so far. If the text ends with half of a surrogate pair, U+FFFD replaces this half."""
        return self.text + ("\ufffd" if self._half else "")

    def add(self, piece: str) -> str:
        """Appends a piece of text and returns the characters that are now complete. Raises ProtocolError if the text
        exceeds the size limit."""
        if self._half or not piece.isascii():
            piece, self._half = self._half + piece, ""
            if "\ud800" <= piece[-1] <= "\udbff":
                piece, self._half = piece[:-1], piece[-1]
            piece = join_surrogates(piece)
        if piece:
            self.size += len(piece)
            if self.size > self._limit:
                raise ProtocolError(f"the answer is longer than {self._limit} characters (limits.{self._name})")
            self._pieces.append(piece)
        return piece

    def finish(self) -> str:
        """Ends the text. Returns U+FFFD if the text ends with half of a surrogate pair, otherwise ""."""
        rest, self._half = "\ufffd" if self._half else "", ""
        if rest:
            self._pieces.append(rest)
            self.size += len(rest)
        return rest


def text_buffers(limits: Limits) -> dict[type[Delta], TextBuffer]:
    """Returns an empty buffer for each kind of text, with the size limit of that kind."""
    return {
        TextDelta: TextBuffer(limits.text_chars, "text_chars"),
        ReasoningDelta: TextBuffer(limits.reasoning_chars, "reasoning_chars"),
        RefusalDelta: TextBuffer(limits.other_chars, "other_chars"),
    }


class UsageAccumulator:
    """Stores the server's latest usage object and parses it at the end of the response. A usage object that contains
    only zeros never replaces an object with counts, because some proxies send zeros last."""

    def __init__(self) -> None:
        self._usage: Usage | None = None
        self._members: Mapping[str, Any] = {}
        self._unread: Callable[[dict[str, Any]], Usage] | None = None
        self._counts = False  # a usage object with a count above 0 has arrived
        self._ignored: Mapping[str, Any] = {}  # the last usage object with only zeros

    def take(self, usage: Usage) -> None:
        counts = any((usage.input_tokens, usage.output_tokens, usage.total_tokens))
        if counts or not self._counts:
            self._usage, self._unread, self._counts = usage, None, counts
        else:
            self._ignored = usage.raw

    def update(self, update: UsageUpdate) -> None:
        members = update.members
        if not update.whole:
            known = self._members
            new = {name: value for name, value in members.items() if value is not None or name not in known}
            members = {**known, **new}
        if not self._counts:
            self._counts = _count_something(members)
        elif not _count_something(members):
            self._ignored = members
            return
        self._members, self._unread = members, update.read

    def read(self) -> tuple[Usage | None, list[str]]:
        """Returns the usage received so far, and the names and values of usage fields that aren't valid counts."""
        if self._unread is not None:
            self._usage, self._unread = self._unread(dict(self._members)), None
        if (usage := self._usage) is None:
            return None, []
        invalid = list(dict.fromkeys([*_invalid(usage.raw), *_invalid(self._ignored)]))
        counts = {name: getattr(usage, name) for name in _COUNTS}
        wrong = [name for name, value in counts.items() if value is not None and as_count(value) is None]
        if wrong:  # a sum of counts, or a value from another package's adapter
            invalid += [f"{name}: {counts[name]!r:.40}" for name in wrong]
            without: Any = dict.fromkeys(wrong)
            usage = replace(usage, **without)
        return usage, invalid


_COUNTS = (
    "input_tokens", "output_tokens", "total_tokens", "cached_tokens", "reasoning_tokens", "cache_write_tokens",
)  # fmt: skip
# Names of counts and costs, by all APIs: prompt_tokens, promptTokenCount, web_search_requests, cost_in_usd_ticks.
_COUNTED = re.compile(r"(token|tokens|count|requests|calls|cost)$|^cost", re.IGNORECASE)
_DEEPEST = 4  # levels of a usage object: Anthropic has lists of steps, with an object of cache writes in each


def _invalid(value: Any, where: str = "", counted: bool = False, depth: int = 0) -> Iterator[str]:
    has_parts = not counted or (isinstance(value, Mapping) and "cost" in where.lower())
    if has_parts and isinstance(value, Mapping | list):
        if depth < _DEEPEST:
            members = value.items() if isinstance(value, Mapping) else enumerate(value)
            for name, inner in members:
                path = f"{where}.{name}" if where else str(name)
                yield from _invalid(inner, path, bool(_COUNTED.search(str(name))), depth + 1)
    elif counted and value is not None and amount(value) is None:
        yield f"{where}: {value!r:.40}"


def _count_something(members: Mapping[str, Any]) -> bool:
    for value in members.values():  # noqa: SIM110 - asked with every event, and a generator takes three times as long
        if value and amount(value) is not None:
            return True
    return False


class WarningList:
    """Collects the warnings about a response, at most `Limits.warnings`, and calls the listener with each warning."""

    def __init__(self, limit: int, listener: Listener | None = None) -> None:
        self._limit = limit
        self._listener = listener
        self._found: dict[ReplyWarning, None] = {}  # an ordered set
        self._more = 0

    def add(self, code: WarningCode, detail: str, about: IncomingCall | None = None) -> None:
        """Adds a warning to the list, unless the list already contains the same warning."""
        warning = ReplyWarning(code, detail)
        if warning in self._found:
            return
        if len(self._found) >= self._limit:
            self._more += 1
            return
        self._found[warning] = None
        if self._listener:
            self._listener((warning, about))

    def all(self) -> list[ReplyWarning]:
        """Returns all warnings. Above the limit, the last warning says how many other warnings were dropped."""
        if not self._more:
            return list(self._found)
        return [*self._found, ReplyWarning("more_warnings", f"{self._more} more warnings were dropped")]


class PartialCalls:
    """Stores the tool calls that a dialect has found in the model's text and that aren't complete yet. The dialect
    reports them with `DialectContext.draft`."""

    def __init__(self, own: Mapping[str, str], *, chunks: bool) -> None:
        self._own = own
        self.makes_chunks = chunks
        self._calls: dict[int, tuple[str, list[str]]] = {}  # name and text
        self._chunks: list[StreamChunk] = []

    def feed(self, number: int, name: str, text: str) -> None:
        name = self._own.get(name, name)
        self._calls.setdefault(number, (name, []))[1].append(text)
        if self.makes_chunks:
            update = ToolCallUpdate(number, name, text, is_certain=False)
            self._chunks.append(StreamChunk(details=ChunkDetails(call=update)))

    def take_chunks(self) -> list[StreamChunk]:
        """Returns the chunks that were created since this method was last called."""
        chunks, self._chunks = self._chunks, []
        return chunks

    @property
    def partial_tool_calls(self) -> tuple[PartialToolCall, ...]:
        return tuple(PartialToolCall(name, whole_characters("".join(text))) for name, text in self._calls.values())


@dataclass(frozen=True, slots=True)
class _EarlierParts:
    """The content of an answer's earlier parts. If the server pauses an answer, the answer consists of several HTTP
    responses. Each of these responses is a part.

    Attributes:
        extras: the merged extras of all earlier parts (see `join_extras`).
        usages: the usage of each part.
        text, reasoning: the text and reasoning of all earlier parts.
        blocks: the number of content blocks in all earlier parts.
        meta: the id, model and creation time of the last part.
    """

    extras: Mapping[str, list[Any]] = field(default_factory=dict)
    usages: tuple[Usage, ...] = ()
    text: str = ""
    reasoning: str = ""
    blocks: int = 0
    meta: Meta = field(default_factory=Meta)


# What ends an answer. Tool calls wait for this end, because nothing else proves that a tool call is complete: neither
# its id and name, nor arguments that parse, nor a finish reason, which some servers send after each tool call.
#     a finish reason, then `StreamEnd` or the end of the input     finished
#     `StreamEnd` without a finish reason                           finished, reason "unknown"
#     the end of the input before either, or a `Failure`            an error, and no calls
#     a `Failure` or a broken connection after a finish reason      finished, with a warning
#     the same, if only the reason had arrived                      an error
#     the same, inside a call that came after that reason           an error, and no calls
# The last finish reason counts, except that `length` and `content_filter` stay.
#
# A server may pause an answer (`Finish.continues`). With `continues`, the end of the response then ends a part, and
# `next_part` begins the next part. Text, reasoning, tool calls and blocks continue as if all parts were one response.
# Each part has its own usage, finish reason and id.


class StreamAccumulator:
    """Converts the deltas of one response into chunks, and at the end of the response into a `Reply`.

    Args:
        continues: true if the caller requests the next part of a paused answer.

    Attributes:
        identified: true if the server has sent id, model and creation time. The accumulator then ignores later `Meta`
            deltas.
        stopped: true if streamfold ended the response at a stop sequence.
        part_ended: true if the server has paused the answer, so that another HTTP request must continue it.
        keeps_usage: true if the server has sent the complete usage. The reply then contains this usage even if
            streamfold ends the response at a stop sequence.
    """

    def __init__(
        self,
        *,
        tools: Sequence[Tool] = (),
        tool_choice: ReadToolChoice = "auto",
        limits: Limits | None = None,
        names: ToolNameMap | None = None,
        listener: Listener | None = None,
        partial_tool_calls: bool = False,
        continues: bool = False,
        blocks_name: str = "blocks",
    ) -> None:
        self._limits = limits = limits or Limits()
        self._continues = continues
        self._earlier = _EarlierParts()
        self.part_ended = False
        tool_names = [tool.name for tool in tools]
        self.calls = ToolCallAssembler(tool_names, limits)
        self._tool_choice = tool_choice
        self._names = names or ToolNameMap()
        self._listener = listener
        self._shows_refusals = partial_tool_calls
        self._tools, self._tool_names = tools, frozenset(tool_names)
        self._positions = CallPositions() if partial_tool_calls and tool_choice != "none" else None
        self.buffers = text_buffers(limits)
        self._text, self._reasoning, self._refusal = self.buffers.values()
        self._reasoned = False
        self._has_parts = False  # something else than text and function calls has arrived
        self._usage = UsageAccumulator()
        self.keeps_usage = False
        self._hosted = HostedToolTracker(tool_names)
        self._finish: Finish | None = None
        self.meta = Meta()
        self._begun = False
        self.calls_begun = 0
        self._marks: list[ExtraPart] = []
        self._needs_details = False  # the next chunk must say how many tool calls have begun, or must contain a mark
        self._extras: dict[str, list[Any]] = {}
        self._item_places: set[int | None] = set()  # positions of extras among the response's output items
        self._other_chars = 0  # characters that `limits.other_chars` limits
        self._warnings = WarningList(limits.warnings, listener)
        self.warn = self._warnings.add
        self._reply: Reply | None = None
        self.finished = self.identified = self.stopped = False
        self.blocks = BlockAssembler(blocks_name)

    @property
    def reply(self) -> Reply:
        """The complete reply. Raises StreamfoldError if the finished chunk hasn't been returned yet."""
        if self._reply is None:
            raise StreamfoldError("the reply isn't available before the finished chunk")
        return self._reply

    def feed(self, delta: Delta) -> StreamChunk | None:
        """Returns the chunk for a delta, or None if the delta needs no chunk. Raises StreamError if the response
        failed or exceeds a limit."""
        if self.finished or self.part_ended:  # later deltas of the event that ended the answer
            return None
        if type(delta) is TextDelta:  # nearly every event
            self._begun = True
            shown = self._text.add(delta.text)
            if self._needs_details and shown:
                return StreamChunk(shown, details=self._take_details())
            return StreamChunk(shown) if shown else None
        if type(delta) is Meta:
            self._begun = True
            known = self.meta
            meta = self.meta = Meta(
                known.id or str_or_none(delta.id),
                known.model or str_or_none(delta.model),
                known.created or delta.created,
                delta.previous if known.previous is None else known.previous,
            )
            self.identified = bool(meta.id and meta.model and meta.created)
            return None
        if type(delta) is ReasoningDelta:
            self._begun = self._reasoned = True
            shown = self._reasoning.add(delta.text)
            if self._needs_details and shown:
                return StreamChunk(reasoning=shown, details=self._take_details())
            return StreamChunk(reasoning=shown) if shown else None
        if type(delta) is ToolCallDelta:
            self._begun = True
            placed = self.calls.feed(delta)
            if placed and self._finish is not None and not delta.held:
                placed.call.late = True
            if self._listener and placed:
                self._listener(placed)
            if placed and placed.opened:
                self.calls_begun, self._needs_details = len(self.calls), True
            return self._call_chunk(placed, self._positions) if placed and self._positions else None
        return self._feed_rare(delta)

    def _feed_rare(self, delta: Delta) -> StreamChunk | None:
        match delta:
            case Usage():
                self._usage.take(delta)
            case Finish():
                if self._finish is None or not self._finish.cut:
                    self._finish = delta
                if delta.continues:
                    self._begun = True
                    return None
                self.calls.note_finish_reason()  # tool calls before the finish reason aren't late
                self.blocks.note_finish_reason(stopped=delta.reason == "stop")
            case RefusalDelta(text, part):
                shown = self._refusal.add(text)
                if shown and self._shows_refusals:
                    self._begun = True
                    number = part and PartRef(number=part.number)
                    return StreamChunk(details=ChunkDetails(self.calls_begun, part=number, refusal=shown))
            case CallSummary(calls):
                for placement in self.calls.reconcile(calls):
                    if self._listener:
                        self._listener(placement)
            case ExtraPart(name, value, whole, place):
                self._item_places.add(place)
                if name == "output" or not whole:  # other lists are about the answer: `container`, `stop_details`
                    parts = value if whole else (value,)
                    self._has_parts = self._has_parts or any(map(_says_something, parts))
                if self._hosted.observe(delta):
                    pass
                elif whole:
                    self._extras[name] = list(value)
                else:
                    self._extras.setdefault(name, []).append(value)
                    if name == "output" and self._positions:
                        self._begun = True
                        return StreamChunk(details=self._take_details(item=value))
            case Warn(code, detail):
                self.warn(code, detail)
                return None
            case HostedPart():
                if self._hosted.record_if_new(delta):
                    self._begun = self._has_parts = True
                    return StreamChunk(details=ChunkDetails(self.calls_begun, hosted=(delta,)))
            case ServedBy(model):
                self.meta = replace(self.meta, model=model)
            case ToolRequests(kind, number):
                self._hosted.requests[kind] = number
            case Failure():
                return self._fail(delta)
            case StreamEnd(needs_finish):
                return self._done(needs_finish)
            case StopSequenceHit(text):
                return self._stop(text)
        self._begun = True
        return None

    def count_usage(self, update: UsageUpdate) -> None:
        self._begun = True
        self._usage.update(update)

    def finish(self, interrupted: str | None = None) -> StreamChunk | None:
        """Ends the input. Returns the finished chunk, or None if an earlier call has returned it.

        Args:
            interrupted: the connection error that ended the stream; None if there was no error.

        Raises:
            StreamError: the response is incomplete or empty.
        """
        if self._reply is not None:
            return None
        how = interrupted or "the stream ended"
        if self._finish is None:
            if not self._begun and not interrupted:
                raise EmptyResponseError("the response is empty: it ended without any SSE event", retryable=True)
            raise IncompleteStreamError(f"{how} before the response was complete", retryable=True)
        if is_cut_inside_call(self.calls.finish()):
            raise IncompleteStreamError(
                f"{how} inside a tool call that arrived after the finish reason", retryable=True
            )
        if interrupted and not self._has_content(self._finish):
            raise IncompleteStreamError(f"{how} before any content except a finish reason", retryable=True)
        if interrupted:
            self.warn("interrupted_after_finish", interrupted)
        return self._finished()

    @property
    def will_continue(self) -> bool:
        """True if the server has paused the answer and the caller requests the next part."""
        return self._continues and self._finish is not None and self._finish.continues

    def stop_continuing(self) -> None:
        """Makes the current part the last part of the answer, because the caller doesn't request another part."""
        self._continues = self.part_ended = False

    def next_part(self) -> None:
        """Begins the next part of a paused answer. All content blocks of the current part must have ended."""
        part, text, reasoning = self.part(), self._text.text, self._reasoning.text
        extras = join_extras(self._earlier.extras, self._extras, self._earlier.text)
        usages = (*self._earlier.usages, part.usage or Usage())
        self._earlier = _EarlierParts(extras, usages, text, reasoning, len(self.blocks), self.meta)
        self._extras, self._finish, self.meta = {}, None, Meta()
        self._usage, self.keeps_usage = UsageAccumulator(), False
        self._hosted.requests.clear()
        self.identified = self.part_ended = False

    def part(self) -> Reply:
        """Returns a reply with only the current part's text and usage. The part's cost is calculated from this
        reply."""
        usage, _ = self._usage.read()
        earlier = self._earlier
        extras = {name: list(values) for name, values in self._extras.items()}
        if self.blocks:
            extras[self.blocks.name] = self.blocks.content({}, earlier.blocks)
        if self._hosted.used or self._hosted.requests:
            usage = self._hosted.count(usage, extras)
        return Reply(
            text=self._text.text[len(earlier.text) :],
            reasoning=self._reasoning.text[len(earlier.reasoning) :],
            usage=usage,
            id=self.meta.id or earlier.meta.id,
            model=self.meta.model or earlier.meta.model,
            extras=extras,
        )

    def turn(self) -> Reply:
        """Returns the answer so far, including its tool calls. The request for the next part contains this reply as an
        assistant message."""
        reply = self.partial()
        ending = CallDelivery(
            lambda *_: None, self._tool_choice, self._names, self._tools, Finish("tool_calls", ""), self.meta
        )
        opened = self.calls.finish()
        delivered = ending.decide(opened, [])
        reply.tool_calls = delivered.calls
        if self.blocks:
            made = {call.index: whole for call, whole in zip(delivered.opened, delivered.calls, strict=True)}
            reply.extras[self.blocks.name] = self.blocks.content(made)
        return reply

    def partial(self) -> Reply:
        """Returns the response so far, without tool calls."""
        usage, invalid = self._usage.read()
        if invalid:
            self.warn("usage_invalid", f"not counted: {join_limited(invalid)}")
        extras, earlier = self._extras, self._earlier
        if earlier.usages:
            usage = Usage.of_steps((*earlier.usages, self.part().usage or Usage()))
            extras = join_extras(earlier.extras, extras, earlier.text)
        return Reply(
            text=self._text.text,
            reasoning=self._reasoning.text,
            refusal=self._refusal.text or None,
            raw_finish_reason=self._finish.raw if self._finish else None,
            usage=usage,
            warnings=self._warnings.all(),
            id=self.meta.id or earlier.meta.id,
            model=self.meta.model or earlier.meta.model,
            extras={name: list(values) for name, values in extras.items()},
            reasoned=self._reasoned,
        )

    @property
    def has_finish_reason(self) -> bool:
        return self._finish is not None

    @property
    def partial_tool_calls(self) -> tuple[PartialToolCall, ...]:
        if self.finished or self._tool_choice == "none":
            return ()
        own, answer = self._names.own, self._names.answer
        calls = (call for call in self.calls.finish() if call.name and call.name != answer)
        functions = [
            PartialToolCall(own.get(call.name, join_surrogates(call.name)), call.text_so_far, call.kind)
            for call in calls
        ]
        held = [PartialToolCall(own.get(name, name), text) for name, text in self.blocks.held_calls() if name != answer]
        return (*functions, *held, *self._hosted.partial_tool_calls)

    @property
    def warnings(self) -> tuple[ReplyWarning, ...]:
        return tuple(self._warnings.all())

    def count_other_chars(self, chars: int, *, repeats: bool = False) -> None:
        """Counts characters of the response that aren't text. Raises ProtocolError if there are more than
        `Limits.other_chars`. If `repeats` is true, each SSE event repeats the content of the previous event, so only
        the largest event counts."""
        self._other_chars = max(self._other_chars, chars) if repeats else self._other_chars + chars
        if self._other_chars > self._limits.other_chars:
            raise ProtocolError(
                f"the answer has more than {self._limits.other_chars} characters besides its text (limits.other_chars)"
            )

    def mark(self, mark: ExtraPart) -> None:
        self._marks.append(mark)
        self._needs_details = True

    def _fail(self, failure: Failure) -> StreamChunk | None:
        info = failure.info
        if self._finish and not failure.reason and self._has_content(self._finish):
            if is_cut_inside_call(self.calls.finish()):
                said = f"the stream failed inside a tool call that arrived after the finish reason: {info.message}"
                raise IncompleteStreamError(said, retryable=info.retryable, body=failure.body)
            self.warn("error_after_finish", info.message)
            return self._finished()
        raise upstream_error(info, body=failure.body)

    def _done(self, needs_finish: bool) -> StreamChunk | None:
        if self._finish is None and not self._has_content():
            what = "sent no content" if self._begun else "sent nothing"
            raise EmptyResponseError(f"the response is empty: the server ended it and {what}", retryable=True)
        if self._finish is None and needs_finish:
            raise IncompleteStreamError("the stream ended before the response was complete", retryable=True)
        if self._finish is None:
            self.warn("missing_finish_reason", "the stream ended with an end marker, but without a finish reason")
        return self._finished()

    def _has_content(self, finish: Finish | None = None) -> bool:
        """Returns whether the model has written anything. Ignores truncated tool calls."""
        if self._has_parts or any(buffer.raw for buffer in self.buffers.values()):
            return True
        called = self.calls.finish() if finish is None or not finish.cut else ()
        if any(call.id or call.name or call.text_so_far for call in called):
            return True
        return any(map(_says_something, self.blocks.content({})))

    def _stop(self, text: str) -> StreamChunk | None:
        if begun := [call.name or call.id for call in self.calls.finish()]:
            self.warn(
                "calls_dropped",
                f"the answer ended at the stop sequence {text!r}, inside tool calls: {', '.join(begun)}",
            )
        self.calls, self.blocks = ToolCallAssembler((), self._limits), BlockAssembler(self.blocks.name)
        if not self.keeps_usage:
            self._usage = UsageAccumulator()
        self._hosted = HostedToolTracker()
        self._extras.pop("output", None)
        self._finish = Finish("stop", "stop")
        self.stopped = True
        return self._finished()

    def _finished(self) -> StreamChunk | None:
        if self.will_continue:
            self.part_ended = True
            return None
        if self._finish is not None and self._finish.continues and not is_paused(self._extras):
            self.warn("not_continued", f"the finish reason {self._finish.raw!r} arrived without a continuation token")
        text, reasoning = self._text.finish(), self._reasoning.finish()
        self._refusal.finish()
        self.calls.mark_ambiguous()
        ending = CallDelivery(self.warn, self._tool_choice, self._names, self._tools, self._finish, self.meta)
        others, order = self._hosted.calls(self._extras, self._finish, self.warn)
        calls, opened, reason, answer, others = ending.decide(self.calls.finish(), others)
        text += self._text.add(answer or "")
        if reason == "stop" and not (self._text.size or self._refusal.size or self._extras):
            self.warn("empty_answer", "the response has neither text nor tool calls")
        reply = self.partial()
        if self.blocks:
            made = {call.index: whole for call, whole in zip(opened, calls, strict=True)}
            reply.extras[self.blocks.name] = self.blocks.content(made)
        if (self._hosted.used or self._hosted.requests) and not self._earlier.usages:
            reply.usage = self._hosted.count(reply.usage, reply.extras)
        delivered = in_order([*calls, *others], order) if others else calls
        reply.answer, reply.tool_calls, reply.finish_reason = answer, delivered, reason
        self._reply, self.finished = reply, True
        last = (text, delivered or None, True, reasoning, reason, reply.usage)
        if not self._needs_details:
            return StreamChunk(*last)
        details = self._take_details()
        if self._positions:
            numbers = {call.id: number for call, number in zip(calls, self._positions.numbers(opened), strict=True)}
            later = count(len(self.calls))
            details.call_numbers = tuple(numbers[call.id] if call.id in numbers else next(later) for call in delivered)
        return StreamChunk(*last, details)

    def _call_chunk(self, match: CallMatch, positions: CallPositions) -> StreamChunk | None:
        part, call = match.part, match.call
        if match.opened:
            positions.add(call, None if self.blocks else self._item_places)
        elif part.whole or not part.arguments:
            return None
        update = ToolCallUpdate(
            call.number,
            None if call.name and call.name == self._names.answer else self._names.own.get(call.name, call.name),
            "" if part.whole else part.arguments,
            call.id,
            call.kind,
            call.extra,
            part.item,
            positions.is_in_order(call),
            not self._tool_names or call.name in self._tool_names,
        )
        return StreamChunk(details=self._take_details(update))

    def _take_details(self, update: ToolCallUpdate | None = None, item: Any = None) -> ChunkDetails:
        """Returns the details of the next chunk. They include all marks that no earlier chunk contained."""
        marks, self._marks = tuple(self._marks), []
        self._needs_details = self.calls_begun > 0
        return ChunkDetails(self.calls_begun, marks, update, item=item)


class CallPositions:
    """Decides which tool calls of an unfinished response already have their final position in the reply.

    `ToolCallAssembler.finish` sorts the tool calls at the end. As long as a tool call with a lower index may still
    begin, the positions of later tool calls aren't final.
    """

    def __init__(self) -> None:
        self._indices: set[int] | None = set()  # indices of the tool calls so far; None: the server's order counts
        self._unplaced: int | None = None  # number of the first tool call whose position is final only at the end

    def add(self, call: IncomingCall, others: Collection[int | None] | None) -> None:
        """Adds a new tool call.

        Args:
            others: the positions of the response's other output items, or None if the server doesn't number tool calls
                together with other items.
        """
        if self._indices is None or self._unplaced is not None:
            return
        if call.index is None or call.index in self._indices:
            self._indices = None
            return
        if others is not None and not all(at in self._indices or at in others for at in range(call.index)):
            self._unplaced = call.number
        self._indices.add(call.index)

    def is_in_order(self, call: IncomingCall) -> bool:
        return self._unplaced is None or call.number < self._unplaced

    def numbers(self, delivered: Sequence[IncomingCall]) -> list[int]:
        """Returns the position of each delivered tool call. A tool call whose position wasn't final gets the next
        free number."""
        later = count(self._unplaced or 0)
        return [call.number if self.is_in_order(call) else next(later) for call in delivered]


def _says_something(part: Any) -> bool:
    if not isinstance(part, dict):
        return bool(part)
    content = part.get("content", part.get("summary"))
    if part.get("type") in ("message", "reasoning"):
        parts = content if isinstance(content, list) else (content,)
        return bool(part.get("encrypted_content")) or any(map(_says_something, parts))
    about = ("type", "id", "role", "status")
    return any(value for name, value in part.items() if name not in about and isinstance(value, str | dict | list))
