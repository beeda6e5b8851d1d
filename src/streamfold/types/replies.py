"""The values that callers receive: chunks, tool calls, usage, warnings, and the whole reply."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, TypeAlias, TypeVar

from ..errors import PicklableSlots, StreamfoldError
from ..jsontext import parse_object, replace_non_finite
from .cost import Cost
from .finish_reason import FinishReason
from .hosted_parts import Citation, GeneratedFile, HostedPart
from .hosted_reading import citations_in, files_in, hosted_parts, is_paused, phases_in, text_in
from .pydantic_support import PydanticField, describe_problems, read_as
from .rate_limit import RateLimit
from .tool_calls import ToolCall
from .usage import Usage

if TYPE_CHECKING:
    from pydantic import BaseModel, GetCoreSchemaHandler
    from pydantic_core import CoreSchema
    from pydantic_core.core_schema import SerializationInfo, SerializerFunctionWrapHandler

    from .messages import Message

    M = TypeVar("M", bound=BaseModel)

WarningCode = Literal[
    # how the stream ended
    "unknown_finish_reason",  # the finish reason is a word that nobody knows; the detail has it
    "missing_finish_reason",  # the stream ended in order, but without a finish reason
    "interrupted_after_finish",  # the connection broke after the finish reason; the answer is complete
    "error_after_finish",  # an error was reported after the finish reason; the answer is complete
    "truncated_event",  # the last event was cut in two; it held nothing that was needed
    "late_content",  # text or calls came after a finish reason; they are part of the answer
    "leaked_markup",  # the text contains tool calls as markup; the detail names the dialect that would read them
    "empty_answer",  # the stream ended in order, with neither text nor calls
    # tool calls
    "calls_dropped",  # calls were in the stream and are not delivered; the detail says which and why
    "missing_tool_calls",  # the finish reason is tool_calls, but there are none
    "missing_id",  # a call had no id and was given a new one
    "changed_id",  # a call got a second id later on; the first one is used
    "duplicate_id",  # two calls of one message had the same id; the second one was given a new one
    "guessed_call",  # neither an index nor an id told which call a fragment belongs to; what usually comes next did
    "invalid_arguments",  # the arguments of a call are not a JSON object
    "repaired_arguments",  # the arguments were damaged in a known way and repaired; the detail names the repair
    "arguments_mismatch",  # the arguments in pieces and their repetition as a whole differ
    "tool_choice_unmet",  # the request required a call, and none came
    "unfinished_markup",  # the answer ended inside a tool call that the model wrote into its text
    "markup_dropped",  # tool calls that the model wrote into its text are not delivered; the detail says why
    # the request
    "forced_choice_dropped",  # the model does not accept a forced choice, or not while it thinks; "auto" was sent
    "tool_choice_changed",  # the choice was sent in another form: tools that may not be chosen were left out
    "option_dropped",  # the option was not sent: the server or the model does not accept a value for it
    "option_changed",  # the server has no such value; the detail says what was sent instead
    "option_emulated",  # the model does not take the option; what it asks for is done here, as the detail says
    "parallel_calls_unmet",  # several calls came, though one at a time was asked for and could not be demanded
    "schema_changed",  # a schema was sent in the form that the provider accepts; the detail says what was changed
    "response_format_changed",  # the form of the answer was requested in another way than by a schema
    "tool_dropped",  # the provider does not run this tool of other servers; it was not offered to the model
    "tool_renamed",  # the provider does not accept the name of a tool; calls have the tool's own name
    "cache_prefix_changed",  # what stands before a cache mark is not what the last request had there: the cache misses
    # the conversation
    # `repair_history=True`: a message was dropped, moved, added or given another id; the detail says which
    "history_repaired",
    "history_mismatch",  # some providers would refuse this conversation, or misread it; this one may not
    "lost_reasoning",  # the provider wants the reasoning of an earlier turn back, but the turn has none
    "reasoning_dropped",  # the reasoning of earlier turns was not sent: the provider does not accept it
    "provider_data_dropped",  # something that only another provider can read was not sent
    "special_tokens_escaped",  # special tokens of the model in the conversation were sent as text
    "turn_restored",  # the turn cache gave back what earlier turns had lost: reasoning, signatures, encrypted items
    "turn_cache_failed",  # what earlier turns have lost could not be looked up, or the answer not be remembered
    "ids_renumbered",  # calls and results were sent with ids in the provider's own style
    "tool_images_moved",  # images of a tool's result were sent in a user's message, the only place that accepts them
    # the API
    "usage_invalid",  # a count or a cost is negative, not finite, too large or not a number; it is not counted
    "input_maybe_truncated",  # the provider counted less than half of the tokens that the messages have
    "text_mismatch",  # a text in pieces and its repetition as a whole differ; what was shown stays
    "repeated_event",  # an event came twice, as when a stream is resumed; the second one is ignored
    "missing_event",  # the numbers of the events have a gap
    "extra_choice",  # the server sent more than one choice; only the first one is read
    "malformed_event",  # a line that is not part of an event, or an event after the finish that can't be read; ignored
    "unseparated_events",  # several payloads were in one event, because a blank line between them is missing
    "unrequested_encoding",  # the answer was compressed, which the request did not ask for; it was unpacked
    "invalid_utf8",  # bytes that are not UTF-8, or half a character in the request, were replaced by U+FFFD
    "more_warnings",  # there were more warnings than `Limits.warnings`; the detail says how many
]


@dataclass(frozen=True, slots=True)
class ReplyWarning:
    """A problem of the answer, and how it was handled."""

    code: WarningCode
    detail: str


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds since the request was sent."""

    headers: float | None = None
    first_chunk: float | None = None
    total: float | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """A failed attempt, or a provider that was skipped.

    Attributes:
        error: the class name of the error; None if the provider was skipped.
        pause: seconds waited before the next attempt at this provider.
        resumed_after: the number of the event after which the answer was resumed.
    """

    provider: str
    problem: str
    error: str | None = None
    pause: float | None = None
    resumed_after: int | None = None


class Pricing(Protocol):
    def cost(self, reply: Reply) -> Cost | None: ...


@dataclass(frozen=True, slots=True)
class FixedPricing:
    """A known cost, as of a reply that was stored as JSON."""

    known: Cost

    def cost(self, reply: Reply) -> Cost | None:
        return self.known


class _AsFixed:
    """Pricing as a field of a pydantic model: in JSON, only the cost."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        def read(value: Any) -> Any:
            if not callable(getattr(value, "cost", None)):
                raise ValueError("it has no method `cost`")
            return value

        def write(value: Any, inner: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
            return inner(value) if info.mode == "json" else value

        fixed = core_schema.nullable_schema(handler.generate_schema(FixedPricing))
        any_kind = core_schema.union_schema([fixed, core_schema.no_info_plain_validator_function(read)])
        written = core_schema.wrap_serializer_function_ser_schema(write, info_arg=True, schema=fixed)
        return core_schema.json_or_python_schema(fixed, any_kind, serialization=written)


PricingField: TypeAlias = Annotated[Pricing | None, _AsFixed()]


@dataclass(slots=True)
class Reply(PydanticField, PicklableSlots):
    """The whole answer.

    Attributes:
        text: the visible text, without `reasoning` and `refusal`.
        tool_calls: complete calls in the model's order.
        raw_finish_reason: the provider's own word for `finish_reason`.
        warnings: problems, and how each was handled.
        request_id: from the response headers, for support requests.
        extras: other content of the message, by its name in the API (`annotations`, `audio`, ...).
        attempts: failed attempts before this answer.
    """

    text: str = ""
    reasoning: str = ""
    refusal: str | None = None
    tool_calls: list[ToolCall] = field(default_factory=list)
    finish_reason: FinishReason = "unknown"
    raw_finish_reason: str | None = None
    usage: Usage | None = None
    warnings: list[ReplyWarning] = field(default_factory=list)
    id: str | None = None
    model: str | None = None
    request_id: str | None = None
    timing: Timing | None = None
    rate_limit: RateLimit | None = None
    extras: dict[str, list[Any]] = field(default_factory=dict)
    attempts: tuple[Attempt, ...] = ()
    provider: str | None = None
    reasoned: bool = field(default=False, repr=False)  # reasoning was sent, if only as ""
    answer: str | None = field(default=None, repr=False)  # the end of the text, where it was asked for as a tool call
    origin: str | None = field(default=None, repr=False, compare=False)  # see Message.origin
    pricing: PricingField = field(default=None, repr=False, compare=False)

    @property
    def cost(self) -> Cost | None:
        """The cost of the answer, if known.

        It is the provider's own figure, if sent (OpenRouter, xAI); else tokens times the configured prices, or those of
        the package `genai-prices` (extra `prices`).
        """
        return None if self.pricing is None else self.pricing.cost(self)

    @property
    def hosted(self) -> tuple[HostedPart, ...]:
        """Steps of the provider's tools, in order: searches, code, MCP servers, compactions."""
        cut = self.finish_reason in ("length", "content_filter")
        return hosted_parts(self.extras, None if cut else {call.id for call in self.tool_calls})

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The cited sources, with positions in characters of `text`."""
        return citations_in(self.extras, self.text)

    @property
    def files(self) -> tuple[GeneratedFile, ...]:
        """Files made by the provider's tools; see `Provider.fetch_file`."""
        return files_in(self.extras)

    @property
    def paused(self) -> bool:
        """Whether sending the conversation back lets the model continue this turn, as `run_tools` does."""
        return is_paused(self.extras)

    @property
    def phases(self) -> tuple[str, ...]:
        """The phase of each message of the answer, if sent: "commentary" or "final_answer"."""
        return phases_in(self.extras)

    def _for_json(self) -> Reply:
        cost = self.cost  # what it cost is written, and not how that was found out
        return replace(self, pricing=None if cost is None else FixedPricing(cost))

    def parse_as(self, model: type[M]) -> M:
        """Parses the text as a pydantic model, for requests with `response_format`. A code fence around it is removed.

        Raises:
            InvalidReplyError: the text isn't JSON or does not fit; the message shows why.
        """
        from pydantic import ValidationError

        try:
            return read_as(model, parse_object(_unfenced(self.text if self.answer is None else self.answer)))
        except ValidationError as exc:
            raise InvalidReplyError(self._misfit(model, describe_problems(exc, "the answer")), self) from exc
        except ValueError as exc:
            raise InvalidReplyError(self._misfit(model, f"it is not JSON ({exc})"), self) from exc

    def _misfit(self, model: type[BaseModel], why: str) -> str:
        if self.refusal and not self.text:
            return f"the model refused to answer as {model.__name__}: {self.refusal}"
        if self.finish_reason in ("length", "content_filter"):
            why = f"it was cut off (finish reason {self.finish_reason!r}); {why}"
        return f"the answer does not match {model.__name__}: {why}. It was: {_shortened(self.text)!r}"

    @property
    def message(self) -> Message:
        """The assistant's turn, for the history. NaN becomes null, which requests require."""
        from .messages import Message

        return Message(
            role="assistant",
            content=self._said or None,
            tool_calls=tuple(
                replace(call, extra=replace_non_finite(call.extra)) if call.extra else call for call in self.tool_calls
            ),
            reasoning=self.reasoning if self.reasoned else None,
            refusal=self.refusal,
            extras=dict(replace_non_finite(self.extras)),
            origin=self.origin,
        )

    @property
    def _said(self) -> str:
        """The final text from the server. Resending any other text would change the turn."""
        differs = any(warning.code == "text_mismatch" for warning in self.warnings)
        return (text_in(self.extras) if differs else "") or self.text


def total_cost(replies: Iterable[Reply]) -> Cost | None:
    """Returns the sum of the costs; None if one is unknown or the currencies differ."""
    costs = [reply.cost for reply in replies]
    known = [cost for cost in costs if cost is not None]
    if not known or len(known) < len(costs) or len({cost.currency for cost in known}) > 1:
        return None
    return reduce(Cost.__add__, known)


class InvalidReplyError(StreamfoldError, ValueError):
    """The text of a reply does not fit the requested model. The message can be sent back to the model."""

    def __init__(self, message: str, reply: Reply) -> None:
        super().__init__(message)
        self.reply = reply


def _unfenced(text: str) -> str:
    """Removes a Markdown code fence around the whole text."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        return text[text.index("\n") : -3]
    return text


def _shortened(text: str) -> str:
    return text if len(text) <= 500 else f"{text[:250]} ... {text[-250:]}"
