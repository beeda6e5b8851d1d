"""Checks of a body of Anthropic's Messages API. Each returns the place of the first fault, or None."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Block = Mapping[str, Any]


def turns_of(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Returns the messages."""
    return list(body.get("messages") or [])


def blocks_of(content: object) -> list[Block]:
    """Returns the blocks of a content; a string is one text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [each for each in content if isinstance(each, Mapping)] if isinstance(content, Sequence) else []


def _blocks(body: Mapping[str, Any], *kinds: str) -> Iterator[tuple[str, int, Block]]:
    for index, turn in enumerate(turns_of(body)):
        for place, block in enumerate(blocks_of(turn.get("content"))):
            if not kinds or block.get("type") in kinds:
                yield f"messages.{index}.content.{place}", index, block


def not_empty(body: Mapping[str, Any]) -> str | None:
    """A request without messages."""
    return None if turns_of(body) else "messages"


def roles(body: Mapping[str, Any], allowed: Sequence[str]) -> str | None:
    """A role that the endpoint doesn't know."""
    return next(
        (f"messages.{i}.role" for i, each in enumerate(turns_of(body)) if each.get("role") not in allowed), None
    )


def system_placed(body: Mapping[str, Any]) -> str | None:
    """A `system` entry that doesn't follow a user's turn, or has neither an assistant's turn nor the end behind it."""
    turns = turns_of(body)
    for index, turn in enumerate(turns):
        if turn.get("role") == "system":
            before = turns[index - 1].get("role") if index else None
            behind = turns[index + 1].get("role") if index + 1 < len(turns) else "assistant"
            if before not in ("user", "system") or behind not in ("assistant", "system"):
                return f"messages.{index}"
    return None


def first_is_user(body: Mapping[str, Any]) -> str | None:
    """A conversation that begins with the assistant."""
    turns = turns_of(body)
    return "messages.0" if turns and turns[0].get("role") != "user" else None


def last_is_user(body: Mapping[str, Any]) -> str | None:
    """A conversation that ends with the assistant, for models that can't continue a text."""
    turns = turns_of(body)
    return f"messages.{len(turns) - 1}" if turns and turns[-1].get("role") == "assistant" else None


def no_prefill_while_thinking(body: Mapping[str, Any]) -> str | None:
    """A conversation that ends with the assistant while thinking is on."""
    thinks = (body.get("thinking") or {}).get("type") in ("enabled", "adaptive")
    return last_is_user(body) if thinks else None


def content_not_empty(body: Mapping[str, Any]) -> str | None:
    """A message without content, but for the last one of the assistant."""
    turns = turns_of(body)
    for index, turn in enumerate(turns):
        last = index == len(turns) - 1 and turn.get("role") == "assistant"
        if not turn.get("content") and not last:
            return f"messages.{index}"
    return None


def text_not_blank(body: Mapping[str, Any], space: bool = True) -> str | None:
    """A text block without text, or with white space alone; in results of tools too."""
    for at, _, block in _blocks(body):
        inner = [block] if block.get("type") == "text" else []
        if block.get("type") == "tool_result" and not isinstance(block.get("content"), str):
            inner = [each for each in blocks_of(block.get("content")) if each.get("type") == "text"]
        for each in inner:
            text = str(each.get("text") or "")
            if not (text.strip() if space else text):
                return at
    return None


def system_not_blank(body: Mapping[str, Any]) -> str | None:
    """A system text block without text."""
    system = body.get("system")
    if system is None or isinstance(system, str):
        return None
    return next((f"system.{i}" for i, each in enumerate(system) if not str(each.get("text") or "").strip()), None)


def no_final_space(body: Mapping[str, Any]) -> str | None:
    """White space at the end of an assistant's text that is last."""
    turns = turns_of(body)
    blocks = blocks_of(turns[-1].get("content")) if turns and turns[-1].get("role") == "assistant" else []
    text = str(blocks[-1].get("text") or "") if blocks and blocks[-1].get("type") == "text" else ""
    return f"messages.{len(turns) - 1}" if text != text.rstrip() else None


def result_content(body: Mapping[str, Any], required: bool = False, blank: bool = True) -> str | None:
    """A result whose content is an empty list; with `required` also a missing one; without `blank` also ""."""
    for at, _, block in _blocks(body, "tool_result"):
        content = block.get("content")
        if content == [] or (required and content is None) or (not blank and content == ""):
            return f"{at}.tool_result.content"
    return None


def id_pattern(body: Mapping[str, Any], pattern: str) -> str | None:
    """An id with other characters."""
    for at, _, block in _blocks(body, "tool_use", "tool_result"):
        name = str(block.get("id" if block["type"] == "tool_use" else "tool_use_id") or "")
        if not re.fullmatch(pattern, name):
            return f"{at}.{block['type']}.id"
    return None


def unique_ids(body: Mapping[str, Any]) -> str | None:
    """Two calls of one id."""
    seen: set[str] = set()
    for at, _, block in _blocks(body, "tool_use"):
        if str(block.get("id")) in seen:
            return at
        seen.add(str(block.get("id")))
    return None


def calls_answered(body: Mapping[str, Any]) -> str | None:
    """A call without its result in the next message."""
    turns = turns_of(body)
    for at, index, block in _blocks(body, "tool_use"):
        behind = turns[index + 1] if index + 1 < len(turns) else {}
        answered = {each.get("tool_use_id") for each in blocks_of(behind.get("content"))}
        if behind.get("role") != "user" or block.get("id") not in answered:
            return at
    return None


def results_known(body: Mapping[str, Any]) -> str | None:
    """A result whose call is not in the message before."""
    turns = turns_of(body)
    for at, index, block in _blocks(body, "tool_result"):
        before = blocks_of(turns[index - 1].get("content")) if index else []
        if block.get("tool_use_id") not in {each.get("id") for each in before}:
            return at
    return None


def results_once(body: Mapping[str, Any]) -> str | None:
    """Two results for one call in a message."""
    seen: set[tuple[int, str]] = set()
    for at, index, block in _blocks(body, "tool_result"):
        key = (index, str(block.get("tool_use_id")))
        if key in seen:
            return at
        seen.add(key)
    return None


def results_lead(body: Mapping[str, Any]) -> str | None:
    """A result behind another block of its message."""
    for index, turn in enumerate(turns_of(body)):
        other = False
        for place, block in enumerate(blocks_of(turn.get("content"))):
            if block.get("type") == "tool_result" and other:
                return f"messages.{index}.content.{place}"
            other = other or block.get("type") != "tool_result"
    return None


def input_object(body: Mapping[str, Any]) -> str | None:
    """A call whose input is no object."""
    return next(
        (f"{at}.tool_use.input" for at, _, b in _blocks(body, "tool_use") if not isinstance(b.get("input"), dict)), None
    )


def thinking_signed(body: Mapping[str, Any], known: str) -> str | None:
    """Thinking without a signature, or with one that another maker wrote (ours begin with `known`)."""
    for at, _, block in _blocks(body, "thinking"):
        if not isinstance(block.get("thinking"), str) or not str(block.get("signature") or "").startswith(known):
            return f"{at}.thinking.signature"
    return None


def thinking_first(body: Mapping[str, Any]) -> str | None:
    """A turn with calls that leads to the last results and lacks its thinking, while manual thinking is on."""
    if (body.get("thinking") or {}).get("type") != "enabled":
        return None
    turns = turns_of(body)
    for index in range(len(turns) - 1, -1, -1):
        blocks = blocks_of(turns[index].get("content"))
        if turns[index].get("role") == "user" and not any(each.get("type") == "tool_result" for each in blocks):
            return None
        bare = blocks and blocks[0].get("type") not in ("thinking", "redacted_thinking")
        if turns[index].get("role") == "assistant" and bare:
            return f"messages.{index}.content.0.type"
    return None


def function_names(body: Mapping[str, Any], pattern: str) -> str | None:
    """The name of a tool, in a call or among the tools, with other characters."""
    for at, _, block in _blocks(body, "tool_use"):
        if not re.fullmatch(pattern, str(block.get("name"))):
            return f"{at}.tool_use.name"
    for index, tool in enumerate(body.get("tools") or []):
        if not re.fullmatch(pattern, str(tool.get("name"))):
            return f"tools.{index}.custom.name"
    return None


def tools_defined(body: Mapping[str, Any]) -> str | None:
    """Calls in the history of a request without tools."""
    used = next((at for at, _, block in _blocks(body, "tool_use", "tool_result")), None)
    return used if used and not body.get("tools") else None


def cache_marks(body: Mapping[str, Any], limit: int = 4) -> str | None:
    """Too many cache marks."""
    found = [block for _, _, block in _blocks(body) if block.get("cache_control")]
    found += [each for each in blocks_of(body.get("system")) if each.get("cache_control")]
    found += [each for each in body.get("tools") or [] if each.get("cache_control")]
    return "cache_control" if len(found) > limit else None


def block_types(body: Mapping[str, Any], user: Sequence[str], assistant: Sequence[str]) -> str | None:
    """A block that the role can't have."""
    turns = turns_of(body)
    for at, index, block in _blocks(body):
        allowed = assistant if turns[index].get("role") == "assistant" else user
        if block.get("type") not in allowed:
            return f"{at}.type"
    return None


CHECKS: Mapping[str, Callable[..., str | None]] = {
    check.__name__: check
    for check in (
        not_empty, roles, system_placed, first_is_user, last_is_user, no_prefill_while_thinking, content_not_empty,
        text_not_blank,
        system_not_blank, no_final_space, result_content, id_pattern, unique_ids, calls_answered, results_known,
        results_once, results_lead, input_object, thinking_signed, thinking_first, function_names, tools_defined,
        cache_marks, block_types,
    )
}  # fmt: skip
