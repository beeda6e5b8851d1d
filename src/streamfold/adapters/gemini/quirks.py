"""Differences in requests between Gemini's models and endpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ...requests import ReasoningEffort


@dataclass(frozen=True, slots=True)
class GeminiQuirks:
    """Differences between models and endpoints in the request.

    Attributes:
        schemas: "json": JSON Schema (`parametersJsonSchema`); "openapi": the older subset (`parameters`), for older
            proxies and models.
        thinking: how thinking is controlled, if it differs from the model family: by a "level", by a "budget" of
            tokens, or "never".
        levels: the model's thinking levels, the lowest first.
        budget: the smallest and the largest thinking budget.
        can_stop_thinking: whether a thinking budget of 0 is accepted.
        signatures: "required": the first tool call of each answer of the current turn is refused without its signature
            (Gemini 3). https://ai.google.dev/gemini-api/docs/thought-signatures
        result_images: whether images are accepted inside a tool result (Gemini 3). Otherwise they follow in a user
            content.
        json_with_tools: whether JSON output and tools can be requested together (Gemini 3).
        mixed_tools: how functions and hosted tools are requested together: "declared" (Gemini 3), "plain" (Vertex AI,
            without a declaration), or "refused" (older models). https://ai.google.dev/gemini-api/docs/tool-combination
        system_instruction: whether system messages are supported; Gemma doesn't support them.
        call_ids: whether ids of tool calls are accepted; Vertex AI before Gemini 3 refuses them.
        validated: whether the mode VALIDATED is supported, which enforces the schemas of strict tools (Vertex AI: only
            in v1beta1). https://ai.google.dev/api/caching#Mode
        count_form: the format of a request for the number of tokens: a whole "request", or some "fields" of a request
            (Vertex AI). https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/count-tokens
    """

    schemas: Literal["json", "openapi"] = "json"
    thinking: Literal["level", "budget", "never"] | None = None
    levels: tuple[ReasoningEffort, ...] | None = None
    budget: tuple[int, int] | None = None
    can_stop_thinking: bool = False
    signatures: Literal["required", "optional"] = "required"
    result_images: bool = True
    json_with_tools: bool = True
    mixed_tools: Literal["declared", "plain", "refused"] = "declared"
    system_instruction: bool = True
    call_ids: bool = True
    validated: bool = True
    count_form: Literal["request", "members"] = "request"

    def facts(self) -> dict[str, Any]:
        """Returns the facts about an endpoint's models that its quirks contain."""
        said: dict[str, Any] = {} if self.levels is None else {"efforts": self.levels}
        if self.thinking == "budget" or self.budget is not None:
            how = "default" if self.can_stop_thinking else "always"
            return {"thinking": how, "budget": self.budget or (128, 32768), "efforts": None}
        if self.thinking is not None:
            said |= {"thinking": "never" if self.thinking == "never" else "always", "budget": None}
        return said
