"""Converts messages of every accepted format to `Message`.

The formats are `Message`, dicts in the format of Chat Completions, Responses API items, and content parts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import groupby, starmap
from typing import Any, TypeAlias, get_args

from ..errors import ConfigError, allowed_values_hint
from ..types import (
    AudioPart,
    ContentPart,
    FilePart,
    HostedTool,
    ImagePart,
    Message,
    Messages,
    Role,
    TextPart,
    Tool,
    ToolCall,
    as_tools,
    audio_format,
    from_base64,
    read_data_url,
    to_base64,
    user,
)
from .object_reader import ObjectReader, kind_of

# Content parts that callers pass as dicts in the format of Chat Completions or the Responses API. A dict is converted
# to an object only if the object can hold all its fields, because many servers have parts and fields of their own.

ReadPart: TypeAlias = ContentPart | Mapping[str, Any]

_PARTS = ("text", "image_url", "input_audio", "file", "refusal", "video_url")
_RESPONSES_PARTS = ("input_text", "input_image", "input_file", "output_text")
# The names of parts in other APIs and libraries.
_FOREIGN = {
    "image": "image_url", "image_file": "image_url", "audio": "input_audio", "document": "file", "pdf": "file",
    "tool_use": "tool_calls beside the content", "tool_result": 'a message with the role "tool"',
}  # fmt: skip
_DETAILS = ("auto", "low", "high", "original")
_EMPTY: tuple[Any, ...] = ([], {})  # `annotations: []`, as the dump of an answer has it


def read_content(content: Any, where: str) -> str | tuple[ReadPart, ...] | None:
    """Parses the content of a message. Raises ConfigError with the path of the invalid part."""
    if isinstance(content, str | None):
        return content
    if not isinstance(content, list | tuple):
        raise ConfigError(f"{where} must be a string, a list of parts or null, not {kind_of(content)}")
    return tuple(read_part(part, f"{where}[{at}]") for at, part in enumerate(content))


def read_part(part: Any, where: str) -> ReadPart:
    """Converts a content part to an object such as `TextPart` or `ImagePart`. Returns a dict unchanged if it has fields
    that streamfold doesn't support.

    >>> read_part({"type": "text", "text": "Hello"}, "content[0]")
    TextPart(text='Hello', cache=False)

    Raises:
        ConfigError: the value isn't a content part, or one of its fields is invalid.
    """
    if isinstance(part, ContentPart):
        return part
    if not isinstance(part, Mapping):
        raise ConfigError(f"{where} must be a content part (an object with a type), not {kind_of(part)}: {part!r:.80}")
    kind = _kind_of_part(part, where)
    fields = ObjectReader({name: value for name, value in part.items() if name != "type"}, where)
    read: ContentPart | None = None
    match kind:
        case "text" | "input_text" | "output_text":
            read = TextPart(fields.string("text"))
        case "refusal":
            fields.string("refusal")
        case "image_url" if isinstance(part.get("image_url"), str):
            read = _image(fields.text("image_url"), None, None, where, where)
        case "image_url":
            inner = fields.inner("image_url")
            read = _image(
                inner.string("url"), None, inner.text("detail"), f"{where}.image_url", f"{where}.image_url.url"
            )
            fields.absorb_rest(inner)
        case "input_image":
            url, file_id, detail = (fields.text(name) for name in ("image_url", "file_id", "detail"))
            read = _image(url, file_id, None if detail == "auto" else detail, where, f"{where}.image_url")
        case "file":
            inner = fields.inner("file")
            if not any(part["file"].get(name) for name in ("file_id", "file_data", "file_url")):
                raise ConfigError(f"{where}.file needs a file_id or file_data")
            read = _file(inner)
            fields.absorb_rest(inner)
        case "input_file":
            read = _file(fields)
        case "input_audio":
            inner = fields.inner("input_audio")
            read = _audio(inner.string("data"), inner.string("format"), f"{where}.input_audio.data")
            fields.absorb_rest(inner)
        case "video_url" if not isinstance(part.get("video_url"), str):
            fields.inner("video_url").string("url")
    if read is None or any(value not in _EMPTY for value in fields.rest().values()):
        return dict(part)
    return read


def _kind_of_part(part: Mapping[str, Any], where: str) -> str:
    kind = part.get("type")
    if not isinstance(kind, str):
        problem = "is missing" if kind is None else f"must be a string, not {kind_of(kind)}"
        raise ConfigError(f"{where}.type {problem}. Allowed: {', '.join(_PARTS)}")
    if kind in _FOREIGN:
        raise ConfigError(
            f"{where}.type is {kind!r}, which belongs to another API: in Chat Completions it is {_FOREIGN[kind]}"
        )
    if kind not in (*_PARTS, *_RESPONSES_PARTS) and (close := get_close_matches(kind, _PARTS, n=1, cutoff=0.8)):
        raise ConfigError(f"{where}.type is {kind!r}; did you mean {close[0]!r}?")
    return kind


def _image(url: str | None, file_id: str | None, detail: str | None, where: str, place: str) -> ImagePart | None:
    if detail is not None and detail not in _DETAILS:
        raise ConfigError(f"{where}.detail is {detail!r}. Allowed: {', '.join(_DETAILS)}")
    read: Any = detail
    if url is None:
        if file_id is None:
            raise ConfigError(f"{place} is missing: it must be a string")
        return ImagePart(file_id=file_id, detail=read)
    if file_id is not None:
        return None
    if url[:5].lower() != "data:":
        return ImagePart(url=url, detail=read)
    data, media_type = _from_data_url(url, place)
    made = ImagePart(data=data, media_type=media_type, detail=read)
    # Base64 that we would write differently is sent unchanged.
    return made if made.data_url == url else ImagePart(url=url, detail=read)


def _file(fields: ObjectReader) -> FilePart | None:
    file_id, url, data, name = (fields.text(key) for key in ("file_id", "file_url", "file_data", "filename"))
    if file_id is not None and data is None and url is None and name is None:
        return FilePart(file_id=file_id)
    if url is not None and data is None and file_id is None:
        return FilePart(url=url, name=name)
    if data is None or file_id is not None or url is not None or data[:5].lower() != "data:":
        return None
    read, media_type = _from_data_url(data, fields.at("file_data"))
    made = FilePart(data=read, media_type=media_type, name=name)
    return made if made.data_url == data else None


def _audio(data: str, audio: str, where: str) -> AudioPart | None:
    try:
        read = from_base64(data)
    except ValueError as exc:
        raise ConfigError(f"{where} is {exc}") from None
    media_type = {"mp3": "audio/mpeg", "m4a": "audio/mp4"}.get(audio, f"audio/{audio}")
    exact = to_base64(read) == data and audio_format(media_type) == audio
    return AudioPart(data=read, media_type=media_type) if exact else None


def _from_data_url(url: str, where: str) -> tuple[bytes, str]:
    try:
        return read_data_url(url)
    except ValueError as exc:
        raise ConfigError(f"{where}: {exc}") from None


# Items of the Responses API (https://platform.openai.com/docs/api-reference/responses/create). Consecutive items of the
# model become one message. If a `Message` can't hold all of a turn (encrypted reasoning, several messages, text after a
# call, items of other kinds), `extras["output"]` contains the items, so that requests send them back unchanged.

# Fields of a call that the provider requires in later requests. Perplexity sends "thought_signature".
CALL_EXTRAS = ("namespace", "caller", "async", "thought_signature")
# Fields of calls from other APIs (Gemini's thought signatures), which clients of this API send back.
CARRIED_CALL_EXTRAS = ("extra_content",)
ITEM_EXTRAS = ("id", "status", "phase")  # fields of messages and results
_ADDED_TOOLS = "additional_tools"
_ITEM_ROLES = ("user", "system", "developer", "assistant")
_RESULTS = ("function_call_output", "custom_tool_call_output")


def _is_item(message: Any) -> bool:
    # Messages of Chat Completions have neither a `type` nor a `phase`.
    return isinstance(message, Mapping) and ("type" in message or "phase" in message)


@dataclass(slots=True)
class _Turn:
    items: list[dict[str, Any]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    plain: bool = True  # a `Message` can hold all of it

    def message(self) -> Message:
        kinds = [item["type"] for item in self.items]
        texts, several = self.texts, len(self.texts) > 1 and kinds.count("message") == 1
        content: Any = tuple(TextPart(text) for text in texts) if several else "".join(texts) if texts else None
        in_order = kinds == sorted(kinds, key=lambda kind: kind != "message") and kinds.count("message") < 2
        return Message(
            "assistant",
            content,
            tuple(self.calls),
            reasoning="".join(self.reasoning) if "reasoning" in kinds else None,
            refusal="".join(self.refusals) or None,
            extras={} if self.plain and in_order else {"output": self.items},
        )


def read_items(items: Iterable[tuple[str, Any]]) -> Iterator[Message]:
    """Converts Responses API items to messages. `items` contains pairs of a path, for error messages, and an item.

    Raises:
        ConfigError: a value isn't an item. The error message begins with the path of the value.
    """
    turn = _Turn()
    for where, item in items:
        if not isinstance(item, Mapping):
            raise ConfigError(f"{where} must be an object, not {kind_of(item)}")
        made = {**item, "type": item.get("type") or "message"}
        if _is_the_models(made):
            _add(turn, made, where)
            continue
        if turn.items:
            yield turn.message()
            turn = _Turn()
        yield _other(made, where)
    if turn.items:
        yield turn.message()


def _is_the_models(item: Mapping[str, Any]) -> bool:
    kind = str(item["type"])
    if kind == "message":
        return item.get("role") == "assistant"
    if kind == _ADDED_TOOLS:
        return item.get("role") != "developer"  # in an answer, the role says who added the tools
    return not kind.endswith(("_output", "_response"))


def _add(turn: _Turn, item: dict[str, Any], where: str) -> None:
    turn.items.append(item)
    fields = ObjectReader({name: value for name, value in item.items() if name != "type"}, where)
    match item["type"]:
        case "function_call":
            known = (*CALL_EXTRAS, *CARRIED_CALL_EXTRAS)
            extra = {key: fields.any(key) for key in known if item.get(key) is not None}
            call_id, name, raw = fields.need("call_id"), fields.need("name"), fields.text("arguments") or ""
            turn.calls.append(ToolCall.from_text(call_id, name, raw, extra))
        case "custom_tool_call":
            call_id, name, text = fields.need("call_id"), fields.need("name"), fields.text("input") or ""
            turn.calls.append(ToolCall.custom(call_id, name, text))
        case "reasoning":
            turn.plain = False
            summary, content = fields.items("summary") or [], fields.items("content") or []
            said = [_text(part) for part in summary]
            turn.reasoning += said if any(said) else [_text(part) for part in content]
        case "message":
            _add_message(turn, fields, where)
        case _:
            turn.plain = False
    turn.plain = turn.plain and all(value in (*_EMPTY, "completed") for value in fields.rest().values())


def _add_message(turn: _Turn, fields: ObjectReader, where: str) -> None:
    fields.any("role")
    content = fields.any("content")
    if isinstance(content, str):
        turn.texts.append(content)
        return
    if not isinstance(content, list):
        raise ConfigError(f"{where}.content must be a string or a list of parts, not {kind_of(content)}")
    for number, part in enumerate(content):
        match part:
            case {"type": "output_text" | "input_text" | "text", "text": str(text), **rest}:
                turn.texts.append(text)
                turn.plain = turn.plain and not any(rest.values())  # `annotations: []` says nothing
            case {"type": "refusal", "refusal": str(text)}:
                turn.refusals.append(text)
            case _:
                raise ConfigError(f"{where}.content[{number}] must be an output_text or a refusal: {part!r:.80}")


def _other(item: dict[str, Any], where: str) -> Message:
    """Converts an item that the model didn't write, such as a tool result. An item of an unknown kind is added
    unchanged to the message's `extras`.
    """
    kind = item.pop("type")
    fields = ObjectReader(item, where)
    if kind in _RESULTS:
        call_id, output = fields.need("call_id"), _content(fields, "output")
        return Message("tool", output, tool_call_id=call_id, extras=fields.rest())
    if kind == _ADDED_TOOLS and (tools := _function_tools(item.get("tools"))):
        return Message("developer", tools=tools)
    if kind != "message":
        return Message("user", extras={"output": [{"type": kind, **item}]})
    role: Any = fields.any("role")
    if role not in _ITEM_ROLES:
        raise ConfigError(f"{where}.role: unknown role {role!r}{allowed_values_hint(str(role), _ITEM_ROLES)}")
    content = _content(fields, "content")
    return Message(role, content, extras=fields.rest())


def _function_tools(tools: Any) -> tuple[Tool, ...]:
    """Parses the tools that an item adds. Returns an empty tuple if a tool can't be parsed. The request then contains
    the original item.
    """
    try:
        read = as_tools(tools)
    except (ConfigError, TypeError):
        return ()
    return read if all(tool.hosted is None or isinstance(tool.hosted, HostedTool) for tool in read) else ()


def _content(fields: ObjectReader, name: str) -> str | tuple[ReadPart, ...]:
    content = read_content(fields.any(name), fields.at(name))
    if content is None:
        raise ConfigError(f"{fields.at(name)} must be a string or a list of parts, not null")
    return content


def _text(part: Any) -> str:
    text = part.get("text") if isinstance(part, Mapping) else part
    return text if isinstance(text, str) else ""


# Conversations. A message may be a `Message`, a dict in the format of Chat Completions
# (https://platform.openai.com/docs/api-reference/chat/create), or an item of the Responses API. `Message.extras`
# contains the fields that a `Message` doesn't have.

_ROLES = get_args(Role)


def read_messages(messages: Messages) -> tuple[Message, ...]:
    """Converts a conversation in any accepted format to messages. Converts a string to one user message.

    Raises:
        ConfigError: a value isn't a message. The error message begins with the path of the value.
    """
    if isinstance(messages, str) and messages:
        return (user(messages),)
    if isinstance(messages, Message | Mapping):
        raise ConfigError(
            "messages must be a list of messages or a string, not a single message: put the message into a list"
        )
    if not isinstance(messages, Iterable):
        raise ConfigError(f"messages must be a list of messages or a string, not {type(messages).__name__}")
    read = list(messages)
    if not read:
        raise ConfigError("messages is empty: add a message")
    converted: list[Message] = []
    placed = ((f"messages[{at}]", message) for at, message in enumerate(read))
    for are_items, run in groupby(placed, lambda entry: _is_item(entry[1])):
        if are_items:
            converted += read_items(run)
        else:
            converted += starmap(_read, run)
    return tuple(converted)


def _read(where: str, message: Any) -> Message:
    if isinstance(message, Message):
        for name, role in _ONLY.items():
            if message.role != role and getattr(message, name) not in (None, False, ()):
                raise ConfigError(f"{where}.{name} is only allowed for the role {role!r}, not for {message.role!r}")
        content = message.content
        if isinstance(content, str | None) or not any(isinstance(part, Mapping) for part in content):
            return message
        return replace(message, content=read_content(content, f"{where}.content"))
    if isinstance(message, str):
        raise ConfigError(f"{where} is a string without a role: write user({message!r:.40})")
    if not isinstance(message, Mapping):
        raise ConfigError(f"{where} must be a Message or a dict with a role, not {kind_of(message)}: {message!r:.80}")
    return _from_dict(message, where)


_ONLY = {"tool_calls": "assistant", "reasoning": "assistant", "refusal": "assistant", "partial": "assistant",
         "tool_call_id": "tool", "error": "tool"}  # fmt: skip


def _from_dict(given: Mapping[str, Any], where: str) -> Message:
    role = given.get("role")
    if not role:
        raise ConfigError(f"{where}.role is missing. Allowed: {', '.join(_ROLES)}")
    if role not in _ROLES:
        raise ConfigError(f"{where}.role: unknown role {role!r}{allowed_values_hint(str(role), _ROLES)}")
    fields = ObjectReader({name: value for name, value in given.items() if name != "role"}, where)
    content = read_content(fields.any("content"), f"{where}.content")
    members: dict[str, Any] = {"name": fields.text("name")}
    calls = _calls(fields.any("tool_calls"), role, f"{where}.tool_calls")
    if role == "tool":
        members["tool_call_id"] = fields.text("tool_call_id")
        if not members["tool_call_id"]:
            raise ConfigError(f"{where} has no tool_call_id: add the id of the tool call")
    elif role == "assistant":
        members["refusal"], members["partial"] = fields.text("refusal"), bool(fields.flag("partial"))
        # Some servers send the same text in both fields. If the texts differ, `extras` contains `reasoning`.
        first, second = fields.text("reasoning_content"), given.get("reasoning")
        same = isinstance(second, str) and first in (None, second)
        members["reasoning"] = fields.text("reasoning") if same else first
    extras = {name: value for name, value in fields.rest().items() if value not in _EMPTY}
    return Message(role, content, calls, extras=extras, **members)


def _calls(calls: Any, role: str, where: str) -> tuple[ToolCall, ...]:
    if calls is None:
        return ()
    if not isinstance(calls, list | tuple):
        raise ConfigError(f"{where} must be a list of tool calls, not {kind_of(calls)}")
    if calls and role != "assistant":
        raise ConfigError(f"{where} is only allowed for the role 'assistant', not for {role!r}")
    return tuple(_call(call, f"{where}[{at}]") for at, call in enumerate(calls))


def _call(call: Any, where: str) -> ToolCall:
    if not isinstance(call, Mapping):
        raise ConfigError(f"{where} is a tool call and must be an object, not {kind_of(call)}")
    fields = ObjectReader(call, where)
    call_id = fields.string("id")
    fields.any("index")  # of a streamed fragment, which some programs don't remove
    if fields.any("type") == "custom" and isinstance(call.get("custom"), Mapping):
        custom = fields.inner("custom")
        name, text = custom.string("name"), custom.text("input") or ""
        return ToolCall.custom(call_id, name, text, {**custom.rest(), **fields.rest()})
    if not isinstance(call.get("function"), Mapping):
        raise ConfigError(f"{where} is a tool call without a function: {dict(call)!r:.120}")
    function = fields.inner("function")
    name, arguments = function.string("name"), function.any("arguments")
    if not isinstance(arguments, str | Mapping | None):
        raise ConfigError(f"{where}.function.arguments must be a JSON string, not {kind_of(arguments)}")
    raw = json.dumps(arguments, ensure_ascii=False) if isinstance(arguments, Mapping) else arguments or ""
    extra = fields.rest()
    if more := function.rest():
        extra["function"] = more
    return ToolCall.from_text(call_id, name, raw, extra)
