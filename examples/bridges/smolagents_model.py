"""smolagents on any model of streamfold: `ToolCallingAgent(tools, model=StreamfoldModel(provider))`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from smolagents import ChatMessage, Tool
from smolagents.models import (
    ChatMessageStreamDelta,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    ChatMessageToolCallStreamDelta,
    MessageRole,
    Model,
    get_clean_message_list,
    get_tool_json_schema,
    tool_role_conversions,
)
from smolagents.monitoring import TokenUsage

from streamfold import ChatModel, ChatOptions, ToolCall, Usage
from streamfold.sync import ChatStream, Provider


class StreamfoldModel(Model):
    """A model of smolagents that is a model of streamfold.

    Args:
        model: a `streamfold.Provider`, a `Fallback`, or any other `ChatModel`. It must not be used elsewhere.
        options: options of `chat()` for every request, such as `temperature` or `max_output_tokens`.
    """

    def __init__(self, model: ChatModel, options: ChatOptions | None = None) -> None:
        super().__init__(model_id=model.name)
        self._provider = Provider(model)
        self._options: ChatOptions = options or {}

    def generate(
        self,
        messages: list[ChatMessage],
        stop_sequences: list[str] | None = None,
        response_format: dict[str, Any] | None = None,
        tools_to_call_from: list[Tool] | None = None,
        **kwargs: Any,
    ) -> ChatMessage:
        """Returns the whole answer."""
        with self._stream(messages, stop_sequences, response_format, tools_to_call_from, kwargs) as stream:
            reply = stream.read()
        return ChatMessage(
            MessageRole.ASSISTANT,
            reply.text,
            [ChatMessageToolCall(_function(call), call.id, "function") for call in reply.tool_calls] or None,
            raw=reply,
            token_usage=_usage(reply.usage),
        )

    def generate_stream(
        self,
        messages: list[ChatMessage],
        stop_sequences: list[str] | None = None,
        response_format: dict[str, Any] | None = None,
        tools_to_call_from: list[Tool] | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatMessageStreamDelta]:
        """Yields the text while it arrives, and at the end the complete calls and the usage."""
        with self._stream(messages, stop_sequences, response_format, tools_to_call_from, kwargs) as stream:
            for chunk in stream:
                if chunk.delta:
                    yield ChatMessageStreamDelta(chunk.delta)
            reply = stream.reply
        calls = [
            ChatMessageToolCallStreamDelta(number, call.id, "function", _function(call))
            for number, call in enumerate(reply.tool_calls)
        ]
        yield ChatMessageStreamDelta(None, calls or None, _usage(reply.usage))

    def close(self) -> None:
        """Closes the connections."""
        self._provider.close()

    def _stream(
        self,
        messages: list[ChatMessage],
        stop_sequences: list[str] | None,
        response_format: dict[str, Any] | None,
        tools: list[Tool] | None,
        others: dict[str, Any],
    ) -> ChatStream:
        options: ChatOptions = {**self._options, **cast("ChatOptions", others)}
        choice = cast("dict[str, Any]", options).pop("tool_choice", "required")
        if stop_sequences:
            options["stop"] = stop_sequences  # a model that takes none is ended at them
        if response_format is not None:
            options["response_format"] = response_format
        declared: list[dict[str, Any]] = [get_tool_json_schema(tool) for tool in tools or ()]
        return self._provider.chat_stream(
            # In the shape of Chat Completions; smolagents writes earlier calls and results as texts.
            get_clean_message_list([*messages], tool_role_conversions, convert_images_to_image_urls=True),
            declared,
            tool_choice=choice if declared else "auto",
            **options,
        )


def _function(call: ToolCall) -> ChatMessageToolCallFunction:
    return ChatMessageToolCallFunction(call.arguments_json, call.name)


def _usage(usage: Usage | None) -> TokenUsage | None:
    """Returns the counts if the provider sent both: smolagents adds them up."""
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    return TokenUsage(usage.input_tokens, usage.output_tokens)
