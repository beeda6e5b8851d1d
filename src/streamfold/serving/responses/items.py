"""Builds output items of the Responses API: messages, reasoning, tool calls and other items."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from ...adapters.responses import as_object
from ...errors import ErrorInfo
from ...jsontext import int_or_none
from ...requests import CALL_EXTRAS, CARRIED_CALL_EXTRAS
from ...types import IncrementalJSON, Usage
from ..stream_serializer import SerializedCall
from .tools_as_functions import BUILT_IN, ClientTool, ClientTools, custom_input


class PartKind(NamedTuple):
    """Describes a kind of part in an output item: its events, its position in the item, and its value without text.

    Attributes:
        events: the prefix of the events that add text to the part, such as `response.output_text`.
        part_events: the prefix of the events that start and end the part.
        member: the field that contains the text, in the part and in the event that ends the text.
        container: the item's field that lists such parts.
        number: the event field that contains the index in this list.
        more: additional fields of the events for the text, such as an empty list of log probabilities.
    """

    item: str
    events: str
    part_events: str
    member: str
    container: str
    number: str
    empty: dict[str, Any]
    more: Mapping[str, Any] = {}


TEXT = PartKind(
    "message", "response.output_text", "response.content_part", "text", "content", "content_index",
    {"type": "output_text", "text": "", "annotations": [], "logprobs": []}, {"logprobs": []},
)  # fmt: skip
REFUSAL = PartKind(
    "message", "response.refusal", "response.content_part", "refusal", "content", "content_index",
    {"type": "refusal", "refusal": ""},
)  # fmt: skip
# All visible reasoning is sent as a summary, the only form that both OpenAI's clients and those of
# https://www.openresponses.org know.
SUMMARY = PartKind(
    "reasoning", "response.reasoning_summary_text", "response.reasoning_summary_part", "text", "summary",
    "summary_index", {"type": "summary_text", "text": ""},
)  # fmt: skip
# The text of the reasoning, which open models show: https://platform.openai.com/docs/api-reference/responses-streaming.
REASONING_TEXT = PartKind(
    "reasoning", "response.reasoning_text", "response.content_part", "text", "content", "content_index",
    {"type": "reasoning_text", "text": ""},
)  # fmt: skip

PART_KINDS = {str(kind.empty["type"]): kind for kind in (TEXT, REFUSAL, SUMMARY, REASONING_TEXT)}


def written_usage(usage: Usage) -> dict[str, Any]:
    """Returns the usage object of the Responses API. If the provider has the same API, other fields of its usage object
    are copied. The API requires all token counts, so an unknown count is 0. A usage object of the Messages API isn't
    copied, because its `input_tokens` has a different meaning.
    """
    raw = dict(usage.raw) if "input_tokens" in usage.raw and "total_tokens" in usage.raw else {}
    counts = {
        "input_tokens": usage.input_tokens or 0,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens or 0,
            "cache_write_tokens": usage.cache_write_tokens or 0,
        },
        "output_tokens": usage.output_tokens or 0,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": usage.total_tokens or 0,
    }
    for name, value in counts.items():
        inner = raw.get(name)
        if isinstance(inner, dict) and isinstance(value, dict):
            value = {**value, **{member: number for member, number in inner.items() if number is not None}}
        raw[name] = value
    return raw


def response_error(info: ErrorInfo) -> dict[str, Any]:
    """Returns the error object of a response. Its code is the provider's error code. If there is none, the code is the
    provider's error type, or else names the kind of failure.
    """
    fitting = "rate_limit_exceeded" if info.status == 429 else "server_error" if info.retryable else "upstream_error"
    code = info.code or info.type or fitting
    error: dict[str, Any] = {"code": code, "message": info.message}
    error.update({name: value for name, value in (("type", info.type), ("param", info.param)) if value})
    return error if info.status is None else {**error, "status": info.status}


def error_event(error: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of the event `error`, which is sent before the event `response.failed`, as OpenAI does.

    OpenAI's clients for Python and JavaScript raise an exception only for an event with the field `error`. These
    clients return `response.failed` as a normal event. OpenAI's documentation describes the other fields:
    https://platform.openai.com/docs/api-reference/responses-streaming/error
    """
    nested = {"type": error.get("type") or error["code"], "param": None, **error}
    return {name: nested[name] for name in ("code", "message", "param")} | {"error": nested}


def flat_annotation(annotation: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a citation from the format of Chat Completions, which nests the fields under the citation's type. In the
    Responses API, the fields are next to the type."""
    inner = annotation.get(str(annotation.get("type")))
    if isinstance(inner, Mapping):
        return {"type": annotation["type"], **inner}
    return dict(annotation)


PREFIXES = {"message": "msg", "reasoning": "rs"}  # the prefixes of ids
_POSITIONS = ("start_index", "end_index", "index")


@dataclass(slots=True, eq=False)
class OpenItem:
    """A message or reasoning item that isn't complete yet.

    Attributes:
        key: the provider's index or id for the item, or None if the provider sends neither.
        kind: the kind of the open part.
        number: the provider's number for the open part.
        pieces: the pieces of the open part's text so far.
        position: the event fields that identify the item and its last part.
    """

    item: dict[str, Any]
    index: int
    key: int | str | None
    kind: PartKind | None = None
    number: int | None = None
    pieces: list[str] = field(default_factory=list)
    position: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return "".join([*map(_text, _parts(self.item)[:-1]), *self.pieces])

    def begin_part(self, kind: PartKind, number: int | None) -> None:
        self.kind, self.number = kind, number
        parts = self.item.setdefault(kind.container, [])
        self.position = {"item_id": self.item["id"], "output_index": self.index, kind.number: len(parts)}
        parts.append({**kind.empty})

    def end_part(self, said: Collection[str]) -> dict[str, Any]:
        """Closes the open part, and returns it with its complete text.

        Args:
            said: see `StreamSerializer.said`.
        """
        kind, text = self.kind or TEXT, "".join(self.pieces)
        self.kind, self.pieces = None, []
        part: dict[str, Any] = self.item[kind.container][-1]
        part[kind.member] = next((known for known in said if known == text), text)
        return part

    def leave(self, said: Collection[str]) -> None:
        """Closes the item with the content that has arrived, if the provider didn't mark the item's end."""
        if self.kind is not None:
            self.end_part(said)
        if self.item["type"] == "message":
            self.item["status"] = "incomplete"


def key_of(item: Mapping[str, Any]) -> str:
    """Returns a key that is the same for two copies of an item."""
    return str(item.get("id") or item.get("call_id") or item)


def said_in(item: Mapping[str, Any]) -> str:
    return "".join(map(_text, _parts(item)))


def text_in(message: Mapping[str, Any]) -> str:
    return "".join([_text(part) for part in _parts(message) if "refusal" not in part])


def refusals_in(message: Mapping[str, Any]) -> list[str]:
    return [_text(part) for part in _parts(message) if "refusal" in part and _text(part)]


def annotations_of(message: Mapping[str, Any], *, joined: bool) -> list[list[dict[str, Any]]]:
    """Returns the citations of each text part of a message.

    Args:
        joined: True if the client gets the text of all parts as a single part. Positions then count from the start of
            the first part.
    """
    offset, by_part = 0, list[list[dict[str, Any]]]()
    for part in _parts(message):
        if "refusal" in part:
            continue
        found = part.get("annotations")
        given = [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
        by_part.append([_moved(flat_annotation(one), offset) for one in given])
        offset += len(_text(part)) if joined else 0
    return [[one for found in by_part for one in found]] if joined or not by_part else by_part


def _moved(annotation: dict[str, Any], offset: int) -> dict[str, Any]:
    places = {name: at + offset for name in _POSITIONS if (at := int_or_none(annotation.get(name))) is not None}
    return {**annotation, **places}


def _parts(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = item.get("summary") or item.get("content")
    return [as_object(part) for part in content] if isinstance(content, list) else [{"text": content}]


def _text(part: Mapping[str, Any]) -> str:
    said = part.get("text", part.get("refusal"))
    return said if isinstance(said, str) else ""


_EXTRAS = (*CALL_EXTRAS, *CARRIED_CALL_EXTRAS)

_Events: TypeAlias = list[tuple[str, dict[str, Any]]]  # the type of each event, and its fields other than the position


class CallItem:
    """The output item of a function call.

    Attributes:
        item: the item as a JSON object.
        index: the item's index in the output, or None before the item is written.
        waits: True if the client gets the item only when the tool call is complete.
        ends_when_cut: True if the client gets a truncated tool call as an item with the status `incomplete`.
    """

    id_prefix = "fc"
    waits = False
    ends_when_cut = True

    def __init__(self, call: SerializedCall, tool: ClientTool) -> None:
        self.index: int | None = None
        self.item: dict[str, Any] = {
            "id": call.item,
            "type": "function_call",
            "status": "in_progress",
            "call_id": call.id,
            "name": tool.name,
            "arguments": "",
            **({} if tool.namespace is None else {"namespace": tool.namespace}),
        }
        self.carry(call)

    def carry(self, call: SerializedCall) -> None:
        """Adds the fields that a provider has added to a tool call. Some providers send these fields after the
        arguments."""
        self.item |= {name: value for name, value in (call.extra or {}).items() if name in _EXTRAS}

    def piece(self, text: str) -> _Events:
        """Returns the events for a piece of the arguments."""
        return [("response.function_call_arguments.delta", {"delta": text})]

    def complete(self, arguments: str) -> _Events:
        self.item["arguments"] = arguments
        return [("response.function_call_arguments.done", {"name": self.item["name"], "arguments": arguments})]

    def cut(self, arguments: str) -> None:
        """Sets the arguments of an incomplete tool call to the text that has arrived."""
        self.item["arguments"] = arguments


class _CustomItem(CallItem):
    """The output item of a custom tool call, which has plain text instead of JSON arguments. A client could run a
    truncated text, and Codex runs each tool call for which the event `response.output_item.done` arrives. For a
    truncated tool call, this event and the text are therefore not sent.
    """

    id_prefix = "ctc"
    ends_when_cut = False

    def __init__(self, call: SerializedCall, tool: ClientTool) -> None:
        super().__init__(call, tool)
        del self.item["arguments"]
        self.item |= {"type": "custom_tool_call", "input": ""}
        self._reader = IncrementalJSON([("input",)])
        self._written: list[str] = []

    def piece(self, text: str) -> _Events:
        grown = "".join(update.delta for _, update in self._reader.feed(text))
        self._written.append(grown)
        return [("response.custom_tool_call_input.delta", {"delta": grown})] if grown else []

    def complete(self, arguments: str) -> _Events:
        self.item["input"] = text = custom_input(arguments)
        written = "".join(self._written)
        # Arguments that aren't JSON are the input, regardless of the pieces that were written before.
        rest = text.removeprefix(written) if text.startswith(written) else ""
        events: _Events = [("response.custom_tool_call_input.delta", {"delta": rest})] if rest else []
        return [*events, ("response.custom_tool_call_input.done", {"input": text})]

    def cut(self, arguments: str) -> None:
        pass


class _BuiltInItem(CallItem):
    """The output item of a built-in tool call, which has an object instead of JSON text as arguments.

    If the arguments aren't a JSON object, the client gets a function call instead. The client refuses this call and
    reports the refusal to the model.
    """

    waits = True

    def __init__(self, call: SerializedCall, tool: ClientTool) -> None:
        super().__init__(call, tool)
        self._kind = BUILT_IN[tool.kind]

    def complete(self, arguments: str) -> _Events:
        said = self._kind.called_with(arguments)
        if said is None:
            return [*super().piece(arguments), *super().complete(arguments)]
        self.id_prefix = self._kind.id_prefix
        kept = {name: self.item[name] for name in ("id", "status", "call_id")}
        self.item = {**kept, "type": self._kind.call, **self._kind.more, self._kind.member: said}
        return []


def call_item(call: SerializedCall, tools: ClientTools) -> CallItem:
    tool = tools.get(call.name) or ClientTool(call.name)
    kinds = {"function": CallItem, "custom": _CustomItem}
    return kinds.get(tool.kind, _BuiltInItem)(call, tool)


_PARTS_ADDED = {f"{kind.part_events}.added": kind.container for kind in PART_KINDS.values()}
_TEXT_DELTAS = {f"{kind.events}.delta": kind for kind in PART_KINDS.values()}
_CALL_DELTAS = {
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
}


def partial_output(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns the output items of an interrupted stream, with the content that arrived. Unfinished items have the
    status `incomplete`, so that an unfinished tool call never looks complete.

    Args:
        events: the parsed events of the stream, from the first event on, as `ResponsesSerializer` writes them.
    """
    items: dict[int, dict[str, Any]] = {}
    done: set[int] = set()
    texts: dict[tuple[Any, ...], list[str]] = {}  # by the index of the item, and the path in the item
    for payload in events:
        name, at = payload["type"], int(payload.get("output_index", -1))
        if name in ("response.output_item.added", "response.output_item.done"):
            items[at] = deepcopy(payload["item"])
            done |= {at} if name.endswith("done") else set()
        elif name in _PARTS_ADDED:
            items[at].setdefault(_PARTS_ADDED[name], []).append(deepcopy(payload["part"]))
        elif name in _TEXT_DELTAS:
            kind = _TEXT_DELTAS[name]
            texts.setdefault((at, kind.container, payload[kind.number], kind.member), []).append(payload["delta"])
        elif name in _CALL_DELTAS:
            texts.setdefault((at, _CALL_DELTAS[name]), []).append(payload["delta"])
    for (at, *path, member), pieces in texts.items():
        if at not in done:
            part: Any = items[at]
            for step in path:
                part = part[step]
            part[member] = "".join(pieces)
    for at, item in items.items():
        if at not in done and "status" in item:
            item["status"] = "incomplete"
    return [items[at] for at in sorted(items)]
