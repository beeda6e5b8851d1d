"""Checks what becomes of each fact of a conversation at one provider."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from streamfold.config import Profile
from streamfold.errors import ConfigError
from streamfold.types import ReplyWarning
from streamfold.urls import shown_url

from .announced import speaks_of
from .conversation import Conversation
from .facts import Fact, facts_of
from .lookup import Finding, Search

__all__ = ["Outcome", "check_swap"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one provider would get.

    Attributes:
        body: what would be sent; None if the request is refused, for the reason in `error`.
        findings: one for each fact of the conversation.
    """

    body: Mapping[str, Any] | None
    warnings: tuple[ReplyWarning, ...] = ()
    error: str | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def fine(self) -> bool:
        """Whether everything arrives, perhaps in another form."""
        return self.error is None and not any(made.silent or made.state == "lost" for made in self.findings)


def check_swap(profile: Profile, conversation: Conversation) -> Outcome:
    """Returns what becomes of every fact of a conversation at this provider. Sends nothing."""
    model = conversation.options.get("model") or profile.model or ""
    adapter = profile.make_adapter(model)
    origin = f"{profile.adapter} {shown_url(profile.base_url)}"
    asked = replace(conversation.request(model), origin=origin, capabilities=profile.capabilities_of(model))
    facts = facts_of(asked)
    try:
        ready = adapter.prepare(
            asked, repair_history=bool(conversation.options.get("repair_history")), endpoint=profile
        )
    except ConfigError as exc:
        return Outcome(None, error=str(exc), findings=tuple(_refused(facts, str(exc))))
    findings = Search(asked, ready).run(facts)
    return Outcome(json.loads(ready.body), tuple(ready.warnings), findings=tuple(findings))


def _refused(facts: list[Fact], error: str) -> list[Finding]:
    named = [fact for fact in facts if _speaks_of(error, fact)]
    return [
        Finding(fact, "refused" if fact in named else "not sent", error if fact in named else "the request is refused")
        for fact in facts
    ]


def _speaks_of(text: str, fact: Fact) -> bool:
    if fact.kind == "tool":
        return repr(fact.value.name) in text
    if fact.kind in ("choice", "option"):
        return fact.path in text or f"{fact.path.split('.')[-1]}" in text
    return speaks_of(text, fact.path)
