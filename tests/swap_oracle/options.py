"""Options and what became of them in a body: where each API writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from .facts import Fact

__all__ = ["option_state", "places_of"]

_PLACES: dict[str, tuple[str, ...]] = {
    "max_output_tokens": ("max_tokens", "max_completion_tokens", "max_output_tokens"),
    "reasoning_effort": ("reasoning_effort", "reasoning.effort"),
    "seed": ("seed", "random_seed"),
}
# The members that switch thinking on or off, and what they say for off.
_SWITCHES: dict[str, Any] = {
    "thinking.type": "disabled",
    "chat_template_kwargs.thinking": False,
    "enable_thinking": False,
    "reasoning.enabled": False,
}
_FORMATS = ("response_format", "text.format")


def places_of(option: str) -> set[str]:
    """The members of a body that may hold an option."""
    places = _FORMATS if option == "response_format" else _PLACES.get(option, (option,))
    return {place.partition(".")[0] for place in places}


def option_state(fact: Fact, body: Mapping[str, Any]) -> tuple[Literal["kept", "changed", "lost"], str, bool]:
    """What became of an option, how it is written now, and whether a warning must say so."""
    if fact.path.startswith("extra_body."):
        name = fact.path.partition(".")[2]
        sent = body.get(name)
        same = sent == fact.value or (isinstance(sent, Mapping) and fact.value.items() <= sent.items())
        return ("kept", "", False) if same else ("lost", "", True)
    if fact.path == "response_format":
        return _format_state(fact, body)
    if fact.path == "disable_thinking_for_forced_tools":
        off = any(_at(body, place) == off for place, off in _SWITCHES.items())
        return ("kept", "thinking is switched off", False) if off else ("kept", "there was no need", False)
    for place in _PLACES.get(fact.path, (fact.path,)):
        if _at(body, place) == fact.value:
            return "kept", "", False
    if fact.path == "reasoning_effort" and body.get("graded_thinking"):
        return "kept", "as a level or a number of tokens", False
    if fact.path == "parallel_tool_calls" and body.get("tool_choice") == "none":
        return "kept", "there is nothing to call", False
    if fact.path == "stop" and body.get("stop") in ([fact.value], fact.value):
        return "kept", "", False
    if fact.path == "reasoning_effort":
        for place, off in _SWITCHES.items():
            if (sent := _at(body, place)) is not None:
                as_asked = fact.value == "none" and sent == off
                return ("kept", f"{place} {sent}", False) if as_asked else ("changed", f"{place} {sent}", True)
    return "lost", "", True


def _format_state(fact: Fact, body: Mapping[str, Any]) -> tuple[Literal["kept", "changed", "lost"], str, bool]:
    sent = next((found for place in _FORMATS if isinstance(found := _at(body, place), Mapping)), None)
    wanted = fact.value.schema
    if sent is None:
        tools = [tool.get("function", tool) for tool in body.get("tools") or ()]
        if any(tool.get("parameters") == wanted for tool in tools):
            return "changed", "a tool that the model must call", True
        if wanted is None and "JSON object" in repr(body.get("messages")):
            return "changed", "an instruction", True
        return "lost", "", True
    if sent.get("type") == "json_object":
        return ("kept", "", False) if wanted is None else ("changed", "JSON mode and an instruction", True)
    schema = sent.get("schema") or _at(sent, "json_schema.schema")
    return ("kept", "", False) if schema == wanted else ("changed", "another schema", True)


def _at(body: Mapping[str, Any], place: str) -> Any:
    found: Any = body
    for step in place.split("."):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found
