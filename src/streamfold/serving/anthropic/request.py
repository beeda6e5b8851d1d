"""Parses the requests that clients of the Messages API send.

If the provider has another API, the parser refuses server tools, MCP servers and uploaded files with ConfigError,
because a request without them has a different meaning. If the provider has the Messages API (`native`), content blocks
and tools stay in the request unchanged. Fields without a streamfold option go to `extra_body`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

from ...errors import ConfigError
from ...jsontext import dump_compact
from ...requests import ObjectReader, Options, Request, ResponseFormat, kind_of
from ...types import (
    CacheMark,
    FilePart,
    HostedTool,
    ImagePart,
    Message,
    NamedTool,
    ReadToolChoice,
    TextPart,
    Tool,
    ToolCall,
    from_base64,
    hosted_tool,
    read_cache_control,
    system,
)
from .opaque_data import unpack_call_id, unpack_opaque_block
from .serializer import REQUIRED_MEMBERS

_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_KEPT_EXTRA = ("caller", "toolset_name")


def parse_anthropic_request(body: Any, *, native: bool = False) -> Request:
    """Parses the JSON body of a Messages API request.

    Args:
        native: True if the provider has the Messages API. Content blocks and tools that only this API has then stay in
            the request.

    Raises:
        ConfigError: the body isn't a valid request, or contains something that the provider doesn't support. The error
            message begins with the path of the field.
    """
    fields = ObjectReader(body)
    model, max_tokens = fields.need("model"), fields.limit("max_tokens")
    if max_tokens is None:
        raise ConfigError("max_tokens is missing: set it to a whole number")
    fields.any("stream")
    messages = tuple(parse_conversation(fields.any("system"), fields.items("messages"), native=native))
    entries = fields.items("tools") or []
    tools = _tools(entries, native)
    choice, parallel = _choice(fields.object("tool_choice"), tools)
    if not native and fields.any("mcp_servers"):
        raise ConfigError("mcp_servers can't be used with this model: its provider doesn't run MCP servers")
    if not native and isinstance(body.get("container"), Mapping):
        raise ConfigError("container can't be used with this model: its provider doesn't support Agent Skills")
    output, thinking = fields.object("output_config"), fields.object("thinking")
    older = fields.object("output_format")
    wanted = (output.object("format") if output else None) or older
    schema = wanted.mapping("schema") if wanted else None
    if wanted and schema is None:
        raise ConfigError(f"{wanted.at('schema')} is missing: it must be a JSON schema")
    options = Options(
        temperature=fields.number("temperature"),
        top_p=fields.number("top_p"),
        max_output_tokens=max_tokens,
        stop=fields.items("stop_sequences") or None,
        parallel_tool_calls=parallel,
        reasoning_effort=_effort(thinking, output),  # type: ignore[arg-type]
        response_format=None if schema is None else ResponseFormat(schema),
        extra_body=fields.rest(),
    )
    return Request(model, messages, tools, choice, options)


# --- the conversation -------------------------------------------------------------------------------------------------


def parse_conversation(system: Any, messages: list[Any] | None, *, native: bool = False) -> list[Message]:
    """Converts the request fields `system` and `messages` to messages.

    Raises:
        ConfigError: a field is invalid. The error message begins with the path of the field.
    """
    opening = _system(system)
    if not messages:
        raise ConfigError(f"messages is {'missing' if messages is None else 'empty'}: there is nothing to answer")
    read = [_message(message, f"messages[{at}]", native) for at, message in enumerate(messages)]
    return [*opening, *chain.from_iterable(read)]


def _system(given: Any) -> list[Message]:
    if given is None or given in ("", []):
        return []
    if isinstance(given, str):
        return [system(given)]
    if not isinstance(given, list):
        raise ConfigError(f"system must be a string or a list of text blocks, not {kind_of(given)}")
    read = [_text_part(block, f"system[{at}]") for at, block in enumerate(given)]
    return [Message("system", part.text, cache=part.cache) for part in read if part.text]


def _text_part(block: Any, where: str) -> TextPart:
    return TextPart(ObjectReader(block, where).text("text") or "", cache=_mark(block, where))


def _mark(block: Mapping[str, Any], where: str) -> CacheMark:
    return read_cache_control(block.get("cache_control"), f"{where}.cache_control")


def _message(message: Any, where: str, native: bool) -> list[Message]:
    fields = ObjectReader(message, where)
    role, content = fields.need("role"), fields.any("content")
    if role not in ("user", "assistant", "system"):
        raise ConfigError(f"{where}.role: unknown role {role!r}. Allowed: user, assistant, system")
    if isinstance(content, str):
        blocks: list[Any] = [{"type": "text", "text": content}]
    elif isinstance(content, list):
        blocks = content
    else:
        raise ConfigError(f"{where}.content must be a string or a list of blocks, not {kind_of(content)}")
    for at, block in enumerate(blocks):
        if not isinstance(block, Mapping) or not isinstance(block.get("type"), str):
            raise ConfigError(f"{where}.content[{at}].type is missing: a block is an object with a type")
    if role == "assistant":
        return [_assistant(blocks, where)]
    if role == "system":
        text = "\n\n".join(str(block.get("text", "")) for block in blocks if block["type"] == "text")
        return [Message("system", text, cache=_mark(blocks[-1], where))] if text else []
    return _user(blocks, where, native)


def _user(blocks: list[Any], where: str, native: bool) -> list[Message]:
    """Converts a message with the role `user` to a tool message for each tool result, followed by a user message with
    the other content blocks."""
    results, parts = list[Message](), list[Any]()
    for at, block in enumerate(blocks):
        place = f"{where}.content[{at}]"
        if block["type"] == "tool_result":
            results.append(_result(block, place, native))
        else:
            parts.append(_part(block, place, native))
    if not parts:
        return results
    if len(parts) == 1 and isinstance(part := parts[0], TextPart):
        return [*results, Message("user", part.text, cache=part.cache)]
    return [*results, Message("user", tuple(parts))]


def _result(block: Mapping[str, Any], where: str, native: bool) -> Message:
    fields = ObjectReader(block, where)
    call_id, content, error = (
        unpack_call_id(fields.need("tool_use_id")),
        fields.any("content"),
        bool(fields.flag("is_error")),
    )
    if isinstance(content, list):
        parts = tuple(_part(part, f"{where}.content[{at}]", native) for at, part in enumerate(content))
        is_text = all(isinstance(part, TextPart) for part in parts)
        content = "\n".join(part.text for part in parts if isinstance(part, TextPart)) if is_text else parts
    elif not isinstance(content, str | None):
        raise ConfigError(f"{where}.content must be a string or a list of blocks, not {kind_of(content)}")
    return Message("tool", content or "", tool_call_id=call_id, error=error, cache=_mark(block, where))


def _part(block: Any, where: str, native: bool) -> Any:
    if native and isinstance(block, Mapping) and block.get("type") not in ("text", None):
        return dict(block)  # our parts lack fields such as citations and context
    fields, mark = ObjectReader(block, where), _mark(block, where)
    match fields.need("type"):
        case "text":
            return TextPart(fields.string("text"), cache=mark)
        case "image":
            return ImagePart(**_source(fields.inner("source")), cache=mark)
        case "document":
            source, title = fields.inner("source"), fields.any("title")
            if block["source"].get("type") == "text":
                return TextPart(source.string("data"), cache=mark)
            return FilePart(**_source(source), name=title if isinstance(title, str) else None, cache=mark)
        case kind:
            raise ConfigError(
                f"{where}.type: {kind!r} blocks can't be sent to this model. Allowed: text, image, document"
            )


def _source(fields: ObjectReader) -> dict[str, Any]:
    match fields.any("type"):
        case "base64":
            try:
                return {"data": from_base64(fields.string("data")), "media_type": fields.need("media_type")}
            except ValueError as exc:
                raise ConfigError(f"{fields.at('data')} is {exc}") from None
        case "url":
            return {"url": fields.need("url")}
        case kind:
            raise ConfigError(f"{fields.at('type')}: {kind!r} can't be used here. Allowed: base64, url")


def _assistant(blocks: list[Any], where: str) -> Message:
    """Converts the content blocks of an assistant message. `Message.extras` keeps the original blocks for providers
    with the Messages API."""
    text, reasoning, calls = list[str](), list[str](), list[ToolCall]()
    kept, items = list[dict[str, Any]](), list[dict[str, Any]]()  # for this API, and for the Responses API
    extra: dict[str, Any] = {}  # fields for the next call
    for at, given in enumerate(blocks):
        fields = ObjectReader(given, f"{where}.content[{at}]")
        # Responses contain fields such as `citations: null`, but requests may not.
        defaults = REQUIRED_MEMBERS.get(given["type"], {})
        block = {name: value for name, value in given.items() if name not in defaults or value != defaults[name]}
        match unpack_opaque_block(block):
            case "output", item:
                items.append(item)
                continue
            case "call", extra:
                continue
        own_id = {"id": unpack_call_id(str(block.get("id")))} if block.get("type") == "tool_use" else {}
        kept.append({**block, **own_id})
        match block["type"]:
            case "text":
                text.append(fields.text("text") or "")
                parts = [{"type": "output_text", "text": text[-1], "annotations": []}]
                items.append({"type": "message", "role": "assistant", "content": parts})
            case "thinking":
                reasoning.append(fields.text("thinking") or "")
            case "tool_use":
                extra |= {name: block[name] for name in _KEPT_EXTRA if block.get(name) is not None}
                arguments = dump_compact(fields.mapping("input") or {})
                call = ToolCall.from_text(unpack_call_id(fields.need("id")), fields.need("name"), arguments, extra)
                calls.append(call)
                members = {"call_id": call.id, "name": call.name, "arguments": call.raw_arguments}
                items.append({"type": "function_call", **members})
                extra = {}
    encrypted = any(item["type"] == "reasoning" for item in items)
    return Message(
        "assistant",
        "".join(text) or None,
        tuple(calls),
        reasoning="".join(reasoning) if reasoning else None,
        extras={"blocks": kept, **({"output": items} if encrypted else {})},
        cache=_mark(blocks[-1], where) if blocks else False,
    )


# --- tools and options ------------------------------------------------------------------------------------------------


def _tools(entries: list[Any], native: bool) -> tuple[Tool, ...]:
    tools = list[Tool]()
    for at, entry in enumerate(entries):
        fields = ObjectReader(entry, f"tools[{at}]")
        kind = fields.text("type") or "custom"
        if kind == "custom":
            schema = fields.mapping("input_schema")
            if schema is None:
                raise ConfigError(f"{fields.at('input_schema')} is missing: it must be a JSON schema")
            mark = read_cache_control(fields.any("cache_control"), fields.at("cache_control"))
            name, about, strict = fields.need("name"), fields.text("description") or "", fields.flag("strict")
            tools.append(Tool(name, about, schema, strict, cache=mark, extra=fields.rest()))
        elif native:
            tools.append(hosted_tool(HostedTool(entry)))
        else:
            raise ConfigError(
                f"tools[{at}].type: {kind!r} is a hosted tool of Anthropic, which this model doesn't support"
            )
    return tuple(tools)


def _choice(fields: ObjectReader | None, tools: tuple[Tool, ...]) -> tuple[ReadToolChoice, bool | None]:
    if fields is None:
        return "auto", None
    kind, one = fields.need("type"), fields.flag("disable_parallel_tool_use")
    parallel = False if one else None
    if kind in ("any", "tool") and not tools:
        raise ConfigError("tool_choice requires a tool call, but there are no tools")
    match kind:
        case "auto" | "none":
            return kind, parallel
        case "any":
            return "required", parallel
        case "tool":
            name = fields.need("name")
            if name not in {tool.name for tool in tools}:
                raise ConfigError(f"tool_choice.name: there is no tool {name!r}")
            return NamedTool(name), parallel
    raise ConfigError(f"tool_choice.type: unknown type {kind!r}. Allowed: auto, any, tool, none")


def _effort(thinking: ObjectReader | None, output: ObjectReader | None) -> str | None:
    if output and (effort := output.text("effort")):
        if effort not in _EFFORTS:
            raise ConfigError(f"output_config.effort: unknown effort {effort!r}. Allowed: {', '.join(_EFFORTS)}")
        return effort
    if thinking is None:
        return None
    kind, budget = thinking.need("type"), thinking.count("budget_tokens")
    if kind == "disabled":
        return "none"
    if kind == "enabled":
        return "low" if (budget or 0) < 4096 else "medium" if (budget or 0) < 16384 else "high"
    return None
