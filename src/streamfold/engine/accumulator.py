"""`StreamAccumulator`: deltas to chunks and to the Reply; text buffers, usage, warnings."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
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
    CallKind,
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
    ToolCallDelta,
    Usage,
    WarningCode,
)
from .blocks import BlockAssembler
from .call_deltas import CallDeltas
from .output_items import HostedToolTracker, in_order
from .tool_call_assembly import CallMatch, IncomingCall, Listener, ToolCallAssembler
from .tool_call_delivery import CallDelivery, ToolNameMap, is_cut_inside_call


class TextBuffer:
    """Text that arrives in pieces; the halves of a character that was cut in two are joined again.

    Args:
        limit: characters.
        name: of the limit, for the error.
    """

    __slots__ = ("_half", "_limit", "_name", "_pieces", "size")

    def __init__(self, limit: int, name: str) -> None:
        self._pieces: list[str] = []
        self._half = ""
        self._limit = limit
        self._name = name
        self.size = 0

    @property
    def text(self) -> str:
        """Everything that has been shown."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    @property
    def raw(self) -> str:
        """Everything that has come, with U+FFFD for half of a character at its end."""
        return self.text + ("\ufffd" if self._half else "")

    def add(self, piece: str) -> str:
        """Takes a piece and returns what of it can be shown.

        Raises:
            ProtocolError: the text is longer than the limit.
        """
        if self._half or not piece.isascii():
            piece = self._joined(self._half + piece)
        if piece:
            self.size += len(piece)
            if self.size > self._limit:
                raise ProtocolError(f"the answer is longer than {self._limit} characters (limits.{self._name})")
            self._pieces.append(piece)
        return piece

    def _joined(self, piece: str) -> str:
        self._half = ""
        if "\ud800" <= piece[-1] <= "\udbff":
            piece, self._half = piece[:-1], piece[-1]
        return join_surrogates(piece)

    def finish(self) -> str:
        """Returns what was still held back: nothing, or U+FFFD for a half that stayed alone."""
        rest, self._half = join_surrogates(self._half), ""
        if rest:
            self._pieces.append(rest)
            self.size += len(rest)
        return rest


class UsageAccumulator:
    """Takes usage objects as they come, which some servers send with every event. They are read when somebody asks.

    Proxies that end a stream themselves repeat the usage as zeros. That is no newer information, and is ignored.
    """

    def __init__(self) -> None:
        self._usage: Usage | None = None
        self._members: Mapping[str, Any] = {}
        self._unread: Callable[[dict[str, Any]], Usage] | None = None
        self._counts = False  # something
        self._ignored: Mapping[str, Any] = {}  # the last usage object that counted nothing

    def take(self, usage: Usage) -> None:
        """Takes a usage that replaces the one before."""
        counts = any((usage.input_tokens, usage.output_tokens, usage.total_tokens))
        if counts or not self._counts:
            self._usage, self._unread, self._counts = usage, None, counts
        else:
            self._ignored = usage.raw

    def update(self, update: UsageUpdate) -> None:
        """Takes a usage object, or some of its members."""
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
        """Returns the usage so far, and what in it is not counted because it isn't a count or a cost."""
        if self._unread is not None:
            self._usage, self._unread = self._unread(dict(self._members)), None
        if (usage := self._usage) is None:
            return None, []
        invalid = list(dict.fromkeys([*_invalid(usage.raw), *_invalid(self._ignored)]))
        counts = {name: getattr(usage, name) for name in _COUNTS}
        wrong = [name for name, value in counts.items() if value is not None and as_count(value) is None]
        if wrong:  # a sum of counts, or what another package's adapter made
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
    """Yields each number of a usage object that can't be counted, with its path."""
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
    """Collects warnings.

    Args:
        limit: the most that are listed.
        listener: is told of each, with the call that it is about.
    """

    def __init__(self, limit: int, listener: Listener | None = None) -> None:
        self._limit = limit
        self._listener = listener
        self._found: dict[ReplyWarning, None] = {}  # a set that keeps its order
        self._more = 0

    def add(self, code: WarningCode, detail: str, about: IncomingCall | None = None) -> None:
        """Notes a warning if it is a new one and there is room for it."""
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
        """Returns the warnings so far; the last one may say how many more there were."""
        if not self._more:
            return list(self._found)
        return [*self._found, ReplyWarning("more_warnings", f"{self._more} further warnings are not listed")]


class PartialCalls:
    """Keeps the pieces that a dialect shows of such calls (`DialectContext.draft`).

    Args:
        own: the tools' own names by those on the wire.
        chunks: whether each piece makes a chunk.

    Attributes:
        makes_chunks: the same.
    """

    def __init__(self, own: Mapping[str, str], *, chunks: bool) -> None:
        self._own = own
        self.makes_chunks = chunks
        self._calls: dict[int, tuple[str, list[str]]] = {}  # name and text
        self._chunks: list[StreamChunk] = []

    def feed(self, number: int, name: str, text: str) -> None:
        """Takes the next piece of the arguments of a call."""
        name = self._own.get(name, name)
        self._calls.setdefault(number, (name, []))[1].append(text)
        if self.makes_chunks:
            self._chunks.append(StreamChunk(details=ChunkDetails(call=number, tool=name, text=text)))

    def take_chunks(self) -> list[StreamChunk]:
        """Returns the chunks for what has come since the last time."""
        chunks, self._chunks = self._chunks, []
        return chunks

    @property
    def partial_tool_calls(self) -> tuple[PartialToolCall, ...]:
        """The calls so far."""
        return tuple(PartialToolCall(name, whole_characters("".join(text))) for name, text in self._calls.values())


# Deltas to chunks: text passes through at once, everything else waits for the end.
# Calls wait in `tool_call_assembly.py` until the stream has ended in order, because nothing before that end is a
# sign that a call is whole: not its id and name, not arguments that parse, not even a finish reason, which some
# servers send after every call. What counts as an end in order:
#     a finish reason, then `StreamEnd` or the end of the input          finished
#     `StreamEnd` without a finish reason                                finished, reason "unknown"
#     the end of the input before either, or a `Failure`            an error, and no calls
#     a `Failure` or a broken connection after a finish reason      finished, with a warning
#     the same, if nothing but that reason has come                 an error
#     the same, inside a call that came after that reason           an error, and no calls
# Of several finish reasons the last one counts, except that `length` and `content_filter` stay: an answer that was
# cut does not become whole again. `tool_call_delivery.py` decides which calls are handed out.


class StreamAccumulator:
    """Folds the deltas of one answer into chunks, and at its end into a `Reply`.

    Args:
        tool_names: the tools that the request declared.
        tool_choice: the tool choice of the request. After "none" no call is handed out.
        limits: how much is accepted.
        names: what tools are called on the wire, where that is not their own name.
        listener: called with the placement of each fragment of a call, and with each warning.
        partial_tool_calls: whether a chunk is made for each fragment of a call, too.

    Attributes:
        finished: whether the finished chunk has been made.
        meta: id, model and time of the answer, as far as they are known.
        identified: whether id, model and time are known, so that a `Meta` adds nothing.
        stopped: whether the reader ended the answer, before the server did.
        behind_reason: whether what is fed came after a finish reason, which may be fed later itself.
        calls, blocks: the calls of the answer, and its blocks on APIs that have some.
        warn: notes a warning for the reply; the same one twice is one.
    """

    def __init__(
        self,
        *,
        tool_names: Collection[str] = (),
        tool_choice: ReadToolChoice = "auto",
        limits: Limits | None = None,
        names: ToolNameMap | None = None,
        listener: Listener | None = None,
        partial_tool_calls: bool = False,
    ) -> None:
        self._limits = limits = limits or Limits()
        self.calls = ToolCallAssembler(tool_names, limits)
        self._tool_choice = tool_choice
        self._names = names or ToolNameMap()
        self._listener = listener
        self._shows_refusals = partial_tool_calls
        self._fragments = CallDeltas(tool_names, self._names) if partial_tool_calls and tool_choice != "none" else None
        self._text = TextBuffer(limits.text_chars, "text_chars")
        self._reasoning = TextBuffer(limits.reasoning_chars, "reasoning_chars")
        self._refusal = TextBuffer(limits.other_chars, "other_chars")
        self._reasoned = False
        self._has_parts = False  # something has come that is neither text nor a call of a function
        self._usage = UsageAccumulator()
        self._hosted = HostedToolTracker(tool_names)
        self._finish: Finish | None = None
        self.meta = Meta()
        self._begun = False
        self._calls_begun = 0
        self._marks: list[ExtraPart] = []
        self._late = False  # a call has begun, or a mark waits for the next chunk
        self._extras: dict[str, list[Any]] = {}
        self._places: set[int | None] = set()  # of extras among the parts of the answer
        self._kept = 0  # characters of the extras
        self._warnings = WarningList(limits.warnings, listener)
        self.warn = self._warnings.add
        self._reply: Reply | None = None
        self.finished = self.identified = self.behind_reason = self.stopped = False
        self.blocks = BlockAssembler()

    @property
    def reply(self) -> Reply:
        """The whole answer. Raises StreamfoldError before the finished chunk."""
        if self._reply is None:
            raise StreamfoldError("there is no reply yet: it exists once the finished chunk has been handed out")
        return self._reply

    def lane(self, kind: type[TextDelta | ReasoningDelta | RefusalDelta]) -> TextBuffer:
        """The text of a kind so far."""
        return self._text if kind is TextDelta else self._reasoning if kind is ReasoningDelta else self._refusal

    def feed(self, delta: Delta) -> StreamChunk | None:
        """Takes one delta. Returns the chunk that it makes, if it makes one.

        Raises:
            UpstreamError: the delta is a failure, and the answer is not finished.
            EmptyResponseError: the server is done, and there was nothing before.
            ProtocolError: a limit is exceeded.
        """
        if self.finished:  # the rest of the event that ended the answer
            return None
        if type(delta) is TextDelta:  # nearly every event
            self._begun = True
            shown = self._text.add(delta.text)
            if self._late and shown:
                return StreamChunk(shown, details=self._place())
            return StreamChunk(shown) if shown else None
        if type(delta) is Meta:
            self._identify(delta)
            return None
        if type(delta) is ReasoningDelta:
            self._begun = self._reasoned = True
            shown = self._reasoning.add(delta.text)
            if self._late and shown:
                return StreamChunk(reasoning=shown, details=self._place())
            return StreamChunk(reasoning=shown) if shown else None
        if type(delta) is ToolCallDelta:
            self._begun = True
            placed = self.calls.feed(delta)
            if placed and self.behind_reason:
                placed.call.late = True
            if self._listener and placed:
                self._listener(placed)
            if placed and placed.opened:
                self._calls_begun, self._late = len(self.calls), True
            return self._writing_chunk(placed, self._fragments) if placed and self._fragments else None
        return self._feed_rare(delta)

    def _feed_rare(self, delta: Delta) -> StreamChunk | None:
        """Takes a delta of a kind that comes a few times in an answer."""
        match delta:
            case Usage():
                self._usage.take(delta)
            case Finish():
                if self._finish is None or not self._finish.cut:
                    self._finish = delta
            case RefusalDelta(text, part):
                shown = self._refusal.add(text)
                if shown and self._shows_refusals:
                    self._begun = True
                    number = part and PartRef(number=part.number)
                    return StreamChunk(details=ChunkDetails(self._calls_begun, part=number, refusal=shown))
            case CallSummary(calls):
                for placement in self.calls.reconcile(calls):
                    if self._listener:
                        self._listener(placement)
            case ExtraPart(name, value, whole, place):
                self._places.add(place)
                # Others that are whole say something about the answer: `container`, `stop_details`, sources.
                items = value if isinstance(value, list) else ()
                parts = items if whole and name == "output" else () if whole else (value,)
                self._has_parts = self._has_parts or any(map(_says_something, parts))
                if self._hosted.takes(delta):
                    pass
                elif whole:
                    self._extras[name] = list(value)
                else:
                    self._extras.setdefault(name, []).append(value)
                    if name == "output" and self._fragments:
                        self._begun = True
                        return StreamChunk(details=ChunkDetails(self._calls_begun, self._take_marks(), item=value))
            case Warn(code, detail):
                self.warn(code, detail)
                return None
            case HostedPart():
                if self._hosted.record_if_new(delta):
                    self._begun = self._has_parts = True
                    return StreamChunk(details=ChunkDetails(self._calls_begun, hosted=(delta,)))
            case ServedBy(model):
                self.meta.model = model
            case ToolRequests(kind, number):
                self._hosted.requests[kind] = number
            case Failure():
                return self._fail(delta)
            case StreamEnd():
                return self._done()
            case StopSequenceHit(text):
                return self._stop(text)
        self._begun = True
        return None

    def _identify(self, said: Meta) -> None:
        self._begun = True
        meta = self.meta
        meta.id, meta.model = meta.id or str_or_none(said.id), meta.model or str_or_none(said.model)
        meta.created = meta.created or said.created
        self.identified = bool(meta.id and meta.model and meta.created)

    def confirm(self) -> None:
        """Notes that a finish reason has come: what came until now is what the model said."""
        self.behind_reason = True
        self.calls.confirm()

    def count_usage(self, update: UsageUpdate) -> None:
        """Takes a usage object, or some of its members."""
        self._begun = True
        self._usage.update(update)

    def finish(self, interrupted: str | None = None) -> StreamChunk | None:
        """Ends the input. Returns the finished chunk, or None if it was handed out already.

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
        if is_cut_inside_call(self.calls.finish()):
            raise IncompleteStreamError(f"{how} inside a tool call, after a finish reason", retryable=True)
        if interrupted and not self._has_content(self._finish):
            raise IncompleteStreamError(f"{how} before anything but a finish reason had come", retryable=True)
        if interrupted:
            self.warn("interrupted_after_finish", interrupted)
        return self._finished()

    def partial(self) -> Reply:
        """Returns what has come so far, without tool calls."""
        usage, invalid = self._usage.read()
        if invalid:
            self.warn("usage_invalid", f"not counted: {join_limited(invalid)}")
        return Reply(
            text=self._text.text,
            reasoning=self._reasoning.text,
            refusal=self._refusal.text or None,
            raw_finish_reason=self._finish.raw if self._finish else None,
            usage=usage,
            warnings=self._warnings.all(),
            id=self.meta.id,
            model=self.meta.model,
            extras={name: list(values) for name, values in self._extras.items()},
            reasoned=self._reasoned,
        )

    @property
    def calls_begun(self) -> int:
        """How many calls have begun."""
        return self._calls_begun

    @property
    def partial_tool_calls(self) -> tuple[PartialToolCall, ...]:
        """The calls that the model is writing; none when the answer is finished."""
        if self.finished or self._tool_choice == "none":
            return ()
        own, answer = self._names.own, self._names.answer
        calls = (call for call in self.calls.finish() if call.name and call.name != answer)
        functions = [
            PartialToolCall(own.get(call.name, join_surrogates(call.name)), call.text_so_far, _kind(call))
            for call in calls
        ]
        return (*functions, *self._hosted.partial_tool_calls)

    @property
    def warnings(self) -> tuple[ReplyWarning, ...]:
        """The warnings so far."""
        return tuple(self._warnings.all())

    def keep(self, chars: int, *, repeats: bool = False) -> None:
        """Counts the size of an event whose content is kept beside the text and the calls.

        Args:
            repeats: the event repeats what came before it, and replaces that.

        Raises:
            ProtocolError: the limit is exceeded.
        """
        self._kept = max(self._kept, chars) if repeats else self._kept + chars
        if self._kept > self._limits.other_chars:
            raise ProtocolError(
                f"the answer has more than {self._limits.other_chars} characters beside its text (limits.other_chars)"
            )

    def mark(self, mark: ExtraPart) -> None:
        """Notes something that has a place in the answer and no chunk of its own; the next chunk carries it."""
        self._marks.append(mark)
        self._late = True

    def _fail(self, failure: Failure) -> StreamChunk | None:
        info = failure.info
        if self._finish and not failure.reason and self._has_content(self._finish):
            if is_cut_inside_call(self.calls.finish()):
                said = f"the stream failed inside a tool call, after a finish reason: {info.message}"
                raise IncompleteStreamError(said, retryable=info.retryable, body=failure.body)
            self.warn("error_after_finish", info.message)
            return self._finished()
        raise upstream_error(info, body=failure.body)

    def _done(self) -> StreamChunk:
        if self._finish is None and not self._has_content():
            what = "sent no part of an answer" if self._begun else "sent nothing"
            raise EmptyResponseError(f"the answer is empty: the server said it was done and {what}", retryable=True)
        if self._finish is None:
            self.warn("missing_finish_reason", "the stream was declared done without a finish reason")
        return self._finished()

    def _has_content(self, finish: Finish | None = None) -> bool:
        """Returns whether anything has come but a role, metadata, usage and empty pieces.

        Args:
            finish: the finish reason; calls of an answer that was cut don't count, because they are dropped.
        """
        lanes = (self._text, self._reasoning, self._refusal)
        called = self.calls.finish() if finish is None or not finish.cut else ()
        calls = (call for call in called if call.id or call.name or call.text_so_far)
        blocks = self.blocks.content({}) if self.blocks else []
        return self._has_parts or any(lane.raw for lane in lanes) or any(calls) or any(map(_says_something, blocks))

    def _stop(self, text: str) -> StreamChunk:
        """Ends the answer here. Calls that were begun, and what the server says of the whole answer, are not of it."""
        if begun := [call.name or call.id for call in self.calls.finish()]:
            self.warn("calls_dropped", f"the answer was ended at {text!r} before they were whole: {', '.join(begun)}")
        self.calls, self._usage, self.blocks = ToolCallAssembler((), self._limits), UsageAccumulator(), BlockAssembler()
        self._hosted = HostedToolTracker()
        self._extras.pop("output", None)
        self._finish = Finish("stop", "stop")
        self.stopped = True
        return self._finished()

    def _finished(self) -> StreamChunk:
        text, reasoning = self._text.finish(), self._reasoning.finish()
        self._refusal.finish()
        self.calls.mark_strays()
        ending = CallDelivery(self.warn, self._tool_choice, self._names, self._finish, self.meta)
        others, order = self._hosted.calls(self._extras, self._finish, self.warn)
        calls, opened, reason, answer, others = ending.decide(self.calls.finish(), others)
        text += self._text.add(answer or "")
        if reason == "stop" and not (self._text.size or self._refusal.size or self._extras):
            self.warn("empty_answer", "the answer has neither text nor tool calls")
        reply = self.partial()
        if self.blocks:
            made = {call.index: whole for call, whole in zip(opened, calls, strict=True)}
            reply.extras["blocks"] = self.blocks.content(made)
        if self._hosted.used or self._hosted.requests:
            reply.usage = self._hosted.count(reply.usage, reply.extras)
        handed_out = in_order([*calls, *others], order) if others else calls
        reply.answer, reply.tool_calls, reply.finish_reason = answer, handed_out, reason
        self._reply, self.finished = reply, True
        last = (text, handed_out or None, True, reasoning, reason, reply.usage)
        ends = self._fragments.ends(list(zip(opened, calls, strict=True))) if self._fragments else ()
        return StreamChunk(*last, self._place(ends) if self._late else None)

    def _place(
        self, fragments: tuple[ToolCallDelta, ...] | Callable[[], tuple[ToolCallDelta, ...]] = ()
    ) -> ChunkDetails:
        return ChunkDetails(self._calls_begun, self._take_marks(), fragments)

    def _writing_chunk(self, placed: CallMatch, fragments: CallDeltas) -> StreamChunk | None:
        """The step in which a call grew; None for a repetition of what has come."""
        part, call = placed.part, placed.call
        if placed.opened:
            fragments.begin(call, None if self.blocks else self._places)
        elif part.whole or not part.arguments:
            return None
        text = "" if part.whole else part.arguments
        name = None if call.name and call.name == self._names.answer else self._names.own.get(call.name, call.name)
        shown, in_order = fragments.after(call, part), fragments.is_in_order(call)
        details = ChunkDetails(
            self._calls_begun, self._take_marks(), shown, call.number, name, text, placed=in_order, kind=_kind(call)
        )
        return StreamChunk("", None, False, "", None, None, details)

    def _take_marks(self) -> tuple[ExtraPart, ...]:
        marks, self._marks = tuple(self._marks), []
        self._late = self._calls_begun > 0
        return marks


def _kind(call: IncomingCall) -> CallKind:
    return "custom" if call.custom else "function"


def _says_something(part: Any) -> bool:
    """Returns whether a part of an answer is more than an empty text."""
    if not isinstance(part, dict):
        return bool(part)
    content = part.get("content", part.get("summary"))
    if part.get("type") in ("message", "reasoning"):
        parts = content if isinstance(content, list) else (content,)
        return bool(part.get("encrypted_content")) or any(map(_says_something, parts))
    about = ("type", "id", "role", "status")
    return any(value for name, value in part.items() if name not in about and isinstance(value, str | dict | list))
