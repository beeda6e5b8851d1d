"""streamfold as a model of pydantic-ai.

agent = Agent(StreamfoldModel("kimi:kimi-k2.6"), output_type=City)
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse, check_allow_model_requests
from pydantic_ai.native_tools import AbstractNativeTool
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from streamfold import APIError, APIStatusError, ChatModel, ChatStream, Message, Provider, Reply, Usage
from streamfold.types import ResponseFormat

from .hosted_steps import HostedSteps
from .model_settings import NAMES, as_body_members, token_details, unsupported_settings
from .pydantic_ai_tools import (
    NATIVE_TOOLS,
    function,
    hosted_tools,
    native_parts,
    other_parts,
    select_tools,
    supported_native_tools,
)
from .pydantic_ai_turns import kept, to_messages

__all__ = ["StreamfoldModel"]

_FINISH_REASONS: dict[str, Any] = {
    "stop": "stop",
    "tool_calls": "tool_call",
    "length": "length",
    "content_filter": "content_filter",
}
_OPTIONS = {
    "max_tokens": "max_output_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "seed": "seed",
    "stop_sequences": "stop",
    "parallel_tool_calls": "parallel_tool_calls",
    "extra_headers": "extra_headers",
    "extra_body": "extra_body",
}
# pydantic-ai's own, for any model:
_THEIRS = {"request_timeout", "first_event_timeout", "framing_announcement", "cache"}
_SETTINGS = {*_OPTIONS, *NAMES, *_THEIRS, "timeout", "tool_choice", "thinking"}


class StreamfoldModel(Model[Any]):
    """A model of pydantic-ai that reads every answer as streamfold does.

    Tool calls come once, whole, at the end; a stream that breaks off raises `ModelAPIError`, and none of its calls is
    run. What a provider wants back in the next turn (signatures, encrypted reasoning, the model's own text of
    arguments) goes back as it came.

    Args:
        model: the provider and its model ("kimi:kimi-k2.6", or a name from `streamfold.toml`), a mapping as
            `Provider.from_config` takes it, or a model of streamfold: a `Provider`, a `Fallback`, a double. None: the
            configured default.
        profile: what the model can do, over pydantic-ai's defaults.
        settings: default settings of requests.
        config: further keys of `Provider.from_config` (`base_url`, `dialect`, `headers`, ...).

    Raises:
        ConfigError: the provider is unknown, or can't be configured so.
        UserError: this provider can't be sent one of the settings. Of settings of a single run it is left out, as
            pydantic-ai's own models do.
    """

    unsupported_settings = frozenset({"max_retries"})

    def __init__(
        self,
        model: str | Mapping[str, Any] | ChatModel | None = None,
        *,
        profile: ModelProfile | None = None,
        settings: ModelSettings | None = None,
        **config: Any,
    ) -> None:
        configured = model is None or isinstance(model, str | Mapping)
        self.client: ChatModel = Provider.from_config(model, **config) if configured else model  # type: ignore[arg-type, assignment]
        profile_of = getattr(self.client, "profile", None)
        self._model_name = str(getattr(profile_of, "model", None) or self.client.name)
        can: ModelProfile = {
            "supports_json_schema_output": True,
            "supports_json_object_output": True,
            "supports_thinking": True,
        }
        if wrong := sorted({*(settings or {})} - _SETTINGS | {*(settings or {})} & unsupported_settings(self.client)):
            raise UserError(f"{self.system} can't be sent the settings {', '.join(wrong)} through streamfold")
        if (runs := supported_native_tools(self.client)) is not None:
            can["supported_native_tools"] = runs
        super().__init__(settings=settings, profile={**can, **(profile or {})})

    @property
    def model_name(self) -> str:
        """The name of the model."""
        return self._model_name

    @property
    def system(self) -> str:
        """The name of the provider."""
        return self.client.name

    @classmethod
    def supported_native_tools(cls) -> frozenset[type[AbstractNativeTool]]:
        """The tools of providers that have a word here. Whether this provider runs them is known when it is asked."""
        return NATIVE_TOOLS

    @property
    def provider(self) -> None:
        """None: the provider is streamfold's, see `client`."""
        return None

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Returns the whole answer."""
        check_allow_model_requests()
        settings, parameters = self.prepare_request(model_settings, model_request_parameters)
        with _mapped_errors(self.model_name):
            reply = await self.client.chat(**self._request(messages, settings, parameters))
        parts = _parts(reply, self.system)
        return ModelResponse(
            parts=parts,
            usage=_usage(reply.usage),
            model_name=reply.model or self.model_name,
            provider_name=self.system,
            provider_response_id=reply.id,
            provider_details=_details(reply, parts),
            finish_reason=_finish_reason(reply),
        )

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Opens a streamed answer."""
        check_allow_model_requests()
        settings, parameters = self.prepare_request(model_settings, model_request_parameters)
        async with self.client.chat_stream(**self._request(messages, settings, parameters)) as stream:
            with _mapped_errors(self.model_name):
                await stream.start()
            yield _Streamed(parameters, stream, self.model_name, self.system)

    def _request(
        self, messages: list[ModelMessage], settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> dict[str, Any]:
        """Returns the arguments of `chat_stream` for a request of pydantic-ai's."""
        given: Mapping[str, Any] = settings or {}
        request: dict[str, Any] = {_OPTIONS[name]: value for name, value in given.items() if name in _OPTIONS}
        if more := as_body_members(self.client, given):
            request["extra_body"] = more | dict(request.get("extra_body") or {})
        if isinstance(timeout := given.get("timeout"), int | float):
            request["timeouts"] = {"first_event": timeout, "read": timeout}
        if parameters.thinking is not None:
            switched: dict[Any, str | None] = {True: None, False: "none"}
            request["reasoning_effort"] = switched.get(parameters.thinking, str(parameters.thinking))
        if parameters.output_mode == "native" and (form := parameters.output_object) is not None:
            request["response_format"] = ResponseFormat(
                form.json_schema, form.name or "answer", form.strict, description=form.description
            )
        tools, request["tool_choice"] = select_tools(given.get("tool_choice"), parameters)
        request["tools"] = [*map(function, tools), *hosted_tools(parameters.native_tools)]
        instructions = self._get_instruction_parts(messages, parameters) or ()
        history = [turn for message in messages for turn in to_messages(message)]
        at = next((at for at, turn in enumerate(history) if turn.role != "system"), len(history))
        history[at:at] = [Message("system", part.content) for part in instructions]
        return {"messages": history, "repair_history": True, **request}


# --- answers ----------------------------------------------------------------------------------------------------------


def _parts(reply: Reply, provider: str) -> list[ModelResponsePart]:
    calls = [ToolCallPart(call.name, call.arguments_json, tool_call_id=call.id) for call in reply.tool_calls]
    return [
        *([ThinkingPart(reply.reasoning)] if reply.reasoning else []),
        *native_parts(HostedSteps().feed(reply.hosted, last=True), provider),
        *([TextPart(reply.text)] if reply.text else []),
        *other_parts(reply, provider),
        *calls,
    ]


def _finish_reason(reply: Reply) -> Any:
    """Returns their word for the end. A refusal is one: the agent raises, instead of asking again for an answer."""
    return "content_filter" if reply.refusal else _FINISH_REASONS.get(reply.finish_reason)


def _details(reply: Reply, parts: Sequence[ModelResponsePart]) -> dict[str, Any]:
    """Returns what pydantic-ai has no place for: signatures, items, citations, files elsewhere, and the warnings."""
    warned = [{"code": warning.code, "detail": warning.detail} for warning in reply.warnings]
    details = {"finish_reason": reply.raw_finish_reason, "refusal": reply.refusal, "warnings": warned}
    cited = [asdict(citation) for citation in reply.citations]
    files = [asdict(file) for file in reply.files if file.data is None]
    details |= {"citations": cited, "files": files}
    return {name: value for name, value in details.items() if value} | kept(reply.message, parts)


def _usage(usage: Usage | None) -> RequestUsage:
    if usage is None:
        return RequestUsage()
    kinds = token_details(usage)
    details = {name: count for name, count in kinds.items() if "audio" not in name}
    requests = {f"{kind}_requests": number for kind, number in usage.tools.items()}
    return RequestUsage(
        input_tokens=usage.input_tokens or 0,
        output_tokens=usage.output_tokens or 0,
        cache_read_tokens=usage.cached_tokens or 0,
        cache_write_tokens=usage.cache_write_tokens or 0,
        input_audio_tokens=kinds.get("input_audio_tokens", 0),
        output_audio_tokens=kinds.get("output_audio_tokens", 0),
        details={**details, **requests},
    )


@contextmanager
def _mapped_errors(model: str) -> Iterator[None]:
    """Raises pydantic-ai's errors, so that its FallbackModel goes on to the next model."""
    try:
        yield
    except APIStatusError as error:
        raise ModelHTTPError(error.status_code, model, error.body) from error
    except APIError as error:
        raise ModelAPIError(model, error.message) from error


@dataclass
class _Streamed(StreamedResponse):
    """An answer that is being read."""

    _stream: ChatStream
    _model_name: str
    _provider_name: str
    _timestamp: datetime = field(default_factory=lambda: datetime.now(UTC), init=False)

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        parts, steps = self._parts_manager, HostedSteps()
        with _mapped_errors(self._model_name):
            async for chunk in self._stream:
                if chunk.reasoning:
                    for event in parts.handle_thinking_delta(vendor_part_id=None, content=chunk.reasoning):
                        yield event
                if chunk.delta:
                    # One part, whatever tools of the provider come between: an agent joins parts by blank lines.
                    for event in parts.handle_text_delta(vendor_part_id="text", content=chunk.delta):
                        yield event
                for part in native_parts(steps.feed(chunk.hosted), self.provider_name):
                    yield parts.handle_part(vendor_part_id=None, part=part)
            reply = self._stream.reply
        rest = native_parts(steps.feed(reply.hosted, last=True), self.provider_name)
        for part in [*rest, *other_parts(reply, self.provider_name)]:
            yield parts.handle_part(vendor_part_id=None, part=part)
        for call in reply.tool_calls:
            yield parts.handle_tool_call_part(
                vendor_part_id=call.id, tool_name=call.name, args=call.arguments_json, tool_call_id=call.id
            )
        self._usage = _usage(reply.usage)
        self._model_name = reply.model or self._model_name
        self.provider_response_id = reply.id
        self.provider_details = _details(reply, parts.get_parts())
        self.finish_reason = _finish_reason(reply)

    async def close_stream(self) -> None:
        """Closes the connection."""
        await self._stream.aclose()

    @property
    def model_name(self) -> str:
        return self._model_name

    @property
    def provider_name(self) -> str:
        return self._provider_name

    @property
    def provider_url(self) -> None:
        return None

    @property
    def timestamp(self) -> datetime:
        return self._timestamp
