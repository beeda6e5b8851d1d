"""The outcome of an answer, a reply or an error, and the differences between two outcomes in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeAlias

from ..recording import as_expectation
from ..values import Reply, StreamChunk, StreamError, ToolCall, UpstreamError, Usage

Outcome: TypeAlias = Reply | StreamError

_ABOUT = 40  # characters round the first difference of two long texts
_ABSENT = "(absent)"


def comparable(outcome: Outcome) -> tuple[Any, ...]:
    """Returns everything that two equal outcomes have in common."""
    if isinstance(outcome, Reply):
        return outcome, [call.extra for call in outcome.tool_calls]
    words = (outcome.type, outcome.code, outcome.status_code) if isinstance(outcome, UpstreamError) else ()
    return (
        type(outcome), str(outcome), outcome.retryable, outcome.body, tuple(outcome.transcript), outcome.partial, words
    )  # fmt: skip


def contract_violations(chunks: Sequence[StreamChunk], outcome: Outcome) -> list[str]:
    """Returns a line for each promise about chunks that is broken.

    Args:
        chunks: the chunks of one answer.
        outcome: its reply or error.
    """
    text = "".join(chunk.delta for chunk in chunks)
    reasoning = "".join(chunk.reasoning for chunk in chunks)
    early = [chunk for chunk in chunks[:-1] if chunk.finished or chunk.tool_calls is not None]
    if isinstance(outcome, StreamError):
        partial = outcome.partial
        if partial is None:
            return ["  the error has no partial answer"]
        kept = {
            "no chunk is finished or has calls": not early and not any(c.finished or c.tool_calls for c in chunks),
            "the partial answer has no calls": not partial.tool_calls,
            "the deltas are the text of the partial answer": partial.text == text,
            "the reasoning of the chunks is that of the partial answer": partial.reasoning == reasoning,
        }
        return [f"  {promise}" for promise, holds in kept.items() if not holds]
    last = chunks[-1] if chunks else StreamChunk()
    kept = {
        "one chunk is finished, the last one, and no other has calls": last.finished and not early,
        "the calls of the last chunk are those of the reply": last.tool_calls == (outcome.tool_calls or None),
        "the deltas are the text of the reply": text == outcome.text,
        "the reasoning of the chunks is that of the reply": reasoning == outcome.reasoning,
        "the last chunk has the finish reason and the usage of the reply": (last.finish_reason, last.usage)
        == (outcome.finish_reason, outcome.usage),
    }
    return [f"  {promise}" for promise, holds in kept.items() if not holds]


def differences(one: Outcome, other: Outcome, names: tuple[str, str]) -> list[str]:
    """Returns the differences between two outcomes: for each member, its value in both."""
    return _differences(_flat(one), _flat(other), names)


def expected_differences(expect: Mapping[str, Any], outcome: Outcome) -> list[str]:
    """Returns the differences between an outcome and the `[expect]` of a recording, which must name everything."""
    found = as_expectation(outcome)
    found.pop("message", None)  # ours may be reworded, so that it is compared where one is written
    if "message" in expect and isinstance(outcome, StreamError):
        found["message"] = outcome.message
    for want, call, made in zip(expect.get("calls", []), found.get("calls", []), _calls(outcome), strict=False):
        if isinstance(want["arguments"], Mapping):  # what the text means, instead of the text
            call["arguments"] = made.arguments
        if "id" not in want:
            del call["id"]
    return _differences(_plain(expect), _plain(found), ("expected", "found"))


def _calls(outcome: Outcome) -> list[ToolCall]:
    return outcome.tool_calls if isinstance(outcome, Reply) else []


def _flat(outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, Reply):
        return _plain({field.name: _value(getattr(outcome, field.name)) for field in fields(outcome)})
    members: dict[str, Any] = {"error": type(outcome).__name__, "message": str(outcome)}
    members.update(retryable=outcome.retryable, body=outcome.body, transcript=list(outcome.transcript))
    if isinstance(outcome, UpstreamError):
        members.update(type=outcome.type, code=outcome.code, status_code=outcome.status_code)
    partial = _flat(outcome.partial) if outcome.partial is not None else {}
    return {**_plain(members), **{f"partial.{name}": value for name, value in partial.items()}}


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [_value(item) for item in value]
    if isinstance(value, ToolCall | Usage):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return value


def _plain(value: Any, path: str = "") -> dict[str, Any]:
    """Returns the leaves of dicts and lists by their paths: `tool_calls[0].arguments.city`."""
    if isinstance(value, Mapping) and (value or not path):
        pairs = [(f"{path}.{name}" if path else str(name), item) for name, item in value.items()]
    elif isinstance(value, list) and value:
        pairs = [(f"{path}[{at}]", item) for at, item in enumerate(value)]
    else:
        return {path: value}
    return {leaf: found for name, item in pairs for leaf, found in _plain(item, name).items()}


def _differences(one: Mapping[str, Any], other: Mapping[str, Any], names: tuple[str, str]) -> list[str]:
    lines: list[str] = []
    width = max(map(len, names))
    for path in {**one, **other}:
        values = one.get(path, _ABSENT), other.get(path, _ABSENT)
        if values[0] != values[1]:
            shown = _shown(*values)
            lines += [f"  {path}", *(f"    {name:{width}}  {text}" for name, text in zip(names, shown, strict=True))]
    return lines


def _shown(one: Any, other: Any) -> list[str]:
    if not (isinstance(one, str) and isinstance(other, str)) or max(len(one), len(other)) <= 2 * _ABOUT:
        return [value if value is _ABSENT else repr(value) for value in (one, other)]
    at = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    start = max(0, at - _ABOUT)
    dots = "..." if start else ""
    return [
        value if value is _ABSENT else f"{dots}{value[start : at + _ABOUT]!r} ({len(value)} characters)"
        for value in (one, other)
    ]
