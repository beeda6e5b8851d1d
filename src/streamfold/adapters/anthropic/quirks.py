"""Differences in requests between servers of the Messages API and between models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ...requests import ReasoningEffort


@dataclass(frozen=True, slots=True)
class AnthropicQuirks:
    """Differences between servers and models in the request.

    Attributes:
        platform: "anthropic": Anthropic's API, or one like it; "vertex": Google's Vertex AI; "bedrock": Amazon Bedrock.
            The request bodies are nearly the same; URL and framing differ.
        version: the header `anthropic-version`. From 2026-10-21 on, sampling options are refused.
        betas: values for the header `anthropic-beta`.
        max_tokens: the output limit if the request has no `max_output_tokens`, because the API requires a number.
            Default: the model's maximum.
        thinking: how thinking is switched on, if it differs from the model family. "manual": with a token budget;
            "adaptive": the model decides, guided by the effort; "always": adaptive, and can't be switched off;
            "never": not at all.
        efforts: the model's levels of effort, the lowest first. Empty: thinking is a switch.
        sampling: whether `temperature` and `top_p` are accepted while the model thinks.
        effort_grades: whether levels of effort are sent as `output_config.effort`, to models that have levels.
            Otherwise thinking is a switch. https://docs.anthropic.com/en/docs/build-with-claude/effort
        thinking_history: "signed": thinking is sent back only with its signature, which Anthropic checks. "required":
            an assistant turn with tool calls is refused without a thinking block (DeepSeek, Kimi).
        inline_system: whether system messages are accepted inside the conversation (Claude Opus 4.8 and later).
        prefill: whether a final assistant message is continued (refused by Claude Opus 4.6 and later).
        forced_while_thinking: whether a forced tool choice is accepted while the model thinks. Manual thinking never
            allows it.
        response_format: how structured output is requested: "json_schema" is `output_config.format`.
        schemas: the row of `facts/schemas.toml` with the endpoint's rules for JSON schemas. None: Claude's.
        web_search: the version of the hosted web search.
        cache_included: whether `input_tokens` in the usage already includes cached tokens (vLLM before 0.12,
            OpenRouter).
    """

    platform: Literal["anthropic", "vertex", "bedrock"] = "anthropic"
    version: str = "2023-06-01"
    betas: tuple[str, ...] = ()
    max_tokens: int | None = None
    thinking: Literal["manual", "adaptive", "always", "never"] | None = None
    efforts: tuple[ReasoningEffort, ...] | None = None
    sampling: bool | None = None
    effort_grades: bool = True
    thinking_history: Literal["signed", "required"] = "signed"
    inline_system: bool = False
    prefill: bool = False
    forced_while_thinking: bool = True
    response_format: Literal["json_schema", "tool"] = "json_schema"
    schemas: str | None = None
    web_search: str = "web_search_20260318"
    cache_included: bool = False

    def facts(self) -> dict[str, Any]:
        """Returns the facts about an endpoint's models that its quirks contain."""
        said: dict[str, Any] = {}
        if self.thinking is not None:
            manual = self.thinking == "manual"
            how = "asked" if self.thinking in ("manual", "adaptive") else self.thinking
            said = {"thinking": how, "budget": (1024, 64000) if manual else None}
            said |= {"samples_while_thinking": False} if manual else {}
        if self.efforts is not None:
            said["efforts"] = self.efforts
        if self.sampling is not None:
            said["sampling"] = "yes" if self.sampling else "no"
        return said
