"""Messages to input items: a turn becomes one item for each fact, or the items that it came as."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ...errors import ConfigError
from ...requests import CALL_EXTRAS, ITEM_EXTRAS, is_custom
from ...types import AudioPart, FilePart, ImagePart, Message, TextPart, ToolCall, tool_result_content
from .client_side_results import encode_tool_result

# What OpenAI sends in an item and refuses in the input: "Unknown parameter: 'input[1].status'" (BerriAI/litellm#13420,
# can1357/oh-my-pi#10415), and a member that no input item has in https://github.com/openai/openai-python.
_OUTPUT_ONLY = {"reasoning": ("status", "created_by"), "compaction": ("status", "created_by")}


def check_message(message: Message, where: str) -> None:
    """Raises ConfigError if a message can't be sent as items."""
    if message.role == "function":
        raise ConfigError(f"{where} has the role 'function', which the Responses API does not know")
    if message.extras.get("function_call"):
        raise ConfigError(f"{where} has a function_call without an id: write it as tool_calls")
    if message.partial:
        raise ConfigError(f"{where} is partial, and this provider continues no text: leave partial out")


def message_items(
    message: Message,
    position: int,
    *,
    stored: bool,
    came_from_here: bool = True,
    others: Mapping[str, ToolCall] | None = None,
) -> Iterator[dict[str, Any]]:
    """Yields the items of a message.

    Args:
        stored: the provider may look up items by their ids.
        came_from_here: the provider wrote the message, and can read the parts that only it can read. Of other
            messages, encrypted reasoning is refused ("organization_id did not match", Kilo-Org/kilo#110), and ids are
            unknown.
        others: the calls that are not of functions, by their ids: their results have types of their own.
    """
    said = {name: message.extras[name] for name in ITEM_EXTRAS if came_from_here and name in message.extras}
    if message.role == "tool":
        answered = (others or {}).get(message.tool_call_id or "")
        if answered and (item := encode_tool_result(answered, message, f"messages[{position}]")) is not None:
            yield item
            return
        kind = "function_call_output" if answered is None else "custom_tool_call_output"
        yield {"type": kind, "call_id": message.tool_call_id, "output": _content(message, position), **said}
        return
    came_as = original_payload(message, stored=stored) if came_from_here else None
    if came_as is not None:
        yield from came_as
        return
    if message.role != "assistant":
        yield {"type": "message", "role": message.role, "content": _content(message, position), **said}
        return
    if parts := list(_output_parts(message, position)):
        made = {"type": "message", "role": "assistant", "status": "completed", "content": parts}
        # OpenRouter refuses an assistant's message without id and status (its documentation of multi-turn
        # conversations); OpenAI takes any id that begins with msg_, where it has nothing stored to look it up in.
        yield made if stored else {**made, "id": f"msg_{position}"}
    for call in message.tool_calls:
        yield _call({}, call if came_from_here or is_custom(call) else replace(call, extra=None))


def plain_items(message: Message, position: int, *, came_from_here: bool) -> Iterator[dict[str, Any]]:
    """Yields the items of a message for servers that know messages, calls and results alone."""
    if message.role != "assistant":
        yield from message_items(message, position, stored=False, came_from_here=came_from_here)
        return
    if text := _said(message) or message.refusal:
        yield {"type": "message", "role": "assistant", "content": text}
    for call in message.tool_calls:
        yield _call({}, call if came_from_here else replace(call, extra=None))


def _call(item: Mapping[str, Any], call: ToolCall) -> dict[str, Any]:
    extra = call.extra or {}
    if is_custom(call):
        made = {"type": "custom_tool_call", "call_id": call.id, "name": call.name, "input": call.raw_arguments}
        return {**item, **made}
    return {
        **item,
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": call.raw_arguments or "{}",  # a text that is to be parsed; none at all does not parse
        **{name: extra[name] for name in CALL_EXTRAS if name in extra},
    }


def original_payload(message: Message, *, stored: bool) -> list[dict[str, Any]] | None:
    """Returns the items of the answer that this message is, or None if it has been changed since.

    Their order matters: a reasoning item belongs to the item after it, and "was provided without its required following
    item" is the answer to any other (openai/codex#1240). Calls count as the message has them, and with them whether
    the items still are this message: those of a cut answer are not handed out, and must not go back unanswered.
    """
    items = message.extras.get("output")
    if not isinstance(items, list) or not items or not all(isinstance(item, Mapping) for item in items):
        return None
    others = {call.id for call in message.tool_calls if call.kind != "function"}
    called = [_call_id(item) for item in items if item.get("type") == "function_call" or _call_id(item) in others]
    if called != [call.id for call in message.tool_calls] or _text(items) != _said(message):
        return None
    calls = {call.id: call for call in message.tool_calls}
    sent = ((item, _as_input(item, stored=stored)) for item in items)
    return [
        _call(sendable, calls[_call_id(item)]) if item.get("type") in _WRITTEN and _call_id(item) in calls else sendable
        for item, sendable in sent
        if sendable is not None
    ]


_WRITTEN = ("function_call", "custom_tool_call")  # calls that a program may have changed


def _call_id(item: Mapping[str, Any]) -> str:
    return str(item.get("call_id") or item.get("id"))


def _as_input(item: Mapping[str, Any], *, stored: bool) -> dict[str, Any] | None:
    refused = _OUTPUT_ONLY.get(str(item.get("type")), ("created_by",))
    sent = {name: value for name, value in item.items() if name not in refused}
    if item.get("type") != "reasoning" or stored or item.get("encrypted_content") or item.get("content"):
        return sent
    # There is nothing in it but perhaps a summary, and OpenAI looks for the rest by the id, in vain: "Items are not
    # persisted when `store` is set to false" (vercel/ai#7543). Without the id the summary can be read; an item that
    # says nothing at all is refused by llama.cpp too (ggml-org/llama.cpp#29159).
    sent.pop("id", None)
    return sent if sent.get("summary") else None


def _text(items: Iterable[Mapping[str, Any]]) -> str:
    contents = [item.get("content") for item in items if item.get("type") == "message"]
    lists = [[{"text": content}] if isinstance(content, str) else content or () for content in contents]
    parts = [part for content in lists for part in content if isinstance(part, Mapping)]
    return "".join(text for part in parts if isinstance(text := part.get("text"), str))


def _said(message: Message) -> str:
    if isinstance(message.content, str | None):
        return message.content or ""
    return "".join(part.text for part in message.content if isinstance(part, TextPart))


def _output_parts(message: Message, position: int) -> Iterator[dict[str, Any]]:
    content = message.content
    parts = (TextPart(content),) if isinstance(content, str) else content or ()
    for at, part in enumerate(parts):
        if isinstance(part, ImagePart | FilePart | AudioPart):
            raise ConfigError(f"messages[{position}].content[{at}] is no text, and an assistant's turn holds only text")
    for read in _parts(parts, position):
        if read.get("type") == "input_text":  # the model's own words have another type: "Invalid value: 'input_text'"
            read = {**read, "type": "output_text", "annotations": []}
        if read.get("text") != "":
            yield read
    if message.refusal:
        yield {"type": "refusal", "refusal": message.refusal}


def _content(message: Message, position: int) -> str | list[dict[str, Any]]:
    content = tool_result_content(message)
    return _parts(content, position) if isinstance(content, tuple) else content or ""


def _parts(parts: Iterable[Any], position: int) -> list[dict[str, Any]]:
    return [_part(part, f"messages[{position}].content[{at}]") for at, part in enumerate(parts)]


def _part(part: Any, where: str) -> dict[str, Any]:
    """Returns a content part in the spelling of this API. One that already has it stays as it is."""
    match part:
        case TextPart(text):
            return {"type": "input_text", "text": text}
        case ImagePart(file_id=str(file_id)):
            return {"type": "input_image", "file_id": file_id, "detail": part.detail or "auto"}
        case ImagePart():
            url = part.url if part.url is not None else part.data_url
            return {"type": "input_image", "image_url": url, "detail": part.detail or "auto"}
        case FilePart():
            return _file(part)
        case AudioPart():  # https://platform.openai.com/docs/guides/audio: Chat Completions and Realtime have it
            raise ConfigError(f"{where} is audio, which the Responses API does not take: use the adapter 'chat'")
    kind = part.get("type")
    if kind == "input_audio":
        raise ConfigError(f"{where} is audio, which the Responses API does not take: use the adapter 'chat'")
    if kind == "text":
        return {**part, "type": "input_text"}
    inner = part.get(kind) if kind in ("image_url", "file") else None
    rest = {name: value for name, value in part.items() if name != kind}
    match inner:
        case str() if kind == "image_url":
            return {**rest, "type": "input_image", "image_url": inner, "detail": "auto"}
        case Mapping() if kind == "image_url":
            other = {name: value for name, value in inner.items() if name != "url"}
            return {**rest, "type": "input_image", "detail": "auto", **other, "image_url": inner.get("url")}
        case Mapping():
            return {**rest, "type": "input_file", **inner}
    return dict(part)


def _file(part: FilePart) -> dict[str, Any]:
    if part.file_id is not None:
        return {"type": "input_file", "file_id": part.file_id}
    if part.url is not None:
        return {"type": "input_file", "file_url": part.url}
    name = part.name or ("file.pdf" if part.media_type == "application/pdf" else "file")
    return {"type": "input_file", "filename": name, "file_data": part.data_url}
