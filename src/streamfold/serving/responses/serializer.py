"""Serializes responses of the Responses API: the response object, its output items, usage and errors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Unpack

from ...deltas import Failure, ReasoningDelta, RefusalDelta, TextDelta
from ...jsontext import is_truncated_json, str_or_none
from ...types import KINDS, PLAIN_ITEMS, PartRef, Reply, ToolCall, Usage, item_part
from ..stream_serializer import DONE, SerializedCall, SerializerArguments, StreamSerializer, event
from .items import (
    PREFIXES,
    REFUSAL,
    SUMMARY,
    TEXT,
    CallItem,
    OpenItem,
    PartKind,
    annotations_of,
    call_item,
    error_event,
    flat_annotation,
    key_of,
    refusals_in,
    response_error,
    said_in,
    text_in,
    written_usage,
)
from .tools_as_functions import ClientTools

_DEFAULTS: dict[str, Any] = {
    "background": False,
    "completed_at": None,
    "conversation": None,
    "error": None,
    "frequency_penalty": 0.0,
    "incomplete_details": None,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "output": [],
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": None,
    "safety_identifier": None,
    "service_tier": "default",
    "store": False,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "usage": None,
    "user": None,
}
_OWN = ("background", "completed_at", "conversation", "error", "incomplete_details", "output", "store", "usage")
_TOOL = {"description": None, "parameters": None, "strict": None}
_FORMAT = {"description": None, "strict": False}


def compaction_object(
    reply: Reply,
    *,
    id: str,  # noqa: A002 - the word on the wire
    created: int,
    opening: Iterable[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Returns the response body for `POST /responses/compact`:
    https://platform.openai.com/docs/api-reference/responses/compact.

    Args:
        reply: the answer to a request with `Request.compact`. It contains the items that replace the conversation.
        id: the id of the `response.compaction` object.
        created: the time of the request, in seconds since 1970.
        opening: input items that the provider received as instructions. They are returned unchanged, before the items
            of the reply.
    """
    items = [*opening, *reply.extras.get("output", ())]
    head = {"id": id, "object": "response.compaction", "created_at": created}
    return {**head, "output": items, "usage": written_usage(reply.usage or Usage())}


def new_response_object(request: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the response object for a response that hasn't begun yet. The object's id and model aren't set yet."""
    said = {
        name: value for name, value in request.items() if name in _DEFAULTS and name not in _OWN and value is not None
    }
    response = {"object": "response", "status": "in_progress", **_DEFAULTS, **said}
    response["tools"] = [
        {**_TOOL, **tool} if isinstance(tool, Mapping) and tool.get("type") == "function" else tool
        for tool in response["tools"]
    ]
    if isinstance(response["reasoning"], Mapping):
        response["reasoning"] = {"effort": None, "summary": None, **response["reasoning"]}
    text = response["text"] if isinstance(response["text"], Mapping) else {}
    wanted = text.get("format") or {"type": "text"}
    if isinstance(wanted, Mapping) and wanted.get("type") == "json_schema":
        wanted = {**_FORMAT, **wanted}
    response["text"] = {**text, "format": wanted}
    return response


_BEGINNINGS = ("response.created", "response.in_progress")


@dataclass(frozen=True, slots=True)
class SerializedEvent:
    """An event that a serializer has written.

    Attributes:
        number: the `sequence_number` of the event.
        data: the bytes of the event and of the SSE comments before it.
        state: the bytes in `data` that are the JSON text of the response object. Empty if the event doesn't contain the
            object.
        last: True if the event ends the answer.
        chars: the number of characters that the event adds to a text or to arguments.
    """

    number: int
    data: bytes
    state: bytes | memoryview = b""
    last: bool = False
    chars: int = 0

    @property
    def payload(self) -> dict[str, Any]:
        """The parsed JSON object of the event."""
        read: dict[str, Any] = json.loads(self.data[self.data.rindex(b"\ndata: ") + 7 :])
        return read


# Writes answers of the Responses API: https://platform.openai.com/docs/api-reference/responses-streaming.
# An answer is a list of items. A new item closes the open one, in this order of events: the pieces of the text, the
# complete text, its part, its item. A tool call is an item, too. A call that arrives in pieces stays open until the end
# of the answer, because only the end shows that the call is complete. Content after the call waits until then.


class ResponsesSerializer(StreamSerializer):
    """Writes the events of one streamed response.

    White space at the start of a message is delayed until other text follows. If a response has tool calls but no other
    text, the white space is dropped. Otherwise, clients would show an empty message.

    Args:
        request: the body of the request. The response object repeats the options of the request.
        tools: the client's tools, by the names of the functions that replace them.
        about: additional fields of the response object. These fields take precedence over the request's fields.
        records: True to get the events from `take_events`, even if the client didn't request a stream. The other
            methods then return no bytes.
        others: see `StreamSerializer`.

    Attributes:
        response: the response object, which is complete after the end.
        omits_data: True to record events that don't contain the response object without their bytes, which saves
            memory.
    """

    call_kinds = KINDS
    keeps_order = True

    def __init__(
        self,
        *,
        request: Mapping[str, Any] | None = None,
        tools: ClientTools | None = None,
        about: Mapping[str, Any] | None = None,
        records: bool = False,
        **others: Unpack[SerializerArguments],
    ) -> None:
        super().__init__(**others)
        self.response = {**new_response_object(request or {}), **(about or {})}
        self._records = records
        self.omits_data = False
        self._events: list[SerializedEvent] = []
        self.sequence_number = 0
        self.output: list[dict[str, Any]] = []
        self.current_item: OpenItem | None = None
        self._call_items: dict[int, CallItem] = {}
        self._tools = tools or {}
        self._failed = False  # true: don't mark calls as done, because the AI SDK runs every call marked as done
        self._carried: dict[str, int | None] = {}  # the positions of the provider's items, by their keys
        self._cited: list[dict[str, Any]] = []  # citations for the open text
        self._refused = ""  # the refusals in the provider's messages
        self._held: dict[str, Any] | None = None  # an item that the client would run immediately; written at the end
        self.pending_space = ""
        self._place_of_space: PartRef | None = None
        self._has_text = False  # other than white space
        self._has_messages = False  # the provider has sent messages with their citations

    # --- the order of items -------------------------------------------------------------------------------------------

    # OpenAI's items never overlap, and some clients (langchain-openai 1.7) mix up the pieces of overlapping items.

    def end_open_call(self) -> None:
        self._end_calls("incomplete" if self.finish_reason is not None and self.finish_reason.cut else "completed")

    # --- texts --------------------------------------------------------------------------------------------------------

    def write_text(self, delta: TextDelta) -> None:
        if not delta.text.strip() and not (self.current_item and self.current_item.item["type"] == "message"):
            self.pending_space += delta.text
            self._place_of_space = delta.part
            return
        text, self.pending_space = self.pending_space + delta.text, ""
        self._has_text = self._has_text or not text.isspace()
        self.write_piece(TEXT, text, delta.part)

    def _write_blank(self) -> None:
        """Writes the delayed white space, unless the response has tool calls and would have no other text."""
        text, self.pending_space = self.pending_space, ""
        if text and (self._has_text or self._failed or not self.has_calls):
            self.write_piece(TEXT, text, self._place_of_space)

    def write_refusal(self, delta: RefusalDelta) -> None:
        refused, self._refused = self._refused, ""
        if text := delta.text.removeprefix(refused):  # the end of the answer repeats refusals
            self.write_piece(REFUSAL, text, delta.part)

    def write_reasoning(self, delta: ReasoningDelta) -> None:
        if delta.text:
            self.write_piece(SUMMARY, delta.text, delta.part)
        elif not self.output:  # an empty reasoning item after the answer is useless
            self.open_item("reasoning", delta.part)

    def write_piece(self, kind: PartKind, text: str, place: PartRef | None) -> None:
        current = self.open_part(kind, place)
        current.pieces.append(text)
        self.write_event(f"{kind.events}.delta", **current.position, delta=text, **kind.more)

    def open_part(self, kind: PartKind, place: PartRef | None) -> OpenItem:
        """Returns the output item for a piece of text. Opens a new item or a new part if necessary."""
        current = self.open_item(kind.item, place)
        number = place.number if place else None
        if current.kind is not kind or (number is not None and number != current.number):
            self.close_part(current)
            current.begin_part(kind, number)
            self.write_event(f"{kind.part_events}.added", **current.position, part={**kind.empty})
        return current

    def open_item(self, kind: str, place: PartRef | None) -> OpenItem:
        """Returns the output item for a piece of text. Opens a new item if necessary."""
        key = None if place is None else place.item if place.output is None else place.output
        current = self.current_item
        if current is None or current.item["type"] != kind or (key is not None and key != current.key):
            self.close_item()
            item_id = place.item if place else None
            if not item_id or any(item.get("id") == item_id for item in self.output):  # ids are unique
                item_id = self._made_id(PREFIXES[kind])
            begun = (
                {"status": "in_progress", "role": "assistant", "content": []} if kind == "message" else {"summary": []}
            )
            item = {"id": item_id, "type": kind, **begun}
            current = self.current_item = OpenItem(item, self.add_item(item), key)
        return current

    def close_part(self, current: OpenItem) -> None:
        kind = current.kind
        if kind is None:
            return
        cited, self._cited = self._cited, []
        for annotation in cited if kind is TEXT else ():
            self._annotate(current, annotation, len(current.item["content"]) - 1)
        at, part = current.position, current.end_part(self.said)
        self.write_event(f"{kind.events}.done", **at, **{kind.member: part[kind.member]}, **kind.more)
        self.write_event(f"{kind.part_events}.done", **at, part=part)

    def close_item(self, status: str = "completed") -> None:
        current, self.current_item = self.current_item, None
        if current is None:
            return
        if self._failed:  # not marked as done, because Codex keeps items that are marked
            current.leave(self.said)
            return
        self.close_part(current)
        if current.item["type"] == "message":
            current.item["status"] = status
        self.finish_item(current.index, current.item)

    def shows_broken(self, call: ToolCall) -> bool:
        tool = self._tools.get(call.name)
        if tool is not None and tool.kind == "custom":  # any text is a valid input
            return not is_truncated_json(call.raw_arguments)
        return super().shows_broken(call)

    # --- calls --------------------------------------------------------------------------------------------------------

    def write_call_piece(self, call: SerializedCall, piece: str, *, first: bool) -> None:
        if first:
            self.close_item()
            written = self._call_items[call.number] = call_item(call, self._tools)
            if not written.waits:
                self._add_call(written)
                self.open_call = call
        written = self._call_items[call.number]
        if piece and not written.waits:
            self._call_events(written, written.piece(piece))

    def close_call(self, call: SerializedCall) -> None:
        self._end_call(call, "completed")

    def _end_call(self, call: SerializedCall, status: str) -> None:
        written = self._call_items.pop(call.number)
        written.carry(call)
        if self.open_call is call:
            self.open_call = None
        if status == "completed":
            events = written.complete(call.arguments)
            if written.index is None:
                self._add_call(written)
            self._call_events(written, events)
        else:
            written.cut(call.arguments)
        written.item["status"] = status
        done = status == "completed" or (written.ends_when_cut and not self._failed)
        if written.index is not None and done:
            self.finish_item(written.index, written.item)

    def _add_call(self, written: CallItem) -> None:
        written.item["id"] = written.item["id"] or self._made_id(written.id_prefix)
        written.index = self.add_item(written.item)

    def _call_events(self, written: CallItem, events: list[tuple[str, dict[str, Any]]]) -> None:
        for kind, members in events:
            self.write_event(kind, item_id=written.item["id"], output_index=written.index, **members)

    # --- what else there is -------------------------------------------------------------------------------------------

    def write_extra(self, name: str, value: Any) -> None:
        if not isinstance(value, dict):
            return
        current = self.current_item
        if name == "annotations" and current and current.kind is TEXT and not self._has_messages:
            self._cited.append(flat_annotation(value))  # otherwise the provider's message contains the citation
        elif name == "output":
            self._item(value)
            self._complete(value)

    def _annotate(self, current: OpenItem, annotation: dict[str, Any], number: int) -> None:
        part = current.item["content"][number]
        at = {**current.position, "content_index": number, "annotation_index": len(part["annotations"])}
        part["annotations"] = [*part["annotations"], annotation]
        self.write_event("response.output_text.annotation.added", **at, annotation=annotation)

    def _complete(self, item: dict[str, Any]) -> None:
        """Closes the open item if the provider's completed item has the same content. A message also gets the fields of
        the provider's message."""
        if self._failed:
            return
        if item.get("type") == "message":
            self._complete_message(item)
            return
        current = self.current_item
        if current is not None and current.item["type"] == item.get("type") and current.text == said_in(item):
            self.close_item()

    def _complete_message(self, message: dict[str, Any]) -> None:
        """Completes the open message with the citations, phase and refusals of the provider's message. Does nothing if
        the client's text differs from the provider's, for example because a dialect removed tool call markup."""
        current = self.current_item
        written = current.item["content"] if current is not None and current.item["type"] == "message" else []
        places = [number for number, part in enumerate(written) if part["type"] == "output_text"]
        open_text = "".join(current.pieces) if current is not None and current.kind is TEXT else ""
        if "".join([written[number]["text"] for number in places]) + open_text != text_in(message):
            return
        refusals = refusals_in(message)
        if not written and (not refusals or key_of(message) in self._carried):  # nothing new
            return
        self._carried[key_of(message)] = None
        self._has_messages = True
        self._cited.clear()
        found = annotations_of(message, joined=len(places) == 1)
        if current is not None:
            for number, cited in zip(places, found, strict=False):
                for annotation in cited:
                    self._annotate(current, annotation, number)
        if not any(part["type"] == "refusal" for part in written):  # otherwise they have been written
            for number, text in enumerate(refusals):
                self._refused += text
                place = PartRef(item=None if written else str_or_none(message.get("id")), number=len(written) + number)
                self.write_piece(REFUSAL, text, place)
        if message.get("phase") and self.current_item is not None:
            self.current_item.item["phase"] = message["phase"]
        self.close_item("incomplete" if message.get("status") == "incomplete" else "completed")

    def _item(self, item: dict[str, Any]) -> None:
        """Writes an output item that exists only in the Responses API. The provider may send the item again at the end
        of the response."""
        key, kind = key_of(item), item.get("type")
        if key in self._carried:
            if (at := self._carried[key]) is not None:
                self.output[at] = item  # the last copy is complete: OpenAI's list of tools is empty before the end
        elif kind == "reasoning":
            if item.get("encrypted_content"):
                self._carried[key] = None
                self._encrypted(item)
        elif kind not in PLAIN_ITEMS:
            self._carried[key] = None
            self.close_item()
            part = item_part(item)
            if part is None or part.runs != "client":
                self._write_item(item)
            elif self.tool_choice != "none":
                self._held, self.open_call = item, SerializedCall(-1)  # all other content waits for this item

    def _write_item(self, item: dict[str, Any]) -> None:
        text = None
        if item.get("type") == "custom_tool_call":
            item, text = {"id": self._made_id("ctc"), **item}, item.get("input")
        index = self.add_item(item if text is None else {**item, "input": "", "status": "in_progress"})
        self.output[index], self._carried[key_of(item)] = item, index
        if isinstance(text, str):
            at = {"item_id": item.get("id"), "output_index": index}
            self.write_event("response.custom_tool_call_input.delta", **at, delta=text)
            self.write_event("response.custom_tool_call_input.done", **at, input=text)
        self.finish_item(index, item)

    def _encrypted(self, item: Mapping[str, Any]) -> None:
        """Adds an item's encrypted reasoning to the response, unless the next message has already begun."""
        current = self.current_item
        if current is not None and current.item["type"] == "message":
            return
        if current is None or "encrypted_content" in current.item:
            current = self.open_item("reasoning", PartRef(item=item.get("id")))
        current.item["encrypted_content"] = item["encrypted_content"]

    def write_end(self) -> None:
        self._write_blank()
        finish = self.finish_reason
        cut = finish is not None and finish.cut
        self._close_all("incomplete" if cut else "completed")
        self._write_warnings()
        if finish is not None and cut:
            reason = "content_filter" if finish.reason == "content_filter" else "max_output_tokens"
            self._last("incomplete", incomplete_details={"reason": reason})
        elif finish is not None or self.fill_finish_reason:
            self._last("completed")
        else:  # the provider sent no finish reason, so there is no event for the end
            self.fill_response()
            self._out.append(DONE)

    def cancel(self) -> bytes:
        """Ends the response with the status `cancelled`. Returns the last events, or no events if the response had
        already ended."""
        if self.ended:
            return b""
        self.ended = True
        self.write_waiting()
        self._write_warnings()
        self._last("cancelled")
        return self.drain()

    def write_waiting(self) -> None:
        self._failed = True
        self._write_blank()
        self._close_all("incomplete")
        super().write_waiting()
        self._write_blank()
        self.close_item("incomplete")

    def write_failure(self, failure: Failure) -> None:
        error = response_error(failure.info)
        self._write_warnings()
        self.write_event("error", **error_event(error))
        self._last("failed", error=error)

    def _close_all(self, status: str) -> None:
        self.close_item(status)
        self._end_calls(status)

    def _end_calls(self, status: str) -> None:
        for call in self.calls.values():
            if call.number in self._call_items:
                self._end_call(call, status)
        held, self._held = self._held, None
        if held is not None:
            self.open_call = None
            if status == "completed":
                self._write_item(held)

    # --- events -------------------------------------------------------------------------------------------------------

    def write_start(self) -> None:
        self.begun = True
        self.response |= {"id": self.id, "created_at": self.created, "model": self.model}
        for name in ("created", "in_progress"):
            self.write_event(f"response.{name}", response={**self.response})

    def write_event(self, kind: str, **members: Any) -> None:
        """Writes an event with the next sequence number."""
        if not self.begun:
            self.write_start()
        if self._records:
            self._record(kind, members)
        else:
            self.send({"type": kind, "sequence_number": self.sequence_number, **members}, kind)
        self.sequence_number += 1

    def _record(self, kind: str, members: dict[str, Any]) -> None:
        """Records an event, with the SSE comments since the last event, for `take_events`."""
        number, has_response = self.sequence_number, "response" in members
        comments = self.drain()
        data, state = b"", memoryview(b"")
        if has_response or not self.omits_data:
            data = comments + event({"type": kind, "sequence_number": number, **members}, kind)
        if has_response:  # the JSON text of the response object follows these characters
            head = f'event: {kind}\ndata: {{"type":"{kind}","sequence_number":{number},"response":'
            state = memoryview(data)[len(comments) + len(head) : -len("}\n\n")]
        is_last = has_response and kind not in _BEGINNINGS
        self._events.append(SerializedEvent(number, data, state, is_last, len(members.get("delta", ""))))

    def take_events(self) -> list[SerializedEvent]:
        """Returns the events that were recorded since the last call. Events are recorded only with the option
        `records`."""
        events, self._events = self._events, []
        return events

    def collect(self, payload: dict[str, Any]) -> None:
        """Does nothing, because `response` already contains the data of all events."""

    def add_item(self, item: dict[str, Any]) -> int:
        self.output.append(item)
        index = len(self.output) - 1
        self.write_event("response.output_item.added", output_index=index, item=item)
        return index

    def finish_item(self, index: int, item: dict[str, Any]) -> None:
        self.write_event("response.output_item.done", output_index=index, item=item)

    def _last(self, status: str, **members: Any) -> None:
        self.fill_response(status=status, **members)
        self.write_event(f"response.{status}", response=self.response)

    def fill_response(self, **members: Any) -> None:
        """Completes the response."""
        self.ensure_started()
        self.response |= {"output": self.output, "usage": self.usage_object(), **members}

    def body(self) -> dict[str, Any]:
        return self.response

    def usage_object(self) -> dict[str, Any] | None:
        return None if self.usage is None else written_usage(self.usage)

    def _made_id(self, prefix: str) -> str:
        return f"{prefix}_{self.stem}_{len(self.output)}"
