"""A model for pydantic-ai: messages, native tools, settings, streamed responses.

    agent = Agent(StreamfoldModel("kimi:kimi-k2.6"), output_type=City)

Needs the extra `pydantic-ai`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

try:
    import pydantic_ai  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError("pydantic-ai is not installed: pip install 'streamfold-integrations[pydantic-ai]'") from error
from pydantic_ai import RunContext
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UserError
from pydantic_ai.messages import (
    BaseToolCallPart,
    BinaryContent,
    CachePoint,
    CompactionPart,
    FilePart,
    FileUrl,
    ImageUrl,
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    NativeToolCallPart,
    NativeToolReturnPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UploadedFile,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse, check_allow_model_requests
from pydantic_ai.native_tools import (
    AbstractNativeTool,
    CodeExecutionTool,
    FileSearchTool,
    MCPServerTool,
    WebFetchTool,
    WebSearchTool,
)
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings, ToolOrOutput
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from streamfold import (
    APIError,
    APIStatusError,
    ChatModel,
    ChatStream,
    CodeExecution,
    ConfigError,
    FileSearch,
    HostedMcpServer,
    Message,
    NamedTool,
    Provider,
    Reply,
    ToolCall,
    UrlContext,
    Usage,
    WebSearch,
    types,
    user,
)
from streamfold.middleware import check_model
from streamfold.types import ResponseFormat

from .hosted_tools import HostedCall, HostedStep, HostedSteps
from .model_settings import NAMES, as_body_members, token_details, unsupported_settings
from .provider_data import KeptTurn, canonical_arguments, file_reference, keep_turn, warn_left_out

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
_EXAMPLES: dict[type[AbstractNativeTool], Any] = {
    WebSearchTool: WebSearch(),
    WebFetchTool: UrlContext(),
    CodeExecutionTool: CodeExecution(),
    FileSearchTool: FileSearch(["store"]),
    MCPServerTool: HostedMcpServer("server", "https://example.com/mcp"),
}


class StreamfoldModel(Model[Any]):
    """A pydantic-ai model that sends its requests with streamfold.

    Tool calls are delivered complete, at the end of a response. If a stream breaks off, the model raises
    `ModelAPIError` and no tool runs. In the next request, streamfold sends back all data that the provider needs:
    signatures, encrypted reasoning, the original text of arguments.

    Args:
        model: the provider and its model ("kimi:kimi-k2.6", or a name from `streamfold.toml`), a mapping for
            `Provider.from_config`, or an existing `Provider`, `Fallback` or test double. None: the configuration's
            default provider.
        profile: a pydantic-ai model profile, which overrides pydantic-ai's defaults.
        settings: pydantic-ai settings that each request has by default.
        config: further settings for `Provider.from_config` (`base_url`, `dialect`, `headers`, ...).

    Raises:
        ConfigError: the provider is unknown, or a setting is invalid.
        UserError: the provider doesn't support one of the `settings`. If a single run has unsupported settings, the
            model ignores them, as pydantic-ai's own models do.
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
        if model is None or isinstance(model, str | Mapping):
            self.client: ChatModel = Provider.from_config(model, **config)
        else:
            check_model(model, f"{type(self).__name__}()")
            self.client = model
        profile_of = getattr(self.client, "profile", None)
        self._model_name = str(getattr(profile_of, "model", None) or self.client.name)
        can: ModelProfile = {
            "supports_json_schema_output": True,
            "supports_json_object_output": True,
            "supports_thinking": True,
        }
        if wrong := sorted({*(settings or {})} - _SETTINGS | {*(settings or {})} & unsupported_settings(self.client)):
            raise UserError(f"streamfold can't send these settings to {self.system}: {', '.join(wrong)}")
        if isinstance(self.client, Provider):  # an agent can replace the tools that the provider doesn't support
            can["supported_native_tools"] = _supported_native_tools(self.client)
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
        """The hosted tools that streamfold supports for at least one provider. The profile of a model lists the hosted
        tools that the model's provider supports.
        """
        return frozenset(_EXAMPLES)

    @property
    def provider(self) -> None:
        """Always None, because streamfold uses its own provider, which is in `client`."""
        return None

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Sends a request and returns the complete response."""
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
        """Sends a request and yields the streamed response."""
        check_allow_model_requests()
        settings, parameters = self.prepare_request(model_settings, model_request_parameters)
        async with self.client.chat_stream(**self._request(messages, settings, parameters)) as stream:
            with _mapped_errors(self.model_name):
                await stream.start()
            yield _Streamed(parameters, stream, self.model_name, self.system)

    def _request(
        self, messages: list[ModelMessage], settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> dict[str, Any]:
        """Converts a pydantic-ai request to the arguments of `chat_stream`."""
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
        tools, request["tool_choice"] = _select_tools(given.get("tool_choice"), parameters)
        request["tools"] = [*map(_function, tools), *map(_hosted_tool, parameters.native_tools)]
        instructions = self._get_instruction_parts(messages, parameters) or ()
        history = [turn for message in messages for turn in _to_messages(message)]
        at = next((at for at, turn in enumerate(history) if turn.role != "system"), len(history))
        history[at:at] = [Message("system", part.content) for part in instructions]
        return {"messages": history, "repair_history": True, **request}


# --- tools: https://ai.pydantic.dev/builtin-tools/ --------------------------------------------------------------------


def _hosted_tool(tool: AbstractNativeTool) -> Any:
    """Converts an agent's native tool to streamfold's hosted tool. Raises UserError for a tool that streamfold doesn't
    support.
    """
    match tool:
        case WebSearchTool():
            size = None if tool.search_context_size == "medium" else tool.search_context_size  # pydantic-ai's default
            location: Any = tool.user_location
            return WebSearch(tool.max_uses, tool.allowed_domains, tool.blocked_domains, location, size)
        case WebFetchTool():
            said: Any = (tool.provider_settings or {}).get("anthropic", {})
            limit, citations = said.get("max_content_tokens"), said.get("enable_citations")
            return UrlContext(tool.max_uses, tool.allowed_domains, tool.blocked_domains, citations, limit)
        case CodeExecutionTool():
            return CodeExecution([file.file_id for file in tool.files or ()] or None)
        case FileSearchTool():
            return FileSearch(list(tool.file_store_ids), tool.max_num_results)
        case MCPServerTool():
            return HostedMcpServer(
                tool.id, tool.url, tool.authorization_token, tool.headers, tool.allowed_tools, "never"
            )
    raise UserError(f"streamfold doesn't support {type(tool).__name__}: pass the provider's own tool as HostedTool")


def _supported_native_tools(model: Provider) -> frozenset[type[AbstractNativeTool]]:
    """Returns the hosted tools that a provider supports."""
    supported = set()
    for kind, tool in _EXAMPLES.items():
        with suppress(ConfigError):
            model.preview([user("?")], tools=[tool])
            supported.add(kind)
    return frozenset(supported)


def _function(tool: ToolDefinition) -> dict[str, Any]:
    said = {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters_json_schema}
    strict = {} if tool.strict is None else {"strict": tool.strict}
    return {"type": "function", "function": {**said, **strict}}


def _select_tools(choice: Any, parameters: ModelRequestParameters) -> tuple[list[ToolDefinition], Any]:
    """Returns the tools that a pydantic-ai tool choice allows, and the tool choice to send."""
    tools, outputs = parameters.declared_tool_defs, {tool.name for tool in parameters.output_tools}
    plain = "auto" if parameters.allow_text_output or parameters.allow_image_output else "required"
    match choice:
        case None | "auto":
            allowed, mode = set(tools), plain
        case "none" | []:
            allowed, mode = (outputs, plain) if outputs else (set(tools), "none")
        case "required":
            allowed, mode = set(tools) - outputs, "required"
        case ToolOrOutput():
            allowed, mode = {*choice.function_tools, *outputs}, plain
        case list() | tuple():
            allowed, mode = set(choice), "required"
        case _:
            raise UserError(
                f"tool_choice must be 'auto', 'none', 'required', names of tools, or ToolOrOutput, not {choice!r}"
            )
    kept = [tool for name, tool in tools.items() if name in allowed]
    if not kept:
        return [], "auto"
    return kept, NamedTool(kept[0].name) if mode == "required" and len(kept) == 1 < len(tools) else mode


# --- messages of pydantic-ai as turns ---------------------------------------------------------------------------------


def _to_messages(message: ModelMessage) -> Iterator[Message]:
    """Converts a pydantic-ai message to one or more streamfold messages."""
    if isinstance(message, ModelResponse):
        yield _answer(message)
        return
    files: list[Any] = []
    for part in message.parts:
        match part:
            case SystemPromptPart():
                yield Message("system", part.content)
            case UserPromptPart():
                yield Message("user", _content(part.content))
            case ToolReturnPart():
                text, content = part.model_response_str_and_user_content()
                files += content
                yield Message("tool", text, tool_call_id=part.tool_call_id, error=part.outcome != "success")
            case _:
                raise UserError(f"a {type(part).__name__} can't be sent: let an Agent prepare the messages")
    if files:
        yield Message("user", _content(files))


def _answer(message: ModelResponse) -> Message:
    """Returns the original assistant message that is stored in a response. If there is none, or the program has changed
    the response, builds a new assistant message.

    The new message contains the original of each tool call that the program hasn't changed. Calls of hosted tools are
    left out, with a warning.
    """
    kept = KeptTurn.load(message.provider_details)
    if kept and kept.shows(*_shown(message.parts)):
        return kept.message
    texts = [part.content for part in message.parts if isinstance(part, TextPart) and part.content]
    thoughts = [part.content for part in message.parts if isinstance(part, ThinkingPart)]
    calls = tuple(_call(part, kept) for part in message.parts if isinstance(part, ToolCallPart))
    known = (TextPart, ThinkingPart, ToolCallPart)
    lost = {type(part).__name__ for part in message.parts if not isinstance(part, known)}
    warn_left_out(lost, "parts", maker=message.provider_name, changed=kept is not None)
    said = texts[0] if len(texts) == 1 else tuple(map(types.TextPart, texts))
    reasoning = "".join(thoughts) if thoughts else None
    return Message("assistant", said or None, calls, reasoning=reasoning, origin=kept.message.origin if kept else None)


def _call(part: ToolCallPart, kept: KeptTurn | None) -> ToolCall:
    """Converts a tool call. Returns the stored original if the program hasn't changed the tool call."""
    if kept and (known := kept.call(part.tool_call_id, part.tool_name, part.args)):
        return known
    return ToolCall(part.tool_call_id, part.tool_name, part.args_as_dict(), part.args_as_json_str())


def _shown(parts: Sequence[ModelResponsePart]) -> list[tuple[Any, ...]]:
    """Returns the content of parts in a form that can be compared: without empty texts, and with arguments as JSON
    values.
    """
    return [_content_of(part) for part in parts if not (isinstance(part, TextPart) and not part.content)]


def _content_of(part: ModelResponsePart) -> tuple[Any, ...]:
    match part:
        case BaseToolCallPart():
            return part.part_kind, part.tool_call_id, part.tool_name, canonical_arguments(part.args)
        case NativeToolReturnPart():
            return part.part_kind, part.tool_call_id, part.tool_name, part.content
    content = part.content
    return part.part_kind, content.data if isinstance(content, BinaryContent) else content


def _content(content: str | Sequence[Any]) -> Any:
    if isinstance(content, str):
        return content
    parts: list[Any] = []
    for item in content:
        if not isinstance(item, CachePoint):
            parts.append(_part(item))
        elif parts:
            parts[-1] = replace(parts[-1], cache=item.ttl)
        else:
            raise UserError("a CachePoint can't be the first content of a user prompt: it marks the content before it")
    return tuple(parts)


def _part(item: Any) -> Any:
    match item:
        case str():
            return types.TextPart(item)
        case TextContent():
            return types.TextPart(item.content)
        case BinaryContent():
            kind = types.ImagePart if item.is_image else types.AudioPart if item.is_audio else types.FilePart
            return kind(data=item.data, media_type=item.media_type)
        case FileUrl():
            return _kind_of(item)(url=item.url)
        case UploadedFile():
            return _kind_of(item)(**file_reference(item.file_id))
    raise UserError(f"streamfold can't send a {type(item).__name__}")


def _kind_of(item: FileUrl | UploadedFile) -> Any:
    kind = "image" if isinstance(item, ImageUrl) else item.media_type.partition("/")[0]
    return {"image": types.ImagePart, "audio": types.AudioPart}.get(kind, types.FilePart)


# --- answers to pydantic-ai -------------------------------------------------------------------------------------------


def _parts(reply: Reply, provider: str) -> list[ModelResponsePart]:
    calls = [ToolCallPart(call.name, call.arguments_json, tool_call_id=call.id) for call in reply.tool_calls]
    return [
        *([ThinkingPart(reply.reasoning)] if reply.reasoning else []),
        *_native_parts(HostedSteps().feed(reply.hosted, last=True), provider),
        *([TextPart(reply.text)] if reply.text else []),
        *_other_parts(reply, provider),
        *calls,
    ]


def _native_parts(steps: Iterable[HostedStep], provider: str) -> Iterator[ModelResponsePart]:
    """Yields parts that display the calls and results of hosted tools. The next request contains the stored original
    instead.
    """
    for step in steps:
        if isinstance(step, HostedCall):
            arguments = step.input
            if step.part.kind == "mcp":
                arguments = {"action": "call_tool", "tool_name": step.part.name, "tool_args": step.input}
            yield NativeToolCallPart(_name(step), arguments, step.id, provider_name=provider)
        else:
            output = {"error": step.error} if step.error and not step.output else step.output
            yield NativeToolReturnPart(
                _name(step.call),
                output,
                step.call.id,
                outcome="failed" if step.error else "success",
                provider_name=provider,
            )


def _other_parts(reply: Reply, provider: str) -> Iterator[ModelResponsePart]:
    """Yields parts for compactions (the provider's summaries of earlier turns), and for files whose data is in the
    reply.
    """
    for file in reply.files:
        if file.data is not None:
            media_type = file.media_type or "application/octet-stream"
            yield FilePart(BinaryContent(file.data, media_type=media_type), provider_name=provider)
    for part in reply.hosted:
        if part.kind == "compaction":
            said = part.raw.get("content")
            yield CompactionPart(said if isinstance(said, str) else None, id=part.id, provider_name=provider)


def _name(call: HostedCall) -> str:
    return f"mcp_server:{call.part.server or 'unknown'}" if call.part.kind == "mcp" else call.part.kind


def _finish_reason(reply: Reply) -> Any:
    """Returns pydantic-ai's finish reason. A refusal has the reason "content_filter", so that the agent raises an error
    and doesn't retry.
    """
    return "content_filter" if reply.refusal else _FINISH_REASONS.get(reply.finish_reason)


def _details(reply: Reply, parts: Sequence[ModelResponsePart]) -> dict[str, Any]:
    """Returns the data for which pydantic-ai has no field: provider data, citations, warnings, and files whose data
    isn't in the reply.
    """
    warned = [{"code": warning.code, "detail": warning.detail} for warning in reply.warnings]
    details = {"finish_reason": reply.raw_finish_reason, "refusal": reply.refusal, "warnings": warned}
    cited = [asdict(citation) for citation in reply.citations]
    files = [asdict(file) for file in reply.files if file.data is None]
    details |= {"citations": cited, "files": files}
    return {name: value for name, value in details.items() if value} | keep_turn(reply.message, *_shown(parts))


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
    """Converts streamfold's errors to pydantic-ai's errors, so that pydantic-ai's FallbackModel tries the next
    model.
    """
    try:
        yield
    except APIStatusError as error:
        raise ModelHTTPError(error.status_code, model, error.body) from error
    except APIError as error:
        raise ModelAPIError(model, error.message) from error


@dataclass
class _Streamed(StreamedResponse):
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
                    # One part, also with steps of provider-run tools between: an agent joins parts by blank lines.
                    for event in parts.handle_text_delta(vendor_part_id="text", content=chunk.delta):
                        yield event
                for part in _native_parts(steps.feed(chunk.hosted), self.provider_name):
                    yield parts.handle_part(vendor_part_id=None, part=part)
            reply = self._stream.reply
        rest = _native_parts(steps.feed(reply.hosted, last=True), self.provider_name)
        for part in [*rest, *_other_parts(reply, self.provider_name)]:
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
