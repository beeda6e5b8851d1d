"""Signatures of calls: a decision that comes back through a browser is about the very call that the model made.

A signature is a nonce and a digest of the run, the call and the nonce. The journal of the run, or else this process,
keeps the nonce, so that an approval is good once, however often it is sent, and whatever stands before it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable
from dataclasses import replace

from ...text import canonical_json
from ...tools import PendingCall, ToolRun
from ...values import ConfigError, Message, ToolCall
from .requests import Decision


class Signatures:
    """Signs the calls of a run that somebody must approve.

    Args:
        secret: with which they are signed.
        run_id: of the run, as the user interface knows it.
    """

    def __init__(self, secret: str, run_id: str) -> None:
        self._secret = secret
        self._run_id = run_id

    async def of(self, run: ToolRun, shown: Callable[[str], str]) -> dict[str, str]:
        """Returns the signatures of the calls that wait, by their ids. A call that no model has made gets none.

        Args:
            shown: returns the id by which the user interface knows a call.
        """
        signed: dict[str, str] = {}
        for waiting in run.pending:
            call = _shown_call(waiting, shown)
            if (nonce := await run.approval_nonce(call, self._run_id)) is not None:
                signed[waiting.call.id] = self._signature(call, nonce)
        return signed

    def check(self, call: ToolCall | None, given: str | None) -> str | None:
        """Returns the nonce of a signature; None if it is not that of this call."""
        nonce = (given or "").partition(".")[0]
        fits = call and hmac.compare_digest(self._signature(call, nonce).encode(), (given or "").encode())
        return nonce if fits else None

    def _signature(self, call: ToolCall, nonce: str) -> str:
        text = canonical_json([self._run_id, call.id, call.name, call.arguments, nonce])
        return f"{nonce}.{hmac.new(self._secret.encode(), text.encode(), hashlib.sha256).hexdigest()}"


def checked_decisions(
    decisions: Iterable[Decision], secret: str | None, run_id: str, messages: Iterable[Message], where: str
) -> tuple[Decision, ...]:
    """Returns decisions, the approvals with their nonces if calls are signed.

    Raises:
        ConfigError: an approval is not signed for its call.
    """
    if secret is None:
        return tuple(decisions)
    signatures, found = Signatures(secret, run_id), list[Decision]()
    calls = {call.id: call for message in messages for call in message.tool_calls}  # of the last turn, if ids repeat
    for decision in decisions:
        nonce = signatures.check(calls.get(decision.call_id), decision.signature) if decision.approved else None
        if decision.approved and nonce is None:
            raise ConfigError(
                f"{where}: the approval of the call {decision.call_id!r} is not signed for these arguments"
            )
        found.append(replace(decision, nonce=nonce))
    return tuple(found)


def _shown_call(waiting: PendingCall, shown: Callable[[str], str]) -> ToolCall:
    return replace(waiting.call, id=shown(waiting.call.id))
