"""The body of a request, decoded without knowing how it was written: its texts with their roles, its calls, its tools.

Every value is taken by one fact at most, so that of two messages that say the same both must be there.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from .translated import in_chat_shape

__all__ = ["Leaf", "LeafKind", "Sent", "SentCall", "SentResult", "pairs", "strings_of"]

# Items of the Responses API that are no messages, and whose they are.
_ROLES = {
    "function_call_output": "tool",
    "custom_tool_call_output": "tool",
    "function_call": "assistant",
    "custom_tool_call": "assistant",
    "reasoning": "assistant",
}


# Where somebody says something. What is anywhere else is never taken for a text, nor the other way round.
_TEXT = ("text", "content", "output", "refusal", "instructions")
_REASONING = ("reasoning_content", "reasoning")

LeafKind: TypeAlias = Literal["text", "reasoning", "value"]


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """A single value.

    Attributes:
        key: the nearest member's name above it.
        role: of the message that it is in.
        turn: the position of that message in the body.
        beside: the object that it is a member of.
    """

    key: str
    value: Any
    role: str
    turn: int
    beside: Mapping[str, Any]
    kind: LeafKind = "value"


@dataclass(frozen=True, slots=True)
class SentCall:
    """A tool call in the body; `members` are all of its entry."""

    turn: int
    id: str
    name: str
    arguments: Any
    members: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SentResult:
    """A result in the body."""

    turn: int
    id: str


class Sent:
    """A decoded body, and what of it was found already."""

    def __init__(self, body: bytes, path: str = "") -> None:
        read = json.loads(body)
        self.data: dict[str, Any] = in_chat_shape(read, path)
        self.is_sorted = self.data is not read  # the other APIs want results in the order of their calls
        messages = self.data.get("messages", self.data.get("input"))
        self.messages: list[Any] = messages if isinstance(messages, list) else []
        self.leaves = list(self._leaves())
        self.calls = list(self._calls())
        self.results = list(self._results())
        self._taken: set[int] = set()
        self._inside: Counter[tuple[int, str]] = Counter()

    def take(self, value: Any, role: str | None, kind: LeafKind) -> Leaf | None:
        """A value of the conversation that is this one, of a message of this role if there is one."""
        found = None
        for number, leaf in enumerate(self.leaves):
            same = leaf.kind == kind and type(leaf.value) is type(value) and leaf.value == value
            if same and number not in self._taken and (found is None or leaf.role == role):
                found = number
                if leaf.role == role:
                    break
        if found is None:
            return None
        self._taken.add(found)
        return self.leaves[found]

    def take_inside(self, text: str, role: str | None) -> Leaf | None:
        """A text that has this one in it and that is not another fact; it may have several."""
        fitting = [
            (number, leaf)
            for number, leaf in enumerate(self.leaves)
            if number not in self._taken
            and leaf.kind == "text"
            and isinstance(leaf.value, str)
            and leaf.value.count(text) > self._inside[number, text]
        ]
        fitting.sort(key=lambda pair: pair[1].role != role)
        if not fitting:
            return None
        self._inside[fitting[0][0], text] += 1
        return fitting[0][1]

    def has_in_pieces(self, text: str, role: str | None, kind: LeafKind) -> bool:
        """Whether texts that follow each other are together this one, but for the blanks between them."""
        pieces = [
            leaf.value
            for number, leaf in enumerate(self.leaves)
            if leaf.role == role and leaf.key in ("text", "summary") and leaf.kind == kind and number not in self._taken
        ]
        return _squeezed(text) in _squeezed("".join(pieces))

    def has_item(self, item: Mapping[str, Any]) -> bool:
        """Whether an item of an earlier answer is there with all that it says, but for what is of the answer alone."""
        wanted = {name: value for name, value in item.items() if name not in ("id", "status", "created_by")}
        return any(
            isinstance(sent, Mapping) and all(sent.get(name) == value for name, value in wanted.items())
            for sent in self.messages
        )

    def tool(self, *names: str) -> Mapping[str, Any] | None:
        """What the body says of a tool that has one of these names."""
        for tool in self.data.get("tools") or ():
            inner = tool.get("function", tool) if isinstance(tool, Mapping) else {}
            if isinstance(inner, Mapping) and inner.get("name") in names:
                return inner
        return None

    def _leaves(self) -> Iterator[Leaf]:
        if isinstance(instructions := self.data.get("instructions"), str):
            yield Leaf("instructions", instructions, "system", -1, self.data, "text")
        for turn, message in enumerate(self.messages):
            if isinstance(message, Mapping):
                role = message.get("role") or _ROLES.get(str(message.get("type")), "")
                yield from _leaves_of(message, "", message, str(role), turn)

    def _calls(self) -> Iterator[SentCall]:
        for turn, message in enumerate(self.messages):
            if not isinstance(message, Mapping):
                continue
            if message.get("type") == "function_call":
                yield SentCall(turn, message["call_id"], message["name"], message["arguments"], message)
            for entry in message.get("tool_calls") or ():
                if isinstance(function := entry.get("function"), Mapping):
                    yield SentCall(turn, entry["id"], function["name"], function.get("arguments"), entry)

    def _results(self) -> Iterator[SentResult]:
        for turn, message in enumerate(self.messages):
            if not isinstance(message, Mapping):
                continue
            if message.get("type") == "function_call_output":
                yield SentResult(turn, message["call_id"])
            elif message.get("role") == "tool":
                yield SentResult(turn, message.get("tool_call_id", ""))


def pairs(calls: list[tuple[int, str]], results: list[tuple[int, str]]) -> list[int | None]:
    """For each result, the number of the call that it answers; calls and results are (position, id).

    A result goes with the nearest call before it that has its id and no result yet; of several in one message, with the
    first.
    """
    answered: set[int] = set()
    found: list[int | None] = []
    for position, call_id in results:
        fitting = [
            number
            for number, (turn, other) in enumerate(calls)
            if other == call_id and turn < position and number not in answered
        ]
        last = [number for number in fitting if calls[number][0] == calls[fitting[-1]][0]]
        found.append(last[0] if last else None)
        answered.update(last[:1])
    return found


def _leaves_of(value: Any, key: str, beside: Mapping[str, Any], role: str, turn: int) -> Iterator[Leaf]:
    match value:
        case {"type": "thinking", "thinking": [{"text": text}]}:  # Mistral's part of a content
            yield Leaf("text", text, role, turn, value, "reasoning")
        case Mapping():
            for name, member in value.items():
                yield from _leaves_of(member, str(name), value, role, turn)
        case list():
            for member in value:
                yield from _leaves_of(member, key, beside, role, turn)
        case _:
            if key not in ("role", "type", "status"):
                yield Leaf(key, value, role, turn, beside, _kind(key, beside))


def _kind(key: str, beside: Mapping[str, Any]) -> LeafKind:
    kind = str(beside.get("type"))
    if key in _REASONING or (key == "text" and kind in ("summary_text", "reasoning_text")):
        return "reasoning"
    if key in ("text", "summary") and kind.startswith("reasoning."):  # OpenRouter's and MiniMax's details
        return "reasoning"
    return "text" if key in _TEXT else "value"


def strings_of(value: Any, sent: Any) -> bool:
    """Whether every text in a value is in a text of the other: pieces may have been joined."""
    texts = [leaf.value for leaf in _leaves_of(sent, "", {}, "", 0) if isinstance(leaf.value, str)]
    wanted = [leaf.value for leaf in _leaves_of(value, "", {}, "", 0) if isinstance(leaf.value, str)]
    return bool(wanted) and all(any(piece in text for text in texts) for piece in wanted)


def _squeezed(text: str) -> str:
    return "".join(text.split())
