"""Converts settings for which streamfold has no option, such as `top_k`, to fields of a request body.

streamfold sends the fields in `extra_body`, in the format of each API:
https://platform.openai.com/docs/api-reference/chat/create, https://docs.claude.com/en/api/messages,
https://ai.google.dev/api/generate-content#generationconfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamfold import ChatModel, Usage
from streamfold.middleware import get_model_info

_SAMPLING = ("presence_penalty", "frequency_penalty")
_CHAT = {name: name for name in (*_SAMPLING, "logit_bias", "top_k", "service_tier")}
_MEMBERS: dict[str, dict[str, str]] = {
    "chat": _CHAT,
    "kimi": {name: name for name in _SAMPLING},
    "responses": {"service_tier": "service_tier"},
    "anthropic": {"top_k": "top_k", "service_tier": "service_tier"},
    "gemini": {
        "top_k": "generationConfig.topK",
        "presence_penalty": "generationConfig.presencePenalty",
        "frequency_penalty": "generationConfig.frequencyPenalty",
        "service_tier": "serviceTier",
    },
}
# Each API's service tiers, by OpenAI's names. None: the request contains no tier.
_TIERS: dict[str, dict[str, str | None]] = {
    "anthropic": {"default": "standard_only", "flex": None, "priority": None},
    "gemini": {"auto": None, "default": "standard"},
}
NAMES = (*_SAMPLING, "logit_bias", "top_k", "service_tier")


def unsupported_settings(model: ChatModel) -> frozenset[str]:
    """Returns the names of the settings that a model's API doesn't support, or all names if the API is unknown."""
    return frozenset(NAMES) - _places(model).keys()


def as_body_members(model: ChatModel, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings as fields of a request body. Leaves out None values and settings that the model doesn't support.

    Args:
        settings: the settings by name; unknown names are ignored.
    """
    body: dict[str, Any] = {}
    for name, (place, words) in _places(model).items():
        value: Any = settings.get(name)
        value = words.get(value, value) if words else value
        *outer, member = place.split(".")
        if value is not None:
            (body.setdefault(outer[0], {}) if outer else body)[member] = value
    return body


def _places(model: ChatModel) -> dict[str, tuple[str, Mapping[str, str | None]]]:
    """Maps each setting to its field in the request, and to the API's names for the setting's values. Leaves out a
    setting if one of the model's endpoints doesn't support it, or if the endpoints need different fields or values.
    """
    facts, profile = get_model_info(model), getattr(model, "profile", None)
    asked = [(one.adapter, one.refused_members) for one in facts.endpoints] if facts else []
    if profile is not None and not facts:  # a test double
        asked = [(profile.adapter, profile.quirks_of(profile.model).get("refused_members", ()))]
    each = [
        {
            member: (place, _TIERS.get(adapter, {}) if member == "service_tier" else {})
            for member, place in _MEMBERS.get(adapter, {}).items()
            if member not in refused
        }
        for adapter, refused in asked
    ]
    first, *others = each or [{}]
    return {name: place for name, place in first.items() if all(other.get(name) == place for other in others)}


def token_details(usage: Usage) -> dict[str, int]:
    """Returns the server's token counts for reasoning, audio, predictions and other kinds of tokens."""
    reasoning = {} if usage.reasoning_tokens is None else {"reasoning_tokens": usage.reasoning_tokens}
    return {**reasoning, **usage.details}
