"""Limits the cache marks (`cache_control`) in a request to four, the most that the Messages API accepts.

https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...types import INSTRUCTION_ROLES, Message, ReplyWarning, read_cache_control

if TYPE_CHECKING:
    from ...requests import Request

_MOST = 4


def _read_cache_marks(request: Request) -> Request:
    """Moves the field `cache_control` of messages that the program passed as dicts to `Message.cache`. Raises
    ConfigError if the field is invalid."""
    if not any("cache_control" in message.extras for message in request.messages):
        return request
    messages = list(request.messages)
    for number, (at, message) in enumerate(request.numbered):
        extras = dict(message.extras)
        mark = read_cache_control(extras.pop("cache_control", None), f"messages[{at}].cache_control")
        messages[number] = replace(message, cache=message.cache or mark, extras=extras)
    return replace(request, messages=tuple(messages))


def limit_cache_breakpoints(request: Request) -> tuple[Request, list[ReplyWarning]]:
    """Removes the cache marks (`cache_control`) that exceed the API's limit of four. Returns the new request, and a
    warning that lists the removed cache marks.

    The earliest marks on messages are removed first, because a later mark also caches the text before it. Marks on
    tools and instructions are removed after that, because other conversations may share their cached text.
    """
    request = _read_cache_marks(request)
    most = _MOST - ("cache_control" in request.options.extra_body)
    shared = [f"tools[{at}]" for at, tool in enumerate(request.tools) if tool.cache]
    own: list[str] = []
    for at, message in enumerate(request.messages):
        places = shared if message.role in INSTRUCTION_ROLES else own
        places += _places(message, f"messages[{at}]")
    dropped = [*own[:-1], *shared, *own[-1:]][:-most]
    if not dropped:
        return request, []
    tools = tuple(
        replace(tool, cache=tool.cache and f"tools[{at}]" not in dropped) for at, tool in enumerate(request.tools)
    )
    messages = tuple(_without(message, f"messages[{at}]", dropped) for at, message in enumerate(request.messages))
    detail = f"the API accepts at most {_MOST} cache marks in a request: no mark was sent for {', '.join(dropped[:20])}"
    return replace(request, tools=tools, messages=messages), [ReplyWarning("provider_data_dropped", detail)]


def _is_marked(part: Any) -> bool:
    return bool(part.get("cache_control") if isinstance(part, Mapping) else part.cache)


def _places(message: Message, where: str) -> list[str]:
    parts = message.content if isinstance(message.content, tuple) else ()
    if message.cache:  # this mark replaces the mark of the last part
        parts = parts[:-1]
    found = [f"{where}.content[{at}]" for at, part in enumerate(parts) if _is_marked(part)]
    return [*found, where] if message.cache else found


def _without(message: Message, where: str, dropped: list[str]) -> Message:
    content = message.content
    if isinstance(content, tuple):
        parts = [_unmarked(part) if f"{where}.content[{at}]" in dropped else part for at, part in enumerate(content)]
        if where in dropped and parts:
            parts[-1] = _unmarked(parts[-1])
        content = tuple(parts)
    return replace(message, content=content, cache=message.cache and where not in dropped)


def _unmarked(part: Any) -> Any:
    if isinstance(part, Mapping):
        return {name: value for name, value in part.items() if name != "cache_control"}
    return replace(part, cache=False)
