"""Encodes requests to the Responses API, which contain the conversation as input items."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ...errors import ConfigError
from ...jsontext import parse_object
from ...requests import (
    CALL_EXTRAS,
    ITEM_EXTRAS,
    HostedForm,
    added_tool_key,
    with_raw_tools,
    written_hosted,
)
from ...types import (
    INSTRUCTION_ROLES,
    AllowedTools,
    AudioPart,
    FilePart,
    HostedTool,
    ImagePart,
    Message,
    NamedTool,
    ReadToolChoice,
    TextPart,
    Tool,
    ToolCall,
    tool_result_content,
)
from ..chat.encode import encode_response_format, file_data, image_url, says_more
from ..encoding_report import EncodingReport, has_unmodelled_blocks
from .tools import HOSTED_FORMS

if TYPE_CHECKING:
    from ...requests import Request


# The results of built-in tools. Each kind of call has its own kind of result item:
# https://platform.openai.com/docs/api-reference/responses/create. Programs create all of them with
# `tool_result(call, ...)`.

ACKNOWLEDGED = "acknowledged_safety_checks"  # in `Message.extras`, and in the item


def encode_tool_result(call: ToolCall, message: Message, where: str) -> dict[str, Any] | None:
    """Converts the result of a built-in tool to an input item. Returns None for the result of a function.

    Raises:
        ConfigError: the result's content doesn't fit this kind of tool call.
    """
    match call.kind:
        case "approval":
            return _approval(call, message)
        case "apply_patch":
            item = {"type": "apply_patch_call_output", "call_id": call.id}
            return {**item, "status": "failed" if message.error else "completed", "output": _text_of_result(message)}
        case "shell":
            return _shell(call, message)
        case "computer":
            return _computer(call, message, where)
        case "tool_search":
            said = _value(message)
            tools = said.get("tools") if isinstance(said, Mapping) else said
            item = {"type": "tool_search_output", "call_id": call.id, "execution": "client", "status": "completed"}
            # Any other value, such as an error text, means that no tool was found.
            return {**item, "tools": tools if isinstance(tools, list) else []}
    return None


def _text_of_result(message: Message) -> str:
    content = message.content
    if isinstance(content, str | None):
        return content or ""
    return "\n".join(part.text for part in content if isinstance(part, TextPart))


def _value(message: Message) -> Any:
    text = _text_of_result(message)
    try:
        return parse_object(text)
    except ValueError:
        return text


_AGREES = ("yes", "true", "ok", "approve", "approved", "allow", "allowed")


def _approval(call: ToolCall, message: Message) -> dict[str, Any]:
    said = _value(message)
    answer, reason = (said.get("approve"), said.get("reason")) if isinstance(said, Mapping) else (said, None)
    if message.error:
        answer, reason = False, _text_of_result(message)
    if not isinstance(answer, bool):  # a text that agrees, or the reason for a refusal
        agrees = str(answer).strip().lower() in _AGREES
        answer, reason = agrees, None if agrees else answer
    item = {"type": "mcp_approval_response", "approval_request_id": call.id, "approve": answer}
    return {**item, "reason": str(reason)} if reason else item


def _shell(call: ToolCall, message: Message) -> dict[str, Any]:
    said, text = _value(message), _text_of_result(message)
    if call.name == "local_shell":
        return {"type": "local_shell_call_output", "id": call.id, "call_id": call.id, "output": text}
    outputs = said.get("output") if isinstance(said, Mapping) else said
    if not isinstance(outputs, list):
        stdout, stderr = ("", text) if message.error else (text, "")
        outcome = {"type": "exit", "exit_code": int(message.error)}
        outputs = [{"stdout": stdout, "stderr": stderr, "outcome": outcome}]
    longest = call.arguments.get("max_output_length")
    more = {} if longest is None else {"max_output_length": longest}  # as in the call
    return {"type": "shell_call_output", "call_id": call.id, "output": outputs, **more}


def _computer(call: ToolCall, message: Message, where: str) -> dict[str, Any]:
    parts = message.content if isinstance(message.content, tuple) else ()
    picture = next((part for part in parts if isinstance(part, ImagePart)), None)
    item: dict[str, Any] = {"type": "computer_call_output", "call_id": call.id}
    if checks := message.extras.get(ACKNOWLEDGED):
        item[ACKNOWLEDGED] = checks
    if picture is None:
        raise ConfigError(f"{where} is the result of a computer call, which must be a screenshot: use image(...)")
    if picture.file_id is not None:
        return {**item, "output": {"type": "computer_screenshot", "file_id": picture.file_id}}
    return {**item, "output": {"type": "computer_screenshot", "image_url": image_url(picture)}}


# Fields that OpenAI sends in an output item and refuses in the input: "Unknown parameter: 'input[1].status'"
# (BerriAI/litellm#13420, can1357/oh-my-pi#10415). No input item in https://github.com/openai/openai-python has them.
_OUTPUT_ONLY = {"reasoning": ("status", "created_by"), "compaction": ("status", "created_by")}


def check_message(message: Message, where: str) -> None:
    """Raises ConfigError if a message can't be converted to input items."""
    if message.role == "function":
        raise ConfigError(f"{where} has the role 'function', which the Responses API does not support")
    if message.extras.get("function_call"):
        raise ConfigError(f"{where} has a function_call without an id: write it as tool_calls")
    if message.partial:
        raise ConfigError(f"{where} is partial, and this provider can't continue a text: remove partial")


def _call(call: ToolCall, extra: Mapping[str, Any] | None) -> dict[str, Any]:
    made = {"call_id": call.id, "name": call.name}
    if call.kind == "custom":
        return {"type": "custom_tool_call", **made, "input": call.raw_arguments}
    extras = {name: extra[name] for name in CALL_EXTRAS if name in extra} if extra else {}
    # The server parses this text, and an empty text isn't JSON.
    return {"type": "function_call", **made, "arguments": call.raw_arguments or "{}", **extras}


def original_payload(message: Message, *, stored: bool) -> list[dict[str, Any]] | None:
    """Returns the output items of an assistant message as the API sent them, or None if the message was changed.

    The items keep their order, because the API requires that each reasoning item is followed by the same item as in the
    response (openai/codex#1240). Also returns None if the tool calls in the items differ from those of the message. The
    tool calls of a truncated response aren't delivered, and the API refuses tool calls without results.
    """
    items = message.extras.get("output")
    if not isinstance(items, list) or not items or not all(isinstance(item, Mapping) for item in items):
        return None
    others = {call.id for call in message.tool_calls if call.kind != "function"}
    called = [_call_id(item) for item in items if item.get("type") == "function_call" or _call_id(item) in others]
    if called != [call.id for call in message.tool_calls] or _text(items) != message.text:
        return None
    calls = {call.id: call for call in message.tool_calls}
    sent: list[dict[str, Any]] = []
    for item in items:
        if (sendable := input_item(item, stored=stored)) is None:
            continue
        if item.get("type") in _WRITTEN and (call := calls.get(_call_id(item))):
            sendable |= _call(call, call.extra)
        sent.append(sendable)
    return sent


_WRITTEN = ("function_call", "custom_tool_call")  # calls that a program may have changed


def _call_id(item: Mapping[str, Any]) -> str:
    return str(item.get("call_id") or item.get("id"))


def input_item(item: Mapping[str, Any], *, stored: bool) -> dict[str, Any] | None:
    """Converts an output item to an input item, for a later request. Returns None if requests can't contain this item.

    Args:
        stored: True if the provider may have stored the output items, so that it finds them by their ids.
    """
    refused = _OUTPUT_ONLY.get(str(item.get("type")), ("created_by",))
    sent = {name: value for name, value in item.items() if name not in refused}
    if item.get("type") != "reasoning" or stored or item.get("encrypted_content") or item.get("content"):
        return sent
    # The item contains at most a summary. With an id, OpenAI searches for the reasoning and fails: "Items are not
    # persisted when `store` is set to false" (vercel/ai#7543). Without the id, OpenAI accepts the summary. llama.cpp
    # refuses an item without a summary, too (ggml-org/llama.cpp#29159).
    sent.pop("id", None)
    return sent if sent.get("summary") else None


def _text(items: Iterable[Mapping[str, Any]]) -> str:
    contents = [item.get("content") for item in items if item.get("type") == "message"]
    lists = [[{"text": content}] if isinstance(content, str) else content or () for content in contents]
    parts = [part for content in lists for part in content if isinstance(part, Mapping)]
    return "".join(text for part in parts if isinstance(text := part.get("text"), str))


def _output_parts(message: Message, where: str) -> Iterator[dict[str, Any]]:
    content = message.content
    parts = (TextPart(content),) if isinstance(content, str) else content or ()
    for at, part in enumerate(parts):
        if isinstance(part, ImagePart | FilePart | AudioPart):
            raise ConfigError(f"{where}.content[{at}] isn't text: an assistant message can contain only text")
    for read in _parts(parts, where):
        if read.get("type") == "input_text":  # else: "Invalid value: 'input_text'"
            read = {**read, "type": "output_text", "annotations": []}
        if read.get("text") != "":
            yield read
    if message.refusal:
        yield {"type": "refusal", "refusal": message.refusal}


def _content(message: Message, where: str) -> str | list[dict[str, Any]]:
    content = tool_result_content(message)
    return _parts(content, where) if isinstance(content, tuple) else content or ""


def _parts(parts: Iterable[Any], where: str) -> list[dict[str, Any]]:
    return [_part(part, f"{where}.content[{at}]") for at, part in enumerate(parts)]


def _part(part: Any, where: str) -> dict[str, Any]:
    match part:
        case TextPart(text):
            return {"type": "input_text", "text": text}
        case ImagePart(file_id=str(file_id)):
            return {"type": "input_image", "file_id": file_id, "detail": part.detail or "auto"}
        case ImagePart():
            return {"type": "input_image", "image_url": image_url(part), "detail": part.detail or "auto"}
        case FilePart(file_id=str(file_id)):
            return {"type": "input_file", "file_id": file_id}
        case FilePart(url=str(url)):
            return {"type": "input_file", "file_url": url}
        case FilePart():
            return {"type": "input_file", **file_data(part)}
        case AudioPart() | {"type": "input_audio"}:
            # https://platform.openai.com/docs/guides/audio: only Chat Completions and Realtime accept audio
            raise ConfigError(f"{where} is audio, which the Responses API does not support: use the adapter 'chat'")
    given: dict[str, Any] = {**part}
    match given:
        case {"type": "text"}:
            return {**given, "type": "input_text"}
        case {"type": "image_url", "image_url": str(url), **rest}:
            return {**rest, "type": "input_image", "image_url": url, "detail": "auto"}
        case {"type": "image_url", "image_url": Mapping() as image, **rest}:
            members = {name: value for name, value in image.items() if name != "url"}
            return {**rest, "type": "input_image", "detail": "auto", **members, "image_url": image.get("url")}
        case {"type": "file", "file": Mapping() as file, **rest}:
            return {**rest, "type": "input_file", **file}
    return given


# A request of the Responses API contains the conversation as a flat list of items:
# https://platform.openai.com/docs/api-reference/responses/create. By default, the provider stores nothing: `store` is
# false, and the response contains encrypted reasoning, which the next request sends back.


@dataclass(frozen=True, slots=True)
class ResponsesQuirks:
    """How requests differ between servers of the Responses API.

    Attributes:
        store: the value of the field `store`. With None, streamfold omits `store`, and OpenAI stores responses for 30
            days.
        encrypted_reasoning: True to request encrypted reasoning if the server doesn't store the response. OpenAI
            refuses such requests for models without reasoning.
        system_as_instructions: True to send system messages at the beginning of the conversation as `instructions`.
            With False, streamfold sends system messages as input items. OpenAI doesn't use the `instructions` of a
            stored response for the next response.
        hosted_tools: the format of hosted tools.
        strict_output: True to use OpenAI's strict mode if the response format is a pydantic class. The output then
            always follows its schema.
        schemas: the row in `facts/schemas.toml` that describes which JSON schemas the endpoint accepts. With None,
            streamfold chooses the row by the model's vendor.
        says_json: True if the server refuses JSON mode unless a message contains the word "json" (OpenAI, Azure).
        returned_items: which output items of earlier responses a request contains. With "plain", a request contains
            only their text and function calls (Perplexity).
        format_member: the request field that contains the response format.
        conversations: how a request continues a stored response with `previous_response_id`. With "with_instructions",
            each request repeats the first system messages as `instructions`, because the API doesn't take them from the
            stored response. With "without_instructions", system messages are input items, because the server refuses
            `instructions` together with `previous_response_id` (xAI). With "none", each request contains all messages,
            because the server doesn't support or doesn't document stored responses.
        added_tools: True if the server accepts `additional_tools` items, which add tools inside the conversation. With
            False, streamfold sends these tools together with the request's other tools.
        counts_tokens: True if the endpoint has the path `/responses/input_tokens`. Azure doesn't have this path
            (learn.microsoft.com/answers/questions/5889782).
        tool_choice: True if the server accepts `tool_choice`. With False, the request contains only the tools that the
            tool choice allows.
    """

    store: bool | None = False
    encrypted_reasoning: bool = True
    system_as_instructions: bool = False
    strict_output: bool = True
    schemas: str | None = None
    hosted_tools: Literal["openai", "xai", "openrouter", "perplexity"] = "openai"
    says_json: bool = True
    returned_items: Literal["all", "plain"] = "all"
    format_member: Literal["text", "response_format"] = "text"
    tool_choice: bool = True
    added_tools: bool = False
    counts_tokens: bool = False
    conversations: Literal["none", "with_instructions", "without_instructions"] = "none"


# Each of these fields requires that the provider stores responses.
_NEED_STORE = ("previous_response_id", "conversation", "background")

# The fields of `ResponseCompactParams` in https://github.com/openai/openai-python.
_COMPACTED = (
    "model", "input", "instructions", "previous_response_id", "prompt_cache_key", "prompt_cache_options",
    "prompt_cache_retention", "service_tier", "image",
)  # fmt: skip
_NEVER_REASONS = re.compile(r"(?:.*/)?(?:gpt-3|gpt-4|chatgpt-4o)")


class ResponsesRequestWriter:
    """Encodes requests to the Responses API."""

    quirks: ResponsesQuirks

    def encode(self, request: Request, report: EncodingReport) -> dict[str, Any]:
        options, threshold = request.options, request.options.compact_threshold
        store = self._store(request)
        # Items that continue a stored conversation must be valid without it, because the provider may have deleted it.
        stored = store is not False and request.conversation is None
        count = self.instruction_count(request)
        instructions = "\n\n".join(message.text for message in request.messages[:count]) or None
        calls = [call for message in request.messages for call in message.tool_calls]
        others = {call.id: call for call in calls if call.kind != "function"}
        for at, message in [*request.numbered][:count]:
            self._report_unsent(message, f"messages[{at}]", request, None, report)
        items: list[dict[str, Any]] = []
        for at, message in request.unstored(count):
            answered = others.get(message.tool_call_id or "")
            usable = self.quirks.returned_items == "all" and request.came_from_here(message)
            original = original_payload(message, stored=stored) if usable else None
            self._report_unsent(message, f"messages[{at}]", request, original, report)
            if ACKNOWLEDGED in message.extras and not (answered and answered.kind == "computer"):
                report.members.append(f"messages[{at}].{ACKNOWLEDGED}")
            items += self._items(message, at, request, stored, original, answered)
        body: dict[str, Any] = {"model": request.model, "input": items, "stream": request.stream}
        if request.conversation is not None and (known := request.conversation.id) is not None:
            body["conversation" if self.grows(known) else "previous_response_id"] = known
        sent_as = {own: sent for sent, own in request.names.items()}
        placed = {added_tool_key(tool, sent_as) for message in request.messages for tool in message.tools}
        if tools := [self._tool(tool) for tool in request.tools if added_tool_key(tool) not in placed]:
            body["tools"] = tools
        if request.tools and self.quirks.tool_choice:
            body["tool_choice"] = self._tool_choice(request.tool_choice, request.tools)
        said = {
            "instructions": instructions,
            "temperature": options.temperature,
            "top_p": options.top_p,
            "max_output_tokens": options.max_output_tokens,
            "parallel_tool_calls": options.parallel_tool_calls,
            "reasoning": {"effort": options.reasoning_effort} if options.reasoning_effort else None,
            self.quirks.format_member: self._format(options.response_format),
            "context_management": [{"type": "compaction", "compact_threshold": threshold}] if threshold else None,
            "store": store,
            "include": ["reasoning.encrypted_content"] if not stored and self._encrypts(request) else None,
        }
        body.update({name: value for name, value in said.items() if value is not None})
        for name, value in with_raw_tools(body, options.extra_body).items():
            if name == "include" and isinstance(value, list) and value:
                value = list(dict.fromkeys([*body.get("include", ()), *value]))
            # `{"reasoning": {"summary": "auto"}}` must not remove the effort.
            mix = name in ("reasoning", "text") and name in body and isinstance(value, Mapping)
            body[name] = {**body[name], **value} if mix else value
        return {name: body[name] for name in _COMPACTED if name in body} if request.compact else body

    def _encrypts(self, request: Request) -> bool:
        known = request.capabilities.reasoning
        reasons = not _NEVER_REASONS.match(request.model) if known == "unknown" else known == "yes"
        return self.quirks.encrypted_reasoning and reasons

    def _store(self, request: Request) -> bool | None:
        extra = request.options.extra_body
        if request.conversation is not None:
            return True
        needed = any(extra.get(name) for name in _NEED_STORE)
        store: bool | None = extra.get("store", None if needed else self.quirks.store)
        return store

    def instruction_count(self, request: Request) -> int:
        each_time = request.conversation is not None and self.quirks.conversations == "with_instructions"
        if not each_time and not self.quirks.system_as_instructions and not request.compact:
            return 0
        count = 0
        for at, message in request.numbered:
            check_message(message, f"messages[{at}]")
            if message.role not in INSTRUCTION_ROLES or not isinstance(message.content, str) or message.tools:
                break
            count += 1
        return min(count, len(request.messages) - 1) if each_time else count  # the input needs an item

    def grows(self, conversation_id: str) -> bool:
        """Returns True if this id belongs to a conversation (Conversations API), and False if it belongs to a response.

        https://platform.openai.com/docs/api-reference/conversations
        """
        return conversation_id.startswith("conv_")

    def _items(
        self,
        message: Message,
        position: int,
        request: Request,
        stored: bool,
        original: list[dict[str, Any]] | None,
        answered: ToolCall | None,
    ) -> Iterator[dict[str, Any]]:
        """Converts a message to input items.

        Args:
            stored: True if the provider may have stored the output items, so that it finds them by their ids.
            original: the output items of the message, if the same provider sent them. Another provider would refuse
                their encrypted reasoning ("organization_id did not match", Kilo-Org/kilo#110).
            answered: the call of a built-in tool whose result is this message.
        """
        where, here = f"messages[{position}]", request.came_from_here(message)
        check_message(message, where)
        if message.tools:
            sent_as = {own: sent for sent, own in request.names.items()}
            wanted = {added_tool_key(tool, sent_as) for tool in message.tools}
            if tools := [self._tool(tool) for tool in request.tools if added_tool_key(tool) in wanted]:
                yield {"type": "additional_tools", "role": "developer", "tools": tools}
            if not message.content:
                return
        said = {name: message.extras[name] for name in ITEM_EXTRAS if here and name in message.extras}
        if message.role == "tool":
            if answered and (item := encode_tool_result(answered, message, where)) is not None:
                yield item
                return
            kind = "function_call_output" if answered is None else "custom_tool_call_output"
            yield {"type": kind, "call_id": message.tool_call_id, "output": _content(message, where), **said}
        elif original is not None:
            yield from original
        elif message.role != "assistant":
            yield {"type": "message", "role": message.role, "content": _content(message, where), **said}
        else:
            if self.quirks.returned_items == "plain":
                if text := message.text or message.refusal:
                    yield {"type": "message", "role": "assistant", "content": text}
            elif parts := list(_output_parts(message, where)):
                made = {"type": "message", "role": "assistant", "status": "completed", "content": parts}
                # OpenRouter requires an id and a status in assistant messages (its documentation of multi-turn
                # conversations). OpenAI accepts any id that begins with msg_, unless it searches its stored items.
                yield made if stored else {**made, "id": f"msg_{position}"}
            for call in message.tool_calls:
                yield _call(call, call.extra if here else None)

    def _report_unsent(
        self, message: Message, where: str, request: Request, original: list[Any] | None, report: EncodingReport
    ) -> None:
        here = request.came_from_here(message)
        if message.reasoning and not any(item.get("type") == "reasoning" for item in original or ()):
            report.reasoning.append(where)
        sent = {ACKNOWLEDGED}  # `encode` reports it
        if here and message.role != "assistant":
            sent |= {*ITEM_EXTRAS}
        if original is not None:
            sent |= {"output", "annotations"}  # the items contain the citations
        if self.quirks.returned_items == "plain" and "output" in message.extras and not says_more("output", message):
            sent.add("output")
        if not has_unmodelled_blocks(message.extras.get("blocks")):
            sent.add("blocks")
        report.add_extras(where, {name: value for name, value in message.extras.items() if name not in sent})
        if message.name:
            report.members.append(f"{where}.name")
        report.add_media_members(message, where)
        supported = {*CALL_EXTRAS, "pending_safety_checks"}
        report.add_call_extras(message, where, request, lambda call: supported.issuperset(call.extra or ()))

    @property
    def hosted_forms(self) -> Mapping[str, HostedForm]:
        return HOSTED_FORMS[self.quirks.hosted_tools]

    def _tool(self, tool: Tool) -> dict[str, Any]:
        if (hosted := written_hosted(tool, self.hosted_forms)) is not None:
            return hosted
        if tool.kind != "function":
            raise ConfigError(f"the tool {tool.name!r} has the unknown kind {tool.kind!r}: pass it as HostedTool(...)")
        return {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
            # Without `strict`, this API makes the schema strict, so that all optional parameters become required:
            # https://platform.openai.com/docs/guides/function-calling#strict-mode
            "strict": bool(tool.strict),
            **({"async": True} if tool.background else {}),
            **tool.extra,
        }

    def _tool_choice(self, choice: ReadToolChoice, tools: Sequence[Tool]) -> str | dict[str, Any]:
        known = {tool.name: tool for tool in tools}
        match choice:
            case NamedTool(hosted=HostedTool() as tool):
                return self._chosen(tool)
            case NamedTool(name):
                return self._chosen(known.get(name) or Tool(name))
            case AllowedTools(names, mode):
                chosen = [self._chosen(known.get(name) or Tool(name)) for name in names]
                return {"type": "allowed_tools", "mode": mode, "tools": chosen}
            case _:
                return choice

    def _chosen(self, tool: Tool | HostedTool) -> dict[str, Any]:
        """Returns the value of `tool_choice` that forces this tool. Unlike in Chat Completions, the field `name` is
        next to the field `type`."""
        written = tool.raw if isinstance(tool, HostedTool) else self._tool(tool)
        return {name: written[name] for name in ("type", "name", "server_label") if name in written}

    def _format(self, wanted: Any) -> dict[str, Any] | None:
        written = encode_response_format(wanted)
        if written is None or self.quirks.format_member == "response_format":  # as in Chat Completions
            return written
        return {"format": {"type": written["type"], **written.get("json_schema", {})}}
