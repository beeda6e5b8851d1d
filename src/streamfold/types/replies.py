"""`Reply`, a model's complete answer, and the types of its attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeAlias, cast, overload

from ..errors import StreamfoldError, join_limited
from ..jsontext import parse_object, replace_non_finite
from .cost import Cost
from .finish_reason import FinishReason, is_truncated
from .hosted_parts import Citation, GeneratedFile, HostedPart
from .hosted_reading import RESPONSE_STATES, citations_in, files_in, hosted_parts, is_paused, phases_in, text_in
from .pydantic_support import OutputType, PydanticField, T, describe_problems, read_as
from .rate_limit import RateLimit
from .schema_validation import read_by_schema
from .tool_calls import ToolCall
from .usage import Usage
from .warnings import ReplyWarning

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema
    from pydantic_core.core_schema import SerializationInfo, SerializerFunctionWrapHandler

    from .messages import Message


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations in seconds, counted from the time at which streamfold sent the request."""

    headers: float | None = None
    first_chunk: float | None = None
    total: float | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """A request that failed before the answer, or a provider that streamfold skipped.

    Attributes:
        error: the class name of the exception, or None if streamfold skipped the provider.
        pause: the time that streamfold waited before its next request to this provider, in seconds.
        resumed_after: the number or the id of the last SSE event before the failure, if streamfold resumed the answer
            after this event. "" if no event had arrived.
        text_end: the number of characters that had arrived when this provider failed, if another provider then
            continued the text.
    """

    provider: str
    problem: str
    error: str | None = None
    pause: float | None = None
    resumed_after: int | str | None = None
    text_end: int | None = None


class Pricing(Protocol):
    def cost(self, reply: Reply) -> Cost | None: ...


@dataclass(frozen=True, slots=True)
class FixedPricing:
    """The cost of a reply that was parsed from JSON. This cost doesn't depend on token counts or prices."""

    known: Cost

    def cost(self, reply: Reply) -> Cost | None:
        return self.known


class _AsFixed:
    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        def read(value: Any) -> Any:
            if not callable(getattr(value, "cost", None)):
                raise ValueError("the pricing has no method `cost`")
            return value

        def write(value: Any, inner: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
            return inner(value) if info.mode == "json" else value

        fixed = core_schema.nullable_schema(handler.generate_schema(FixedPricing))
        any_kind = core_schema.union_schema([fixed, core_schema.no_info_plain_validator_function(read)])
        written = core_schema.wrap_serializer_function_ser_schema(write, info_arg=True, schema=fixed)
        return core_schema.json_or_python_schema(fixed, any_kind, serialization=written)


PricingField: TypeAlias = Annotated[Pricing | None, _AsFixed()]


@dataclass(slots=True)
class Reply(PydanticField):
    """A model's complete answer.

    Attributes:
        text: the visible text of the answer, without `reasoning` and `refusal`.
        tool_calls: the complete tool calls, in the order in which the model made them.
        raw_finish_reason: the finish reason exactly as the provider sent it.
        warnings: problems with the answer or with the request. Each warning also says how streamfold handled the
            problem.
        request_id: the request id from the response headers. A provider's support team needs it to find the request.
        extras: other content of the answer, under the API's names, such as `annotations` and `audio`.
        attempts: the requests that failed before this answer.
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
    reasoned: bool = field(default=False, repr=False)  # the server sent reasoning, even if it is ""
    answer: str | None = field(default=None, repr=False)  # structured output from a tool call
    origin: str | None = field(default=None, repr=False, compare=False)  # see Message.origin
    prefix: str | None = field(default=None, repr=False, compare=False)  # see Message.prefix
    pricing: PricingField = field(default=None, repr=False, compare=False)

    @property
    def cost(self) -> Cost | None:
        """The cost of the answer, or None if it is unknown.

        If the provider reports a cost (OpenRouter, xAI), this is the reported cost. If the provider reports none,
        streamfold multiplies the token counts by the configured prices, or by the prices of the package `genai-prices`
        (extra `prices`).
        """
        return None if self.pricing is None else self.pricing.cost(self)

    @property
    def hosted(self) -> tuple[HostedPart, ...]:
        """The steps of hosted tools, such as searches, code, MCP calls and compactions, in the order of the answer."""
        cut = is_truncated(self.finish_reason)
        return hosted_parts(self.extras, None if cut else {call.id for call in self.tool_calls})

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The sources that the answer cites. Positions are counted in characters of `text`."""
        return citations_in(self.extras, self.text)

    @property
    def files(self) -> tuple[GeneratedFile, ...]:
        """The files that hosted tools created; see `Provider.fetch_file`."""
        return files_in(self.extras)

    @property
    def paused(self) -> bool:
        """True if the model hasn't finished this turn. To continue the turn, send the history with `reply.message` as
        the last item.

        By default, streamfold continues the turn itself, so `paused` is True only with `max_continuations=0`, or if the
        request asked for a pause (`pause_after_compaction`).
        """
        return is_paused(self.extras)

    @property
    def phases(self) -> tuple[str, ...]:
        """The phase of each message in the answer, which is "commentary" or "final_answer". Empty if the provider sends
        no phases."""
        return phases_in(self.extras)

    def _repr_markdown_(self) -> str:
        calls = [f"- `{call.name}({call.raw_arguments})`" for call in self.tool_calls]
        usage, cost = self.usage, self.cost
        counts = f"{usage.input_tokens} + {usage.output_tokens} tokens" if usage else None
        paid = f"{cost.amount:f} {cost.currency}" if cost else None
        warned = f"{len(self.warnings)} warnings" if self.warnings else None
        about = ", ".join(filter(None, (self.model, self.finish_reason, counts, paid, warned)))
        return "\n\n".join(filter(None, (self.text or self.refusal, "\n".join(calls), f"*{about}*")))

    def _for_json(self) -> Reply:
        cost = self.cost  # JSON contains the amount, but not the prices
        return replace(self, pricing=None if cost is None else FixedPricing(cost))

    @overload
    def parse_as(self, form: type[T]) -> T: ...

    @overload
    def parse_as(self, form: Mapping[str, Any]) -> Any: ...

    def parse_as(self, form: type[T] | Mapping[str, Any]) -> T:
        """Parses the reply's text as a pydantic model or another type that pydantic validates.

        With a JSON schema, every keyword of the schema is checked, including keywords that the provider doesn't
        support. A Markdown code fence around the text is removed.

        Raises:
            InvalidReplyError: the text isn't JSON, or the value doesn't match the type. The error message gives the
                reasons.
        """
        from pydantic import ValidationError

        text = (self.text if self.answer is None else self.answer).strip()
        if text.startswith("```") and text.endswith("```") and "\n" in text:
            text = text[text.index("\n") : -3]
        try:
            value = parse_object(text)
            if not isinstance(form, Mapping):
                return read_as(form, value)
        except ValidationError as exc:
            raise InvalidReplyError(self._misfit(form, describe_problems(exc, "the answer")), self) from exc
        except ValueError as exc:
            raise InvalidReplyError(self._misfit(form, f"the text is not JSON ({exc})"), self) from exc
        read, problems = read_by_schema(value, _schema_in(form))
        if problems:
            described = [f"{'.'.join(map(str, path)) or 'the answer'}: {message}" for path, message, _ in problems]
            raise InvalidReplyError(self._misfit(form, join_limited(described, "; ", "more problems")), self)
        return cast("T", read)

    def _misfit(self, form: Any, why: str) -> str:
        name = "the schema" if isinstance(form, Mapping) else OutputType.of(form).name
        if self.refusal and not self.text:
            return f"the model refused to answer as {name}: {self.refusal}"
        if is_truncated(self.finish_reason):
            why = f"the answer was truncated (finish reason {self.finish_reason!r}); {why}"
        text = self.text if len(self.text) <= 500 else f"{self.text[:250]} ... {self.text[-250:]}"
        return f"the answer does not match {name}: {why}. It was: {text!r}"

    @property
    def message(self) -> Message:
        """The answer as an assistant message, which you can append to the history. JSON has no NaN, so NaN becomes
        null."""
        from .messages import Message

        # The final text that the server sent may differ from the streamed text. With any other text, the model would
        # see a changed turn.
        differs = any(warning.code == "text_mismatch" for warning in self.warnings)
        text = (text_in(self.extras) if differs else "") or self.text
        left_out = () if self.paused else RESPONSE_STATES
        extras = {name: value for name, value in self.extras.items() if name not in left_out}
        return Message(
            role="assistant",
            content=text or None,
            tool_calls=tuple(
                replace(call, extra=replace_non_finite(call.extra)) if call.extra else call for call in self.tool_calls
            ),
            reasoning=self.reasoning if self.reasoned else None,
            refusal=self.refusal,
            extras=dict(replace_non_finite(extras)),
            origin=self.origin,
            prefix=self.prefix,
        )


def total_cost(replies: Iterable[Reply]) -> Cost | None:
    """Returns the total cost of the replies. Returns None if their currencies differ, or if the cost of one reply is
    unknown."""
    costs = [reply.cost for reply in replies]
    known = [cost for cost in costs if cost is not None]
    if not known or len(known) < len(costs) or len({cost.currency for cost in known}) > 1:
        return None
    return reduce(Cost.__add__, known)


def total_usage(replies: Iterable[Reply]) -> Usage | None:
    """Returns the total token counts of the replies, or None if the servers sent no token counts."""
    found = [reply.usage for reply in replies if reply.usage is not None]
    return reduce(Usage.__add__, found) if found else None


class InvalidReplyError(StreamfoldError, ValueError):
    """The text of a reply doesn't match the requested type. You can send the error message to the model."""

    def __init__(self, message: str, reply: Reply) -> None:
        super().__init__(message)
        self.reply = reply


def _schema_in(form: Mapping[str, Any]) -> Any:
    if form.get("type") != "json_schema":
        return form
    inner = form.get("json_schema", form)
    return inner.get("schema", {}) if isinstance(inner, Mapping) else {}
