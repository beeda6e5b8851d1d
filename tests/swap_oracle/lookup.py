"""What becomes of each fact: looked for in the body, and where it is not as it was, in the warnings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from streamfold.adapters import PreparedRequest
from streamfold.jsontext import join_surrogates
from streamfold.requests import Request
from streamfold.types import AllowedTools, NamedTool, Tool, audio_format, read_tool_choice

from .announced import announced, overruled
from .facts import Fact
from .options import option_state
from .search import Leaf, LeafKind, Sent, SentCall, SentResult, pairs, strings_of
from .translated import NAMELESS

__all__ = ["Finding", "Search", "State"]

State: TypeAlias = Literal["kept", "changed", "lost", "refused", "not sent"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of a fact.

    Attributes:
        how: what it is now, or why it is not there; empty for what is kept.
        silent: it is not there as it was, and no warning says so. That is a mistake of streamfold.
    """

    fact: Fact
    state: State
    how: str = ""
    silent: bool = False


@dataclass(slots=True)
class Search:
    """Looks for the facts of a request in what would be sent."""

    asked: Request
    ready: PreparedRequest
    sent: Sent = field(init=False)
    found: dict[int, Finding] = field(default_factory=dict)
    answers: dict[int, SentResult] = field(default_factory=dict)  # by the positions of the messages that they are

    def __post_init__(self) -> None:
        self.sent = Sent(self.ready.body, self.ready.path)

    def run(self, facts: list[Fact]) -> list[Finding]:
        """A finding for each fact."""
        numbered = list(enumerate(facts))
        self._calls([(number, fact) for number, fact in numbered if fact.kind == "call"],
                    [(number, fact) for number, fact in numbered if fact.kind == "result"])  # fmt: skip
        values = [pair for pair in numbered if pair[1].kind in ("text", "reasoning", "value", "data")]
        for exact in (True, False):  # first what is there as it was, so that nothing else is taken for it
            for number, fact in values:
                if number not in self.found and (made := self._value(fact, exact=exact)):
                    self.found[number] = made
        for number, fact in numbered:
            if number not in self.found:
                self.found[number] = self._other(fact)
        return [self._told(self.found[number]) for number, _ in numbered]

    def _told(self, made: Finding) -> Finding:
        """The finding, silent if it needs a warning and has none."""
        if made.state != "lost" and not made.silent:
            return made
        if overruled(made.fact, self.asked):
            return replace(made, how="extra_body has something else there", silent=False)
        return replace(made, silent=not announced(made.fact, self.ready, lost=made.state == "lost"))

    # --- values -------------------------------------------------------------------------------------------------------

    def _value(self, fact: Fact, *, exact: bool) -> Finding | None:
        value = join_surrogates(fact.value) if isinstance(fact.value, str) else fact.value
        kind: LeafKind = fact.kind if fact.kind in ("text", "reasoning") else "value"
        if exact and (leaf := self.sent.take(value, fact.role, kind)):
            if value != fact.value and "\ufffd" in value:
                return Finding(fact, "changed", "half of a character became U+FFFD", silent=True)
            return self._at(fact, leaf, "kept")
        if exact or not isinstance(value, str) or not value:
            return None
        if fact.kind == "data":
            return self._base64(fact)
        if self.sent.has_in_pieces(value, fact.role, kind):
            return Finding(fact, "kept")
        if fact.kind == "text" and (leaf := self.sent.take_inside(value, fact.role)):
            return self._at(fact, leaf, "changed", f"in a longer text: {_around(leaf.value, value)}")
        return None

    def _base64(self, fact: Fact) -> Finding | None:
        """Bytes beside the word for their format, as APIs have them for sound."""
        head, _, data = fact.value.partition(";base64,")
        leaf = self.sent.take(data, fact.role, "value")
        if leaf is None or leaf.beside.get("format") != audio_format(head.removeprefix("data:")):
            return None
        return self._at(fact, leaf, "kept")

    def _at(self, fact: Fact, leaf: Leaf, state: State, how: str = "") -> Finding:
        """The finding for a value in this place."""
        if leaf.key == "instructions" and fact.role in ("system", "developer"):
            return Finding(fact, "changed", "in the instructions")
        if self.sent.is_sorted and (fact.role, leaf.role) == ("developer", "system"):
            return Finding(fact, state, how)  # there is one word for both
        if fact.role and leaf.role != fact.role:
            moved = f"in a message of the role {leaf.role!r}"
            return Finding(fact, "changed", f"{moved}, {how}" if how else moved, silent=True)
        return Finding(fact, state, how)

    # --- calls and results --------------------------------------------------------------------------------------------

    def _calls(self, calls: list[tuple[int, Fact]], results: list[tuple[int, Fact]]) -> None:
        """Calls are compared in their order, which no API changes; results by the call that they answer."""
        for (number, fact), sent in zip(calls, self.sent.calls, strict=False):
            self.found[number] = self._call(fact, sent)
        ours = pairs(
            [(_position(fact), fact.value.id) for _, fact in calls], [(_position(f), f.value) for _, f in results]
        )
        theirs = pairs([(c.turn, c.id) for c in self.sent.calls], [(r.turn, r.id) for r in self.sent.results])
        at = range(len(theirs))
        if self.sent.is_sorted:
            at = [theirs.index(call) if call in theirs else len(theirs) for call in ours]
        for (number, fact), here, place in zip(results, ours, at, strict=False):
            if here != (theirs[place] if place < len(theirs) else None):
                continue  # it would answer another call: lost
            result = self.sent.results[place]
            self.answers[_position(fact)] = result
            same = result.id == fact.value or result.id.startswith(NAMELESS)
            self.found[number] = Finding(
                fact, "kept" if same else "changed", "" if same else result.id, silent=not same
            )

    def _call(self, fact: Fact, sent: SentCall) -> Finding:
        call, changes = fact.value, []
        own = self.ready.request.names.get(sent.name, sent.name)
        if own != call.name:
            return Finding(fact, "lost")
        raw = join_surrogates(call.raw_arguments)
        if isinstance(sent.arguments, Mapping) and raw:  # where arguments are an object, their text can't be sent
            if sent.arguments != ({"_raw": call.raw_arguments} if call.error else call.arguments):
                return Finding(fact, "lost")
        elif not raw and call.arguments:  # a dict may have an object for its arguments
            read = sent.arguments if isinstance(sent.arguments, Mapping) else json.loads(sent.arguments)
            if read != call.arguments:
                return Finding(fact, "lost")
        elif sent.arguments != raw:
            if raw or sent.arguments not in ("{}", None, {}):
                return Finding(fact, "lost")
            changes += ["no arguments are sent as {}"] if sent.arguments == "{}" else []
        renamed = sent.id != call.id and not sent.id.startswith(NAMELESS)
        said = renamed or sent.name != call.name or raw != call.raw_arguments
        changes += [f"id {sent.id}"] if renamed else []
        changes += [f"name {sent.name}"] if sent.name != call.name else []
        return Finding(fact, "changed" if changes else "kept", ", ".join(changes), silent=said)

    # --- everything else ----------------------------------------------------------------------------------------------

    def _other(self, fact: Fact) -> Finding:
        match fact.kind:
            case "value" if ".cache_control." in fact.path and ":streamGenerateContent" in self.ready.path:
                return Finding(fact, "changed", "caching is automatic")
            case "reasoning" if fact.value == "":
                return self._empty_reasoning(fact)
            case "extra":
                return Finding(fact, "kept" if self._has_extra(fact) else "lost")
            case "flag":
                return self._flag(fact)
            case "tool":
                return self._tool(fact)
            case "choice":
                return self._choice(fact)
            case "option":
                if fact.path == "stop" and self.ready.request.options.cut_at:
                    return Finding(fact, "changed", "the reader stops there", False)
                if fact.value == 1 and fact.path == "temperature" and self.ready.request.family.sampling == "default":
                    return Finding(fact, "kept", "it samples with 1 anyway")
                return Finding(fact, *option_state(fact, self.sent.data))
        return Finding(fact, "lost")

    def _empty_reasoning(self, fact: Fact) -> Finding:
        if self.sent.take("", fact.role, "reasoning") or any(
            item.get("type") == "reasoning" for item in self.sent.messages
        ):
            return Finding(fact, "kept")
        return Finding(fact, "changed", "left out, as it is empty")

    def _has_extra(self, fact: Fact) -> bool:
        name = fact.path.rpartition(".")[2]
        if name == "extra":
            calls = (call.members for call in self.sent.calls)
            return any(all(members.get(key) == value for key, value in fact.value.items()) for members in calls)
        if ".tool_calls[" in fact.path:
            entries = [
                entry for call in self.sent.calls for entry in (call.members, call.members.get("function") or {})
            ]
            return any(entry.get(name) == fact.value for entry in entries)
        if name == "output" and isinstance(fact.value, list):
            return all(self._has_output(item) for item in fact.value)
        there = [sent[name] for sent in self.sent.messages if isinstance(sent, Mapping) and name in sent]
        return any(sent == fact.value or strings_of(fact.value, sent) for sent in there)

    def _has_output(self, item: Mapping[str, Any]) -> bool:
        says_no_more = item.get("type") in ("message", "function_call") and not any(
            part.get("annotations") for part in item.get("content") or ()
        )
        empty = item.get("type") == "reasoning" and not any(
            item.get(name) for name in ("summary", "content", "encrypted_content")
        )
        return says_no_more or empty or self.sent.has_item(item)

    def _flag(self, fact: Fact) -> Finding:
        if fact.path.endswith(".partial"):
            return Finding(fact, "kept" if any(item.get("partial") is True for item in self.sent.messages) else "lost")
        at = _position(fact)
        number = sum(_is_result(message) for message in self.asked.messages[:at])
        turns = [result.turn for result in self.sent.results][number : number + 1]
        turn = self.answers[at].turn if at in self.answers else next(iter(turns), None)
        if turn is not None and self.sent.messages[turn].get("failed"):
            return Finding(fact, "kept")
        texts = [leaf.value for leaf in self.sent.leaves if leaf.turn == turn]
        said = any(isinstance(text, str) and text.lower().startswith("error") for text in texts)
        return Finding(fact, "changed", "its text begins with 'Error'") if said else Finding(fact, "lost")

    def _tool(self, fact: Fact) -> Finding:
        tool: Tool = fact.value
        api = next((made for made, own in self.ready.request.names.items() if own == tool.name), tool.name)
        sent = self.sent.tool(api)
        if sent is None:
            return Finding(fact, "lost")
        changes = [f"name {api}"] if api != tool.name else []
        if (sent.get("description") or "") != tool.description:
            changes.append("without its description" if not sent.get("description") else "another description")
        if sent.get("parameters") != tool.parameters and not (tool.kind != "function" and "parameters" not in sent):
            changes.append("another schema")
        if tool.strict is not None and bool(sent.get("strict")) != tool.strict:
            changes.append(f"strict {sent.get('strict')}")
        return Finding(fact, "changed" if changes else "kept", ", ".join(changes), silent=bool(changes))

    def _choice(self, fact: Fact) -> Finding:
        sent = _sent_choice(self.sent.data, self.ready.request.names)
        if sent == fact.value:
            return Finding(fact, "kept")
        shown = sent if isinstance(sent, str) else repr(sent)
        names = [tool.get("function", tool).get("name") for tool in self.sent.data.get("tools") or ()]
        own = [self.ready.request.names.get(name, name) for name in names]
        match fact.value:  # the same, where no other tools are sent
            case NamedTool(name) if sent == "required" and own == [name]:
                return Finding(fact, "changed", "required, of this tool alone")
            case AllowedTools(allowed, mode) if sent == mode and set(own) <= set(allowed):
                return Finding(fact, "changed", f"{mode}, of these tools alone")
        return Finding(fact, "changed", shown, silent=True)


def _sent_choice(body: Mapping[str, Any], names: Mapping[str, str]) -> Any:
    """The tool choice of a body, with the tools' own names; "auto" where there is none."""
    match read_tool_choice(body.get("tool_choice")):
        case NamedTool(name):
            return NamedTool(names.get(name, name))
        case AllowedTools(allowed, mode):
            return AllowedTools(tuple(names.get(name, name) for name in allowed), mode)
        case word:
            return word


def _position(fact: Fact) -> int:
    return int(fact.path[len("messages[") : fact.path.index("]")])


def _is_result(message: Any) -> bool:
    return (message.get("role") if isinstance(message, Mapping) else message.role) == "tool"


def _around(whole: str, text: str) -> str:
    shown = " ".join(whole.replace(text, "...", 1).split())
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
