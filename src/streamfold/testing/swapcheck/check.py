"""What becomes of each fact of a conversation at one provider."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...config import Profile, variable_is_set
from ...values import ConfigError, ProtocolWarning, referenced, shown_url
from .announced import speaks_of
from .conversation import Conversation
from .facts import Fact, facts_of
from .lookup import Finding, Search

__all__ = ["Outcome", "check_swap"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one provider would get.

    Attributes:
        url: where to, without secrets.
        body: what would be sent; None if the request is refused, and `error` says why.
    """

    provider: str
    url: str
    body: Mapping[str, Any] | None
    warnings: tuple[ProtocolWarning, ...] = ()
    error: str | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def fine(self) -> bool:
        """Whether everything arrives, if in another form."""
        return self.error is None and not any(made.silent or made.state == "lost" for made in self.findings)


def check_swap(profile: Profile, conversation: Conversation) -> Outcome:
    """What this provider would get of a conversation. Nothing is sent; the key is not needed.

    Raises:
        ConfigError: no model is named, neither by the profile nor by the conversation's options.
    """
    model = conversation.options.get("model") or _model(profile)
    if not model:
        raise ConfigError(f'no model for "{profile.name}": write "{profile.name}:MODEL"')
    adapter = profile.make_adapter(model)
    url = shown_url(profile.base_url) + adapter.path
    origin = f"{profile.adapter} {shown_url(profile.base_url)}"
    asked = replace(conversation.request(model), origin=origin, capabilities=profile.capabilities_of(model))
    facts = facts_of(asked)
    try:
        ready = adapter.prepare(asked, repair=bool(conversation.options.get("repair")), endpoint=profile)
    except ConfigError as exc:
        return Outcome(profile.name, url, None, error=str(exc), findings=tuple(_refused(facts, str(exc))))
    body = json.loads(ready.body)
    if profile.model and referenced(profile.model):  # what a variable stands for is not shown
        body["model"] = profile.model
    findings = Search(asked, ready).run(facts)
    return Outcome(profile.name, url, body, tuple(ready.warnings), findings=tuple(findings))


def _model(profile: Profile) -> str | None:
    """The model, with a reference as it is written where the variable is not set."""
    if profile.model is None or not all(variable_is_set(name) for name in referenced(profile.model)):
        return profile.model
    return profile.sent_model()


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
