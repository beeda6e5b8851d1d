"""A chat model for LangChain: messages, content blocks, tools, structured output.

    model = ChatStreamfold(model="kimi:kimi-k2.6")
    agent = create_agent(model, [get_weather])

Needs the extra `langchain`.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, Literal

try:
    import langchain_core  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError("LangChain is not installed: pip install 'streamfold-integrations[langchain]'") from error
from langchain_core import output_parsers as parsers
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool
from langchain_core.utils.pydantic import is_basemodel_subclass
from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

import streamfold
import streamfold.sync
import streamfold.types
from streamfold import ChatOptions, Message, Reply, ToolCall
from streamfold.config import did_you_mean
from streamfold.middleware import check_model
from streamfold.types import AudioPart, FilePart, ImagePart, Options, ResponseFormat, ServerTool, TextPart

from .hosted_tools import HostedCall, HostedStep, HostedSteps
from .model_settings import NAMES, as_body_members, token_details, unsupported_settings
from .provider_data import KeptTurn, file_reference, keep_turn, warn_left_out

__all__ = ["ChatStreamfold"]

_OF_FUNCTIONS = (None, "function", "object")  # types of dicts that describe a function; a schema is an object
_NOT_IN_BODIES = {*NAMES, *(ChatOptions.__annotations__.keys() - Options.__dataclass_fields__.keys())}
_CHOICES = {"any": "required", True: "required", False: "none"}
# The settings of this class, by the names of other LangChain models' settings.
_SYNONYMS = {
    **dict.fromkeys(("request_timeout", "default_request_timeout", "timeouts"), "timeout="),
    **dict.fromkeys(
        ("max_output_tokens", "max_completion_tokens", "max_tokens_to_sample", "num_predict"), "max_tokens="
    ),
    **dict.fromkeys(("openai_api_key", "anthropic_api_key", "google_api_key"), "api_key="),
    **dict.fromkeys(("openai_api_base", "anthropic_api_url", "api_base"), "base_url="),
    **dict.fromkeys(("model_name", "model_id"), "model="),
    "stop_sequences": "stop=",
    "model_kwargs": "extra_body=",
    "default_headers": "config={'headers': ...}",
}
_LANGCHAINS_OWN = ("stream", "stream_usage", "strict", "ls_structured_output_format")


class ChatStreamfold(BaseChatModel):
    """A LangChain chat model that sends its requests with streamfold.

    The last chunk of a stream contains the complete tool calls. A stream that breaks off raises an error. If a tool
    call's arguments aren't a JSON object, the tool call is in `invalid_tool_calls`. Reasoning is a content block
    (`message.content_blocks`). In the next request, streamfold sends the reasoning and its signatures back to the
    provider.

    Args:
        model: the provider and its model ("kimi:kimi-k2.6", or a name from `streamfold.toml`). If you pass `provider`,
            `model` is only the model's name. By default, the configuration's default provider is used.
        provider: the name of a provider or a mapping of settings; see `Provider.from_config`.
        client: an existing `Provider`, `Fallback` or test double, in place of `model` and `provider`. The caller closes
            the client. Use the client either for asynchronous or for synchronous calls, not for both.
        config: further settings for `Provider.from_config` (`base_url`, `dialect`, `headers`, ...).
        options: further options of each request (`ChatOptions`), such as `unsupported_options`. temperature, top_p,
        seed, max_tokens, stop, reasoning_effort, timeout, max_retries, api_key, base_url, streaming: as in other
        LangChain models. The timeout is the number of seconds until the response must be complete. top_k,
        presence_penalty, frequency_penalty, logit_bias, service_tier, extra_body: sent if the API supports them.

    Raises:
        ConfigError: a setting of the provider is invalid, or an option is unknown or not supported by this model's API.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", ignored_types=(cached_property,))

    model: str | None = None
    provider: Any = None
    client: Any = None
    config: dict[str, Any] = Field(default_factory=dict)
    options: dict[str, Any] = Field(default_factory=dict)
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    reasoning_effort: Any = None
    top_k: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, int] | None = None
    service_tier: str | None = None
    extra_body: dict[str, Any] | None = None
    max_tokens: int | None = None
    stop: list[str] | str | None = None
    timeout: float | None = None
    max_retries: int | None = None
    api_key: SecretStr | None = None
    base_url: str | None = None
    streaming: bool = False

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, given: Any) -> Any:
        for name in given if isinstance(given, Mapping) else ():
            if name not in cls.model_fields:
                raise streamfold.ConfigError(_unknown_setting(name, given[name], cls.model_fields))
        return given

    def model_post_init(self, context: Any, /) -> None:
        """Raises ConfigError for settings that this model doesn't support."""
        if self.client is not None:
            check_model(self.client, "ChatStreamfold(client=)")
        model = self._made()
        options = self._options(None, {})
        if wrong := [name for name in NAMES if options.get(name) is not None and name in unsupported_settings(model)]:
            raise streamfold.ConfigError(f"{model.name} doesn't support {' and '.join(wrong)}: leave it out")
        if isinstance(model, streamfold.Provider):
            Options.read({name: value for name, value in options.items() if name not in _NOT_IN_BODIES})

    @property
    def _llm_type(self) -> str:
        return "streamfold"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": self.model, "provider": self.provider if isinstance(self.provider, str) else None}

    # --- the model below ----------------------------------------------------------------------------------------------

    @cached_property
    def _async(self) -> streamfold.ChatModel:
        return self._made()

    @cached_property
    def _sync(self) -> streamfold.sync.Provider:
        return streamfold.sync.Provider(self._made())

    def _made(self) -> streamfold.ChatModel:
        if self.client is not None:
            return self.client  # type: ignore[no-any-return]
        given: dict[str, Any] = {  # None counts as not given
            "model": self.model if self.provider is not None else None,
            "api_key": self.api_key.get_secret_value() if self.api_key else None,
            "base_url": self.base_url,
            "max_retries": self.max_retries,
        }
        spec = self.model if self.provider is None else self.provider
        return streamfold.Provider.from_config(spec, **{**given, **self.config})

    def _request(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Converts a LangChain request to the arguments of `chat_stream`."""
        options = self._options(stop, kwargs)
        if any(options.get(name) is not None for name in NAMES):
            options["extra_body"] = {**as_body_members(self._async, options), **(options.get("extra_body") or {})}
        options = {name: value for name, value in options.items() if name not in NAMES}
        return {"messages": [made for message in messages for made in _to_messages(message)], **options}

    def _options(self, stop: list[str] | None, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the options of a request, including options that only some APIs have."""
        names = [name for name in ChatOptions.__annotations__ if name in type(self).model_fields]
        given = {name: value for name in (*names, *NAMES) if (value := getattr(self, name)) is not None}
        given.pop("model", None)  # it names the provider, too
        options = {
            **given,
            "max_output_tokens": self.max_tokens,
            "stop": stop or self.stop,
            "timeouts": None if self.timeout is None else {"total": self.timeout},
            # Without a repair, the provider would refuse every later request of the thread, too.
            "repair_history": True,
            **self.options,
            **{name: value for name, value in kwargs.items() if name not in _LANGCHAINS_OWN},
        }
        if "max_tokens" in options:
            options["max_output_tokens"] = options.pop("max_tokens")
        return options

    # --- what LangChain calls -----------------------------------------------------------------------------------------

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return _result(self._sync.chat(**self._request(messages, stop, kwargs)))

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return _result(await self._async.chat(**self._request(messages, stop, kwargs)))

    def _stream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        steps = HostedSteps()
        with self._sync.chat_stream(**self._request(messages, stop, kwargs)) as stream:
            for chunk in stream:
                made = _chunk(chunk, steps, stream.reply if chunk.finished else None)
                if run_manager:
                    run_manager.on_llm_new_token(chunk.delta, chunk=made)
                yield made

    async def _astream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        steps = HostedSteps()
        async with self._async.chat_stream(**self._request(messages, stop, kwargs)) as stream:
            async for chunk in stream:
                made = _chunk(chunk, steps, stream.reply if chunk.finished else None)
                if run_manager:
                    await run_manager.on_llm_new_token(chunk.delta, chunk=made)
                yield made

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | bool | dict[str, Any] | None = None,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Returns a copy of the model that sends these tools with each request.

        Args:
            tools: anything that LangChain can convert to a tool; hosted tools as values such as `WebSearch()`, or as
                dicts in the provider's format.
            tool_choice: "auto", "none", "required" or "any", or the name of the tool to call.
            strict: true: request that the server enforces the schema of a tool call's arguments.

        Raises:
            ConfigError: the provider doesn't support one of the hosted tools.
        """
        made = [_bound_tool(tool, strict) for tool in tools]
        if hosted := [tool for tool in made if isinstance(tool, ServerTool)]:
            model = self._made()
            if isinstance(model, streamfold.Provider):
                model.preview([streamfold.user("?")], tools=hosted)
        if tool_choice is not None:
            kwargs["tool_choice"] = _choice(tool_choice)
        return self.bind(tools=made, **kwargs)

    def with_structured_output(
        self,
        schema: dict[str, Any] | type,
        *,
        include_raw: bool = False,
        method: Literal["json_schema", "function_calling", "json_mode"] = "json_schema",
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, dict[str, Any] | BaseModel]:
        """Returns a runnable whose output matches a schema.

        Args:
            schema: a pydantic model, a TypedDict, or a JSON schema.
            include_raw: true: return a dict with `raw`, `parsed` and `parsing_error`, even if the model's response
                doesn't match the schema.
            method: "json_schema" uses the provider's structured output, "function_calling" uses a tool call, and
                "json_mode" accepts any JSON object, which the prompt must describe.
            strict: true: request that the server enforces the schema.
        """
        model, parser = self._structured(schema, method, strict, kwargs)
        if not include_raw:
            return model | parser
        parsed = RunnablePassthrough.assign(parsed=itemgetter("raw") | parser, parsing_error=lambda _: None)
        failed = RunnablePassthrough.assign(parsed=lambda _: None)
        return RunnableMap(raw=model) | parsed.with_fallbacks([failed], exception_key="parsing_error")

    def _structured(
        self, schema: Any, method: str, strict: bool | None, kwargs: dict[str, Any]
    ) -> tuple[Runnable[Any, Any], Runnable[Any, Any]]:
        is_model = is_basemodel_subclass(schema)
        traced = {"kwargs": {"method": method, "strict": strict}, "schema": convert_to_openai_tool(schema)}
        bound = {**kwargs, "ls_structured_output_format": traced}
        if method == "function_calling":
            name = traced["schema"]["function"]["name"]
            model = self.bind_tools([schema], tool_choice=name, strict=strict, **bound)
            if is_model:
                return model, parsers.PydanticToolsParser(tools=[schema], first_tool_only=True)
            return model, parsers.JsonOutputKeyToolsParser(key_name=name, first_tool_only=True)
        form: Any = "json"
        if method != "json_mode":
            about = traced["schema"]["function"]
            name = re.sub(r"[^A-Za-z0-9_-]+", "_", about["name"])[:64]
            described = about.get("description") or None
            form = ResponseFormat(convert_to_json_schema(schema), name, strict, is_model, described)
        parser: Any = parsers.PydanticOutputParser(pydantic_object=schema) if is_model else parsers.JsonOutputParser()
        return self.bind(response_format=form, **bound), parser


# --- tools and forms of answers ---------------------------------------------------------------------------------------


def _bound_tool(tool: Any, strict: bool | None) -> Any:
    """Converts a LangChain tool to a streamfold tool. Returns a hosted tool unchanged, because it isn't a function."""
    if isinstance(tool, ServerTool):
        return tool
    if isinstance(tool, Mapping) and tool.get("type") not in _OF_FUNCTIONS and "input_schema" not in tool:
        return dict(tool)
    function: dict[str, Any] = convert_to_openai_tool(tool, strict=strict)
    return function


def _choice(choice: str | bool | dict[str, Any]) -> Any:
    if isinstance(choice, dict) or choice in ("auto", "none", "required"):
        return choice
    return _CHOICES.get(choice) or {"type": "function", "function": {"name": choice}}


# --- messages of LangChain as turns -----------------------------------------------------------------------------------


_SAID = {"text", "tool_use", "tool_call", "function_call", "invalid_tool_call", "reasoning", "thinking"}


def _to_messages(message: BaseMessage) -> Iterator[Message]:
    match message:
        case AIMessage():
            yield _answer(message)
        case HumanMessage():
            blocks = _blocks(message)
            results = [block for block in blocks if block.get("type") == "tool_result"]  # as Anthropic writes them
            for result in results:
                yield _tool(result.get("content"), str(result.get("tool_use_id")), failed=bool(result.get("is_error")))
            rest = [block for block in blocks if block not in results]
            if rest or not results:
                yield Message("user", _read_content(rest if results else message.content), name=message.name)
        case SystemMessage():
            developer = message.additional_kwargs.get("__openai_role__") == "developer"
            yield Message("developer" if developer else "system", _read_content(message.content))
        case ToolMessage():
            yield _tool(message.content, message.tool_call_id, failed=message.status == "error")
        case ChatMessage():
            role: Any = message.role  # any text; `Message` checks it
            yield Message(role, _read_content(message.content))
        case _:
            raise TypeError(f"a message of LangChain was expected, not {type(message).__name__}")


def _tool(content: Any, call_id: str, *, failed: bool) -> Message:
    return Message("tool", _read_content(content), tool_call_id=call_id, error=failed)


def _answer(message: AIMessage) -> Message:
    """Returns the original assistant message that is stored in a LangChain message. If there is none, or the program
    has changed the LangChain message, builds a new assistant message.

    The new message contains the original of each tool call that the program hasn't changed.
    """
    blocks = _blocks(message)
    calls = [(call["id"] or "", call["name"], call["args"]) for call in message.tool_calls]
    known = {call_id for call_id, _, _ in calls}
    for block in blocks:  # as Anthropic writes them
        if block.get("type") == "tool_use" and block.get("id") not in known:
            calls.append((block.get("id") or "", block["name"], block.get("input") or {}))
    text = "".join(str(block.get("text") or "") for block in blocks)
    reasoning = message.additional_kwargs.get("reasoning_content")
    if reasoning is None:
        thoughts = [block.get("reasoning") or block.get("thinking") for block in blocks]
        reasoning = "".join(thought for thought in thoughts if isinstance(thought, str)) or None
    kept = KeptTurn.load(message.additional_kwargs)
    if kept and kept.shows(text, calls, reasoning or "", message.additional_kwargs.get("refusal")):
        return kept.message
    lost = {str(block.get("type")) for block in blocks} - _SAID
    warn_left_out(lost, "blocks", maker=None, changed=kept is not None)
    texts = [block["text"] for block in blocks if block.get("type") == "text" and block.get("text")]
    said = tuple(map(TextPart, texts)) if len(texts) > 1 else text or None
    turn_calls = [
        (kept and kept.call(*call)) or ToolCall(*call, json.dumps(call[2], ensure_ascii=False)) for call in calls
    ]
    origin = kept.message.origin if kept else None
    return Message("assistant", said, tuple(turn_calls), reasoning=reasoning, origin=origin)


def _blocks(message: BaseMessage) -> list[dict[str, Any]]:
    content = message.content if isinstance(message.content, list) else [message.content]
    return [{"type": "text", "text": block} if isinstance(block, str) else block for block in content]


_PARTS = {"image": ImagePart, "file": FilePart, "audio": AudioPart}


def _read_content(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return tuple(_media_part(block) if isinstance(block, dict) else block for block in content)


def _media_part(block: dict[str, Any]) -> Any:
    """Converts an image, audio or file block of a LangChain message, in one of LangChain's two formats or in
    Anthropic's format.
    """
    part = _PARTS.get(str(block.get("type")))
    source = block.get("source") or {}
    data = block.get("base64") or block.get("data") or source.get("data")
    url = block.get("url") or source.get("url")
    file_id = (
        block.get("file_id") or source.get("file_id") or (block.get("source_type") == "id" and block["id"]) or None
    )
    if part is None or not (data or url or file_id):
        return block
    named = {"name": block.get("filename") or block.get("name")} if part is FilePart else {}
    media_type = block.get("mime_type") or source.get("media_type")
    place = {"url": url, **file_reference(file_id)}
    return part(data=b64decode(data) if data else None, media_type=media_type, **place, **named)


# --- answers to LangChain ---------------------------------------------------------------------------------------------


def _result(reply: Reply) -> ChatResult:
    message = AIMessage(
        content=_content(reply),
        tool_calls=[_call(call) for call in reply.tool_calls if call.error is None],
        invalid_tool_calls=[_invalid(call) for call in reply.tool_calls if call.error is not None],
        additional_kwargs=_additional_kwargs(reply) | _given(reasoning_content=reply.reasoning or None),
        response_metadata=_metadata(reply),
        usage_metadata=_usage(reply.usage),
        id=reply.id,
    )
    return ChatResult(generations=[ChatGeneration(message=message)])


def _chunk(chunk: streamfold.StreamChunk, steps: HostedSteps, reply: Reply | None) -> ChatGenerationChunk:
    said: dict[str, Any] = {"reasoning_content": chunk.reasoning} if chunk.reasoning else {}
    if reply is None:
        blocks = [*_server_blocks(steps.feed(chunk.hosted))] if chunk.hosted else []
        content: Any = [*([chunk.delta] if chunk.delta else []), *blocks] if blocks else chunk.delta
        return ChatGenerationChunk(message=AIMessageChunk(content=content, additional_kwargs=said))
    cited = [{"type": "text", "text": "", "annotations": _citations(reply)}] if reply.citations else []
    rest = [*_server_blocks(steps.feed(reply.hosted, last=True)), *cited, *_file_blocks(reply)]
    message = AIMessageChunk(
        content=[*([chunk.delta] if chunk.delta else []), *rest] if rest else chunk.delta,
        tool_call_chunks=[_call_chunk(number, call) for number, call in enumerate(reply.tool_calls)],
        additional_kwargs={**said, **_additional_kwargs(reply)},
        response_metadata=_metadata(reply),
        usage_metadata=_usage(reply.usage),
        id=reply.id,
        chunk_position="last",
    )
    return ChatGenerationChunk(message=message)


def _content(reply: Reply) -> Any:
    """Returns the text of a reply, or content blocks if the reply contains more than text."""
    cited = {"annotations": _citations(reply)} if reply.citations else {}
    text = [{"type": "text", "text": reply.text, **cited}] if reply.text else []
    more = [*_server_blocks(HostedSteps().feed(reply.hosted, last=True))]
    files = [*_file_blocks(reply)]
    return [*more, *text, *files] if more or cited or files else reply.text


def _call(call: ToolCall) -> Any:
    return {"type": "tool_call", "id": call.id, "name": call.name, "args": call.arguments}


def _invalid(call: ToolCall) -> Any:
    members = {"id": call.id, "name": call.name, "args": call.raw_arguments, "error": call.error}
    return {"type": "invalid_tool_call", **members}


def _call_chunk(number: int, call: ToolCall) -> Any:
    # LangChain completes JSON that breaks off. Text that isn't an object is sent as a JSON string: an invalid call.
    text = json.dumps(call.arguments if call.error is None else call.raw_arguments, ensure_ascii=False)
    return {"type": "tool_call_chunk", "index": number, "id": call.id, "name": call.name, "args": text}


def _additional_kwargs(reply: Reply) -> dict[str, Any]:
    """Returns the refusal of a complete reply, and the original message with the data that the provider needs, such as
    signatures. See `keep_turn`.
    """
    message, refused = reply.message, {"refusal": reply.refusal} if reply.refusal else {}
    if not (message.tool_calls or message.extras or message.refusal or message.reasoning is not None):
        return refused
    calls = [(call.id, call.name, call.arguments) for call in reply.tool_calls if call.error is None]
    return {**keep_turn(message, reply.text, calls, reply.reasoning, reply.refusal), **refused}


def _metadata(reply: Reply) -> dict[str, Any]:
    said = {
        "model_name": reply.model,
        "model_provider": "streamfold",
        "provider": reply.provider,
        "finish_reason": reply.finish_reason,
        "raw_finish_reason": reply.raw_finish_reason,
        "request_id": reply.request_id,
        "refusal": reply.refusal,
        "warnings": [{"code": warning.code, "detail": warning.detail} for warning in reply.warnings],
    }
    return {name: value for name, value in said.items() if value not in (None, [])}


def _usage(usage: streamfold.Usage | None) -> UsageMetadata | None:
    if usage is None:
        return None
    given, written = usage.input_tokens or 0, usage.output_tokens or 0
    made = UsageMetadata(input_tokens=given, output_tokens=written, total_tokens=usage.total_tokens or given + written)
    kinds: dict[str, Any] = token_details(usage)
    read = {"cache_read": usage.cached_tokens, "cache_creation": usage.cache_write_tokens}
    read["audio"] = kinds.get("input_audio_tokens")
    wrote = {"reasoning": usage.reasoning_tokens, "audio": kinds.get("output_audio_tokens")}
    for side, counts in (("input_token_details", read), ("output_token_details", wrote)):
        if details := {name: count for name, count in counts.items() if count is not None}:
            made[side] = details  # type: ignore[literal-required]
    return made


def _server_blocks(steps: Iterable[HostedStep]) -> Iterator[dict[str, Any]]:
    """Yields LangChain content blocks for the calls and results of tools that the provider runs."""
    for step in steps:
        if isinstance(step, HostedCall):
            yield {"type": "server_tool_call", "id": step.id, "name": step.name, "args": step.input}
        else:
            said = {"status": "error" if step.error else "success", "output": step.output}
            more = {"extras": {"error": step.error}} if step.error else {}
            yield {"type": "server_tool_result", "tool_call_id": step.call.id, **said, **more}


def _citations(reply: Reply) -> list[dict[str, Any]]:
    """Returns a reply's citations in LangChain's format, with positions in the complete text."""
    return [
        _given(type="citation", url=cited.url, title=cited.title, cited_text=cited.cited_text)
        | _given(start_index=cited.start, end_index=cited.end)
        for cited in reply.citations
    ]


def _file_blocks(reply: Reply) -> Iterator[dict[str, Any]]:
    for file in reply.files:
        kind = (file.media_type or "").partition("/")[0]
        data = None if file.data is None else b64encode(file.data).decode()
        more = _given(filename=file.name, container_id=file.container_id)
        yield {
            "type": kind if kind in ("image", "audio", "video") else "file",
            **_given(base64=data, url=file.url, file_id=file.file_id, mime_type=file.media_type, extras=more or None),
        }


def _given(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _unknown_setting(name: str, value: Any, known: Iterable[str]) -> str:
    """Returns the error message about an unknown setting, with the right setting if there is one."""
    unknown = f"ChatStreamfold: unknown setting {name!r}"
    if name in _SYNONYMS:
        return f"{unknown}: pass {_SYNONYMS[name]}"
    if name == "stream_usage":
        return f"{unknown}: remove it, because usage_metadata is always set if the server sends token counts"
    if name in ChatOptions.__annotations__:
        return f"{unknown}: pass options={{{name!r}: ...}}"
    if name in streamfold.ProviderConfig.__annotations__:
        return f"{unknown}: pass config={{{name!r}: ...}}"
    if guess := did_you_mean(name, known):
        return f"{unknown}{guess}"
    try:
        Options.read({name: value})
    except streamfold.ConfigError as error:  # the message names streamfold's option for an option of another library
        return f"ChatStreamfold: {error}"
    return f"{unknown}: leave it out"
