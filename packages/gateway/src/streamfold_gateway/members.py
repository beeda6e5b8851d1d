"""Which members of a client's request are sent to a provider, beside those that the operator sets."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from streamfold import ReplyWarning
from streamfold.serving import KnownMembers, MemberFilter
from streamfold.types import BackendInfo

from .api import ClientRequest, Warnings
from .config import KeyOptions


def permitted_members(
    body: Mapping[str, Any], known: KnownMembers, key: KeyOptions, *, any_model: bool
) -> tuple[dict[str, Any], tuple[ReplyWarning, ...]]:
    """Returns a request body without the members that its client may not send, and the warnings about them.

    Args:
        known: the members that the client's API documents.
        key: what the client's key may do.
        any_model: the client may use every model of the provider.
    """
    members = MemberFilter(
        known, only_known=key.only_known_members, passthrough=key.passthrough_members, any_model=any_model
    )
    kept, warnings = members.filter(body), []
    if members.destinations:
        why = "the operator of the gateway chooses models, addresses and keys"
        warnings.append(_not_sent(members.destinations, why))
    if members.unknown:
        why = "this key may send documented members only; `passthrough_members` lists others"
        warnings.append(_not_sent(members.unknown, why))
    return kept, tuple(warnings)


def with_operator_members(asked: ClientRequest, endpoints: Collection[BackendInfo]) -> tuple[ClientRequest, Warnings]:
    """Returns a request in which nothing replaces what the operator's `extra_body` sets, and the warnings about it.

    A provider's own `extra_body` is merged by member, and a request's value replaces a configured one. So a member of
    both is sent as the client wrote it with the operator's values over it, or, where the endpoints that may answer are
    configured differently, not at all.
    """
    extra = dict(asked.request.options.extra_body)
    lost: list[str] = []
    for name in [name for name in extra if any(name in endpoint.extra_body for endpoint in endpoints)]:
        first, *others = [endpoint.extra_body.get(name) for endpoint in endpoints]
        if any(other != first for other in others):
            del extra[name]
            lost.append(name)
        elif name == "tools" and isinstance(first, list) and isinstance(extra[name], list):
            extra[name] = [*extra[name], *first]
        else:
            extra[name] = _merged(extra[name], first, name, lost)
    if extra == asked.request.options.extra_body:
        return asked, []
    return asked.with_extra_body(extra), [_not_sent(lost, "the operator of the gateway sets it")] if lost else []


def _merged(mine: Any, operators: Any, where: str, lost: list[str]) -> Any:
    """Returns a value of the client's with an operator's over it, and adds the paths of what was replaced."""
    if isinstance(mine, Mapping) and isinstance(operators, Mapping):
        both = {name: _merged(mine[name], value, f"{where}.{name}", lost) if name in mine else value
                for name, value in operators.items()}  # fmt: skip
        return {**mine, **both}
    if mine != operators:
        lost.append(where)
    return operators


def _not_sent(paths: list[str], why: str) -> ReplyWarning:
    named = ", ".join(path[:80] for path in paths[:10]) + (", ..." if len(paths) > 10 else "")
    return ReplyWarning("option_dropped", f"{named}: not sent, because {why}")
