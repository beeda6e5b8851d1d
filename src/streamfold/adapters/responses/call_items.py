"""Calls as items of a response, in the form in which the client declared the tool: see `client_side_tools.py`."""

from __future__ import annotations

from typing import Any, TypeAlias

from ...requests import CALL_EXTRAS, CARRIED_CALL_EXTRAS
from ...types import IncrementalJSON
from ..serializing.call_state import SerializedCall
from .client_side_tools import BUILT_IN, ClientTool, ClientTools, custom_input

_EXTRAS = (*CALL_EXTRAS, *CARRIED_CALL_EXTRAS)

_Events: TypeAlias = list[tuple[str, dict[str, Any]]]  # the type of each event, and its members beside the position


class CallItem:
    """The item of a call of a function.

    Attributes:
        item: what is written.
        index: its position in the output; None before it is written.
        waits: it is written when the call is complete, and not before.
        ends_when_cut: a call that is cut off is said to be done, as incomplete. Its arguments show that it is.
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
        """Takes the members of the call that its provider wants back. They may come behind its arguments."""
        self.item |= {name: value for name, value in (call.extra or {}).items() if name in _EXTRAS}

    def piece(self, text: str) -> _Events:
        """Returns the events for a piece of the arguments."""
        return [("response.function_call_arguments.delta", {"delta": text})]

    def complete(self, arguments: str) -> _Events:
        """Completes the item. Returns the events that say so."""
        self.item["arguments"] = arguments
        return [("response.function_call_arguments.done", {"name": self.item["name"], "arguments": arguments})]

    def cut(self, arguments: str) -> None:
        """Takes what has come of a call that is not complete. Nothing is done of it."""
        self.item["arguments"] = arguments


class _CustomItem(CallItem):
    """The item of a call of a custom tool: its text, without the JSON that a function needs round it.

    Half of a text may be a text that can be run, and Codex runs what is done, complete or not. So a call that is cut
    off is never done, and leaves no text.
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
        # Arguments that turned out not to be JSON are the model's own text, whatever was written of them.
        rest = text.removeprefix(written) if text.startswith(written) else ""
        events: _Events = [("response.custom_tool_call_input.delta", {"delta": rest})] if rest else []
        return [*events, ("response.custom_tool_call_input.done", {"input": text})]

    def cut(self, arguments: str) -> None:
        pass


class _BuiltInItem(CallItem):
    """The item of a call of a tool that the API defines: with an object of its own instead of arguments.

    Arguments that are not a JSON object stay the call of a function. The client refuses that, and so the model hears of
    it; an object would have to be invented.
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
    """Returns the item for a call, which has its id and name."""
    tool = tools.get(call.name) or ClientTool(call.name)
    kinds = {"function": CallItem, "custom": _CustomItem}
    return kinds.get(tool.kind, _BuiltInItem)(call, tool)
