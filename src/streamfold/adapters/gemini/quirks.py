"""The settings for differences between Gemini's models and endpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ...requests import ReasoningEffort


@dataclass(frozen=True, slots=True)
class GeminiQuirks:
    """Settings for differences between Gemini's models and endpoints.

    Attributes:
        schemas: the format in which requests send JSON schemas: "json" for JSON Schema (`parametersJsonSchema`), or
            "openapi" for the subset in `parameters`, which older proxies and models require.
        thinking: how requests control thinking. With None, `families.toml` decides this by the model's name. The values
            are "level", "budget" (a number of tokens) and "never".
        levels: the model's thinking levels, from the lowest to the highest.
        budget: the minimum and the maximum thinking budget, in tokens.
        can_stop_thinking: True if the model accepts a thinking budget of 0.
        signatures: "required" if the API refuses a model's tool calls after the last user message without their thought
            signature (Gemini 3). https://ai.google.dev/gemini-api/docs/thought-signatures
        result_images: True if a tool result may contain images (Gemini 3). With False, streamfold sends these images in
            a user message after the result.
        json_with_tools: True if a request may ask for JSON output and also declare tools (Gemini 3).
        mixed_tools: how a request contains both functions and hosted tools. With "declared" (Gemini 3), it also needs
            the field `includeServerSideToolInvocations`. With "plain" (Vertex AI), it needs no such field. With
            "refused" (older models), a request can't contain both.
            https://ai.google.dev/gemini-api/docs/tool-combination
        system_instruction: True if the model supports system messages. Gemma models don't.
        call_ids: True if requests may contain tool call ids. Vertex AI refuses these ids for models before Gemini 3.
        validated: True if the API has the function calling mode VALIDATED, which makes tool calls follow the schemas
            of the tools. Vertex AI has this mode only in v1beta1. https://ai.google.dev/api/caching#Mode
        count_form: how a request that counts tokens contains the request for a response: complete ("request"), or only
            some of its fields ("members", Vertex AI).
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
        """Converts these settings to facts about models. The keys of the result are names of `Family`'s fields."""
        said: dict[str, Any] = {} if self.levels is None else {"efforts": self.levels}
        if self.thinking == "budget" or self.budget is not None:
            how = "default" if self.can_stop_thinking else "always"
            return {"thinking": how, "budget": self.budget or (128, 32768), "efforts": None}
        if self.thinking is not None:
            said |= {"thinking": "never" if self.thinking == "never" else "always", "budget": None}
        return said
