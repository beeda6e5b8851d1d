"""Leaves thinking out of a request if something before the thinking has changed, because Claude would refuse it.

Claude 5.1 and later bind a thinking block to its prefix: the system prompt, the tools and the earlier messages. The API
refuses a request in which something else precedes the block. streamfold stores a digest of the prefix in
`Message.prefix`, and compares this digest with the prefix in later requests. If streamfold leaves thinking out, a
warning names the change.

A prefix doesn't include the order of the tools, tools with `defer_loading`, cache marks and thinking. A thinking block
is also bound to the thinking block before it. So streamfold leaves out thinking blocks only before the first and after
the last thinking block that it sends.
https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

from ...errors import join_limited
from ...requests import digest_parts, is_thinking_block
from ...types import Message
from ..encoding_report import EncodingReport

BINDING_BETA = "thinking-binding-controls-2026-08-01"


class Prefix(NamedTuple):
    """Digests of the system prompt, the tools and the messages before an assistant message.

    Attributes:
        after: the digest of the last thinking block before the message, or "" if there was none.
    """

    system: str
    tools: str
    messages: str
    after: str

    def __str__(self) -> str:
        return ".".join(self)

    @classmethod
    def read(cls, text: str | None) -> Prefix | None:
        """Parses the text in `Message.prefix`. Returns None if there is no text, or if its format is unknown."""
        parts = (text or "").split(".")
        return cls(*parts) if len(parts) == len(cls._fields) else None


@dataclass(slots=True)
class SentTurn:
    """An assistant message, with the content blocks that the request contains for it."""

    at: int
    message: Message
    blocks: tuple[dict[str, Any], ...]

    @property
    def thinking(self) -> list[dict[str, Any]]:
        return [block for block in self.blocks if is_thinking_block(block)]


def bind_thinking(body: dict[str, Any], turns: Sequence[SentTurn], report: EncodingReport, *, checked: bool) -> None:
    """Removes thinking blocks from a request body if their prefix has changed. Sets `report.prefix`, the prefix of the
    response.

    Args:
        body: the request's JSON body, which this function modifies.
        turns: the assistant messages in the body. Thinking in a message without `Message.prefix` stays in the body.
        checked: True if the API refuses thinking with a changed prefix. With False, all thinking stays in the body.
    """
    system, tools = digest_parts(_unmarked(body.get("system"))), digest_parts(_tools(body.get("tools")))
    before = _prefixes(body["messages"])
    signed = [turn for turn in turns if turn.thinking]
    lost: list[tuple[SentTurn, str]] = []
    runs: list[list[SentTurn]] = [[]]  # turns whose thinking may be sent together
    good_until, last = 0, ""
    for turn in signed:
        made = Prefix.read(turn.message.prefix)
        now = Prefix(system, tools, before[id(turn.blocks[0])], "")
        if made is not None and (change := _change(made, now, f"messages[{good_until}:{turn.at}]")):
            lost.append((turn, change))
            continue
        if made is not None and runs[-1] and made.after != last:
            runs.append([])
        runs[-1].append(turn)
        good_until, last = turn.at, _signature(turn.thinking[-1])
    kept = max(reversed(runs), key=len)
    lost += [(turn, "earlier thinking is not sent") for run in runs if run is not kept for turn in run]
    if not checked:
        kept = signed
    elif lost:
        gone = {id(block) for turn, _ in lost for block in turn.thinking}
        _leave_out(body["messages"], lambda block: id(block) in gone)
        for change in dict.fromkeys(change for _, change in lost):
            places = join_limited([f"messages[{turn.at}]" for turn, why in lost if why == change])
            detail = f"{places}: the thinking was left out, because it is bound to the messages before it: {change}"
            report.warn("reasoning_dropped", detail)
    after = _signature(kept[-1].thinking[-1]) if kept else ""
    report.prefix = str(Prefix(system, tools, before[None], after))


def drop_mismatched(body: dict[str, Any]) -> bool:
    """Sets the request field `thinking.block_binding`, with which the API ignores thinking whose prefix has changed.
    Returns False if the request turns thinking off, because the API then refuses the field."""
    thinking = body.get("thinking") or {"type": "adaptive"}  # the API's default
    if not isinstance(thinking, Mapping) or thinking.get("type") not in ("adaptive", "enabled"):
        return False
    body["thinking"] = {**thinking, "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    return True


def leave_out_thinking(body: dict[str, Any]) -> None:
    """Removes all thinking blocks from the messages in a request body."""
    _leave_out(body["messages"], is_thinking_block)


def _change(made: Prefix, now: Prefix, between: str) -> str:
    # In the order of `Prefix`, without `after`.
    texts = "the system prompt has changed", "the tools have changed", f"something in {between} has changed"
    return ", ".join(text for text, old, new in zip(texts, made, now, strict=False) if old != new)


def _prefixes(messages: Sequence[Mapping[str, Any]]) -> dict[int | None, str]:
    """Maps the Python `id()` of each block in assistant messages to a digest of the content before the block. Maps None
    to the digest of all messages, which is the prefix of the response."""
    found: dict[int | None, str] = {}
    running = blake2b(digest_size=9)
    for turn in messages:
        for block in _blocks(turn):
            if turn["role"] == "assistant":
                found[id(block)] = running.hexdigest()
            if not is_thinking_block(block):
                running.update(digest_parts(turn["role"], _unmarked(block)).encode())
    found[None] = running.hexdigest()
    return found


def _blocks(turn: Mapping[str, Any]) -> Iterator[Any]:
    content = turn["content"]
    yield from [{"type": "text", "text": content}] if isinstance(content, str) else content


def _tools(tools: Any) -> Any:
    """Returns the tools of a request, sorted by name, without tools that the model loads later."""
    listed = [_unmarked(tool) for tool in tools or () if not (isinstance(tool, Mapping) and tool.get("defer_loading"))]
    return sorted(listed, key=lambda tool: str(tool.get("name")) if isinstance(tool, Mapping) else "")


def _unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unmarked(each) for each in value]
    if isinstance(value, Mapping) and ("cache_control" in value or isinstance(value.get("content"), list)):
        members = {name: member for name, member in value.items() if name != "cache_control"}
        return {**members, "content": _unmarked(members["content"])} if "content" in members else members
    return value


def _signature(block: Mapping[str, Any]) -> str:
    return digest_parts(block.get("signature"), block.get("data"))


def _leave_out(messages: list[dict[str, Any]], is_gone: Callable[[Any], bool]) -> None:
    made: list[dict[str, Any]] = []
    for turn in messages:
        if turn["role"] == "assistant":
            turn = {**turn, "content": [block for block in turn["content"] if not is_gone(block)]}
        if turn["content"] and made and made[-1]["role"] == turn["role"] != "system":
            made[-1] = {**made[-1], "content": [*made[-1]["content"], *turn["content"]]}
        elif turn["content"]:
            made.append(turn)
    messages[:] = made
