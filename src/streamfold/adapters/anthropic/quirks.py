"""The settings for differences between models and between servers of the Messages API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ...requests import ReasoningEffort


@dataclass(frozen=True, slots=True)
class AnthropicQuirks:
    """Settings for differences between models and between servers of the Messages API.

    Attributes:
        platform: where the API runs. The value is "anthropic" (Anthropic's API, or a compatible server), "vertex"
            (Google's Vertex AI) or "bedrock" (Amazon Bedrock). The request bodies are nearly the same, but the URLs and
            the stream formats differ.
        version: the value of the header `anthropic-version`. From version 2026-10-21 on, the API refuses sampling
            options such as `temperature`.
        betas: values that every request sends in the header `anthropic-beta`.
        max_tokens: the value of the required field `max_tokens` if a request doesn't have the option
            `max_output_tokens`. With None, the model's maximum is sent.
        thinking: how a request turns on thinking. With None, `families.toml` decides this by the model's name. The
            values are "manual" (with a token budget), "adaptive" (the model decides how much it thinks), "always"
            (adaptive, and can't be turned off) or "never".
        efforts: the model's effort levels, from the lowest to the highest. If empty, thinking can only be turned on or
            off.
        sampling: True if the server accepts `temperature` and `top_p` while the model thinks.
        effort_grades: True if requests contain the effort level in `output_config.effort`. With False, requests only
            turn thinking on or off. https://docs.anthropic.com/en/docs/build-with-claude/effort
        thinking_history: how requests contain the thinking of earlier responses. With "signed", they contain only
            thinking with a signature, because Anthropic checks signatures. With "required", they contain all thinking,
            and streamfold adds empty thinking to tool calls that have none, because the server would refuse them
            (DeepSeek, Kimi).
        inline_system: True if the server accepts system messages inside the conversation (Claude Opus 4.8 and later).
        prefill: True if the model can continue an assistant message at the end of a request. Claude Opus 4.6 and later
            refuse such requests.
        forced_while_thinking: True if the server accepts a forced tool choice while the model thinks. No server accepts
            a forced tool choice with manual thinking.
        response_format: how a request asks for structured output: by the field `output_config.format` ("json_schema")
            or by a tool call that the request forces ("tool").
        schemas: the row in `facts/schemas.toml` that describes which JSON schemas the endpoint accepts. With None, the
            row "claude" is used.
        web_search: the version of Anthropic's hosted web search tool.
        cache_included: True if `input_tokens` in the usage includes the cached tokens (vLLM before 0.12, OpenRouter).
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
        """Converts these settings to facts about models. The keys of the result are names of `Family`'s fields."""
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
