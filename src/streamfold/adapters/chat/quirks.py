"""How requests differ between servers of Chat Completions. Each difference is a field of `ChatQuirks`.

For unknown servers, streamfold uses the default values, which most servers accept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

ReasoningField: TypeAlias = Literal[
    "reasoning_content", "reasoning", "reasoning_text", "think_tag", "thinking_part", "reasoning_part"
]


@dataclass(frozen=True, slots=True)
class ChatQuirks:
    """How requests differ between servers of Chat Completions.

    Attributes:
        max_tokens_field: the name of the request field that limits the output tokens. OpenAI's reasoning models refuse
            the old name, `max_tokens`. Many compatible servers ignore the new name, `max_completion_tokens`.
        stream_usage: True to send `stream_options.include_usage`. OpenAI streams token counts only if the request
            contains this field, but a few servers refuse the field.
        response_format: how a request asks for structured output. With "json_object", it uses JSON mode and describes
            the schema in an instruction (for servers such as DeepSeek). With "tool", it forces a tool call (for servers
            without JSON mode). The tool call's arguments become the text of the reply, which arrives in one piece at
            the end.
        strict_output: True to use OpenAI's strict mode if the response format is a pydantic class. The output then
            always follows its schema. Groq refuses strict mode for some language models.
        schemas: the row in `facts/schemas.toml` that describes which JSON schemas the endpoint accepts. With None,
            streamfold chooses the row by the model's vendor.
        inline_refs: True if the server refuses `$ref` in a JSON schema.
        unsupported_keywords: the JSON Schema keywords that the server refuses.
        reasoning_field: the message field for the reasoning of earlier messages. With "think_tag", the reasoning is in
            <think> before the message's text. With "thinking_part" (Mistral) or "reasoning_part" (Databricks), it is a
            part of the message's content. With None, requests contain no earlier reasoning, because many servers refuse
            unknown fields.
        reasoning_of_thinkers: True if the server refuses earlier reasoning in requests to models without reasoning
            (Groq).
        reasoning_required: True if the server refuses messages with tool calls but without reasoning, as DeepSeek does
            while it thinks (https://api-docs.deepseek.com/guides/thinking_mode). streamfold then adds empty reasoning.
        reasoning_details: True if streamfold sends a message's `reasoning_details` back to the endpoint that wrote
            them, instead of the reasoning text. OpenRouter and MiniMax need the details unchanged, because some are
            signed.
        returned_members: the response fields that streamfold sends back unchanged in later requests to the same
            endpoint. GitHub Copilot sends signed reasoning in `reasoning_opaque`, LiteLLM in `thinking_blocks`.
        reasoning_split: True to send `reasoning_split: true`. Without this field, MiniMax puts the reasoning into the
            text of its response.
        thinking_switch: the field that turns thinking on or off: `thinking: {"type": ...}`, `enable_thinking: true`, or
            `reasoning: {"enabled": true}`. The effort "none" turns thinking off, any other effort turns it on. With
            None, the server has no field that turns thinking on or off.
        effort_grades: True if the server accepts effort levels in `reasoning_effort`. With False, requests can only
            turn thinking on or off.
        forced_while_thinking: True if the server accepts "required" and named tool choices while the model thinks. With
            False, streamfold replaces such a tool choice with "auto", with a warning. If a model never accepts a forced
            choice, set its capability `forced_choice` to "no".
        allowed_tools: True if the server accepts OpenAI's tool choice `allowed_tools`, which allows only some of the
            tools. With False, streamfold sends only the allowed tools, although the server then can't use its prompt
            cache.
        tool_choice_auto: True to send the tool choice "auto". Servers use "auto" by default, and some refuse this
            value.
        tool_choice_none: True if the server accepts the tool choice "none". With False, streamfold leaves out the tools
            instead.
        result_images: True if the server accepts images in tool messages. With False, streamfold moves the images to a
            user message after the tool results, because OpenAI accepts images only in user messages.
        developer_role: True if the server accepts the role "developer", which OpenAI's reasoning models use for
            instructions.
        message_names: True if the server accepts the field `name` in messages.
        refusals: True if the server accepts the field `refusal` in assistant messages. With False, streamfold sends the
            refusal as the message's content.
        model_in_path: True if the path of requests must contain the model's name, as at Azure:
            /deployments/MODEL/chat/completions.
        empty_turns: True if the server accepts empty user and system messages. With False, streamfold raises
            ConfigError for an empty message.
        seed_field: the name of the field for the seed.
        stop_max: the largest number of stop sequences that the server accepts. If a request has more, streamfold itself
            ends the response at the others.
        says_json: True if the server refuses JSON mode unless a message contains the word "json" (OpenAI, Azure,
            DashScope).
        call_ids: the format of tool call ids that the server accepts. Mistral accepts only nine letters and digits.
            streamfold replaces any other id with a new id, which is the same in every request.
        continues: the field that asks the server to continue the last message. `prefix` (Mistral, DeepSeek's beta) and
            `partial` (Kimi) are fields of the message. `continue_final_message` (vLLM, SGLang) is a field of the
            request. With None, the server can't continue a text.
        refused_members: the request fields that the server refuses. The integrations for LangChain and pydantic-ai
            don't support settings that need such a field.
        hosted_tools: the format of hosted tools in requests. OpenAI runs no hosted tools in Chat Completions.
        call_signatures: True if the server requires a thought signature in the first tool call of each assistant
            message after the last user message (Gemini 3).
            https://ai.google.dev/gemini-api/docs/thought-signatures#openai
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
    continues: Literal["prefix", "partial", "continue_final_message"] | None = None
