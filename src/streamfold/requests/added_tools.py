"""Places the tools that messages add inside a conversation (`Message.tools`). If the API accepts tools in messages, the
request contains each tool inside the message that adds it. For other APIs, streamfold moves these tools to the
request's list of tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..errors import join_limited
from ..types import AllowedTools, NamedTool, ReplyWarning, Tool
from .request import Request


def added_tool_key(tool: Tool, sent_as: Mapping[str, str] | None = None) -> str:
    if tool.hosted is None:
        return (sent_as or {}).get(tool.name, tool.name)
    return f"{tool.name} {tool.hosted!r}"


def offer_added_tools(request: Request, *, in_place: bool) -> tuple[Request, list[ReplyWarning]]:
    """Adds the tools that messages contain to `Request.tools`, so that all rules for tools apply to them.

    If the API accepts tools inside the conversation, each tool stays only in the first message that adds it.

    Args:
        in_place: True if the API accepts tools inside the conversation. If the tool choice names a tool, streamfold
            still moves this tool to the request's list of tools. If such a tool is only in the conversation, GPT-5.5
            and earlier respond with the error "Tool choice '...' not found in 'tools' parameter".
    """
    if not any(message.tools for message in request.messages):
        return request, []
    choice = request.tool_choice
    named = {choice.name} if isinstance(choice, NamedTool) else set[str]()
    named |= {*choice.names} if isinstance(choice, AllowedTools) else set()
    tools = {added_tool_key(tool): tool for tool in request.tools}
    placed: set[str] = set()
    moved: list[str] = []
    messages = list(request.messages)
    for number, (at, message) in enumerate(request.numbered):
        stays: list[Tool] = []
        for tool in message.tools:
            key = added_tool_key(tool)
            tools.setdefault(key, tool)
            if not in_place or tool.name in named:
                moved.append(f"messages[{at}]: {tool.name}")
            elif key not in placed:
                placed.add(key)
                stays.append(tool)
        # For other APIs, `fit_history` leaves out a message that has nothing but tools.
        if len(stays) != len(message.tools) and (in_place or message.content or message.extras):
            messages[number] = replace(message, tools=tuple(stays))
    made = replace(request, tools=tuple(tools.values()), messages=tuple(messages))
    if not moved:
        return made, []
    why = "tools that are added inside the conversation were sent with the other tools"
    return made, [ReplyWarning("history_repaired", f"{join_limited(moved)}: {why}")]
