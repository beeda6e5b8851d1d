"""Items of the Responses API as messages. What the model said between two turns of others is one message.

https://platform.openai.com/docs/api-reference/responses/create is the shape. A turn that a `Message` can't hold whole
(reasoning that only its provider can read, several messages, text after a call, items of other kinds) keeps its items
in `extras["output"]`, so that they go back as they came.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..text import read_arguments
from ..values import ConfigError, Message, TextPart, ToolCall, did_you_mean
from .content_parsing import ReadPart, read_content
from .object_reader import ObjectReader, kind_of

# Members of a call that its provider wants back; the last one is Perplexity's.
CALL_EXTRAS = ("namespace", "caller", "thought_signature")
# Members of calls of other APIs (Gemini's thought signatures), which clients of this API carry for their provider.
CARRIED_CALL_EXTRAS = ("extra_content",)
ITEM_EXTRAS = ("id", "status", "phase")  # members of messages and results
_ROLES = ("user", "system", "developer", "assistant")
_RESULTS = ("function_call_output", "custom_tool_call_output")
_SAYS_NOTHING: tuple[Any, ...] = (None, [], {}, "completed")


def is_item(message: Any) -> bool:
    """Returns whether a dict is an item: messages of Chat Completions have no `type`, and no `phase`."""
    return isinstance(message, Mapping) and ("type" in message or "phase" in message)


@dataclass(slots=True)
class _Turn:
    """Consecutive items of the model, and what they say."""

    items: list[dict[str, Any]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    plain: bool = True  # a `Message` can hold all of it

    def message(self) -> Message:
        kinds = [item["type"] for item in self.items]
        texts, several = self.texts, len(self.texts) > 1 and kinds.count("message") == 1
        content: Any = tuple(TextPart(text) for text in texts) if several else "".join(texts) if texts else None
        in_order = kinds == sorted(kinds, key=lambda kind: kind != "message") and kinds.count("message") < 2
        return Message(
            "assistant",
            content,
            tuple(self.calls),
            reasoning="".join(self.reasoning) if "reasoning" in kinds else None,
            refusal="".join(self.refusals) or None,
            extras={} if self.plain and in_order else {"output": self.items},
        )


def read_items(items: Iterable[tuple[str, Any]]) -> Iterator[Message]:
    """Yields the messages of a list of items, each given with its path.

    Raises:
        ConfigError: something is not an item; the error begins with its path.
    """
    turn = _Turn()
    for where, item in items:
        if not isinstance(item, Mapping):
            raise ConfigError(f"{where} must be an object, not {kind_of(item)}")
        made = {**item, "type": item.get("type") or "message"}
        if _is_the_models(made):
            _add(turn, made, where)
            continue
        if turn.items:
            yield turn.message()
            turn = _Turn()
        yield _other(made, where)
    if turn.items:
        yield turn.message()


def _is_the_models(item: Mapping[str, Any]) -> bool:
    kind = str(item["type"])
    if kind == "message":
        return item.get("role") == "assistant"
    return not kind.endswith(("_output", "_response"))


def _add(turn: _Turn, item: dict[str, Any], where: str) -> None:
    turn.items.append(item)
    fields = ObjectReader({name: value for name, value in item.items() if name != "type"}, where)
    match item["type"]:
        case "function_call":
            known = (*CALL_EXTRAS, *CARRIED_CALL_EXTRAS)
            extra = {key: fields.any(key) for key in known if item.get(key) is not None}
            call_id, name, raw = fields.need("call_id"), fields.need("name"), fields.text("arguments") or ""
            turn.calls.append(ToolCall(call_id, name, read_arguments([raw], repair=False).value, raw, extra or None))
        case "custom_tool_call":
            call_id, name, text = fields.need("call_id"), fields.need("name"), fields.text("input") or ""
            turn.calls.append(ToolCall(call_id, name, {"input": text}, text, kind="custom"))
        case "reasoning":
            turn.plain = False
            summary, content = fields.items("summary") or [], fields.items("content") or []
            said = [_text(part) for part in summary]
            turn.reasoning += said if any(said) else [_text(part) for part in content]
        case "message":
            _add_message(turn, fields, where)
        case _:
            turn.plain = False
    turn.plain = turn.plain and all(value in _SAYS_NOTHING for value in fields.rest().values())


def _add_message(turn: _Turn, fields: ObjectReader, where: str) -> None:
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


def _other(item: dict[str, Any], where: str) -> Message:
    """Returns the message of an item that is not the model's. One of an unknown kind is kept as it is."""
    kind = item.pop("type")
    fields = ObjectReader(item, where)
    if kind in _RESULTS:
        call_id, output = fields.need("call_id"), _content(fields, "output")
        return Message("tool", output, tool_call_id=call_id, extras=fields.rest())
    if kind != "message":
        return Message("user", extras={"output": [{"type": kind, **item}]})
    role: Any = fields.any("role")
    if role not in _ROLES:
        hint = did_you_mean(str(role), _ROLES)
        raise ConfigError(f"{where}.role: unknown role {role!r}{hint}. Allowed: {', '.join(_ROLES)}")
    content = _content(fields, "content")
    return Message(role, content, extras=fields.rest())


def _content(fields: ObjectReader, name: str) -> str | tuple[ReadPart, ...]:
    content = read_content(fields.any(name), fields.at(name))
    if content is None:
        raise ConfigError(f"{fields.at(name)} must be a string or a list of parts, not null")
    return content


def _text(part: Any) -> str:
    """Returns the text of a part of reasoning; `""` if it has none."""
    text = part.get("text") if isinstance(part, Mapping) else part
    return text if isinstance(text, str) else ""
