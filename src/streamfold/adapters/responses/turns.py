"""Input items to messages: what the model said between two turns of others is one turn, as on every other wire.

A turn that a `Message` can't hold whole (reasoning that only its provider can read, several messages, text after
a call) keeps its items beside it, so that they go back as they came to a provider that speaks this API.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...requests import Fields, check_message, kind_of
from ...values import ConfigError, Message, MessageLike, TextPart, ToolCall
from ..requested import file_part, image_part, read_call
from .output import CALL_EXTRAS, said_text

__all__ = ["read_items"]

_OTHERS = ("user", "system", "developer")


@dataclass(slots=True)
class _Turn:
    """The items of the model in a row, and what they say."""

    items: list[dict[str, Any]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    plain: bool = True  # a message, then calls, and nothing in them that is not in ours

    def message(self) -> Message:
        kinds = [item["type"] for item in self.items]
        texts, several = self.texts, len(self.texts) > 1 and kinds.count("message") == 1
        content: Any = tuple(TextPart(text) for text in texts) if several else "".join(texts) if texts else None
        in_order = sorted(kinds, key=lambda kind: kind == "function_call") == kinds
        plain = self.plain and in_order and kinds.count("message") < 2 and "reasoning" not in kinds
        return Message(
            "assistant",
            content,
            tuple(self.calls),
            reasoning="".join(self.reasoning) if "reasoning" in kinds else None,
            refusal="".join(self.refusals) or None,
            extras={} if plain else {"output": self.items},
        )


def read_items(items: list[Any]) -> Iterator[MessageLike]:
    """The messages of an input. Raises ConfigError that begins with the path to what is wrong."""
    turn = _Turn()
    for at, item in enumerate(items):
        where = f"input[{at}]"
        if not isinstance(item, Mapping):
            raise ConfigError(f"{where} must be an object, not {kind_of(item)}")
        kind = item.get("type", "message")
        if kind == "item_reference":
            raise ConfigError(
                f"{where} refers to an item by its id, and nothing is kept here: send the item itself, as clients do"
                " with store: false"
            )
        if _is_the_models(item, kind):
            _add(turn, {**item, "type": kind}, where)
            continue
        if turn.items:
            yield turn.message()
            turn = _Turn()
        yield _other(item, kind, where)
    if turn.items:
        yield turn.message()


def _is_the_models(item: Mapping[str, Any], kind: Any) -> bool:
    return kind in ("reasoning", "function_call") or (kind == "message" and item.get("role") == "assistant")


def _add(turn: _Turn, item: dict[str, Any], where: str) -> None:
    turn.items.append(item)
    fields = Fields({name: value for name, value in item.items() if name not in ("type", "id", "status")}, where)
    match item["type"]:
        case "function_call":
            call_id, name = fields.need("call_id"), fields.need("name")
            extra = {key: fields.any(key) for key in CALL_EXTRAS if item.get(key) is not None}
            turn.calls.append(read_call(call_id, name, fields.text("arguments") or "", extra))
        case "reasoning":
            _add_reasoning(turn, fields)
        case _:
            _add_message(turn, fields, where)
    turn.plain = turn.plain and not fields.rest()


def _add_reasoning(turn: _Turn, fields: Fields) -> None:
    summary, content = fields.items("summary") or [], fields.items("content") or []
    told = [said_text(part) for part in summary]
    turn.reasoning += told if any(told) else [said_text(part) for part in content]


def _add_message(turn: _Turn, fields: Fields, where: str) -> None:
    fields.any("role")
    content = fields.any("content")
    if isinstance(content, str):
        turn.texts.append(content)
        return
    if not isinstance(content, list):
        raise ConfigError(f"{where}.content must be a string or a list of parts, not {kind_of(content)}")
    for number, part in enumerate(content):
        match part:
            case {"type": "output_text" | "input_text" | "text", "text": str(text), **rest}:
                turn.texts.append(text)
                turn.plain = turn.plain and not any(rest.values())  # `annotations: []` says nothing
            case {"type": "refusal", "refusal": str(text)}:
                turn.refusals.append(text)
            case _:
                raise ConfigError(f"{where}.content[{number}] must be an output_text or a refusal: {part!r:.80}")


def _other(item: Mapping[str, Any], kind: Any, where: str) -> MessageLike:
    """What the model did not say. An item of a kind that we do not know stays what it is."""
    if kind == "function_call_output":
        fields = Fields(item, where)
        call_id, output = fields.need("call_id"), fields.any("output")
        return Message("tool", _content(output, f"{where}.output"), tool_call_id=call_id)
    if kind != "message":
        return dict(item)
    role = item.get("role")
    if role not in _OTHERS:
        check_message({"role": role}, where)  # it knows what was meant
        raise ConfigError(f"{where}.role is {role!r}: on this wire it is user, assistant, system or developer")
    return Message(role, _content(item.get("content"), f"{where}.content"))


def _content(content: Any, where: str) -> Any:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise ConfigError(f"{where} must be a string or a list of parts, not {kind_of(content)}")
    return tuple(_part(part, f"{where}[{at}]") for at, part in enumerate(content))


def _part(part: Any, where: str) -> Any:
    """A part as ours, or as the dict that it is if it is of another kind, or has members that ours have not."""
    fields = Fields(part, where)
    kind = fields.need("type")
    read: Any = None
    if kind in ("input_text", "output_text", "text"):
        text = fields.text("text")
        if text is None:
            raise ConfigError(f"{where}.text is missing: it must be a string")
        read = TextPart(text)
    elif kind == "input_image":
        url, file_id, detail = (fields.text(name) for name in ("image_url", "file_id", "detail"))
        read = image_part(url, file_id, None if detail == "auto" else detail, where)
    elif kind == "input_file":
        read = file_part(fields)
    return dict(part) if read is None or fields.rest() else read
