"""Token counts of OpenAI's two APIs. Servers send them by the names of either, and of others, on both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..values import Usage, count


def read_openai_usage(usage: Mapping[str, Any]) -> Usage:
    """Returns the counts of a usage object.

    Sources: https://platform.openai.com/docs/guides/prompt-caching (`cache_write_tokens`, as OpenRouter has it),
    Moonshot (`cached_tokens` on top), https://api-docs.deepseek.com/guides/kv_cache (`prompt_cache_hit_tokens`),
    https://docs.litellm.ai/docs/completion/prompt_caching (`cache_read_input_tokens`, `cache_creation_input_tokens`,
    which are parts of `prompt_tokens` there).
    """
    read = _members(usage, "prompt_tokens_details", "input_tokens_details")
    written = _members(usage, "completion_tokens_details", "output_tokens_details")
    return Usage(
        input_tokens=count(usage, "prompt_tokens", "input_tokens"),
        output_tokens=count(usage, "completion_tokens", "output_tokens"),
        total_tokens=count(usage, "total_tokens"),
        cached_tokens=count(read, "cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens"),
        cache_write_tokens=count(read, "cache_write_tokens", "cache_creation_input_tokens"),
        reasoning_tokens=count(written, "reasoning_tokens"),
        raw=usage,
    )


def _members(usage: Mapping[str, Any], *details: str) -> dict[str, Any]:
    """Returns the members of a usage object with those of its details, which count before them."""
    found = dict(usage)
    for name in reversed(details):
        inner = usage.get(name)
        if isinstance(inner, Mapping):
            found |= {key: value for key, value in inner.items() if value is not None}
    return found
