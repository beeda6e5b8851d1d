"""What answers a call that is not of a function: each kind has an item of its own.

https://platform.openai.com/docs/api-reference/responses/create lists them. A program answers all of them with
`tool_result(call, ...)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...errors import ConfigError
from ...jsontext import parse_object
from ...types import ImagePart, Message, TextPart, ToolCall

ACKNOWLEDGED = "acknowledged_safety_checks"  # an extra of a message, and the member of the item


def encode_tool_result(call: ToolCall, message: Message, where: str) -> dict[str, Any] | None:
    """Returns the item for the result of a call; None if it is the one that results of functions have.

    Raises:
        ConfigError: the result is of another kind than the call asks for.
    """
    write = _ITEMS.get(call.kind)
    return None if write is None else write(call, message, where)


def _text(message: Message) -> str:
    content = message.content
    if isinstance(content, str | None):
        return content or ""
    return "\n".join(part.text for part in content if isinstance(part, TextPart))


def _value(message: Message) -> Any:
    """The result as JSON, where it is JSON, else as its text."""
    text = _text(message)
    try:
        return parse_object(text)
    except ValueError:
        return text


_AGREES = ("yes", "true", "ok", "approve", "approved", "allow", "allowed")


def _approval(call: ToolCall, message: Message, where: str) -> dict[str, Any]:
    said = _value(message)
    answer, reason = (said.get("approve"), said.get("reason")) if isinstance(said, Mapping) else (said, None)
    if message.error:
        answer, reason = False, _text(message)
    if not isinstance(answer, bool):  # words: those that agree, else why not
        agrees = str(answer).strip().lower() in _AGREES
        answer, reason = agrees, None if agrees else answer
    item = {"type": "mcp_approval_response", "approval_request_id": call.id, "approve": answer}
    return {**item, "reason": str(reason)} if reason else item


def _patch(call: ToolCall, message: Message, where: str) -> dict[str, Any]:
    status = "failed" if message.error else "completed"
    return {"type": "apply_patch_call_output", "call_id": call.id, "status": status, "output": _text(message)}


def _shell(call: ToolCall, message: Message, where: str) -> dict[str, Any]:
    if call.name == "local_shell":
        return {"type": "local_shell_call_output", "id": call.id, "call_id": call.id, "output": _text(message)}
    said, text = _value(message), _text(message)
    outputs = said.get("output") if isinstance(said, Mapping) else said
    if not isinstance(outputs, list):
        outcome = {"type": "exit", "exit_code": int(message.error)}
        outputs = [
            {"stdout": "" if message.error else text, "stderr": text if message.error else "", "outcome": outcome}
        ]
    longest = call.arguments.get("max_output_length")
    more = {} if longest is None else {"max_output_length": longest}  # the same as in the call
    return {"type": "shell_call_output", "call_id": call.id, "output": outputs, **more}


def _computer(call: ToolCall, message: Message, where: str) -> dict[str, Any]:
    parts = message.content if isinstance(message.content, tuple) else ()
    picture = next((part for part in parts if isinstance(part, ImagePart)), None)
    item: dict[str, Any] = {"type": "computer_call_output", "call_id": call.id}
    if checks := message.extras.get(ACKNOWLEDGED):
        item[ACKNOWLEDGED] = checks
    if picture is None:
        raise ConfigError(f"{where} answers a call of the computer: its result is a screenshot, image(...)")
    if picture.file_id is not None:
        return {**item, "output": {"type": "computer_screenshot", "file_id": picture.file_id}}
    url = picture.url if picture.url is not None else picture.data_url
    return {**item, "output": {"type": "computer_screenshot", "image_url": url}}


def _search(call: ToolCall, message: Message, where: str) -> dict[str, Any]:
    said = _value(message)
    tools = said.get("tools") if isinstance(said, Mapping) else said
    if not isinstance(tools, list):  # what is no list of tools found none, as an error does
        tools = []
    item = {"type": "tool_search_output", "call_id": call.id, "execution": "client", "status": "completed"}
    return {**item, "tools": tools}


_ITEMS: dict[str, Callable[[ToolCall, Message, str], dict[str, Any]]] = {
    "approval": _approval,
    "apply_patch": _patch,
    "shell": _shell,
    "computer": _computer,
    "tool_search": _search,
}
