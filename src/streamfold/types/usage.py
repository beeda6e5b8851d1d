"""`Usage`, the token counts of an answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .pydantic_support import PydanticField


@dataclass(frozen=True, slots=True)
class Usage(PydanticField):
    """Token counts that the server sent. streamfold never estimates them. A missing count is None.

    Token counts can be added (`first.usage + second.usage`). In the sum, `raw` and `steps` are empty.

    Attributes:
        cached_tokens: the part of `input_tokens` that the provider read from its prompt cache.
        cache_write_tokens: the part of `input_tokens` that the provider wrote to its prompt cache.
        reasoning_tokens: the part of `output_tokens` that the model used for reasoning.
        raw: the usage object that the server sent.
        tools: maps each kind of hosted tool to the number of times that the provider ran it.
        details: other token counts that the server sent, such as `input_audio_tokens`, `output_image_tokens`,
            `accepted_prediction_tokens`, `cache_write_1h_tokens` and `tool_use_input_tokens`.
        steps: the token counts of each request, if an answer needed several requests. All other attributes are then
            sums over these requests. For example, `input_tokens` counts the prompt once per request.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_write_tokens: int | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)
    tools: Mapping[str, int] = field(default_factory=dict)
    details: Mapping[str, int] = field(default_factory=dict)
    steps: tuple[Usage, ...] = ()

    @classmethod
    def of_steps(cls, steps: Iterable[Usage]) -> Usage:
        """Returns the sum of the token counts of the requests that one answer needed. `steps` of the result contains
        the counts of each request."""
        each = tuple(steps)
        return replace(sum(each[1:], each[0]), steps=each)

    def __add__(self, other: Usage) -> Usage:
        if not isinstance(other, Usage):
            return NotImplemented
        return Usage(
            input_tokens=_sum(self.input_tokens, other.input_tokens),
            output_tokens=_sum(self.output_tokens, other.output_tokens),
            total_tokens=_sum(self.total_tokens, other.total_tokens),
            cached_tokens=_sum(self.cached_tokens, other.cached_tokens),
            reasoning_tokens=_sum(self.reasoning_tokens, other.reasoning_tokens),
            cache_write_tokens=_sum(self.cache_write_tokens, other.cache_write_tokens),
            tools=_sums(self.tools, other.tools),
            details=_sums(self.details, other.details),
        )


def _sums(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}


def _sum(first: int | None, second: int | None) -> int | None:
    return first if second is None else second if first is None else first + second
