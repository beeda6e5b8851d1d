"""Numbers that JSON does not have: some servers write NaN or 1e400 into usage and other members of an answer."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from typing import Any

from ..values import ProtocolWarning, Reply

__all__ = ["jsonable"]


def jsonable(reply: Reply) -> Reply:
    """Returns the reply with null for every NaN and Infinity, and a warning that names their places."""
    calls = [replace(call, extra=_finite(call.extra)) for call in reply.tool_calls]
    extras = _finite(reply.extras)
    usage = reply.usage and replace(reply.usage, raw=_finite(reply.usage.raw))
    lost = [f"tool_calls[{at}]" for at, call in enumerate(reply.tool_calls) if calls[at].extra is not call.extra]
    lost += [name for name, value in reply.extras.items() if extras[name] is not value]
    lost += ["usage"] if usage and reply.usage and usage.raw is not reply.usage.raw else []
    if not lost:
        return reply
    warning = ProtocolWarning("extras_dropped", f"{', '.join(lost)}: JSON has no NaN and no Infinity; null was sent")
    return replace(reply, tool_calls=calls, extras=extras, usage=usage, warnings=[*reply.warnings, warning])


def _finite(value: Any) -> Any:
    """The value with None for numbers that JSON does not have; the same object where nothing changes."""
    match value:
        case float():
            return value if isfinite(value) else None
        case dict():
            made: Any = {key: _finite(item) for key, item in value.items()}
            changed = any(made[key] is not item for key, item in value.items())
        case list():
            made = [_finite(item) for item in value]
            changed = any(new is not item for new, item in zip(made, value, strict=True))
        case _:
            return value
    return made if changed else value
