"""Differences between Gemini's models and endpoints in what may be sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ...requests import ReasoningEffort


@dataclass(frozen=True, slots=True)
class GeminiQuirks:
    """Differences between models and endpoints in the request.

    Attributes:
        schemas: "json": real JSON Schema (`parametersJsonSchema`); "openapi": the older subset (`parameters`), for
            proxies and models that know no other.
        thinking: how much thinking is asked for, where it is not as the family of the model says: as a "level", as a
            "budget" of tokens, or "never".
        levels: the thinking levels then, the lowest first.
        budget: the smallest and the largest budget then.
        can_stop_thinking: a budget of 0 is accepted then.
        signatures: "required": the first call of each answer of the current turn is refused without its signature
            (Gemini 3). https://ai.google.dev/gemini-api/docs/thought-signatures
        result_images: images are accepted inside the result of a call (Gemini 3); else they follow in a user content.
        json_with_tools: a JSON answer can be asked for beside tools (Gemini 3).
        mixed_tools: functions beside tools that Google runs: "declared" (Gemini 3), "plain": without saying so (Vertex
            AI), "refused": by older models. https://ai.google.dev/gemini-api/docs/tool-combination
        system_instruction: there is a place for system messages; Gemma has none.
        call_ids: ids of calls are accepted; Vertex AI before Gemini 3 refuses them.
        validated: the mode VALIDATED is known, which holds arguments to the schemas of strict tools (Vertex AI: only in
            v1beta1). https://ai.google.dev/api/caching#Mode
        count_form: how a prompt is written whose tokens are counted: as a whole "request", or as some "members" of one
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
        """Returns the facts about the models of an endpoint that its quirks say."""
        said: dict[str, Any] = {} if self.levels is None else {"efforts": self.levels}
        if self.thinking == "budget" or self.budget is not None:
            how = "default" if self.can_stop_thinking else "always"
            return {"thinking": how, "budget": self.budget or (128, 32768), "efforts": None}
        if self.thinking is not None:
            said |= {"thinking": "never" if self.thinking == "never" else "always", "budget": None}
        return said
