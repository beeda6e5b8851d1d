"""Checks of a Chat Completions body. Each returns the place of the first fault, or None."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

Message = Mapping[str, Any]
SYSTEM = ("system", "developer")


def _messages(body: Mapping[str, Any]) -> list[Message]:
    return list(body.get("messages") or [])


def _at(index: int) -> str:
    return f"messages[{index}]"


def _role(message: Message) -> str:
    return str(message.get("role"))


def _calls(message: Message) -> list[Mapping[str, Any]]:
    return list(message.get("tool_calls") or [])


def _all_calls(body: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for index, message in enumerate(_messages(body)):
        for place, call in enumerate(_calls(message)):
            yield f"{_at(index)}.tool_calls[{place}]", call


def text_of(content: object) -> str:
    """Returns the text of a content, whether a string or a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text") or part.get("refusal") or "") for part in content if isinstance(part, dict))
    return ""


def _has_media(content: object) -> bool:
    return isinstance(content, list) and any(part.get("type") not in ("text", "refusal") for part in content)


def _blank(content: object, space: bool) -> bool:
    if content is None or _has_media(content):
        return False
    text = text_of(content)
    return not (text.strip() if space else text)


def roles(body: Mapping[str, Any], allowed: Sequence[str]) -> str | None:
    """A role that the endpoint doesn't know."""
    return next((_at(i) for i, each in enumerate(_messages(body)) if _role(each) not in allowed), None)


def not_empty(body: Mapping[str, Any]) -> str | None:
    """A request without messages."""
    return None if _messages(body) else "messages"


def system_first(body: Mapping[str, Any]) -> str | None:
    """A system message anywhere but in the first place."""
    return next((_at(i) for i, each in enumerate(_messages(body)) if i and _role(each) in SYSTEM), None)


def system_leading(body: Mapping[str, Any]) -> str | None:
    """A system message behind another message."""
    pairs = enumerate(pairwise(_messages(body)))
    return next((_at(i + 1) for i, (a, b) in pairs if _role(b) in SYSTEM and _role(a) not in SYSTEM), None)


def system_once(body: Mapping[str, Any]) -> str | None:
    """A second system message."""
    places = [i for i, each in enumerate(_messages(body)) if _role(each) in SYSTEM]
    return _at(places[1]) if len(places) > 1 else None


def some_user(body: Mapping[str, Any]) -> str | None:
    """A conversation without any message of a user."""
    return None if any(_role(each) == "user" for each in _messages(body)) else "messages"


def first_is(body: Mapping[str, Any], allowed: Sequence[str]) -> str | None:
    """A conversation that begins, behind its system messages, with another role."""
    for index, message in enumerate(_messages(body)):
        if _role(message) not in SYSTEM:
            return None if _role(message) in allowed else _at(index)
    return None


def last_is(body: Mapping[str, Any], allowed: Sequence[str], prefix: str = "") -> str | None:
    """A conversation that ends with another role, unless the last message has the member `prefix`."""
    messages = _messages(body)
    if not messages or _role(messages[-1]) in allowed or (prefix and messages[-1].get(prefix)):
        return None
    return _at(len(messages) - 1)


def follows(body: Mapping[str, Any], after: Mapping[str, Sequence[str]]) -> str | None:
    """A role that may not stand behind the role before it."""
    for index, (first, second) in enumerate(pairwise(_messages(body))):
        if _role(first) in after and _role(second) not in after[_role(first)]:
            return _at(index + 1)
    return None


def alternate(body: Mapping[str, Any], tools: str = "user") -> str | None:
    """Two messages of one side in a row, behind the leading system messages.

    Args:
        tools: "user": a tool's message is on the side of the user, several in a row are one turn; "skip": tools'
            messages and turns with calls don't count, as in Mistral's and Gemma's chat templates.
    """
    expected = "user"
    before = ""
    for index, message in enumerate(_messages(body)):
        role = _role(message)
        if role in SYSTEM and before in ("", "system"):
            before = "system"
            continue
        if tools == "skip":
            if role == "tool" or _calls(message):
                continue
            if role != expected:
                return _at(index)
            expected = "assistant" if role == "user" else "user"
        else:
            side = "user" if role in ("user", "tool") else role
            if side != expected and not (role == "tool" and before == "tool"):
                return _at(index)
            expected = "assistant" if side == "user" else "user"
        before = role
    return None


def no_two_last_assistants(body: Mapping[str, Any]) -> str | None:
    """Two messages of the assistant at the end."""
    messages = _messages(body)
    two = [_role(each) for each in messages[-2:]] == ["assistant", "assistant"]
    return _at(len(messages) - 1) if two else None


def content_string(body: Mapping[str, Any], of: Sequence[str], unless_media: bool = False) -> str | None:
    """A list of parts where only a string is read."""
    for index, message in enumerate(_messages(body)):
        content = message.get("content")
        if _role(message) in of and isinstance(content, list) and not (unless_media and _has_media(content)):
            return f"{_at(index)}.content"
    return None


def content_present(
    body: Mapping[str, Any], of: Sequence[str], unless_calls: bool = True, refusals: bool = False
) -> str | None:
    """A message whose content is null or missing, unless it has calls. With `refusals`, the member `refusal` counts."""
    for index, message in enumerate(_messages(body)):
        missing = message.get("content") is None and not (refusals and message.get("refusal"))
        if _role(message) in of and missing and not (unless_calls and _calls(message)):
            return f"{_at(index)}.content"
    return None


def content_not_blank(
    body: Mapping[str, Any], of: Sequence[str], space: bool = True, unless_calls: bool = True
) -> str | None:
    """A content without text: "", an empty list, and with `space` also white space alone. Null is another check."""
    for index, message in enumerate(_messages(body)):
        if _role(message) in of and _blank(message.get("content"), space) and not (unless_calls and _calls(message)):
            return f"{_at(index)}.content"
    return None


def parts_not_blank(body: Mapping[str, Any]) -> str | None:
    """A part with an empty text in a list of parts, or a list without parts."""
    for index, message in enumerate(_messages(body)):
        content = message.get("content")
        if isinstance(content, list):
            if not content:
                return f"{_at(index)}.content"
            for place, part in enumerate(content):
                if part.get("type") == "text" and not part.get("text"):
                    return f"{_at(index)}.content[{place}]"
    return None


def no_empty_assistant(body: Mapping[str, Any], refusals: bool = False) -> str | None:
    """An assistant's turn with neither text nor calls. With `refusals`, the member `refusal` counts as text."""
    for index, message in enumerate(_messages(body)):
        content = message.get("content")
        said = text_of(content) or _has_media(content) or _calls(message) or (refusals and message.get("refusal"))
        if _role(message) == "assistant" and not said:
            return _at(index)
    return None


def ids_present(body: Mapping[str, Any]) -> str | None:
    """A call or a tool's message without an id, or with ""."""
    for place, call in _all_calls(body):
        if not call.get("id"):
            return f"{place}.id"
    for index, message in enumerate(_messages(body)):
        if _role(message) == "tool" and not message.get("tool_call_id"):
            return f"{_at(index)}.tool_call_id"
    return None


def _ids(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for place, call in _all_calls(body):
        yield f"{place}.id", str(call.get("id") or "")
    for index, message in enumerate(_messages(body)):
        if _role(message) == "tool":
            yield f"{_at(index)}.tool_call_id", str(message.get("tool_call_id") or "")


def id_length(body: Mapping[str, Any], limit: int) -> str | None:
    """An id that is too long."""
    return next((place for place, name in _ids(body) if len(name) > limit), None)


def id_pattern(body: Mapping[str, Any], pattern: str) -> str | None:
    """An id with other characters, or of another length."""
    return next((place for place, name in _ids(body) if not re.fullmatch(pattern, name)), None)


def results_follow(body: Mapping[str, Any]) -> str | None:
    """A call whose result is not directly behind its turn, a result without a call, or a second one."""
    waiting: dict[str, bool] = {}
    for index, message in enumerate(_messages(body)):
        if _role(message) == "tool":
            name = str(message.get("tool_call_id"))
            if not waiting.get(name, False):
                return _at(index)
            waiting[name] = False
            continue
        if any(waiting.values()):
            return _at(index)
        waiting = {str(call.get("id")): True for call in _calls(message)}
        if len(waiting) < len(_calls(message)):
            return _at(index)
    return _at(len(_messages(body)) - 1) if any(waiting.values()) else None


def results_known(body: Mapping[str, Any]) -> str | None:
    """A result whose call is in no turn before it."""
    known: set[str] = set()
    for index, message in enumerate(_messages(body)):
        if _role(message) == "tool" and message.get("tool_call_id") not in known:
            return _at(index)
        known |= {str(call.get("id")) for call in _calls(message)}
    return None


def results_counted(body: Mapping[str, Any]) -> str | None:
    """As many results as calls, by number (Mistral's older templates count and don't look at ids)."""
    missing = 0
    for index, message in enumerate(_messages(body)):
        if _role(message) == "tool":
            missing -= 1
        elif _role(message) == "assistant":
            if missing:
                return _at(index)
            missing = len(_calls(message))
    return "messages" if missing else None


def arguments_json(body: Mapping[str, Any], empty: bool = True) -> str | None:
    """Arguments that are no JSON object. `empty`: "" is read as `{}`."""
    for place, call in _all_calls(body):
        text = (call.get("function") or {}).get("arguments")
        if empty and not text:
            continue
        try:
            value = json.loads(text) if isinstance(text, str) else None
        except ValueError:
            value = None
        if not isinstance(value, dict):
            return f"{place}.function.arguments"
    return None


def single_call(body: Mapping[str, Any]) -> str | None:
    """A turn with more than one call."""
    return next((_at(i) for i, each in enumerate(_messages(body)) if len(_calls(each)) > 1), None)


def message_names(body: Mapping[str, Any], pattern: str) -> str | None:
    """The `name` of a message with other characters."""
    for index, message in enumerate(_messages(body)):
        if message.get("name") is not None and not re.fullmatch(pattern, str(message["name"])):
            return f"{_at(index)}.name"
    return None


def function_names(body: Mapping[str, Any], pattern: str) -> str | None:
    """The name of a function, in a call or among the tools, with other characters."""
    for place, call in _all_calls(body):
        if not re.fullmatch(pattern, str((call.get("function") or {}).get("name"))):
            return f"{place}.function.name"
    for index, tool in enumerate(body.get("tools") or []):
        if tool.get("type") == "function" and not re.fullmatch(pattern, str(tool["function"].get("name"))):
            return f"tools[{index}].function.name"
    return None


def no_members(body: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """A member of a message that the endpoint refuses."""
    for index, message in enumerate(_messages(body)):
        for name in names:
            if message.get(name) is not None:
                return f"{_at(index)}.{name}"
    return None


def only_members(body: Mapping[str, Any], of: Mapping[str, Sequence[str]]) -> str | None:
    """A member of a message that is not in the reference, for endpoints that refuse unknown ones."""
    for index, message in enumerate(_messages(body)):
        for name in message:
            if _role(message) in of and name not in of[_role(message)]:
                return f"{_at(index)}.{name}"
    return None


def reasoning_present(body: Mapping[str, Any], member: str, of: str = "calls") -> str | None:
    """A turn with calls that lacks its reasoning ("" counts as present), while the model thinks."""
    if (body.get("thinking") or {}).get("type") == "disabled":
        return None
    for index, message in enumerate(_messages(body)):
        if _role(message) == "assistant" and (_calls(message) or of == "all") and message.get(member) is None:
            return _at(index)
    return None


def messages_at_most(body: Mapping[str, Any], limit: int) -> str | None:
    """Too many messages."""
    return "messages" if len(_messages(body)) > limit else None


CHECKS: Mapping[str, Callable[..., str | None]] = {
    check.__name__: check
    for check in (
        roles, not_empty, system_first, system_leading, system_once, some_user, first_is, last_is, follows, alternate,
        no_two_last_assistants, content_string, content_present, content_not_blank, parts_not_blank,
        no_empty_assistant, ids_present, id_length, id_pattern, results_follow, results_known, results_counted,
        arguments_json, single_call, message_names, function_names, no_members, only_members, reasoning_present,
        messages_at_most,
    )
}  # fmt: skip
