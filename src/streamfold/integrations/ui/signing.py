"""Signatures of calls: a decision that comes back through a browser is about the very call that the model made."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...values import ConfigError, Message, ToolCall

__all__ = ["check_signatures", "signer", "written"]


def written(value: Any, *, sort: bool = False) -> str:
    """Returns JSON text as JavaScript would write it, as far as arguments are concerned: 1.0 is 1 there."""
    return json.dumps(_as_numbers(value), ensure_ascii=False, separators=(",", ":"), sort_keys=sort)


def signer(secret: str, run_id: str) -> Callable[[ToolCall], str]:
    """Returns what signs the calls of a run: id, name and arguments."""

    def sign(call: ToolCall) -> str:
        text = written([run_id, call.id, call.name, call.arguments], sort=True)
        return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()

    return sign


def check_signatures(
    secret: str, run_id: str, messages: Iterable[Message], approved: Mapping[str, str | None], where: str
) -> None:
    """Checks approvals, given as the ids of calls with their signatures. Raises ConfigError if one does not fit."""
    sign = signer(secret, run_id)
    calls = {call.id: call for message in messages for call in message.tool_calls}  # of the last turn, if ids repeat
    for call_id, given in approved.items():
        call = calls.get(call_id)
        if call is None or not hmac.compare_digest(sign(call).encode(), (given or "").encode()):
            raise ConfigError(f"{where}: the approval of the call {call_id!r} is not signed for these arguments")


def _as_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _as_numbers(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_as_numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else value
