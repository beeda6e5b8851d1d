"""Tells whether a model thinks before it answers a request. Some options are accepted only without thinking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .model_facts import Family
from .options import Options


def is_reasoning_enabled(options: Options, family: Family) -> bool | None:
    """Returns True if the model thinks before it answers a request with these options, or None if unknown.

    >>> is_reasoning_enabled(Options(), Family(thinking="asked"))
    False
    >>> is_reasoning_enabled(Options(reasoning_effort="low"), Family())
    True
    >>> is_reasoning_enabled(Options(extra_body={"thinking": {"type": "disabled"}}), Family(thinking="default"))
    False
    """
    if (said := _explicit_setting(options.extra_body)) is not None:
        return said
    if family.thinking in ("never", "always"):
        return family.thinking == "always"
    effort = options.reasoning_effort or family.default_effort
    if effort is not None:
        return effort != "none"
    return None if family.thinking is None else family.thinking == "default"


def _explicit_setting(body: Mapping[str, Any]) -> bool | None:
    """Returns the setting for thinking that the caller's `extra_body` contains, in the format of any API."""
    for name, off in (("reasoning_effort", "none"), ("enable_thinking", False)):
        if name in body:
            return bool(body[name] != off)
    for name, member, off in (
        ("thinking", "type", "disabled"),
        ("reasoning", "enabled", False),
        ("reasoning", "effort", "none"),
        ("chat_template_kwargs", "thinking", False),
        ("chat_template_kwargs", "enable_thinking", False),
    ):
        if isinstance(own := body.get(name), Mapping) and member in own:
            return bool(own[member] != off)
    return None
