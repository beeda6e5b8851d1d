"""The members of a response beside its output: the options of its request, with the API's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_DEFAULTS: dict[str, Any] = {
    "background": False,
    "completed_at": None,
    "conversation": None,
    "error": None,
    "frequency_penalty": 0.0,
    "incomplete_details": None,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "output": [],
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": None,
    "safety_identifier": None,
    "service_tier": "default",
    "store": False,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "usage": None,
    "user": None,
}
_OWN = ("background", "completed_at", "conversation", "error", "incomplete_details", "output", "store", "usage")
_TOOL = {"description": None, "parameters": None, "strict": None}
_FORMAT = {"description": None, "strict": False}


def new_response_object(request: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a response that has just begun, without its id and model."""
    said = {
        name: value for name, value in request.items() if name in _DEFAULTS and name not in _OWN and value is not None
    }
    response = {"object": "response", "status": "in_progress", **_DEFAULTS, **said}
    response["tools"] = [
        {**_TOOL, **tool} if isinstance(tool, Mapping) and tool.get("type") == "function" else tool
        for tool in response["tools"]
    ]
    if isinstance(response["reasoning"], Mapping):
        response["reasoning"] = {"effort": None, "summary": None, **response["reasoning"]}
    text = response["text"] if isinstance(response["text"], Mapping) else {}
    wanted = text.get("format") or {"type": "text"}
    if isinstance(wanted, Mapping) and wanted.get("type") == "json_schema":
        wanted = {**_FORMAT, **wanted}
    response["text"] = {**text, "format": wanted}
    return response
