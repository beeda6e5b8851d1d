"""The steps of a script for a scripted model: say, think, call, refuse, usage, finish, pause, fail.

Each turn of a script is one response of the model. A turn is a text, a step, or a list of texts and steps.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..errors import (
    APIError,
    APIStatusError,
    APITimeoutError,
    ConfigError,
    StreamError,
    StreamfoldError,
    UpstreamError,
    exceptions,
)
from ..types import Usage

if TYPE_CHECKING:
    from pydantic import BaseModel


_WORD = re.compile(r"\s*\S+|\s+")  # a word with the space before it, as in tokenizers

How: TypeAlias = Literal["status", "event", "cut", "broken", "timeout", "empty", "garbage"]


@dataclass(frozen=True, slots=True, repr=False)
class Fail:
    """A failure at the end of a response.

    Attributes:
        how: "status" for an HTTP error, "event" for an error event in the stream, "cut" for a body that ends early,
            "broken" for a failing connection, "timeout" for a connection timeout, "empty" for an empty body, or
            "garbage" for a malformed event.
        kind: the field `type` of the server's error object.
    """

    how: How
    message: str
    status: int | None = None
    kind: str | None = None
    code: str | None = None
    retry_after: float | None = None

    @property
    def only_first(self) -> bool:
        """True if the failure replaces the whole response. Only pauses may stand before it in the script."""
        return self.how in ("status", "timeout", "empty")

    def __repr__(self) -> str:
        return f"fail({self.status or self.message!r})"


# The status and the code from which `status_error` makes each of these.
_STATUSES: dict[type[StreamfoldError], tuple[int, str | None, str]] = {
    exceptions.ContextLengthError: (400, "context_length_exceeded", "the prompt is too long"),
    exceptions.ContentFilterError: (400, "content_filter", "blocked by content filtering policy"),
    exceptions.UnsupportedOptionError: (400, "unsupported_parameter", "unsupported parameter: 'seed'"),
    exceptions.ModelNotFoundError: (404, "model_not_found", "the model does not exist"),
    exceptions.AuthenticationError: (401, "invalid_api_key", "the key is wrong"),
    exceptions.PermissionDeniedError: (403, None, "the key has no permission for this"),
    exceptions.NotFoundError: (404, None, "there is no such path"),
    exceptions.BadRequestError: (400, None, "the request is invalid"),
    exceptions.RateLimitError: (429, "rate_limit_exceeded", "too many requests"),
    exceptions.QuotaExceededError: (429, "insufficient_quota", "the quota is used up"),
    exceptions.ServerError: (500, None, "the server failed"),
}
_OTHERS: dict[type[StreamfoldError], tuple[How, str]] = {
    exceptions.UpstreamError: ("event", "the server failed in the middle of the answer"),
    exceptions.IncompleteStreamError: ("cut", "the answer ends here"),
    exceptions.EmptyResponseError: ("empty", "the body is empty"),
    exceptions.ProtocolError: ("garbage", "not an event"),
    exceptions.APITimeoutError: ("timeout", "no connection in time"),
    exceptions.APIConnectionError: ("broken", "the connection broke"),
}


@dataclass(frozen=True, slots=True, repr=False)
class ScriptedTurn:
    """A text step, split into the pieces that the scripted model streams.

    Attributes:
        kind: the name of the function that created the step: "say", "think" or "refuse".
        is_data: True if the text is a dict or a pydantic model, serialized as JSON.
    """

    kind: str
    pieces: tuple[str, ...]
    is_data: bool = False

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def __repr__(self) -> str:
        return f"{self.kind}({_shortened(self.text)})"


@dataclass(frozen=True, slots=True, repr=False)
class ToolCallStep:
    """A tool call step. `arguments` is the text that the model would write. Without a `call_id`, an id is generated."""

    name: str
    arguments: str
    call_id: str | None = None

    @property
    def pieces(self) -> list[str]:
        return _WORD.findall(self.arguments)

    def __repr__(self) -> str:
        return f"call({self.name!r}, {_shortened(self.arguments)})"


@dataclass(frozen=True, slots=True, repr=False)
class StopReason:
    """A step that sets the finish reason."""

    reason: str

    def __repr__(self) -> str:
        return f"finish({self.reason!r})"


@dataclass(frozen=True, slots=True, repr=False)
class Pause:
    """A step that waits for a number of seconds."""

    seconds: float

    def __repr__(self) -> str:
        return f"pause({self.seconds:g})"


Step: TypeAlias = ScriptedTurn | ToolCallStep | Usage | StopReason | Pause | Fail
Answer: TypeAlias = str | Step | Sequence[str | Step]


def say(*content: str | Mapping[str, Any] | BaseModel) -> ScriptedTurn:
    """Creates a step with visible text. A single string is streamed word by word. With several strings, each string is
    one piece of the stream.

    To respond to a request with `response_format`, pass a dict or a pydantic model. The scripted model sends it as JSON
    text or as a tool call's arguments, as the provider would.

    >>> say("Hello there").pieces
    ('Hello', ' there')
    >>> say("Hel", "lo").pieces
    ('Hel', 'lo')
    """
    return _said("say", content)


def think(*content: str) -> ScriptedTurn:
    """Creates a step with reasoning text, which is streamed like the text of `say`. `think("")` creates hidden
    reasoning.
    """
    return _said("think", content)


def refuse(*content: str) -> ScriptedTurn:
    """Creates a step with a refusal, which is streamed like the text of `say` and appears in `reply.refusal`."""
    return _said("refuse", content)


def call(
    name: str, /, arguments: Mapping[str, Any] | str | None = None, *, call_id: str | None = None, **named: Any
) -> ToolCallStep:
    """Creates a tool call step, for example `call("get_weather", city="Paris")`.

    Args:
        name: the name of the tool.
        arguments: the tool call's arguments as a dict, or as a text that may be invalid JSON. A dict is needed for
            names that aren't Python identifiers.
        call_id: the id of the tool call. By default, the id contains a running number.
        named: the tool call's arguments as keyword arguments.

    Raises:
        ConfigError: arguments are passed in two ways, or can't be serialized as JSON.
    """
    if arguments is not None and named:
        raise ConfigError(f"call({name!r}): pass the arguments either as a dict, as a text, or as keywords")
    if not isinstance(arguments, str):
        try:
            arguments = json.dumps(dict(named if arguments is None else arguments), ensure_ascii=False)
        except (TypeError, ValueError) as exc:
            raise ConfigError(f"call({name!r}): the arguments can't be written as JSON: {exc}") from exc
    return ToolCallStep(name, arguments, call_id)


def usage(
    input_tokens: int | None = None,
    output_tokens: int | None = None,
    *,
    total_tokens: int | None = None,
    cached_tokens: int | None = None,
    reasoning_tokens: int | None = None,
) -> Usage:
    """Creates a step that sends token counts. Without this step, `reply.usage` is None."""
    return Usage(input_tokens, output_tokens, total_tokens, cached_tokens, reasoning_tokens)


def finish(reason: str) -> StopReason:
    """Creates a step that sets the finish reason. Without this step, the reason is "tool_calls" after tool calls,
    otherwise "stop".

    With "length" or "content_filter", the response counts as truncated. With "unknown", the stream ends without a
    finish reason.
    """
    return StopReason(reason)


def pause(seconds: float) -> Pause:
    """Creates a step in which the scripted server waits for this number of seconds. `pause(math.inf)` simulates a
    server that hangs.

    Raises:
        ConfigError: `seconds` is negative or NaN.
    """
    if not seconds >= 0:  # also true for NaN
        raise ConfigError(f"pause() takes seconds, not {seconds!r}")
    return Pause(float(seconds))


def fail(
    error: int | str | type[StreamfoldError] | StreamfoldError,
    message: str | None = None,
    *,
    code: str | None = None,
    retry_after: float | None = None,
) -> Fail:
    """Creates a step that makes the response fail. It must be the last step of its turn.

        fail(429, retry_after=1)                   an HTTP error status
        fail(RateLimitError, "slow down")          the same, as the class of the raised error
        fail("the model is overloaded")            an error event in the stream: UpstreamError
        fail(IncompleteStreamError)                the stream breaks off
        fail(APIConnectionError)                   no connection; after other steps the connection breaks
        fail(APITimeoutError)                      no connection in time
        fail(EmptyResponseError), fail(ProtocolError)

    Args:
        error: an HTTP status, an error message, or a subclass or an instance of `StreamfoldError`.
        message: the server's error message.
        code: the server's error code.
        retry_after: the value of the `Retry-After` header in seconds. Allowed only with an HTTP status.

    Raises:
        ConfigError: `error` isn't a failure of a server, or an argument doesn't fit this failure.
    """
    if isinstance(error, StreamfoldError):
        return _of_instance(error, message, code, retry_after)
    made: Fail | None = None
    if isinstance(error, str):
        made = Fail("event", message or error, code=code)
    elif isinstance(error, int) and not isinstance(error, bool):
        if not 400 <= error <= 599:
            raise ConfigError(f"fail({error}): an error status is a number from 400 to 599")
        made = Fail("status", message or f"status {error}", error, code=code, retry_after=retry_after)
    elif error in _STATUSES:
        status, word, text = _STATUSES[error]
        made = Fail("status", message or text, status, code=code or word, retry_after=retry_after)
    elif error in _OTHERS:
        how, text = _OTHERS[error]
        made = Fail(how, message or text, code=code)
    if made is None:
        names = ", ".join(sorted(kind.__name__ for kind in (*_STATUSES, *_OTHERS)))
        raise ConfigError(f"fail({error!r}): not a failure. Allowed: a status, a message, or one of {names}")
    if retry_after is not None and made.how != "status":
        raise ConfigError(f"{made!r}: retry_after is only allowed with a status")
    return made


def _of_instance(error: StreamfoldError, message: str | None, code: str | None, retry_after: float | None) -> Fail:
    text = message or (error.message if isinstance(error, APIError) else str(error))
    if isinstance(error, APIStatusError):
        text = text.removesuffix(f" (HTTP {error.status_code})")  # the suffix is added again when the error is raised
        wait = error.retry_after if retry_after is None else retry_after
        return Fail("status", text, error.status_code, code=code or error.code, retry_after=wait)
    if isinstance(error, UpstreamError):
        return Fail("event", text, error.status_code, error.type, code or error.code)
    if isinstance(error, APITimeoutError) and error.phase != "connect":
        raise ConfigError(
            f"an APITimeoutError of the phase {error.phase!r} comes from the provider's own timeouts: use"
            " pause(math.inf) in the script, and set timeouts="
        )
    kinds = [kind for kind in type(error).__mro__ if kind in {**_STATUSES, **_OTHERS} and kind is not StreamError]
    return fail(kinds[0] if kinds else type(error), text, code=code, retry_after=retry_after)


def read_answer(answer: Answer) -> list[Step]:
    """Returns the steps of one turn. Raises ConfigError if a step is invalid, or if a failure isn't the last step."""
    given = [answer] if isinstance(answer, str) or not isinstance(answer, Sequence) else answer
    steps = [_step(item) for item in given]
    for at, step in enumerate(steps):
        if not isinstance(step, Fail):
            continue
        if at < len(steps) - 1:
            raise ConfigError(f"{step!r} ends the response, so {steps[at + 1]!r} can't follow it")
        before = [other for other in steps[:at] if not isinstance(other, Pause)]
        if before and step.only_first:
            raise ConfigError(
                f"{step!r} replaces the complete response, so {before[0]!r} can't come before it. For a later"
                ' error use fail("message"), fail(IncompleteStreamError) or fail(APIConnectionError); for a server'
                " that hangs use pause(math.inf)"
            )
    return steps


def _step(item: Any) -> Step:
    if isinstance(item, str):
        return say(item)
    if isinstance(item, ScriptedTurn | ToolCallStep | Usage | StopReason | Pause | Fail):
        return item
    raise ConfigError(
        f"{item!r} is not a turn. Allowed: a text, a step, or a list of both; the steps are say(), think(), call(),"
        " refuse(), usage(), finish(), pause() and fail()"
    )


def _said(kind: str, content: tuple[Any, ...]) -> ScriptedTurn:
    if not content:
        raise ConfigError(f"{kind}() needs a text")
    texts = tuple(_text(kind, piece) for piece in content)
    is_data = len(content) == 1 and not isinstance(content[0], str)
    return ScriptedTurn(kind, texts if len(texts) > 1 else tuple(_WORD.findall(texts[0])) or ("",), is_data)


def _text(kind: str, piece: Any) -> str:
    if isinstance(piece, str):
        return piece
    if kind == "say" and hasattr(piece, "model_dump_json"):
        return str(piece.model_dump_json(by_alias=True))
    if kind == "say" and isinstance(piece, Mapping):
        return json.dumps(dict(piece), ensure_ascii=False)
    raise ConfigError(f"{kind}() takes text, not {type(piece).__name__}: {piece!r:.80}")


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
