"""Compaction: Claude replaces the earlier messages of a conversation with a summary.

A request can ask for a compaction. The response then contains a signed block, and the API refuses later requests that
contain this block and also the messages before it
(https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand). A request can also set a token limit. If
the conversation is longer, Claude compacts it, and the API ignores the messages before the block
(https://platform.claude.com/docs/en/build-with-claude/compaction-threshold). These requests, and all later requests
with a compaction's block, need a value in the header `anthropic-beta`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ...requests import refuse_if_strict
from ...types import Message, ReplyWarning
from ..encoding_report import EncodingReport

if TYPE_CHECKING:
    from ...requests import Request

_ON_DEMAND = "compact-2026-09-04"
_AT_THRESHOLD = "compact-2026-01-12"
_EDIT = "compact_20260112"
_SMALLEST_THRESHOLD = 50_000  # tokens


def _blocks(message: Message, request: Request) -> Iterator[Mapping[str, Any]]:
    blocks = message.extras.get("blocks")
    if not isinstance(blocks, list) or not request.came_from_here(message):
        return
    for block in blocks:
        if isinstance(block, Mapping) and block.get("type") == "compaction":
            yield block


def asks_for_compaction(request: Request) -> bool:
    """Returns True if a request asks Claude to compact the conversation, by `Request.compact` or by the API's field
    `compaction` in `extra_body`."""
    return request.compact or bool(request.options.extra_body.get("compaction"))


def is_signed_compaction(message: Message, request: Request) -> bool:
    """Returns True if a message contains the signed block of a compaction, which replaces all earlier messages."""
    return any(block.get("signature") for block in _blocks(message, request))


def compaction_betas(request: Request) -> list[str]:
    """Returns the values of the header `anthropic-beta` for a request that asks for a compaction, or whose messages
    contain one."""
    signed = {bool(block.get("signature")) for message in request.messages for block in _blocks(message, request)}
    managed = request.options.extra_body.get("context_management")
    edits = managed.get("edits") if isinstance(managed, Mapping) else None
    kinds = [edit.get("type") for edit in edits if isinstance(edit, Mapping)] if isinstance(edits, list) else []
    on_demand = asks_for_compaction(request) or True in signed
    at_threshold = False in signed or _EDIT in kinds or (request.options.compact_threshold and not on_demand)
    return [*([_ON_DEMAND] if on_demand else []), *([_AT_THRESHOLD] if at_threshold else [])]


def threshold_members(request: Request, report: EncodingReport) -> dict[str, Any]:
    """Returns the request fields that make Claude compact a conversation of more than `compact_threshold` tokens."""
    threshold, changes = request.options.compact_threshold, list[ReplyWarning]()
    if threshold is None or asks_for_compaction(request):
        return {}
    signed = any(is_signed_compaction(message, request) for message in request.messages)
    if signed:
        detail = "compact_threshold can't be combined with a requested compaction: call Provider.compact() again"
        changes.append(ReplyWarning("option_dropped", detail))
    elif threshold < _SMALLEST_THRESHOLD:
        detail = f"compact_threshold={threshold} was sent as {_SMALLEST_THRESHOLD}, the lowest accepted value"
        changes.append(ReplyWarning("option_changed", detail))
    refuse_if_strict(request.options, changes)
    report.changes += changes
    if signed:
        return {}
    trigger = {"type": "input_tokens", "value": max(threshold, _SMALLEST_THRESHOLD)}
    return {"context_management": {"edits": [{"type": _EDIT, "trigger": trigger}]}}


def ask_for_compaction(body: dict[str, Any]) -> None:
    """Adds the field that asks Claude for a compaction to a request body, and removes the fields that the API refuses
    beside this field."""
    for name in ("context_management", "stop_sequences"):
        body.pop(name, None)
    if body.get("tool_choice", {}).get("type") in ("any", "tool"):
        del body["tool_choice"]
    output = {name: value for name, value in body.pop("output_config", {}).items() if name != "format"}
    body |= {"output_config": output} if output else {}
    body["compaction"] = {"type": "summarize", **body.get("compaction", {})}
