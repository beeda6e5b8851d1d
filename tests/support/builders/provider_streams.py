"""Writes random answers as the five APIs stream them, and knows what each byte has completed.

Written from the public documentation of the APIs, not from this library. An answer is a list of `Item`s. Each API
format turns it into `Event`s, which are made of atoms: some bytes, and what a reader knows once the last of them has
arrived.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, NamedTuple

APIS = ("chat", "responses", "kimi", "anthropic", "gemini")
ALPHABET = (
    "a",
    "b",
    " ",
    "\n",
    '"',
    "\\",
    "é",
    "ß",
    "漢",
    "字",
    "😀",
    "👩‍👩‍👧",
    "<",
    "<tool",
    "{",
    "}",
    "data: ",
    "\u2028",
    "\x7f",
)


class Cited(NamedTuple):
    """A source of a text, and the characters of it that stand for the source."""

    url: str
    title: str
    start: int
    end: int


@dataclass(frozen=True)
class Item:
    """A part of an answer: reasoning, text, a refusal, or a call with its arguments as JSON text."""

    kind: str
    text: str
    name: str = ""
    id: str = ""
    citations: tuple[Cited, ...] = ()
    phase: str = ""
    continues: bool = False  # a further part of the message before it, where the API has messages of several parts


class Gain(NamedTuple):
    """What a reader has once an atom has arrived: a piece of a channel ("text", "reasoning", "refusal", "finish")."""

    channel: str
    text: str = ""


class Atom(NamedTuple):
    """Bytes that say nothing before the last of them has arrived."""

    data: bytes
    gain: Gain | None = None


@dataclass(frozen=True)
class Piece:
    """A piece of text inside a JSON value; `lead` and `tail` are halves of surrogate pairs around it."""

    channel: str
    text: str
    ascii: bool
    lead: str = ""  # a character whose first half was in the piece before
    tail: str = ""  # a character whose second half is in the next piece

    def atoms(self) -> Iterator[Atom]:
        yield Atom(b'"')
        if self.lead:
            yield Atom(_halves(self.lead)[1], Gain(self.channel, self.lead))
        for char in self.text:
            yield Atom(json.dumps(char, ensure_ascii=self.ascii)[1:-1].encode(), Gain(self.channel, char))
        if self.tail:
            yield Atom(_halves(self.tail)[0])
        yield Atom(b'"')


def _halves(char: str) -> tuple[bytes, bytes]:
    escaped = json.dumps(char)[1:-1].encode()
    return escaped[:6], escaped[6:]


@dataclass
class Event:
    """One server-sent event. `gains` are what it says as a whole, beside what its atoms say."""

    atoms: list[Atom] = field(default_factory=list)
    late: bool = False  # whether a member behind the text decides what the text is

    @property
    def data(self) -> bytes:
        return b"".join(atom.data for atom in self.atoms)


class Stream:
    """Writes events with one choice of line ends, white space and comments."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.newline = random.choice(["\n", "\n", "\r\n"])
        self.space = random.choice(["", " "])
        self.compact = random.random() < 0.5
        self.ascii = random.random() < 0.5
        self.halves = (
            random.random() < 0.3
        )  # whether surrogate pairs are cut in two, as by servers that count in UTF-16
        self.events: list[Event] = []

    def event(self, value: Any, name: str = "", finish: bool = False, late: bool = False) -> None:
        event = Event(late=late)
        head = f"event:{self.space}{name}{self.newline}" if name else ""
        event.atoms.append(Atom(f"{head}data:{self.space}".encode()))
        if value == "[DONE]":
            event.atoms.append(Atom(b"[DONE]"))
        else:
            event.atoms += self.json(value)
            if finish:
                event.atoms[-1] = event.atoms[-1]._replace(gain=Gain("finish"))
        event.atoms.append(Atom(self.newline.encode() * 2))
        self.events.append(event)
        if self.random.random() < 0.05:
            self.events.append(Event([Atom(f": still here{self.newline}{self.newline}".encode())]))

    def json(self, value: Any) -> Iterator[Atom]:
        comma, colon = (b",", b":") if self.compact else (b", ", b": ")
        if isinstance(value, Piece):
            yield from value.atoms()
        elif isinstance(value, dict):
            yield Atom(b"{")
            for at, (key, member) in enumerate(value.items()):
                yield Atom((comma if at else b"") + json.dumps(key).encode() + colon)
                yield from self.json(member)
            yield Atom(b"}")
        elif isinstance(value, list):
            yield Atom(b"[")
            for at, member in enumerate(value):
                if at:
                    yield Atom(comma)
                yield from self.json(member)
            yield Atom(b"]")
        else:
            yield Atom(json.dumps(value, ensure_ascii=self.ascii).encode())

    def pieces(self, channel: str, text: str) -> Iterator[Piece]:
        """Cuts a text into pieces, also inside surrogate pairs."""
        lead, left = "", text
        while left or lead:
            length = self.random.randint(0 if lead else 1, 4)
            piece, left = left[:length], left[length:]
            tail = ""
            if self.halves and left and ord(left[0]) > 0xFFFF and self.random.random() < 0.5:
                tail, left = left[0], left[1:]
            yield Piece(channel, piece, self.ascii, lead, tail)
            lead = tail


def text(random: Random, most: int = 8, alphabet: tuple[str, ...] = ALPHABET) -> str:
    return "".join(random.choice(alphabet) for _ in range(random.randint(1, most)))


def arguments(random: Random) -> str:
    """Returns the arguments of a call as a model might write them."""
    value = {
        random.choice("abc"): random.choice([1, True, None, [1, {"x": "}"}], text(random)])
        for _ in range(random.randint(0, 3))
    }
    return json.dumps(value, ensure_ascii=random.random() < 0.5)


@dataclass(frozen=True)
class Counts:
    """Tokens of an answer: cached ones are part of the input, reasoning is part of the output."""

    input: int
    cached: int
    output: int
    reasoning: int


@dataclass(frozen=True)
class Answer:
    """What a provider answers. `finish` is "stop", "length" or "filter"."""

    items: list[Item]
    finish: str = "stop"
    counts: Counts | None = None

    @property
    def calls(self) -> list[Item]:
        return [item for item in self.items if item.kind == "call"]

    def word(self, api: str) -> str:
        """The API's word for the end of this answer."""
        if self.finish == "stop" and self.calls:
            return {"chat": "tool_calls", "anthropic": "tool_use", "gemini": "STOP"}[api]
        return {
            "chat": {"stop": "stop", "length": "length", "filter": "content_filter"},
            "anthropic": {"stop": "end_turn", "length": "max_tokens", "filter": "refusal"},
            "gemini": {"stop": "STOP", "length": "MAX_TOKENS", "filter": "SAFETY"},
        }[api][self.finish]


class Writer:
    """Writes one answer in one API, as a stream of events and in one piece."""

    def __init__(self, random: Random, answer: Answer) -> None:
        self.stream = Stream(random)
        self.answer = answer

    def events(self) -> list[Event]:
        raise NotImplementedError

    def whole(self) -> dict[str, Any]:
        raise NotImplementedError


class ChatWriter(Writer):
    """Chat Completions: https://platform.openai.com/docs/api-reference/chat"""

    fields: ClassVar = {"text": "content", "reasoning": "reasoning_content", "refusal": "refusal"}

    def chunk(self, delta: dict[str, Any], reason: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        self.stream.event(self.head("chat.completion.chunk") | {"choices": [choice]}, finish=bool(reason))

    def head(self, kind: str) -> dict[str, Any]:
        return {"id": "c1", "object": kind, "created": 1, "model": "m"}

    def usage(self) -> dict[str, Any] | None:
        if (counts := self.answer.counts) is None:
            return None
        return {
            "prompt_tokens": counts.input,
            "completion_tokens": counts.output,
            "total_tokens": counts.input + counts.output,
            "prompt_tokens_details": {"cached_tokens": counts.cached},
            "completion_tokens_details": {"reasoning_tokens": counts.reasoning},
        }

    def annotations(self) -> list[dict[str, Any]]:
        found, before = [], 0
        for item in self.answer.items:
            if item.kind == "text":
                for cited in item.citations:
                    place = {"start_index": before + cited.start, "end_index": before + cited.end}
                    found.append(
                        {"type": "url_citation", "url_citation": {"url": cited.url, "title": cited.title} | place}
                    )
                before += len(item.text)
        return found

    def events(self) -> list[Event]:
        self.chunk({"role": "assistant", "content": ""})
        calls = 0
        for item in self.answer.items:
            if item.kind == "call":
                head = {
                    "index": calls,
                    "id": item.id,
                    "type": "function",
                    "function": {"name": item.name, "arguments": ""},
                }
                self.chunk({"tool_calls": [head]})
                for piece in self.stream.pieces("arguments", item.text):
                    self.chunk({"tool_calls": [{"index": calls, "function": {"arguments": piece}}]})
                calls += 1
            else:
                for piece in self.stream.pieces(item.kind, item.text):
                    self.chunk({self.fields[item.kind]: piece})
        if annotations := self.annotations():
            self.chunk({"annotations": annotations})
        self.chunk({}, self.answer.word("chat"))
        if usage := self.usage():
            self.stream.event(self.head("chat.completion.chunk") | {"choices": [], "usage": usage})
        self.stream.event("[DONE]")
        return self.stream.events

    def whole(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
        for kind, member in self.fields.items():
            if texts := [item.text for item in self.answer.items if item.kind == kind]:
                message[member] = "".join(texts)
        if self.answer.calls:
            message["tool_calls"] = [
                {"id": item.id, "type": "function", "function": {"name": item.name, "arguments": item.text}}
                for item in self.answer.calls
            ]
        if annotations := self.annotations():
            message["annotations"] = annotations
        choice = {"index": 0, "message": message, "finish_reason": self.answer.word("chat"), "logprobs": None}
        usage = self.usage()
        return self.head("chat.completion") | {"choices": [choice]} | ({"usage": usage} if usage else {})


class AnthropicWriter(Writer):
    """The Messages API: https://docs.anthropic.com/en/api/messages-streaming"""

    def usage(self) -> dict[str, Any]:
        counts = self.answer.counts or Counts(1, 0, 1, 0)
        return {
            "input_tokens": counts.input - counts.cached,
            "cache_read_input_tokens": counts.cached,
            "cache_creation_input_tokens": 0,
            "output_tokens": counts.output,
        }

    def message(self, content: list[Any], reason: str | None) -> dict[str, Any]:
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": content,
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": self.usage(),
        }

    def event(self, name: str, finish: bool = False, **members: Any) -> None:
        self.stream.event({"type": name, **members}, name, finish=finish)

    def citation(self, cited: Cited) -> dict[str, Any]:
        return {
            "type": "web_search_result_location",
            "url": cited.url,
            "title": cited.title,
            "encrypted_index": "ZW5j",
            "cited_text": "what it says",
        }

    def events(self) -> list[Event]:
        self.event("message_start", message=self.message([], None))
        for index, item in enumerate(self.answer.items):
            kind, member = {
                "text": ("text_delta", "text"),
                "reasoning": ("thinking_delta", "thinking"),
                "call": ("input_json_delta", "partial_json"),
            }[item.kind]
            self.event("content_block_start", index=index, content_block=self.block(item, begun=True))
            for cited in item.citations:
                delta = {"type": "citations_delta", "citation": self.citation(cited)}
                self.event("content_block_delta", index=index, delta=delta)
            for piece in self.stream.pieces("arguments" if item.kind == "call" else item.kind, item.text):
                self.event("content_block_delta", index=index, delta={"type": kind, member: piece})
            if item.kind == "reasoning":
                self.event("content_block_delta", index=index, delta={"type": "signature_delta", "signature": "c2ln"})
            self.event("content_block_stop", index=index)
            if self.stream.random.random() < 0.1:
                self.event("ping")
        delta = {"stop_reason": self.answer.word("anthropic"), "stop_sequence": None}
        self.event("message_delta", finish=True, delta=delta, usage={"output_tokens": self.usage()["output_tokens"]})
        self.event("message_stop")
        return self.stream.events

    def block(self, item: Item, begun: bool = False) -> dict[str, Any]:
        if item.kind == "call":
            return {
                "type": "tool_use",
                "id": item.id,
                "name": item.name,
                "input": {} if begun else json.loads(item.text),
            }
        if item.kind == "reasoning":
            return {"type": "thinking", "thinking": "" if begun else item.text, "signature": "" if begun else "c2ln"}
        block: dict[str, Any] = {"type": "text", "text": "" if begun else item.text}
        if item.citations:
            block["citations"] = [] if begun else [self.citation(cited) for cited in item.citations]
        return block

    def whole(self) -> dict[str, Any]:
        return self.message([self.block(item) for item in self.answer.items], self.answer.word("anthropic"))


class GeminiWriter(Writer):
    """Gemini's API: https://ai.google.dev/api/generate-content"""

    def response(self, parts: list[Any], reason: str | None = None) -> dict[str, Any]:
        candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
        if reason:
            candidate["finishReason"] = reason
            candidate |= self.grounding()
        value = {"candidates": [candidate], "modelVersion": "m", "responseId": "g1"}
        if counts := self.answer.counts:
            value["usageMetadata"] = {
                "promptTokenCount": counts.input,
                "cachedContentTokenCount": counts.cached,
                "candidatesTokenCount": counts.output - counts.reasoning,
                "thoughtsTokenCount": counts.reasoning,
                "totalTokenCount": counts.input + counts.output,
            }
        return value

    def grounding(self) -> dict[str, Any]:
        """Positions are counted in bytes of the text."""
        chunks, supports, before = [], [], ""
        for item in self.answer.items:
            if item.kind == "text":
                for cited in item.citations:
                    begin, end = (len((before + item.text[:at]).encode()) for at in (cited.start, cited.end))
                    segment = {"startIndex": begin, "endIndex": end, "text": item.text[cited.start : cited.end]}
                    supports.append({"segment": segment, "groundingChunkIndices": [len(chunks)]})
                    chunks.append({"web": {"uri": cited.url, "title": cited.title}})
                before += item.text
        return {"groundingMetadata": {"groundingChunks": chunks, "groundingSupports": supports}} if chunks else {}

    def part(self, item: Item, said: Any = None) -> dict[str, Any]:
        if item.kind == "call":
            return {"functionCall": {"id": item.id, "name": item.name, "args": json.loads(item.text)}}
        said = item.text if said is None else said
        return {"text": said, "thought": True} if item.kind == "reasoning" else {"text": said}

    def events(self) -> list[Event]:
        for item in self.answer.items:
            if item.kind == "call":
                self.stream.event(self.response([self.part(item)]))
                continue
            for piece in self.stream.pieces(item.kind, item.text):
                self.stream.event(self.response([self.part(item, piece)]), late=True)
        self.stream.event(self.response([{"text": ""}], self.answer.word("gemini")), finish=True)
        return self.stream.events

    def whole(self) -> dict[str, Any]:
        return self.response([self.part(item) for item in self.answer.items], self.answer.word("gemini"))


class ResponsesWriter(Writer):
    """The Responses API: https://platform.openai.com/docs/api-reference/responses-streaming"""

    number = 0

    def event(self, name: str, finish: bool = False, **members: Any) -> None:
        self.stream.event({"type": name, "sequence_number": self.number, **members}, name, finish=finish)
        self.number += 1

    def response(self, status: str, output: list[Any]) -> dict[str, Any]:
        value = {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "status": status,
            "model": "m",
            "output": output,
            "error": None,
            "incomplete_details": None,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": None,
        }
        if status == "incomplete":
            reason = {"length": "max_output_tokens", "filter": "content_filter"}[self.answer.finish]
            value["incomplete_details"] = {"reason": reason}
        if status != "in_progress" and (counts := self.answer.counts):
            value["usage"] = {
                "input_tokens": counts.input,
                "input_tokens_details": {"cached_tokens": counts.cached},
                "output_tokens": counts.output,
                "output_tokens_details": {"reasoning_tokens": counts.reasoning},
                "total_tokens": counts.input + counts.output,
            }
        return value

    @property
    def status(self) -> str:
        return "completed" if self.answer.finish == "stop" else "incomplete"

    def groups(self) -> list[list[Item]]:
        """Returns the items of the answer; a message has the parts that continue it."""
        groups: list[list[Item]] = []
        for item in self.answer.items:
            if (
                item.continues
                and groups
                and groups[-1][0].kind in ("text", "refusal")
                and item.kind in ("text", "refusal")
            ):
                groups[-1].append(item)
            else:
                groups.append([item])
        return groups

    def part(self, item: Item) -> dict[str, Any]:
        if item.kind == "refusal":
            return {"type": "refusal", "refusal": item.text}
        return {"type": "output_text", "text": item.text, "annotations": [self.annotation(c) for c in item.citations]}

    def annotation(self, cited: Cited) -> dict[str, Any]:
        place = {"start_index": cited.start, "end_index": cited.end}
        return {"type": "url_citation", "url": cited.url, "title": cited.title} | place

    def item(self, index: int, group: list[Item]) -> dict[str, Any]:
        (first, *_) = group
        if first.kind == "reasoning":
            summary = [{"type": "summary_text", "text": first.text}]
            return {"id": f"rs_{index}", "type": "reasoning", "summary": summary}
        if first.kind == "call":
            call = {"call_id": first.id, "name": first.name, "arguments": first.text}
            return {"id": f"fc_{index}", "type": "function_call", "status": "completed"} | call
        message: dict[str, Any] = {"id": f"msg_{index}", "type": "message", "status": "completed", "role": "assistant"}
        if first.phase:
            message["phase"] = first.phase
        return message | {"content": [self.part(item) for item in group]}

    def events(self) -> list[Event]:
        self.event("response.created", response=self.response("in_progress", []))
        self.event("response.in_progress", response=self.response("in_progress", []))
        for index, group in enumerate(self.groups()):
            whole = self.item(index, group)
            begun = whole | {
                member: value
                for member, value in {"status": "in_progress", "content": [], "summary": [], "arguments": ""}.items()
                if member in whole
            }
            self.event("response.output_item.added", output_index=index, item=begun)
            place = {"item_id": whole["id"], "output_index": index}
            for at, item in enumerate(group):
                getattr(self, f"{item.kind}_events")(place, at, item)
            self.event("response.output_item.done", output_index=index, item=whole)
        status = self.status
        self.event(f"response.{status}", finish=True, response=self.whole())
        return self.stream.events

    def reasoning_events(self, place: dict[str, Any], at: int, item: Item) -> None:
        place = place | {"summary_index": at}
        self.event("response.reasoning_summary_part.added", **place, part={"type": "summary_text", "text": ""})
        for piece in self.stream.pieces("reasoning", item.text):
            self.event("response.reasoning_summary_text.delta", **place, delta=piece)
        self.event("response.reasoning_summary_text.done", **place, text=item.text)
        self.event("response.reasoning_summary_part.done", **place, part={"type": "summary_text", "text": item.text})

    def call_events(self, place: dict[str, Any], at: int, item: Item) -> None:
        for piece in self.stream.pieces("arguments", item.text):
            self.event("response.function_call_arguments.delta", **place, delta=piece)
        self.event("response.function_call_arguments.done", **place, arguments=item.text)

    def text_events(self, place: dict[str, Any], at: int, item: Item) -> None:
        part, member = self.part(item), "text" if item.kind == "text" else "refusal"
        place = place | {"content_index": at}
        empty = part | {member: ""} | ({"annotations": []} if item.kind == "text" else {})
        self.event("response.content_part.added", **place, part=empty)
        for piece in self.stream.pieces(item.kind, item.text):
            self.event(f"response.{part['type']}.delta", **place, delta=piece)
        for number, cited in enumerate(item.citations):
            annotation = {"annotation_index": number, "annotation": self.annotation(cited)}
            self.event("response.output_text.annotation.added", **place, **annotation)
        self.event(f"response.{part['type']}.done", **place, **{member: item.text})
        self.event("response.content_part.done", **place, part=part)

    refusal_events = text_events

    def whole(self) -> dict[str, Any]:
        return self.response(self.status, [self.item(index, group) for index, group in enumerate(self.groups())])


class InteractionsWriter(Writer):
    """The Interactions API: https://ai.google.dev/gemini-api/docs/interactions/streaming"""

    def event(self, name: str, finish: bool = False, **members: Any) -> None:
        """Types stand before or behind what they are about, and an event has a line with its name or not."""
        first = {"event_type": name} if self.stream.random.random() < 0.3 else {}
        value = {**first, **members, "event_type": name}
        self.stream.event(value, name if self.stream.random.random() < 0.8 else "", finish=finish)

    def typed(self, kind: str, **members: Any) -> dict[str, Any]:
        return {"type": kind, **members} if self.stream.random.random() < 0.3 else {**members, "type": kind}

    def interaction(self, status: str, **members: Any) -> dict[str, Any]:
        value = {"id": "v1_a", "status": status, "object": "interaction", "model": "m"}
        if status != "in_progress" and (counts := self.answer.counts):
            value["usage"] = {
                "total_tokens": counts.input + counts.output,
                "total_input_tokens": counts.input,
                "total_cached_tokens": counts.cached,
                "total_output_tokens": counts.output - counts.reasoning,
                "total_tool_use_tokens": 0,
                "total_thought_tokens": counts.reasoning,
            }
        return {**value, **members}

    @property
    def status(self) -> str:
        if self.answer.finish != "stop":
            return "incomplete"
        return "requires_action" if self.answer.calls else "completed"

    def step(self, item: Item) -> dict[str, Any]:
        if item.kind == "call":
            return {"type": "function_call", "id": item.id, "name": item.name, "arguments": json.loads(item.text)}
        said = [{"type": "text", "text": item.text}]
        if item.kind == "reasoning":
            return {"type": "thought", "signature": "c2ln", "summary": said}
        return {"type": "model_output", "content": said}

    def deltas(self, item: Item) -> Iterator[dict[str, Any]]:
        if item.kind == "call":
            for piece in self.stream.pieces("arguments", item.text):
                yield self.typed("arguments_delta", arguments=piece)
        elif item.kind == "reasoning":
            for piece in self.stream.pieces("reasoning", item.text):
                yield self.typed("thought_summary", content=self.typed("text", text=piece))
                yield self.typed("thought_signature", signature="")
            yield self.typed("thought_signature", signature="c2ln")
        else:
            for piece in self.stream.pieces("text", item.text):
                yield self.typed("text", text=piece)

    def events(self) -> list[Event]:
        self.event("interaction.created", interaction=self.interaction("in_progress"))
        self.event("interaction.status_update", interaction_id="v1_a", status="in_progress")
        for index, item in enumerate(self.answer.items):
            begun = {"call": {"id": item.id, "name": item.name, "arguments": {}, "signature": ""}}.get(item.kind, {})
            kind = {"call": "function_call", "reasoning": "thought"}.get(item.kind, "model_output")
            self.event("step.start", index=index, step=self.typed(kind, **begun))
            for delta in self.deltas(item):
                self.event("step.delta", index=index, delta=delta)
            self.event("step.stop", index=index)
        self.event("interaction.completed", finish=True, interaction=self.interaction(self.status))
        self.stream.event("[DONE]", "done")
        return self.stream.events

    def whole(self) -> dict[str, Any]:
        return self.interaction(self.status, steps=[self.step(item) for item in self.answer.items])


WRITERS: dict[str, type[Writer]] = {
    "chat": ChatWriter,
    "kimi": ChatWriter,
    "anthropic": AnthropicWriter,
    "gemini": GeminiWriter,
    "responses": ResponsesWriter,
    "interactions": InteractionsWriter,
}


def written(random: Random, api: str, items: list[Item]) -> list[Event]:
    """Returns the events of a whole answer."""
    counts = random.choice([None, Counts(3, 1, 2, 1)])
    return WRITERS[api](random, Answer(items, counts=counts)).events()


def failure(api: str, message: str) -> bytes:
    """Returns the event by which the API reports an error inside a stream."""
    if api == "anthropic":
        error: Any = {"type": "error", "error": {"type": "overloaded_error", "message": message}}
        return f"event: error\ndata: {json.dumps(error)}\n\n".encode()
    if api == "responses":
        error = {"type": "error", "sequence_number": 99, "code": "server_error", "message": message, "param": None}
        return f"event: error\ndata: {json.dumps(error)}\n\n".encode()
    if api == "interactions":
        error = {"error": {"message": message, "code": "unavailable"}, "event_type": "error"}
        return f"event: error\ndata: {json.dumps(error)}\n\n".encode()
    if api == "gemini":
        return f"data: {json.dumps({'error': {'code': 503, 'message': message, 'status': 'UNAVAILABLE'}})}\n\n".encode()
    error = {"error": {"message": message, "type": "server_error", "code": "overloaded"}}
    return f"data: {json.dumps(error)}\n\n".encode()
