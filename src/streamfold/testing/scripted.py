"""`ScriptedProvider`: a test double that answers requests with a script, in the format of the provider's API."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias, Unpack

import httpx

from ..adapters import adapter_by_path, find_adapter
from ..adapters.anthropic import STOP_REASONS
from ..adapters.gemini import FINISH_REASONS, OTHER_REASONS, SIGNATURE, gemini_error_body
from ..adapters.interactions import STATUSES, interactions_error_body
from ..client import Hooks
from ..config import ProviderConfig
from ..deltas import Delta, Failure, Finish, ReasoningDelta, RefusalDelta, TextDelta
from ..errors import ConfigError, ErrorInfo
from ..faults import BodyStep, Ending
from ..recording import ReplayedResponse, wait
from ..requests import Request
from ..serving import StreamSerializer, comment, openai_error_body
from ..serving.anthropic import AnthropicSerializer, anthropic_error_body
from ..serving.chat import ChatSerializer
from ..serving.gemini import GeminiSerializer
from ..serving.interactions import InteractionsSerializer
from ..serving.responses import ResponsesSerializer
from ..types import ExtraPart, ToolCallDelta, Usage
from .doubles import ProviderDouble, ScriptError, SentRequest, replaced_profile
from .script import Answer, Fail, Pause, ScriptedTurn, Step, StopReason, ToolCallStep, read_answer

_CREATED = 1_700_000_000  # always the same, like everything in a test
_KINDS: dict[str, Callable[[str], Delta]] = {"say": TextDelta, "think": ReasoningDelta, "refuse": RefusalDelta}
_ENDS = ("stop", "tool_calls", "length", "content_filter")


@dataclass(frozen=True, slots=True)
class _Format:
    """The properties of an API's wire format that `ScriptSerializer` needs.

    Attributes:
        prefix: the prefix of response ids.
        error: a function that returns the body of a response with an error status.
        reasons: additional finish reasons of this wire format. None allows any text.
        refusals: True if the wire format has a field for refusals.
        signs: the part of a response to which the API adds a signature, or None if the API adds no signatures.
        repeats: the request fields that the API repeats in its response.
    """

    serializer: Callable[..., StreamSerializer]
    prefix: str
    error: Callable[[ErrorInfo], dict[str, Any]] = lambda info: openai_error_body(replace(info, status=None))
    reasons: Collection[str] | None = None
    refusals: bool = True
    signs: Literal["thinking", "first call", "thought step"] | None = None
    repeats: Collection[str] = ()


_CHAT = _Format(partial(ChatSerializer, include_usage=True), "chatcmpl-")
_FORMATS = {
    "anthropic": _Format(AnthropicSerializer, "msg_", anthropic_error_body, {*STOP_REASONS}, False, "thinking"),
    "chat": _CHAT,
    "gemini": _Format(GeminiSerializer, "", gemini_error_body, {*FINISH_REASONS, *OTHER_REASONS}, False, "first call"),
    "interactions": _Format(InteractionsSerializer, "v1_", interactions_error_body, {*STATUSES}, False, "thought step"),
    "kimi": _CHAT,
    "responses": _Format(ResponsesSerializer, "resp_", reasons=(), repeats=["previous_response_id"]),
}


class ScriptSerializer:
    """Serializes one scripted response in the format of an API.

    Args:
        adapter: the adapter that will decode the response.
        number: the number of the response. Generated ids contain this number.
        next_id: a function that is called with a tool's name, and returns the id of a new tool call.
        body: the JSON body of the request.

    Raises:
        ConfigError: this adapter's wire format can't be scripted.
    """

    def __init__(
        self,
        adapter: str,
        model: str = "",
        number: int = 1,
        next_id: Callable[[str], str] = "call_{}".format,
        body: Mapping[str, Any] | None = None,
    ) -> None:
        self._next_id = next_id
        self._calls = 0
        self._adapter = adapter
        self._signature = b64encode(b"the signature of answer %d" % number).decode()
        self._format = _format(adapter)
        said = {name: (body or {}).get(name) for name in self._format.repeats}
        more = {"about": said} if said else {}
        self._serializer = self._format.serializer(
            **more, id=f"{self._format.prefix}{number}", model=model, created=_CREATED
        )

    def events(self, steps: Sequence[Step]) -> Iterator[tuple[float, bytes]]:
        """Yields the pieces of the response body, each with the number of seconds to wait before the piece is sent."""
        yield 0.0, self._serializer.begin()
        wait, reason = 0.0, ""
        for step in steps:
            pieces: list[bytes] = []
            match step:
                case ScriptedTurn("refuse") if not self._format.refusals:
                    raise ConfigError(
                        f"{step!r}: a refusal isn't a separate field in the format {self._adapter!r}; use say(),"
                        ' and finish("content_filter") if the provider stopped the response'
                    )
                case ScriptedTurn():
                    pieces = [self._serializer.feed(_KINDS[step.kind](piece)) for piece in step.pieces]
                    if (step.kind, self._format.signs) == ("think", "thinking"):
                        self._serializer.feed(ExtraPart("signature", self._signature))
                    elif (step.kind, self._format.signs) == ("think", "thought step"):
                        signed = {"type": "thought", "signature": self._signature}
                        pieces.append(self._serializer.feed(ExtraPart("step", signed)))
                case ToolCallStep():
                    pieces, reason = (
                        [self._serializer.feed(delta) for delta in self._call(step)],
                        reason or "tool_calls",
                    )
                case Pause(seconds) if seconds == math.inf:
                    yield seconds, comment("never")
                    return
                case Pause(seconds):
                    wait += seconds
                case StopReason(word):
                    reason = word
                case Usage(input_tokens=int(before), output_tokens=int(after), total_tokens=None):
                    self._serializer.feed(replace(step, total_tokens=before + after))
                case Usage():
                    self._serializer.feed(step)
                case Fail(how="event"):
                    yield wait, self._serializer.feed(Failure(_info(step)))
                    return
                case Fail(how="garbage"):
                    yield wait, b"data: {" + json.dumps(step.message).encode() + b"\n\n"
                    return
                case Fail():
                    yield wait, comment("nothing more")  # the end of the body comes after it
                    return
            for piece in filter(None, pieces):
                yield wait, piece
                wait = 0.0
        yield wait, self._end(reason or "stop")

    def _call(self, step: ToolCallStep) -> Iterator[ToolCallDelta]:
        number, self._calls = self._calls, self._calls + 1
        signed = number == 0 and self._format.signs == "first call"
        extra = {SIGNATURE: self._signature} if signed else None
        yield ToolCallDelta(
            number, self._next_id(step.name) if step.call_id is None else step.call_id, step.name, extra=extra
        )
        for piece in step.pieces:
            yield ToolCallDelta(number, arguments=piece)
        yield ToolCallDelta(number, arguments=step.arguments, whole=True)

    def _end(self, reason: str) -> bytes:
        own = self._format.reasons
        if own is not None and reason not in _ENDS and reason not in own:
            allowed = ", ".join([*_ENDS, *sorted(word for word in own if not word.isdecimal())])
            raise ConfigError(f"finish({reason!r}): unknown in the format {self._adapter!r}. Allowed: {allowed}")
        if own is not None and reason in _ENDS:
            self._serializer.feed(Finish(reason, reason))  # type: ignore[arg-type] # one of the four
        elif own is not None or reason != "unknown":
            self._serializer.feed(Finish("unknown", reason))  # so that the word itself is written
        return self._serializer.finish()


def _format(adapter: str) -> _Format:
    if adapter in _FORMATS:
        return _FORMATS[adapter]
    allowed = ", ".join(_FORMATS)
    raise ConfigError(f"unknown adapter {adapter!r} for a script. Allowed: {allowed}. Replay recordings instead")


def _info(step: Fail) -> ErrorInfo:
    return ErrorInfo(step.message, step.kind, step.code, step.status)


Turn: TypeAlias = Answer | Callable[[SentRequest], Answer]


class ScriptedProvider(ProviderDouble):
    """A test double that answers each request with the next turn of a script.

        model = ScriptedProvider(call("get_weather", city="Paris"), "It is 18 degrees.")
        assert await ask(model, "What is the weather in Paris?") == "It is 18 degrees."
        assert [tool.name for tool in model.requests[0].tools] == ["get_weather"]
        model.assert_done()

    Args:
        turns: one turn for each request, in order. A turn is a text, a step (`say`, `think`, `call`, `refuse`, `usage`,
            `finish`, `pause`, `fail`), or a list of texts and steps. A turn can also be a function that is called with
            the `SentRequest` and returns such a turn.
        then: the turn that answers every request after `turns` has been used up. By default, such a request raises
            ScriptError.
        provider: the provider to replace; see `Provider.from_config`. The double uses the provider's wire format,
            quirks and dialect, but neither its API key nor its base URL. Default: Chat Completions without quirks.
        hooks, overrides: see `Provider.from_config`. `max_retries` is 0 by default, so that each failure reaches the
            application. With retries, each attempt uses one turn.

    Attributes:
        provider: the `Provider` that decodes the responses.
        requests: the requests that the application sent.

    Raises:
        ConfigError: a turn or the configuration is invalid.
    """

    def __init__(
        self,
        *turns: Turn,
        then: Turn | None = None,
        provider: str | Mapping[str, Any] | None = None,
        hooks: Hooks | Iterable[Hooks] = (),
        **overrides: Unpack[ProviderConfig],
    ) -> None:
        super().__init__(replaced_profile(provider, overrides, name="scripted"), hooks=hooks)
        self._turns = [_checked_turn(turn, f"turn {number}") for number, turn in enumerate(turns, 1)]
        self._then = None if then is None else _checked_turn(then, "then")
        self._problems: list[str] = []
        self._calls = 0
        # An adapter without a serializer is an error now, not with the first request.
        ScriptSerializer(self.profile.adapter_of(self.profile.model))

    def assert_done(self) -> None:
        """Raises ScriptError if a turn of the script is left over, if a request found no turn, or if a turn was
        invalid.
        """
        problems, used = list(self._problems), len(self.requests)
        for number, turn in enumerate(self._turns[used:], used + 1):
            problems.append(f"turn {number} was not used: {_shown(turn)}")
        if problems:
            raise ScriptError("; ".join(problems))

    async def _respond(self, sent: SentRequest, parsed: Request, request: httpx.Request) -> httpx.Response:
        number = len(self.requests)
        turn = self._turns[number - 1] if number <= len(self._turns) else self._then
        if turn is None:
            turns = f"{len(self._turns)} turn{'' if len(self._turns) == 1 else 's'}"
            problem = (
                f"request {number} has no turn: the script has {turns}, and the application sent another request after"
                f" {sent.text!r:.200} (each argument is a turn; a list is one turn of several steps)"
            )
            self._problems.append(problem)
            raise ScriptError(problem)
        try:
            steps = self._for_schema(read_answer(turn(sent) if callable(turn) else turn), parsed)
            # At an endpoint with two APIs, the request may be for either API.
            adapter, path = self.profile.adapter_of(sent.model), request.url.path
            if not find_adapter(adapter)().handles_path(path):
                adapter = adapter_by_path(path) or adapter
            played = self._played(steps, sent.model, number, adapter, sent.body)
        except ConfigError as exc:  # an application might handle a StreamfoldError as a failure of its provider
            self._problems.append(f"turn {number} can't be played: {exc}")
            raise ScriptError(self._problems[-1]) from exc
        except Exception as exc:
            self._problems.append(f"turn {number}, {_shown(turn)}, failed: {type(exc).__name__}: {exc}")
            raise
        if isinstance(played, httpx.TransportError):
            await wait(_pauses(steps))
            raise played
        return played.respond(request)

    def _played(
        self, steps: Sequence[Step], model: str, number: int, adapter: str, body: Mapping[str, Any]
    ) -> ReplayedResponse | httpx.TransportError:
        last = steps[-1] if steps and isinstance(steps[-1], Fail) else None
        has_content = any(not isinstance(step, Pause | Fail) for step in steps)
        if last and (last.only_first or (last.how == "broken" and not has_content)):
            return _no_answer(last, number, steps, adapter)
        writer = ScriptSerializer(adapter, model, number, self._next_id, body)
        written = [BodyStep(delay, event) for delay, event in writer.events(steps)]
        ending: Ending = "cut" if last is not None and last.how == "broken" else "end"
        headers = {"content-type": "text/event-stream", "x-request-id": f"scripted-{number}"}
        return ReplayedResponse(0.0, 200, headers, iter([*written, BodyStep(0.0, b"", ending)]))

    def _for_schema(self, steps: list[Step], parsed: Request) -> list[Step]:
        if parsed.options.response_format is None:
            return steps
        tool = self.profile.make_adapter(parsed.model).prepare(parsed, repair_history=True).request.answer_tool
        if tool is None:
            return steps
        return [
            ToolCallStep(tool, step.text) if isinstance(step, ScriptedTurn) and step.is_data else step for step in steps
        ]

    def _next_id(self, name: str) -> str:
        number, self._calls = self._calls, self._calls + 1
        return f"functions.{name}:{number}" if self.profile.adapter == "kimi" else f"call_{number + 1}"


def _checked_turn(turn: Turn, where: str) -> Turn:
    if callable(turn):
        return turn
    try:
        read_answer(turn)
    except ConfigError as exc:
        raise ConfigError(f"{where}: {exc}") from None
    return turn


def _pauses(steps: Sequence[Step]) -> float:
    return sum(step.seconds for step in steps if isinstance(step, Pause))


def _no_answer(step: Fail, number: int, steps: Sequence[Step], adapter: str) -> ReplayedResponse | httpx.TransportError:
    if step.how == "timeout":
        error = httpx.ConnectTimeout(step.message)
        error.__cause__ = TimeoutError(step.message)
        return error
    if step.how == "broken":
        return httpx.ConnectError(step.message)
    if step.status is None:
        return ReplayedResponse(0.0, 200, {"content-type": "text/event-stream"}, iter([BodyStep(0.0, b"", "end")]))
    headers = {"content-type": "application/json", "x-request-id": f"scripted-{number}"}
    if step.retry_after is not None:
        headers["retry-after-ms"] = f"{step.retry_after * 1000:g}"
    body = json.dumps(_format(adapter).error(_info(step))).encode()
    body_steps = [BodyStep(_pauses(steps), body), BodyStep(0.0, b"", "end")]
    return ReplayedResponse(0.0, step.status, headers, iter(body_steps))


def _shown(turn: Turn) -> str:
    return getattr(turn, "__name__", repr(turn)) if callable(turn) else repr(turn)[:200]
