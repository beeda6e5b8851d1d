"""Turns of the model on APIs whose answers are lists of blocks: they are sent back block by block, unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from ..requests import read_part
from ..types import CacheMark, ImagePart, Message, TextPart, ToolCall, read_cache_control
from .encoding_report import EncodingReport, has_unmodelled_blocks

if TYPE_CHECKING:
    from ..requests import Request

_FOREIGN = ("image_url", "input_audio", "file", "refusal", "video_url",
            "input_text", "input_image", "input_file", "output_text")  # fmt: skip


def blocks_of(message: Message, request: Request) -> list[dict[str, Any]] | None:
    """Returns the blocks that a message came as from this endpoint, or None."""
    blocks = message.extras.get("blocks")
    if not request.came_from_here(message) or not isinstance(blocks, list):
        return None
    return blocks if all(isinstance(block, dict) for block in blocks) else None


def text_of_message(message: Message, between: str = "") -> str:
    """Returns the text of a message without its other parts."""
    content = message.content
    if isinstance(content, str | None):
        return content or ""
    return between.join(part.text for part in content if isinstance(part, TextPart))


def tool_name_of(call: ToolCall, request: Request) -> str:
    """Returns the name of a call's tool as the application knows it; blocks hold calls under these names."""
    return request.names.get(call.name, call.name)


def arguments_object(call: ToolCall) -> dict[str, Any]:
    """Returns the arguments as an object. Text that is not one is wrapped: the result of the call says what was wrong.

    >>> arguments_object(ToolCall("a", "f", {"_raw": "{", "_error": "invalid_json"}, "{"))
    {'_raw': '{'}
    """
    return {"_raw": call.raw_arguments} if call.error else call.arguments


def readable_part(part: Any, where: str) -> Any:
    """Returns a content part as one of ours, with the cache mark that a dict may have; else the dict.

    Raises:
        ConfigError: the dict is a part of another API with members that ours has no place for.
    """
    if not isinstance(part, Mapping):
        return part
    if "cache_control" in part and part.get("type") in ("text", *_FOREIGN):
        mark = read_cache_control(part["cache_control"], f"{where}.cache_control")
        read = read_part({name: value for name, value in part.items() if name != "cache_control"}, where)
        part = part if isinstance(read, Mapping) else replace(read, cache=mark)
    if isinstance(part, Mapping) and part.get("type") in _FOREIGN:
        raise ConfigError(f"{where} is {dict(part)!r:.120}, a part of another API that this one can't carry")
    return part


def cache_mark(message: Message, where: str) -> CacheMark:
    """Returns the cache mark of a message; a dict has it as `cache_control`."""
    return message.cache or read_cache_control(message.extras.get("cache_control"), f"{where}.cache_control")


def report_unsent(
    message: Message, where: str, request: Request, report: EncodingReport, call_extras: Callable[[ToolCall], bool]
) -> None:
    """Reports the members of a message that an API of blocks has no place for.

    Args:
        call_extras: whether the extras of a call are members of this API.
    """
    here, calls = request.came_from_here(message), enumerate(message.tool_calls)
    lost = (number for number, call in calls if call.extra and not (here and call_extras(call)))
    report.members += [f"{where}.tool_calls[{number}].extra" for number in lost]
    unread = {name: value for name, value in message.extras.items() if name != "cache_control"}
    if not has_unmodelled_blocks(unread.get("blocks")):
        unread.pop("blocks", None)
    report.add_extras(where, unread)


def report_members(message: Message, where: str, report: EncodingReport) -> None:
    """Reports the name of a message and the detail of its images, which no API of blocks has."""
    if message.name and message.role != "tool":
        report.members.append(f"{where}.name")
    for part in message.content if isinstance(message.content, tuple) else ():
        if isinstance(part, ImagePart) and part.detail is not None:
            report.members.append(f"{where}: detail of an image")
