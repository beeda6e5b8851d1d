"""Converts the token counts of Gemini's own API and of the Interactions API, which differ only in field names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..jsontext import count_or_none, count_or_zero
from ..types import Usage


@dataclass(frozen=True, slots=True)
class UsageNames:
    """The names of the fields in the usage object of one of Google's APIs.

    Attributes:
        prompt, answer, thoughts, total, cached: the names of the fields with these token counts.
        tools: the name of the field with the number of prompt tokens that hosted tools added.
        details: maps the names of the lists that count tokens by modality to "input", "output" or "cached".
        detail: the name of the token count in an entry of these lists.
    """

    prompt: str
    tools: str
    answer: str
    thoughts: str
    total: str
    cached: str
    details: Mapping[str, str]
    detail: str

    def read(self, numbers: Mapping[str, Any]) -> Usage:
        """Converts a usage object to a `Usage`.

        Google's count of output tokens doesn't include thoughts, and its count of prompt tokens doesn't include the
        text that hosted tools added to the prompt. The `Usage` includes both. Google omits counts that are 0, so a
        missing count is 0 if there are other counts.
        """
        names = self.prompt, self.tools, self.answer, self.thoughts
        total, cached = count_or_none(numbers, self.total), count_or_zero(numbers, self.cached)
        if total is None and all(count_or_none(numbers, name) is None for name in (*names, self.cached)):
            return Usage(raw=numbers)
        prompt, tools, answer, thoughts = (count_or_zero(numbers, name) for name in names)
        return Usage(
            input_tokens=None if prompt is None or tools is None else prompt + tools,
            output_tokens=None if answer is None or thoughts is None else answer + thoughts,
            total_tokens=total,
            cached_tokens=cached,
            reasoning_tokens=thoughts,
            raw=numbers,
            details=self._details(numbers),
        )

    def write(self, usage: Usage) -> dict[str, Any]:
        """Converts a `Usage` to a usage object with these field names. Returns the original usage object if the `Usage`
        is from a response of this API."""
        if self.prompt in usage.raw:
            return dict(usage.raw)
        thoughts = usage.reasoning_tokens or 0
        counts = {
            self.prompt: usage.input_tokens,
            self.answer: None if usage.output_tokens is None else max(0, usage.output_tokens - thoughts),
            self.total: usage.total_tokens,
            self.thoughts: usage.reasoning_tokens,
            self.cached: usage.cached_tokens,
        }
        return {name: count for name, count in counts.items() if count is not None}

    def _details(self, numbers: Mapping[str, Any]) -> dict[str, int]:
        found: dict[str, int] = {}
        for member, side in self.details.items():
            parts = numbers.get(member)
            for part in parts if isinstance(parts, list) else ():
                if isinstance(part, dict) and isinstance(part.get("modality"), str):
                    name = f"{side}_{part['modality'].lower()}_tokens"
                    found[name] = found.get(name, 0) + (count_or_none(part, self.detail) or 0)
        tools = count_or_none(numbers, self.tools)
        return found if tools is None else {**found, "tool_use_input_tokens": tools}


# https://ai.google.dev/api/generate-content#UsageMetadata
GEMINI_USAGE = UsageNames(
    prompt="promptTokenCount",
    tools="toolUsePromptTokenCount",
    answer="candidatesTokenCount",
    thoughts="thoughtsTokenCount",
    total="totalTokenCount",
    cached="cachedContentTokenCount",
    details={
        "promptTokensDetails": "input",
        "toolUsePromptTokensDetails": "input",
        "candidatesTokensDetails": "output",
        "cacheTokensDetails": "cached",
    },
    detail="tokenCount",
)
INTERACTIONS_USAGE = UsageNames(
    prompt="total_input_tokens",
    tools="total_tool_use_tokens",
    answer="total_output_tokens",
    thoughts="total_thought_tokens",
    total="total_tokens",
    cached="total_cached_tokens",
    details={
        "input_tokens_by_modality": "input",
        "tool_use_tokens_by_modality": "input",
        "output_tokens_by_modality": "output",
        "cached_tokens_by_modality": "cached",
    },
    detail="tokens",
)
