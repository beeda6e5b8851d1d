"""Differences in requests between servers of Chat Completions, each a typed field.

The defaults are for unknown servers: most servers accept them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

ReasoningField: TypeAlias = Literal[
    "reasoning_content", "reasoning", "reasoning_text", "think_tag", "thinking_part", "reasoning_part"
]


@dataclass(frozen=True, slots=True)
class ChatQuirks:
    """Differences between servers in the request.

    Attributes:
        max_tokens_field: the name of the output limit. OpenAI's reasoning models refuse the old name; many compatible
            servers ignore the new name.
        stream_usage: whether `stream_options.include_usage` may be sent. OpenAI requires it for usage; a few servers
            refuse it.
        response_format: how structured output is requested: by a JSON schema; by JSON mode and an instruction, for
            servers without schemas (DeepSeek); or by a forced tool call, for servers without JSON mode. The arguments
            of the forced tool call become the text of the answer, in one piece at the end.
        strict_output: whether a pydantic model as `response_format` is sent in OpenAI's strict mode, which guarantees a
            valid answer. Groq refuses strict mode for some models.
        schemas: the row of `facts/schemas.toml` with the endpoint's rules for JSON schemas. None: chosen by the model.
        inline_refs: whether the server refuses `$ref` in a JSON schema.
        unsupported_keywords: JSON-schema keywords that the server refuses.
        reasoning_field: where the reasoning of an earlier turn is sent back: a field of the message; "think_tag": in
            <think> before its text; "thinking_part" or "reasoning_part": a part of its content (Mistral, Databricks).
            None: reasoning is not sent back, because many servers refuse unknown fields.
        reasoning_of_thinkers: whether only reasoning models accept reasoning. Groq's other models answer a 400.
        reasoning_required: whether a turn with tool calls is refused without its reasoning, so that at least an empty
            text is sent (DeepSeek, while it thinks: https://api-docs.deepseek.com/guides/thinking_mode).
        reasoning_details: whether the `reasoning_details` of an answer are sent back to the same endpoint, instead of
            the reasoning's text. OpenRouter and MiniMax need them unchanged, because some are signed.
        returned_members: fields of an answer's message that are sent back unchanged to the same endpoint. GitHub
            Copilot signs reasoning in `reasoning_opaque`, LiteLLM in `thinking_blocks`.
        reasoning_split: the value of the field `reasoning_split`. Without it, MiniMax writes reasoning into the text.
        thinking_switch: the field that turns thinking on or off: `thinking: {"type": ...}`, `enable_thinking: true`,
            or `reasoning: {"enabled": true}`. The effort "none" turns thinking off, any other effort on. None: the
            server has no such field.
        effort_grades: whether `reasoning_effort` is sent to models with levels of effort. With a thinking switch, it is
            sent for every effort except "none".
        forced_while_thinking: whether "required" and named tool choices can be sent while the model thinks. Otherwise
            "auto" is sent, with a warning. For models that never accept forced choices, set the capability
            `forced_choice`.
        allowed_tools: whether a choice among some of the tools is sent as OpenAI's `allowed_tools`. Otherwise the other
            tools are left out, which changes the cached beginning of the prompt.
        tool_choice_auto: whether the tool choice "auto" is sent. It is the default everywhere, and some strict servers
            refuse it.
        tool_choice_none: whether the tool choice "none" is accepted. Otherwise the tools are left out.
        result_images: whether a tool's message may contain images. OpenAI accepts images only from users, so images are
            moved to a user message after the results.
        developer_role: whether the role "developer" is accepted. OpenAI's reasoning models use it for system messages.
        message_names: whether a message may have a `name`.
        refusals: whether an assistant's turn may have a `refusal`. Otherwise the refusal is sent as content.
        model_in_path: whether the model is in the path, as at Azure: /deployments/MODEL/chat/completions.
        empty_turns: whether user and system messages may be empty. Otherwise an empty message raises an error.
        seed_field: the name of the field for the seed.
        stop_max: the maximum number of stop texts. streamfold itself stops at further ones.
        says_json: whether JSON mode is refused unless a message contains "json" (OpenAI, Azure, DashScope).
        call_ids: which ids of tool calls are accepted. Mistral accepts only nine letters and digits; other ids are
            replaced consistently.
        continues: how the server continues the text of the last message: by the field `prefix` of the message (Mistral,
            DeepSeek's beta), or by the field `continue_final_message` of the request (vLLM, SGLang). None: the server
            can't continue a text.
        refused_members: fields of the request that this server refuses. Settings of frameworks for these fields raise
            an error.
        hosted_tools: the format of hosted tools; OpenAI has none on this API.
        call_signatures: whether the first tool call of each answer of the current turn is refused without its thought
            signature (Gemini 3). https://ai.google.dev/gemini-api/docs/thought-signatures#openai
    """

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream_usage: bool = True
    response_format: Literal["json_schema", "json_object", "tool"] = "json_schema"
    strict_output: bool = False
    schemas: str | None = None
    inline_refs: bool = False
    unsupported_keywords: tuple[str, ...] = ()
    reasoning_field: ReasoningField | None = None
    reasoning_of_thinkers: bool = False
    reasoning_required: bool = False
    reasoning_details: bool = False
    returned_members: tuple[str, ...] = ()
    reasoning_split: bool = False
    thinking_switch: Literal["thinking", "enable_thinking", "reasoning"] | None = None
    effort_grades: bool = True
    forced_while_thinking: bool = True
    allowed_tools: bool = False
    tool_choice_auto: bool = True
    tool_choice_none: bool = True
    result_images: bool = False
    developer_role: bool = True
    message_names: bool = True
    refusals: bool = False
    model_in_path: bool = False
    empty_turns: bool = False
    seed_field: Literal["seed", "random_seed"] = "seed"
    stop_max: int | None = None
    says_json: bool = False
    call_ids: Literal["any", "nine_alphanumeric"] = "any"
    call_signatures: bool = False
    refused_members: tuple[str, ...] = ()
    hosted_tools: Literal["none", "openrouter"] = "none"
    continues: Literal["prefix", "continue_final_message"] | None = None
