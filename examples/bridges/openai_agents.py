"""The OpenAI Agents SDK on any model of streamfold: `Agent(model=StreamfoldModel(provider), ...)`.

The SDK keeps its history as items of the Responses API, which `streamfold.serving` reads and writes. Signatures of
Claude and Gemini have no place in these items: set `turn_cache` in the provider, and it sends them back itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

from agents.items import TResponseStreamEvent
from agents.model_settings import MCPToolChoice
from openai.types.responses import Response, ResponsePromptParam, ResponseStreamEvent
from pydantic import TypeAdapter

from agents import (
    AgentOutputSchemaBase,
    FunctionTool,
    Handoff,
    Model,
    ModelProvider,
    ModelResponse,
    ModelSettings,
    ModelTracing,
    Tool,
    TResponseInputItem,
    Usage,
    UserError,
)
from streamfold import ChatModel, ChatStream, NamedTool, Provider, ToolChoice
from streamfold import Tool as FunctionDeclaration
from streamfold.serving import parse_messages, serialize_reply, serialize_stream
from streamfold.types import ReasoningEffort

_EVENT: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)
_EXTRA = ("frequency_penalty", "presence_penalty", "verbosity", "metadata", "store", "truncation", "top_logprobs")


class StreamfoldModel(Model):
    """A model of the Agents SDK that is a model of streamfold.

    Args:
        model: a `Provider`, a `Fallback`, or any other `ChatModel`. Closed by `close()`.
        name: the model to use instead of the configured one.
    """

    def __init__(self, model: ChatModel, name: str | None = None) -> None:
        self._model = model
        self._name = name

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],  # noqa: A002 - the SDK's name
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: AgentOutputSchemaBase | None,
        handoffs: list[Handoff[Any, Any]],
        tracing: ModelTracing,
        *,
        previous_response_id: str | None = None,
        conversation_id: str | None = None,
        prompt: ResponsePromptParam | None = None,
    ) -> ModelResponse:
        """Returns the whole answer."""
        _refuse(previous_response_id, conversation_id, prompt)
        async with self._stream(system_instructions, input, model_settings, tools, output_schema, handoffs) as stream:
            reply = await stream.read()
        response = Response.model_validate(serialize_reply(reply, "responses").body)
        usage = Usage(requests=1)
        if (counted := response.usage) is not None:
            usage = Usage(
                1,
                counted.input_tokens,
                counted.input_tokens_details,
                counted.output_tokens,
                counted.output_tokens_details,
                counted.total_tokens,
            )
        return ModelResponse(response.output, usage, response_id=None, request_id=reply.request_id)

    async def stream_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],  # noqa: A002 - the SDK's name
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: AgentOutputSchemaBase | None,
        handoffs: list[Handoff[Any, Any]],
        tracing: ModelTracing,
        *,
        previous_response_id: str | None = None,
        conversation_id: str | None = None,
        prompt: ResponsePromptParam | None = None,
    ) -> AsyncIterator[TResponseStreamEvent]:
        """Yields the events of the Responses API while the answer arrives; calls come whole, at the end."""
        _refuse(previous_response_id, conversation_id, prompt)
        async with self._stream(system_instructions, input, model_settings, tools, output_schema, handoffs) as stream:
            async for payload in serialize_stream(stream, "responses", model=self._name or self._model.name):
                yield _EVENT.validate_python(payload)

    async def close(self) -> None:
        """Closes the connections."""
        await self._model.aclose()

    def _stream(
        self,
        instructions: str | None,
        items: str | list[TResponseInputItem],
        settings: ModelSettings,
        tools: list[Tool],
        schema: AgentOutputSchemaBase | None,
        handoffs: list[Handoff[Any, Any]],
    ) -> ChatStream:
        wanted: dict[str, Any] | None = None
        if schema is not None and not schema.is_plain_text():
            strict = schema.is_strict_json_schema()
            wanted = {"type": "json_schema", "name": "final_output", "schema": schema.json_schema(), "strict": strict}
        effort: ReasoningEffort | None = settings.reasoning.effort if settings.reasoning else None
        extra = {name: value for name in _EXTRA if (value := getattr(settings, name)) is not None}
        body = cast("dict[str, Any]", settings.extra_body or {})
        headers = {name: value for name, value in (settings.extra_headers or {}).items() if isinstance(value, str)}
        return self._model.chat_stream(
            parse_messages({"instructions": instructions, "input": items}, "responses"),
            [*map(_function, tools), *map(_handoff, handoffs)],
            tool_choice=_tool_choice(settings.tool_choice),
            model=self._name,
            temperature=settings.temperature,
            top_p=settings.top_p,
            max_output_tokens=settings.max_tokens,
            parallel_tool_calls=settings.parallel_tool_calls,
            reasoning_effort=effort,
            response_format=wanted,
            extra_body={**extra, **body} or None,
            extra_headers=headers or None,
        )


class StreamfoldModelProvider(ModelProvider):
    """Finds models by the names that `Provider.from_config` takes: `RunConfig(model_provider=...)`.

    Args:
        default: the name for an agent without one.
    """

    def __init__(self, default: str) -> None:
        self._default = default
        self._models: dict[str, StreamfoldModel] = {}

    def get_model(self, model_name: str | None) -> Model:
        """Returns the model with a name, such as "kimi:kimi-k2.6"."""
        name = model_name or self._default
        if name not in self._models:
            self._models[name] = StreamfoldModel(Provider.from_config(name))
        return self._models[name]

    async def aclose(self) -> None:
        """Closes the connections of all models."""
        for model in self._models.values():
            await model.close()


def _function(tool: Tool) -> FunctionDeclaration:
    if not isinstance(tool, FunctionTool):
        raise UserError(f"{tool.name} is a tool that OpenAI runs, and this model has functions")
    return FunctionDeclaration(tool.name, tool.description, tool.params_json_schema, tool.strict_json_schema)


def _handoff(handoff: Handoff[Any, Any]) -> FunctionDeclaration:
    schema, strict = handoff.input_json_schema, handoff.strict_json_schema
    return FunctionDeclaration(handoff.tool_name, handoff.tool_description, schema, strict)


def _tool_choice(choice: str | MCPToolChoice | None) -> ToolChoice:
    match choice:
        case None:
            return "auto"
        case "auto" | "required" | "none":
            return choice
        case str(name):
            return NamedTool(name)
        case _:
            raise UserError("MCPToolChoice is for tools that OpenAI runs, and this model has functions")


def _refuse(response_id: str | None, conversation_id: str | None, prompt: ResponsePromptParam | None) -> None:
    """Raises UserError for what only OpenAI's servers have stored."""
    if response_id or conversation_id or prompt:
        raise UserError("previous_response_id, conversation_id and prompt refer to what OpenAI stored: send items")
