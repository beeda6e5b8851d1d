"""Rewrites streams of the Responses API.

The patcher writes text, tool calls and the end of the response from the decoder's deltas, at the positions of the
server's events. From the server's events, it copies the items and events of hosted tools, and all fields that no delta
contains. Only their `output_index` and `sequence_number` may change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamfold import Reply
from streamfold.adapters import (
    Delta,
    ExtraPart,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    int_or_none,
    parse_event,
    str_or_none,
)
from streamfold.serving import RESPONSES_PART_KINDS, RESPONSES_TEXT_EVENTS, ResponsesPartKind, ResponsesSerializer
from streamfold.types import PartRef

from .base import UNMODELLED, StreamPatcher, dict_or_empty, dicts_in

# The fields of items that are written from deltas.
_WRITTEN_ITEMS = {
    "message": frozenset({"id", "type", "status", "role", "content"}),
    "reasoning": frozenset({"id", "type", "summary", "content"}),
    "function_call": frozenset({"id", "type", "status", "call_id", "name", "arguments"}),
}
_WRITTEN = frozenset(
    {"type", "sequence_number", "item_id", "output_index", "content_index", "summary_index", "delta", "response"}
)
_PARTS = {  # by the event that begins a part, and the type of the part
    (f"{kind.part_events}.added", kind.empty["type"]): kind for kind in RESPONSES_PART_KINDS.values()
}
_OF_THE_START = ("id", "model", "created_at")
_OF_THE_END = frozenset({"id", "object", "model", "created_at", "status", "output", "usage", "error"})


class ResponsesStreamPatcher(ResponsesSerializer, StreamPatcher):
    """Rewrites a streamed response, including the items and fields of its events that no delta contains.

    Args:
        request: the body of the client's request.
        others: see `ResponsesSerializer`.
    """

    def __init__(self, *, request: Mapping[str, Any], **others: Any) -> None:
        super().__init__(id="", model=str(request.get("model") or ""), request=request, **others)
        self._text_places: dict[type[Delta], PartRef] = {}  # the places of the last texts, by kind
        self._rest: dict[str, Any] = {}  # other fields of the last text event
        self._items: dict[Any, dict[str, Any]] = {}  # the server's latest items, by id or server position
        self._places: dict[int, int | None] = {}  # the server positions of written items, by written position
        self._hosted: dict[int | str, tuple[int, dict[str, Any]]] = {}  # by the server's position and id
        self._written_ids: set[str] = set()
        self._added: dict[Any, str | None] = {}  # the ids of the items that have begun, by server position
        self._parts: dict[Any, int] = {}  # the numbers of parts that have begun, by server position
        self._calls: set[str] = set()  # the ids of the calls in the events so far
        self._unended: set[Any] = set()  # the server positions of the items that have not ended
        self._told: set[Any] = set()  # the server positions of the calls whose arguments have arrived
        self._followed_items = 0  # the number of output items in forwarded events
        self._has_failed = False  # the server has sent an error
        self._seen = False  # the server has sent a response object
        self._cut = False  # an item has ended incomplete (fixtures/responses/item_incomplete)

    def accepts(self, payload: Any, name: str) -> bool:
        if not isinstance(payload, dict):
            return False
        kind, output = str(payload.get("type")), payload.get("output_index")
        output = output if isinstance(output, int) else None
        if not self._seen:
            return kind == "response.created" or not kind.startswith("response.")
        item, listed = dict_or_empty(payload.get("item")), dict_or_empty(payload.get("response")).get("output")
        self._cut = self._cut or any(one.get("status") == "incomplete" for one in (item, *dicts_in(listed)))
        if kind == "response.completed" and self._cut:  # clients only check for this event type
            return False
        if item.get("call_id"):
            self._calls.update(_ids(item))
        # A client that ignores the final list of items needs every call from earlier events.
        if any(_ids(one).isdisjoint(self._calls) for one in dicts_in(listed) if one.get("call_id")):
            return False
        if payload.get("delta") or (kind == "response.output_item.added" and item.get("arguments")):
            self._told.add(output)
        if kind == "response.output_item.added":
            is_new = self._added.get(output) is None or not item  # an empty item
            if is_new:
                self._added[output] = self._added.get(output) or _key(item)
            self._unended.add(output)
            self._parts[output] = len(dicts_in(item.get("content")))
            return is_new and isinstance(output, int)
        if kind == "response.output_item.done":
            self._unended.discard(output)
            if output not in self._added:  # clients take the complete item from this event
                return isinstance(output, int)
            return self._added[output] in (None, _key(item)) and self._has_told(output, item.get("arguments"))
        if kind == "response.content_part.added":
            self._parts[output] = self._parts.get(output, 0) + 1
        if not self._has_told(output, payload.get("arguments")):
            return False
        text_event = RESPONSES_TEXT_EVENTS.get(kind)
        if text_event is None and not kind.startswith("response.function_call_arguments."):
            return True
        number = payload.get(text_event.number if text_event else "output_index")
        if not isinstance(number, int) or output not in self._added:
            return False
        if kind == "response.output_text.delta" and number >= self._parts.get(output, 0):
            return False  # OpenAI's client fails (perplexity/research)
        return self._added[output] in (None, payload.get("item_id"))

    def _has_told(self, output: Any, arguments: Any) -> bool:
        """Returns False if clients that read arguments only from deltas would miss these arguments, because the server
        sent no deltas (fixtures/responses/no_deltas). Returns True if another item is open, because such clients then
        fail even with deltas."""
        return arguments in (None, "", "{}") or output in self._told or bool(self._unended - {output})

    def advance_past(self, payload: Any) -> bytes | None:
        written = super().advance_past(payload)
        if written is None and isinstance(number := payload.get("sequence_number"), int):
            self.sequence_number = number + 1  # the patcher's own output was discarded
        return written

    def follows(self, payload: Any) -> bool:
        output = payload.get("output_index")
        kind, item, self._rest = str(payload.get("type")), dict_or_empty(payload.get("item")), {}
        if kind == "response.created":
            self.write_start()
        if not isinstance(output, int):  # the client has no item from it (perplexity/research)
            return len(self.output) == self._followed_items
        if kind == "response.output_item.added" and item.get("type") in ("message", "reasoning"):
            self.open_item(item["type"], PartRef(output, _key(item)))
        elif part := _PARTS.get((kind, _kind(dict_or_empty(payload.get("part"))))):
            self.open_part(
                part, PartRef(output, str_or_none(payload.get("item_id")), int_or_none(payload.get(part.number)) or 0)
            )
        waits = self.waiting or self.pending_space
        if waits or output != len(self.output) - 1 or (item and _key(item) != _key(self.output[-1])):
            return False
        if kind.endswith("part.done") and self.current_item is not None:
            self.close_part(self.current_item)
        elif kind == "response.output_item.done":
            self.close_item()
        self._followed_items = len(self.output)
        return True

    def extras_of(self, payload: Any) -> list[ExtraPart]:
        if not isinstance(payload, dict):
            return []
        self._has_failed = self._has_failed or payload.get("type") == "error"
        if response := _response_of(payload):
            self._see_response(response)
        placed = [(payload.get("output_index"), payload.get("item")), *enumerate(dicts_in(response.get("output")))]
        for place, item in placed:
            if (said := dict_or_empty(item)) and _kind(said) in _WRITTEN_ITEMS:
                self._items[_key(said) or int_or_none(place)] = said
        is_of_call = str(payload.get("type")).startswith("response.function_call_arguments.")
        return [] if is_of_call else [ExtraPart(UNMODELLED, payload)]

    def _place_event(self, payload: dict[str, Any]) -> None:
        kind, item = str(payload.get("type")), dict_or_empty(payload.get("item"))
        if response := _response_of(payload):
            for at, one in enumerate(dicts_in(response.get("output"))):
                if _kind(one) in _WRITTEN_ITEMS:
                    self._see_end_of_item(one, at)
                elif _key(one) in self._hosted:  # others are written at their places among the texts
                    self._see_hosted(one, None, done=True)
        elif item and _kind(item) in _WRITTEN_ITEMS:
            if kind.endswith("done"):
                self._see_end_of_item(item, payload.get("output_index"))
        elif item:
            self._see_hosted(item, payload.get("output_index"), done=kind.endswith("done"))
        elif found := self._hosted_item(payload):
            rest = {name: value for name, value in payload.items() if name not in ("type", "sequence_number")}
            self.write_event(kind, **{**rest, "output_index": found[0]})
        elif kind == "response.output_text.annotation.added":
            super().write_extra("annotations", payload.get("annotation"))
        elif kind in RESPONSES_TEXT_EVENTS:
            self._see_text(kind, payload)

    def _hosted_item(self, event: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
        output, item_id = int_or_none(event.get("output_index")), str_or_none(event.get("item_id"))
        return self._hosted.get(-1 if output is None else output) or self._hosted.get(item_id or "")

    def _see_text(self, kind: str, payload: dict[str, Any]) -> None:
        number = payload.get("summary_index", payload.get("content_index"))
        form = "text" if kind.startswith("response.reasoning_text.") else ""
        self._text_places[RESPONSES_TEXT_EVENTS[kind].kind] = PartRef(
            int_or_none(payload.get("output_index")),
            str_or_none(payload.get("item_id")),
            int_or_none(number) or 0,
            form,
        )
        if kind.endswith(".delta"):
            rest = {name: value for name, value in payload.items() if name not in _WRITTEN}
            self._rest = {name: value for name, value in rest.items() if value not in (None, [])}

    def _see_response(self, response: dict[str, Any]) -> None:
        if not self.begun:
            self.id = str_or_none(response.get("id")) or self.id
            self.model = str_or_none(response.get("model")) or self.model
            created = response.get("created_at")
            self.created = int(created) if isinstance(created, int | float) else self.created
        if not self._seen:  # fields that the server leaves out aren't invented
            begun: dict[str, Any] = {name: self.response[name] for name in _OF_THE_START if name in self.response}
            self._seen, self.response = True, {"object": "response", "status": "in_progress", "output": [], **begun}
        self.response |= {name: value for name, value in response.items() if name not in _OF_THE_END}

    def _see_end_of_item(self, item: dict[str, Any], output: Any) -> None:
        key, is_silent = _key(item), item["type"] in ("message", "reasoning") and not _text_of(item)
        if key is not None and is_silent and key not in self._written_ids:  # the next request may need the empty item
            self.open_item(item["type"], PartRef(int_or_none(output), key))

    def _see_hosted(self, item: dict[str, Any], output: Any, *, done: bool) -> None:
        key = _key(item) or str(output)
        if key not in self._hosted:
            self.close_item()
            begun = {**item}
            at = self.add_item(begun)
            self._hosted[key] = at, begun
            if isinstance(output, int):
                self._hosted[output] = at, begun
        at, written = self._hosted[key]
        if done:
            written.clear()
            written.update(item)
            if key not in self._written_ids:
                self._written_ids.add(key)
                self.finish_item(at, written)

    def _place_of(self, delta: TextDelta | ReasoningDelta | RefusalDelta) -> PartRef | None:
        is_named = delta.part is not None and (delta.part.output is not None or delta.part.item)
        return delta.part if is_named else self._text_places.get(type(delta))

    def write_text(self, delta: TextDelta) -> None:
        super().write_text(TextDelta(delta.text, self._place_of(delta)))

    def write_refusal(self, delta: RefusalDelta) -> None:
        super().write_refusal(RefusalDelta(delta.text, self._place_of(delta)))

    def write_reasoning(self, delta: ReasoningDelta) -> None:
        place = self._place_of(delta)
        if not delta.text:  # the provider hides the reasoning
            unwritten = (key for key, item in self._items.items() if item["type"] == "reasoning")
            place = PartRef(item=next((key for key in unwritten if key not in self._written_ids), None))
        super().write_reasoning(ReasoningDelta(delta.text, place))

    def write_piece(self, kind: ResponsesPartKind, text: str, place: PartRef | None) -> None:
        if place is not None and place.form == "text" and kind.item == "reasoning":
            kind = RESPONSES_PART_KINDS["reasoning_text"]
        super().write_piece(kind, text, place)

    def open_item(self, kind: str, place: PartRef | None) -> Any:
        current = super().open_item(kind, place)
        self._places[current.index] = place and place.output
        self._written_ids.add(current.item["id"])
        if kind == "reasoning" and place is not None and place.form == "text":
            current.item.setdefault("content", [])
        return current

    def add_item(self, item: dict[str, Any]) -> int:
        said = self._items.get(str(item.get("id", "")), {})
        if (
            said.get("type") == item.get("type") == "message"
        ):  # such as the phase, which decides how clients parse the text
            item.update({name: value for name, value in said.items() if name not in _WRITTEN_ITEMS[item["type"]]})
        return super().add_item(item)

    def finish_item(self, index: int, item: dict[str, Any]) -> None:
        self._add_members(index, item)
        super().finish_item(index, item)

    def _add_members(self, index: int, item: dict[str, Any]) -> None:
        """Copies all fields except the text from the server's item to the patcher's item."""
        said = self._items.get(str(item.get("id", ""))) or self._items.get(str(item.get("call_id", "")))
        said = said or self._nameless(index, item)
        if said is None or said["type"] != item.get("type"):
            return
        item.update({name: value for name, value in said.items() if name not in _WRITTEN_ITEMS[item["type"]]})
        for name in ("content", "summary"):
            if name in said and _said(said[name]) == _said(item.get(name)):
                item[name] = said[name]  # with log probabilities, citations and other fields of its parts

    def _nameless(self, index: int, item: dict[str, Any]) -> dict[str, Any] | None:
        """Finds the server's item that has the text and, if known, the position of the patcher's item."""
        alike = {
            place: said
            for place, said in self._items.items()
            if said["type"] == item.get("type") and _text_of(said) == _text_of(item)
        }
        return alike.get(self._places.get(index)) or next(iter(alike.values()), None)

    def fill_response(self, **members: Any) -> None:
        for at, item in enumerate(self.output):
            self._add_members(at, item)
        super().fill_response(**members)

    def usage_object(self) -> dict[str, Any] | None:
        raw = {} if self.usage is None else self.usage.raw
        return dict(raw) if "input_tokens" in raw else super().usage_object()

    def write_event(self, kind: str, **members: Any) -> None:
        if self._rest and kind.endswith(".delta"):
            members, self._rest = {**members, **self._rest}, {}
        super().write_event(kind, **members)

    def write_extra(self, name: str, value: Any) -> None:
        """Writes an event of the server, or an item that the server sent only in the final response. Ignores other
        `ExtraPart`s, which were written with the server's events."""
        if name == UNMODELLED:
            self._place_event(value)
        elif name == "output" and _kind(value) not in _WRITTEN_ITEMS:
            key = _key(value)
            is_written = key in self._written_ids if key else any(value == one for _, one in self._hosted.values())
            if not is_written:
                self._see_hosted(value, None, done=True)

    def passes_over(self, raw: bytes) -> bool:
        # OpenAI ends a failed answer with `error` and `response.failed`. Some clients only read the second event.
        if not self._has_failed:
            return False
        lines = raw.decode(errors="replace").splitlines()
        try:
            payload = parse_event("".join(line.removeprefix("data:") for line in lines if line.startswith("data:")))
        except ValueError:
            return False
        return dict_or_empty(payload).get("type") == "response.failed"

    def is_unfinished(self, body: Any) -> bool:
        return isinstance(body, dict) and body.get("status") in ("queued", "in_progress")

    def patch_body(self, body: dict[str, Any], reply: Reply) -> dict[str, Any]:
        output = dicts_in(body.get("output"))
        items = [item for item in output if _is_call(item) and item.get("name")]
        given = [(item.get("call_id"), item["name"], item.get("arguments")) for item in items]
        functions = [call for call in reply.tool_calls if call.kind == "function"]
        wanted = [(call.id, call.name, call.raw_arguments or "{}") for call in functions]
        if given == wanted or [("", *one[1:]) for one in wanted] == given[:1]:
            return body  # a single call needs no id
        messages = [item for item in output if item.get("type") == "message"]
        text = _said([part for item in messages for part in dicts_in(item.get("content")) if "refusal" not in part])
        for item in messages if text != reply.text else ():
            part = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
            item |= {"content": [part]} if item is messages[0] else {"content": []}
        calls = [
            {"type": "function_call", "id": f"fc_{number}", "status": "completed", "call_id": call_id}
            | {"name": name, "arguments": arguments}
            for number, (call_id, name, arguments) in enumerate(wanted)
        ]
        written: list[dict[str, Any]] = []
        for item in output:  # each call at its place; calls in the text of a message come last
            found = next((call for call in calls if call["call_id"] == item.get("call_id")), None)
            if not _is_call(item):
                written.append(item)
            elif found is not None:
                calls.remove(found)
                own = {name: value for name, value in item.items() if name not in ("name", "arguments", "call_id")}
                written.append({**found, **own})
        return {**body, "output": [*written, *calls]}


def _said(parts: Any) -> str:
    """Returns the joined text of an item's content parts."""
    texts = [part.get("text", part.get("refusal")) for part in dicts_in(parts)]
    return "".join(text for text in texts if isinstance(text, str))


def _text_of(item: Mapping[str, Any]) -> str:
    return _said(item.get("content")) + _said(item.get("summary"))


def _response_of(payload: dict[str, Any]) -> dict[str, Any]:
    """Returns the response object in an event, or the event itself if it is a response object."""
    return dict_or_empty(payload.get("response")) or (payload if payload.get("object") == "response" else {})


def _kind(item: Mapping[str, Any]) -> str:
    return str(item.get("type"))


def _key(item: Mapping[str, Any]) -> str | None:
    return str_or_none(item.get("id")) or str_or_none(item.get("call_id"))


def _ids(item: Mapping[str, Any]) -> set[str]:
    return {name for name in (str_or_none(item.get("call_id")), str_or_none(item.get("id"))) if name}


def _is_call(item: Mapping[str, Any]) -> bool:
    return item.get("type") == "function_call"
