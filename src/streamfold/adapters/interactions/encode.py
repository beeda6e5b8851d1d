"""Converts conversations to steps of the Interactions API. Steps that the API sent are sent back unchanged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError
from ...types import AudioPart, ImagePart, MediaPart, Message, TextPart, server_call_ids, step_text, to_base64
from ..content_blocks import arguments_object, read_text_and_media
from ..encoding_report import EncodingReport

if TYPE_CHECKING:
    from ...requests import Request

_KEPT = ("steps", "interaction_id", "continuation_token")  # extras of a response that requests use


def encode_steps(messages: Sequence[tuple[int, Message]], request: Request) -> list[dict[str, Any]]:
    """Converts messages to the steps in the request field `input`. Raises ConfigError for content that the API doesn't
    support."""
    steps: list[dict[str, Any]] = []
    names = {call.id: call.name for message in request.messages for call in message.tool_calls}
    for at, message in messages:
        if message.role == "tool":
            steps.append(_result(message, names, at))
        elif message.role == "assistant":
            steps += _assistant(message, request, at)
        elif contents := list(_contents(message, f"messages[{at}]")):
            steps.append({"type": "user_input", "content": contents})
    return steps


def _assistant(message: Message, request: Request, at: int) -> Iterator[dict[str, Any]]:
    came_as = original_steps(message, request)
    if came_as is not None:
        calls, of_server = iter(message.tool_calls), server_call_ids(came_as)
        for step in came_as:
            if _is_call(step, of_server):
                call = next(calls)
                step = {**step, "id": call.id, "name": call.name, "arguments": arguments_object(call)}
            yield step
        return
    if contents := [one for one in _contents(message, f"messages[{at}]") if one.get("text") != ""]:
        yield {"type": "model_output", "content": contents}
    for call in message.tool_calls:
        yield {"type": "function_call", "id": call.id, "name": call.name, "arguments": arguments_object(call)}


def original_steps(message: Message, request: Request) -> list[dict[str, Any]] | None:
    """Returns the steps that this endpoint sent for an assistant message. Returns None if another endpoint wrote the
    message, or if the program has changed it."""
    steps = message.extras.get("steps")
    if not request.came_from_here(message) or not isinstance(steps, list) or not steps:
        return None
    if not all(isinstance(step, dict) for step in steps):
        return None
    of_server = server_call_ids(steps)
    called = [step.get("name") for step in steps if _is_call(step, of_server)]
    names = [request.names.get(call.name, call.name) for call in message.tool_calls]
    said = "".join(map(step_text, steps))
    return steps if (said, called) == (message.text, names) else None


def _is_call(step: dict[str, Any], of_server: set[str]) -> bool:
    return step.get("type") == "function_call" and step.get("id") not in of_server


def _result(message: Message, names: Mapping[str, str], at: int) -> dict[str, Any]:
    call_id, content = message.tool_call_id or "", message.content
    step: dict[str, Any] = {"type": "function_result", "call_id": call_id}
    if name := names.get(call_id) or message.name:
        step["name"] = name
    step["result"] = content or "" if isinstance(content, str | None) else list(_contents(message, f"messages[{at}]"))
    return {**step, "is_error": True} if message.error else step


def system_texts(message: Message, at: int) -> Iterator[str]:
    """Yields the texts of a system message. Raises ConfigError for content that isn't text."""
    for number, content in enumerate(_contents(message, f"messages[{at}]")):
        if content["type"] != "text":
            raise ConfigError(f"messages[{at}].content[{number}] must be text: instructions can contain only text")
        if content["text"]:
            yield content["text"]


def _contents(message: Message, where: str) -> Iterator[dict[str, Any]]:
    for part in read_text_and_media(message, where, "this API"):
        yield {"type": "text", "text": part.text} if isinstance(part, TextPart) else _media(part)


def _media(part: MediaPart) -> dict[str, Any]:
    kind = "image" if isinstance(part, ImagePart) else "audio" if isinstance(part, AudioPart) else "document"
    if kind == "document" and (part.media_type or "").startswith("video/"):
        kind = "video"
    out = {"type": kind}
    if part.data is not None:
        out["data"] = to_base64(part.data)
    else:
        out["uri"] = (part.url if part.url is not None else part.file_id) or ""
    if part.media_type:
        out["mime_type"] = part.media_type
    if isinstance(part, ImagePart) and part.detail in ("low", "high"):
        out["resolution"] = part.detail
    return out


def report_unsent(message: Message, where: str, request: Request, report: EncodingReport) -> None:
    """Records in `report` which fields and content of a message the request leaves out."""
    if original_steps(message, request) is None:
        report.add_message(message, where, request, lambda call: False)
    else:
        unread = {name: value for name, value in message.extras.items() if name not in (*_KEPT, "cache_control")}
        report.add_extras(where, unread)
    report.add_name_and_detail(message, where, details=("auto", "low", "high"))
