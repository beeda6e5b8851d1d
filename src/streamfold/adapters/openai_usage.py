"""Converts the token counts of OpenAI's two APIs. Compatible servers mix the field names of both APIs, and add other
names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..deltas import ToolRequests
from ..jsontext import as_count, count_or_none
from ..types import Usage


def read_openai_usage(usage: Mapping[str, Any]) -> Usage:
    """Converts a usage object to token counts.

    Servers use these names for the counts of cached tokens. OpenAI and OpenRouter send `cache_write_tokens`
    (https://platform.openai.com/docs/guides/prompt-caching). Moonshot sends `cached_tokens` at the top level. DeepSeek
    sends `prompt_cache_hit_tokens` (https://api-docs.deepseek.com/guides/kv_cache). LiteLLM sends
    `cache_creation_tokens` in the details, and at the top level `cache_read_input_tokens` and
    `cache_creation_input_tokens`, which `prompt_tokens` includes
    (https://docs.litellm.ai/docs/completion/prompt_caching). DashScope sends `cache_creation_input_tokens` in the
    details (https://help.aliyun.com/zh/model-studio/context-cache). Bedrock sends `cache_write_input_tokens`
    (https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html).
    """
    read = _members(usage, "prompt_tokens_details", "input_tokens_details")
    written = _members(usage, "completion_tokens_details", "output_tokens_details")
    given = _first_count(usage, "prompt_tokens", "input_tokens")
    output = _first_count(usage, "completion_tokens", "output_tokens")
    cached, stored = _first_count(read, *_CACHE_READS), _first_count(read, *_CACHE_WRITES)
    total, reasoning = count_or_none(usage, "total_tokens"), count_or_none(written, "reasoning_tokens")
    # xAI's count of completion tokens doesn't include reasoning, and its total includes both:
    # https://docs.x.ai/docs/key-information/consumption-and-rate-limits
    if output is not None and reasoning and total == (given or 0) + output + reasoning:
        output += reasoning
    elif output and reasoning and reasoning > output:  # neither of DeepInfra's counts includes it (fixtures/deepinfra)
        total = total + reasoning if total == (given or 0) + output else total
        output += reasoning
    # Databricks sends Claude's counts, whose input excludes the cache. So the cached tokens can exceed the input.
    in_cache = sum(count_or_none(usage, name) or 0 for name in _CLAUDE_CACHE)
    if given is not None and in_cache > given:
        total = total + in_cache if total == given + (output or 0) else total
        given += in_cache
    return Usage(
        input_tokens=given,
        output_tokens=output,
        total_tokens=total,
        cached_tokens=cached,
        cache_write_tokens=stored,
        reasoning_tokens=reasoning,
        raw=usage,
        details=_details(usage),
    )


def tool_requests(usage: Mapping[str, Any]) -> Iterator[ToolRequests]:
    """Yields how many requests the server made to each hosted tool. OpenRouter and Anthropic send these numbers in
    `server_tool_use`, and Perplexity sends `num_search_queries`."""
    tools = usage.get("server_tool_use")
    found = {"web_search": usage.get("num_search_queries"), **(tools if isinstance(tools, Mapping) else {})}
    for name, number in found.items():
        if requests := as_count(number):
            yield ToolRequests(str(name).removesuffix("_requests"), requests)


def _first_count(numbers: Mapping[str, Any], *names: str) -> int | None:
    """Returns the first count that isn't 0, or 0 if all counts are 0, or None if no field is a count.

    Some proxies send the fields of both APIs, and the fields of one API are then 0.
    """
    return next((found for name in names if (found := as_count(numbers.get(name)))), count_or_none(numbers, *names))


_CLAUDE_CACHE = ("cache_read_input_tokens", "cache_creation_input_tokens")
_CACHE_READS = ("cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens", "cache_read_tokens")
_CACHE_WRITES = (
    "cache_write_tokens", "cache_creation_input_tokens", "cache_creation_tokens", "cache_write_input_tokens",
)  # fmt: skip
_SIDES = {
    "prompt_tokens_details": "input",
    "input_tokens_details": "input",
    "completion_tokens_details": "output",
    "output_tokens_details": "output",
}
_PREDICTED = ("accepted_prediction_tokens", "rejected_prediction_tokens")
_FIELDS = frozenset(
    {
        "prompt_tokens", "completion_tokens", "input_tokens", "output_tokens", "total_tokens", "reasoning_tokens",
        *_CACHE_READS, *_CACHE_WRITES,
    }
)  # fmt: skip


def _details(usage: Mapping[str, Any]) -> dict[str, int]:
    """Returns the token counts that have no field in `Usage`.

    OpenAI's totals include its counts of audio and predictions
    (https://platform.openai.com/docs/api-reference/chat/object). xAI's totals include its counts of texts and images.
    DeepSeek and Perplexity send additional counts next to the totals.
    """
    found = list(usage.items())
    for member, side in _SIDES.items():
        parts = usage.get(member)
        for name, value in parts.items() if isinstance(parts, Mapping) else ():
            found.append((name if name in _PREDICTED or name in _FIELDS else f"{side}_{name}", value))
    counts = {name: as_count(value) for name, value in found if name not in _FIELDS and str(name).endswith("_tokens")}
    return {name: value for name, value in counts.items() if value is not None}


def _members(usage: Mapping[str, Any], *details: str) -> dict[str, Any]:
    """Merges a usage object with the objects in its fields `details`. If several objects have a field, its value is
    from the first of `details`."""
    found = dict(usage)
    for name in reversed(details):
        inner = usage.get(name)
        if isinstance(inner, Mapping):
            found |= {key: value for key, value in inner.items() if value is not None}
    return found
