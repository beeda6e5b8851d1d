"""What an adapter has not looked at while it wrote a request can't be in it: it is refused, or dropped with a warning.

So an adapter that doesn't know an option needs no line about it, and no option is dropped silently.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any

from ..requests import Options, Request
from ..values import ConfigError, ProtocolWarning

# Without one of these the answer is worse, or another one, and still what was asked for. Without the others it is not.
_MAY_BE_DROPPED = ("temperature", "top_p", "seed", "parallel_tool_calls", "reasoning_effort")
_MUST_BE_SENT = ("max_output_tokens", "stop", "response_format")
_OPTIONS = (*_MAY_BE_DROPPED, *_MUST_BE_SENT)
_ASKED = attrgetter(*_OPTIONS)
_OF_OPTIONS = tuple(member.name for member in fields(Options))
_OF_REQUEST = tuple(member.name for member in fields(Request))


def recorded(request: Request) -> tuple[Request, set[str]]:
    """Returns a request that notes what is read of it, and the names that it notes."""
    reads: set[str] = set()
    options = _copied(_ReadOptions, _OF_OPTIONS, request.options, reads)
    if not request.tools:
        return replace(request, options=options), reads
    view: Request = _copied(_ReadRequest, _OF_REQUEST, request, reads)
    object.__setattr__(view, "options", options)
    return view, reads


def asked_for(request: Request) -> list[str]:
    """Returns what an adapter has to read of a request: its options, and what it says of tools."""
    names = [name for name, value in zip(_OPTIONS, _ASKED(request.options), strict=True) if value is not None]
    if not request.tools:
        return [name for name in names if name != "parallel_tool_calls"]  # it means nothing then
    return [*names, "tools", *(["tool_choice"] if request.tool_choice not in ("auto", "none") else [])]


def unread(missed: Iterable[str], adapter: str) -> list[ProtocolWarning]:
    """Returns a warning for each thing that was asked for and not read.

    Raises:
        ConfigError: without it the request would mean something else.
    """
    warnings = []
    for name in missed:
        if name == "tool_choice":
            detail = f'adapter {adapter!r} sends no tool choice, which means "auto" to the server'
            warnings.append(ProtocolWarning("forced_choice_dropped", detail))
        elif name in _MAY_BE_DROPPED:
            warnings.append(ProtocolWarning("option_dropped", f"{name}: adapter {adapter!r} does not send it"))
        else:
            raise ConfigError(f"{name}: adapter {adapter!r} does not send it, and it can't be left out")
    return warnings


class _ReadOptions(Options):
    """Options that note which of them are read. A changed copy of them notes nothing more."""

    _reads: set[str] | None = None

    def __getattribute__(self, name: str) -> Any:
        if name in _OPTIONS and (reads := object.__getattribute__(self, "_reads")) is not None:
            reads.add(name)
        return object.__getattribute__(self, name)


class _ReadRequest(Request):
    """A request that notes whether its tools are read."""

    _reads: set[str] | None = None

    def __getattribute__(self, name: str) -> Any:
        if name in ("tools", "tool_choice") and (reads := object.__getattribute__(self, "_reads")) is not None:
            reads.add(name)
        return object.__getattribute__(self, name)


def _copied(kind: type[Any], members: tuple[str, ...], value: Any, reads: set[str]) -> Any:
    copy = object.__new__(kind)
    for name, member in zip(members, attrgetter(*members)(value), strict=True):
        object.__setattr__(copy, name, member)
    object.__setattr__(copy, "_reads", reads)
    return copy
