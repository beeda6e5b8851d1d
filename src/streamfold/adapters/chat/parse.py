"""Requests of Chat Completions, read: the inverse of `encode.py`, for a body that somebody else wrote.

What we know is checked and becomes ours; what we do not know goes on in `extra_body`, or, in a message, by leaving the
message the dict that it is. Nothing is left out, but for what says how the answer travels: `stream` and its options.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from ...requests import Fields, Options, Request, check_message, kind_of
from ...values import AudioPart, ConfigError, Message, MessageLike, Role, TextPart, ToolCall, from_base64
from ..requested import (
    audio_type,
    file_part,
    image_part,
    read_call,
    read_choice,
    read_format,
    read_stop,
    read_tools,
    refuse_several,
)

__all__ = ["parse_request", "wants_usage"]


def parse_request(body: Any) -> Request:
    """The request that a body is.

    Raises:
        ConfigError: it is none, or can't be answered here: more than one answer, log probabilities, tools that are no
            functions. The message begins with the path to what is wrong.
    """
    fields = Fields(body)
    model, messages = fields.need("model"), _read_messages(fields.items("messages"))
    refuse_several(fields)
    for name in ("stream", "stream_options"):
        fields.any(name)
    if fields.flag("logprobs") or fields.count("top_logprobs"):
        raise ConfigError("logprobs can't be asked for: log probabilities are not handed on")
    tools = read_tools(fields.items("tools"), nested=True)
    choice = read_choice(fields.any("tool_choice"), tools)
    wanted = fields.object("response_format")
    options = Options(
        temperature=fields.number("temperature"),
        top_p=fields.number("top_p"),
        max_output_tokens=_most_tokens(fields),
        stop=read_stop(fields.any("stop")),
        seed=fields.count("seed"),
        parallel_tool_calls=fields.flag("parallel_tool_calls"),
        reasoning_effort=fields.text("reasoning_effort"),  # type: ignore[arg-type]  # there will be others
        response_format=None if wanted is None else read_format(wanted),
        extra_body=fields.rest(),
    )
    return Request(model, messages, tools, choice, options)


def wants_usage(body: Any) -> bool:
    """Whether a stream is to end with its usage. Raises ConfigError if that is neither true nor false."""
    options = Fields(body).object("stream_options")
    return bool(options and options.flag("include_usage"))


def _most_tokens(fields: Fields) -> int | None:
    new, old = fields.count("max_completion_tokens"), fields.count("max_tokens")
    if new is not None and old is not None and new != old:
        raise ConfigError("max_tokens and max_completion_tokens differ, and are two names of the same option")
    return old if new is None else new


def _read_messages(messages: list[Any] | None) -> tuple[MessageLike, ...]:
    if not messages:
        raise ConfigError(f"messages {'is missing' if messages is None else 'is empty'}: there is nothing to answer")
    return tuple(_read_message(message, f"messages[{at}]") for at, message in enumerate(messages))


def _read_message(message: Any, where: str) -> MessageLike:
    if not isinstance(message, Mapping):
        raise ConfigError(f"{where} must be an object, not {kind_of(message)}")
    if not message.get("role"):
        raise ConfigError(f"{where}.role is missing: it is one of {', '.join(get_args(Role))}")
    check_message(message, where)
    fields = Fields(message, where)
    role, content = fields.need("role"), fields.any("content")
    if isinstance(content, list):
        content = tuple(_read_part(part, f"{where}.content[{at}]") for at, part in enumerate(content))
    reasoning = [fields.text(name) for name in ("reasoning_content", "reasoning")]
    calls = fields.items("tool_calls") or ()
    read = {
        "content": content,
        "tool_call_id": fields.text("tool_call_id"),
        "name": fields.text("name"),
        "reasoning": next((text for text in reasoning if text is not None), None),
        "refusal": fields.text("refusal"),
        "partial": bool(fields.flag("partial")),
    }
    entries = tuple(_read_call(call) for call in calls)
    # A member that we have no place for (`audio`, `cache_control`, `reasoning_details`): then it stays what it is.
    unknown = any(value not in ([], {}) for value in fields.rest().values())
    if role not in get_args(Role) or unknown or None in entries or (role != "assistant" and read["reasoning"]):
        return dict(message)
    return Message(role, tool_calls=entries, **read)  # type: ignore[arg-type]


def _read_call(call: Mapping[str, Any]) -> ToolCall | None:
    match call:
        case {"id": str(call_id), "function": {"name": str(name), "arguments": str(arguments), **more}, **extra}:
            if any(value is not None for value in more.values()) or extra.get("type", "function") != "function":
                return None
            extra.pop("type", None)
            extra.pop("index", None)  # clients that accumulate a stream leave it there
            return read_call(call_id, name, arguments, extra)
    return None


def _read_part(part: Mapping[str, Any], where: str) -> Any:
    """A part as ours, or as the dict that it is if it has members that ours have not. Raises ConfigError."""
    match part:
        case {"type": "text", "text": str(text), **rest} if not rest:
            return TextPart(text)
        case {"type": "image_url", "image_url": str(url), **rest} if not rest:
            return image_part(url, None, None, where)
        case {"type": "image_url", "image_url": {"url": str(url), **image}, **rest} if not rest:
            fields = Fields(image, f"{where}.image_url")
            read = image_part(url, None, fields.text("detail"), f"{where}.image_url", "url")
            return dict(part) if fields.rest() else read
        case {"type": "file", "file": dict(inner), **rest} if not rest:
            fields = Fields(inner, f"{where}.file")
            found = file_part(fields)
            return dict(part) if fields.rest() or found is None else found
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(form), **more}, **rest}:
            if more or rest:
                return dict(part)
            try:
                return AudioPart(data=from_base64(data), media_type=audio_type(form))
            except ValueError as exc:
                raise ConfigError(f"{where}.input_audio.data is {exc}") from None
    return dict(part)
