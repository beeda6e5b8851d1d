"""Converts conversations to and from the JSON of each API: messages, input items, or contents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..adapters import EncodingReport
from ..errors import ConfigError, join_limited
from ..requests import GO_ON_MESSAGE, Request, fit_history, offer_added_tools, read_messages
from ..types import INSTRUCTION_ROLES, Message, Messages, ReplyWarning
from .formats import ApiFormat, Format, Serialized, find_format


def serialize_messages(messages: Messages, api: ApiFormat) -> Serialized:
    """Converts a conversation to the request fields of an API.

    The conversation may begin or end with an assistant message, and its last tool calls may have no results. A single
    `reply.message` can therefore be converted too.

    Args:
        messages: the conversation, in any form that `chat()` accepts.
        api: "chat" returns `messages`; "responses" returns `input`; "anthropic" returns `messages` and, if there are
            instructions, `system`; "gemini" returns `contents` and `systemInstruction`.

    Returns:
        The request fields in `body`, and a warning for each part of the conversation that the API doesn't support.

    Raises:
        ConfigError: the API doesn't support a part of the conversation, and the conversation has a different meaning
            without it. The error message begins with the path of the part.
    """
    form, given = find_format(api), read_messages(messages)
    talk = [message for message in given if message.role not in INSTRUCTION_ROLES]
    # An API may continue a final assistant message, and trim its text. A user message after it prevents that.
    added = not talk or (talk[-1].role == "assistant" and not talk[-1].partial)
    request = Request("", (*given, GO_ON_MESSAGE) if added else given)
    rules = form.adapter.history_rules(request)
    rules = replace(rules, begins_with_user=False, ends_with_user=False, reads_items=True)
    lost = [] if rules.added_tools else [f"messages[{at}].tools" for at, message in enumerate(given) if message.tools]
    request, _ = offer_added_tools(request, in_place=rules.added_tools)
    fitted = fit_history(request.messages, rules, open_calls=True)
    ready, changes = form.adapter.rewrite(replace(request, messages=fitted.messages, positions=fitted.positions))
    if lost:
        changes.append(
            ReplyWarning("provider_data_dropped", f"{join_limited(lost)}: not supported inside a conversation")
        )
    report = EncodingReport()
    written = form.adapter.encode(ready, report)
    names = (form.instructions, form.items)
    body = {name: written[name] for name in names if name is not None and name in written}
    items = body[form.items]
    if added and form.content is not None and len(items[-1][form.content]) > 1:
        items[-1][form.content].pop()  # the adapter has merged the added message with the one before
    elif added:
        items.pop()
    return Serialized(body, (*fitted.warnings, *changes, *report.warnings(), *_changed_ids(given, items, form)))


def parse_messages(items: str | Mapping[str, Any] | Iterable[Mapping[str, Any]], api: ApiFormat) -> list[Message]:
    """Parses a conversation in the format of an API.

    Args:
        items: the list of messages, items or contents; a string, if the API accepts one in its place; or a request body
            with the conversation, whose other fields are ignored.
        api: see `serialize_messages`.

    Raises:
        ConfigError: a part of the conversation is invalid. The error message begins with the path of the part.
    """
    form = find_format(api)
    if not isinstance(items, Mapping):
        return form.parse(None, items if isinstance(items, str) else list(items))
    if form.items not in items:
        raise ConfigError(f"{form.items} is missing: there is no conversation in an object with {', '.join(items)}")
    return form.parse(items.get(form.instructions) if form.instructions else None, items[form.items])


def _changed_ids(messages: tuple[Message, ...], items: list[dict[str, Any]], form: Format) -> list[ReplyWarning]:
    """Returns a warning if tool call ids were left out of Gemini's contents. Only ids that Gemini created are sent to
    Gemini."""
    if form.content != "parts":
        return []
    parts = [part["functionCall"] for item in items for part in item["parts"] if "functionCall" in part]
    written = {part.get("id") for part in parts}
    lost = [call.id for message in messages for call in message.tool_calls if call.id not in written]
    detail = (
        f"{join_limited(lost)}: only Gemini's own ids of tool calls are written; results are matched by name and order"
    )
    return [ReplyWarning("ids_renumbered", detail)] if lost else []
