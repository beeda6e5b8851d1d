"""How requests differ between Gemini's models and endpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ...requests import ReasoningEffort


@dataclass(frozen=True, slots=True)
class GeminiQuirks:
    """How requests differ between Gemini's models and endpoints.

    Attributes:
        schemas: the format of schemas. The value is "json" for JSON Schema (`parametersJsonSchema`), or "openapi" for
            the older subset (`parameters`), which older proxies and models require.
        thinking: how requests control thinking, if this differs from the model's family: by a "level", by a "budget" of
            tokens, or "never".
        levels: the model's thinking levels, from the lowest to the highest.
        budget: the minimum and the maximum thinking budget, in tokens.
        can_stop_thinking: True if the model accepts a thinking budget of 0.
        signatures: the value is "required" if the API requires a thought signature in the first tool call of each model
            content after the last user message (Gemini 3). https://ai.google.dev/gemini-api/docs/thought-signatures
        result_images: True if a tool result may contain images (Gemini 3). With False, the images follow in a user
            content.
        json_with_tools: True if a request may ask for JSON output and also declare tools (Gemini 3).
        mixed_tools: how a request contains both functions and hosted tools: "declared" (Gemini 3), "plain" (without a
            declaration; Vertex AI) or "refused" (older models). https://ai.google.dev/gemini-api/docs/tool-combination
        system_instruction: True if the model supports system messages. Gemma doesn't.
        call_ids: True if requests may contain tool call ids. Vertex AI refuses these ids for models before Gemini 3.
        validated: True if the API has the tool calling mode VALIDATED. This mode makes the model follow the schemas of
            strict tools. Vertex AI has VALIDATED only in v1beta1. https://ai.google.dev/api/caching#Mode
        count_form: what the body of a request that counts tokens contains: a complete "request", or only some of its
            fields ("members"; Vertex AI).
            https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/count-tokens
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
        """Returns the facts about the endpoint's models that the quirks contain, by the names of `Family`'s fields."""
        said: dict[str, Any] = {} if self.levels is None else {"efforts": self.levels}
        if self.thinking == "budget" or self.budget is not None:
            how = "default" if self.can_stop_thinking else "always"
            return {"thinking": how, "budget": self.budget or (128, 32768), "efforts": None}
        if self.thinking is not None:
            said |= {"thinking": "never" if self.thinking == "never" else "always", "budget": None}
        return said
