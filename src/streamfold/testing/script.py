"""The words that scripts are written in: what a model says, step by step, and nothing of how a wire spells it.

A turn is one answer. It is written as a text, a step, or a list of both; `wires.py` makes bytes of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ..values import ConfigError, StreamfoldError, Usage
from .failures import Fail, read_failure

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = [
    "Answer",
    "Finish",
    "Pause",
    "Said",
    "Step",
    "ToolCallStep",
    "call",
    "fail",
    "finish",
    "pause",
    "read_answer",
    "refuse",
    "say",
    "think",
    "usage",
]

_WORD = re.compile(r"\s*\S+|\s+")  # with the space before it, as tokenizers cut


@dataclass(frozen=True, slots=True, repr=False)
class Said:
    """Text in the pieces in which it is streamed. `kind` is the word that wrote it: say, think or refuse."""

    kind: str
    pieces: tuple[str, ...]

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def __repr__(self) -> str:
        return f"{self.kind}({_shortened(self.text)})"


@dataclass(frozen=True, slots=True, repr=False)
class ToolCallStep:
    """A tool call. `arguments` is the model's text; without a `call_id` it is given one."""

    name: str
    arguments: str
    call_id: str | None = None

    @property
    def pieces(self) -> list[str]:
        return _WORD.findall(self.arguments)

    def __repr__(self) -> str:
        return f"call({self.name!r}, {_shortened(self.arguments)})"


@dataclass(frozen=True, slots=True, repr=False)
class Finish:
    """Why the model stopped, in the word of the wire."""

    reason: str

    def __repr__(self) -> str:
        return f"finish({self.reason!r})"


@dataclass(frozen=True, slots=True, repr=False)
class Pause:
    """Nothing comes for so many seconds."""

    seconds: float

    def __repr__(self) -> str:
        return f"pause({self.seconds:g})"


Step: TypeAlias = Said | ToolCallStep | Usage | Finish | Pause | Fail
Answer: TypeAlias = str | Step | Sequence[str | Step]


def say(*content: str | Mapping[str, Any] | BaseModel) -> Said:
    """Visible text. One string is streamed word by word, several are streamed as these pieces.

    A dict or an instance of a pydantic model is said as JSON, as an answer to `response_format`.

    >>> say("Hello there").pieces
    ('Hello', ' there')
    >>> say("Hel", "lo").pieces
    ('Hel', 'lo')
    """
    return _said("say", content)


def think(*content: str) -> Said:
    """Reasoning, cut like `say`. `think("")`: the model reasoned, and what is not shown."""
    return _said("think", content)


def refuse(*content: str) -> Said:
    """The text by which the model declines, cut like `say`; it is the reply's `refusal`, and not in its text."""
    return _said("refuse", content)


def call(
    name: str, /, arguments: Mapping[str, Any] | str | None = None, *, call_id: str | None = None, **named: Any
) -> ToolCallStep:
    """A tool call: `call("get_weather", city="Paris")`, or the arguments as a dict.

    Args:
        arguments: a dict, for names that are none in Python; or the text as the model writes it, be it broken.
        call_id: the id of the call; else they are numbered.

    Raises:
        ConfigError: there are arguments in two ways, or they are no JSON data.
    """
    if arguments is not None and named:
        raise ConfigError(f"call({name!r}): the arguments are a dict, a text, or named; not two of these at once")
    if not isinstance(arguments, str):
        try:
            arguments = json.dumps(dict(named if arguments is None else arguments), ensure_ascii=False)
        except (TypeError, ValueError) as exc:
            raise ConfigError(f"call({name!r}): the arguments are no JSON data: {exc}") from exc
    return ToolCallStep(name, arguments, call_id)


def usage(
    input_tokens: int | None = None,
    output_tokens: int | None = None,
    *,
    total_tokens: int | None = None,
    cached_tokens: int | None = None,
    reasoning_tokens: int | None = None,
) -> Usage:
    """Token counts. Without them the answer has none: the reply's `usage` is None."""
    return Usage(input_tokens, output_tokens, total_tokens, cached_tokens, reasoning_tokens)


def finish(reason: str) -> Finish:
    """Another finish reason than "tool_calls" after calls and "stop" after anything else.

    "length" and "content_filter" cut the answer off; after "unknown" the stream is done without having said why.
    """
    return Finish(reason)


def pause(seconds: float) -> Pause:
    """Nothing comes for so many seconds; `pause(math.inf)` is a server that hangs.

    Raises:
        ConfigError: it is not a number of seconds.
    """
    if not seconds >= 0:  # NaN is neither
        raise ConfigError(f"pause() takes seconds, not {seconds!r}")
    return Pause(float(seconds))


def fail(
    error: int | str | type[StreamfoldError] | StreamfoldError,
    message: str | None = None,
    *,
    code: str | None = None,
    retry_after: float | None = None,
) -> Fail:
    """How the answer goes wrong. It is the last step of its turn.

        fail(429, retry_after=1)                   an HTTP status instead of an answer
        fail(RateLimitError, "slow down")          the same, by the error that it becomes
        fail("the model is overloaded")            an error event inside the answer: UpstreamError
        fail(IncompleteStreamError)                the answer ends in the middle
        fail(APIConnectionError)                   no connection; after other steps the connection breaks
        fail(APITimeoutError)                      no connection in time
        fail(EmptyResponseError), fail(ProtocolError)

    Args:
        error: a status, a message, or an error of streamfold as a class or as an instance.
        code: the word by which the server classifies it.
        retry_after: seconds, with a status.

    Raises:
        ConfigError: there is no such failure.
    """
    return read_failure(error, message, code, retry_after)


def read_answer(answer: Answer) -> list[Step]:
    """The steps of one turn. Raises ConfigError for what is no step, and for a failure in the wrong place."""
    given = [answer] if isinstance(answer, str) or not isinstance(answer, Sequence) else answer
    steps = [_step(item) for item in given]
    for at, step in enumerate(steps):
        if not isinstance(step, Fail):
            continue
        if at < len(steps) - 1:
            raise ConfigError(f"{step!r} ends the answer, and {steps[at + 1]!r} can't follow it")
        before = [other for other in steps[:at] if not isinstance(other, Pause)]
        if before and step.only_first:
            raise ConfigError(
                f"{step!r} stands for the whole answer, which has begun with {before[0]!r}: an error that comes"
                ' later is fail("message"), fail(IncompleteStreamError) or fail(APIConnectionError), and a server that'
                " hangs is pause(math.inf)"
            )
    return steps


def _step(item: Any) -> Step:
    if isinstance(item, str):
        return say(item)
    if isinstance(item, Said | ToolCallStep | Usage | Finish | Pause | Fail):
        return item
    raise ConfigError(
        f"a turn is a text, a step, or a list of both, and {item!r} is none: the steps are say(), think(), call(),"
        " refuse(), usage(), finish(), pause() and fail()"
    )


def _said(kind: str, content: tuple[Any, ...]) -> Said:
    if not content:
        raise ConfigError(f"{kind}() needs something to {kind}")
    texts = tuple(_text(kind, piece) for piece in content)
    return Said(kind, texts if len(texts) > 1 else tuple(_WORD.findall(texts[0])) or ("",))


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
