"""Signatures of calls: a decision that comes back through a browser is about the very call that the model made.

A signature is a nonce and a digest of the owner, the conversation, the call and the nonce. The journal of the run keeps
the nonce, so that an approval is good once, however often it is sent, and whatever stands before it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from streamfold import ConfigError, ToolCall, ToolRun
from streamfold.serving import canonical_json

from .requests import Decision


class Signatures:
    """Signs the calls of an owner's conversation that a person must approve.

    Args:
        secret: with which they are signed.
        owner: the user or tenant, as the application knows them.
        chat_id: of the conversation.

    Raises:
        ConfigError: the secret is empty, as that of a variable which isn't set.
    """

    def __init__(self, secret: str, owner: str, chat_id: str) -> None:
        if not secret:
            raise ConfigError("secret must be text that only your servers know, and not empty")
        self._secret = secret
        self._about = [owner, chat_id]

    async def of(self, run: ToolRun, shown: Callable[[str], str]) -> dict[str, str]:
        """Returns the signatures of the calls that wait, by their ids. A call that no model has made gets none.

        Args:
            shown: returns the id by which the user interface knows a call.
        """
        signed: dict[str, str] = {}
        for waiting in run.pending:
            if waiting.call.kind == "approval":
                raise ConfigError(
                    f"the call {waiting.call.id!r} of {waiting.call.name} is run by the provider, and can't be signed:"
                    " save the state of the run, and pass it as state="
                )
            if waiting.waits_for == "approval":
                call = replace(waiting.call, id=shown(waiting.call.id))
                if (nonce := await run.approval_nonce(waiting, call)) is not None:
                    signed[waiting.call.id] = self._signature(call, nonce)
        return signed

    def check(self, call: ToolCall | None, given: str | None) -> str | None:
        """Returns the nonce of a signature; None if it is not that of this call."""
        nonce = (given or "").partition(".")[0]
        if call is None or given is None:
            return None
        expected = self._signature(call, nonce).encode("utf-8", "surrogatepass")
        return nonce if hmac.compare_digest(expected, given.encode("utf-8", "surrogatepass")) else None

    def _signature(self, call: ToolCall, nonce: str) -> str:
        text = canonical_json([*self._about, call.id, call.name, call.arguments, nonce])
        digest = hmac.new(self._secret.encode(), text.encode("utf-8", "surrogatepass"), hashlib.sha256)
        return f"{nonce}.{digest.hexdigest()}"


def checked_decisions(
    decisions: Iterable[Decision],
    calls: Mapping[str, ToolCall],
    signatures: Signatures | None,
    where: str,
) -> tuple[Decision, ...]:
    """Returns decisions, with the nonces of their signatures if calls are signed.

    Args:
        calls: those of the last turn, by their ids.
        where: the place of the decisions in the request.

    Raises:
        ConfigError: there are two about one call, or one is not signed for its call.
    """
    found: dict[str, Decision] = {}
    for decision in decisions:
        if decision.call_id in found:
            raise ConfigError(f"{where}: there are two decisions about the call {decision.call_id!r}")
        if signatures is not None:
            nonce = signatures.check(calls.get(decision.call_id), decision.signature)
            if nonce is None:
                kind = "approval" if decision.approved else "denial"
                raise ConfigError(
                    f"{where}: the {kind} of the call {decision.call_id!r} is not signed for these arguments, in this"
                    " conversation and for this owner"
                )
            decision = replace(decision, nonce=nonce)
        found[decision.call_id] = decision
    return tuple(found.values())
