"""The differences between servers of Chat Completions that requests must respect, one typed field for each.

The defaults suit a server of which nothing is known: what most of them take, and only OpenAI refuses.
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
        max_tokens_field: the name of the output limit. OpenAI's reasoning models refuse the old name, many compatible
            servers ignore the new one.
        stream_usage: whether `stream_options.include_usage` may be sent. OpenAI sends no usage without it; a few
            servers refuse the member, others send usage unasked.
        response_format: how a schema for the answer is requested: by the schema; by JSON mode and an instruction, for
            servers without schemas (DeepSeek); or by a tool that the model must call, for servers with tools and
            without JSON mode. The tool's arguments are then the text of the answer, and arrive in one piece at the end.
        strict_output: a `response_format` that is a pydantic model is sent in the subset of OpenAI's strict mode, which
            guarantees a fitting answer. Not all servers have it: Groq answers a 400 for models without that mode.
        schemas: the row of `facts/schemas.toml` that says what the endpoint accepts in a schema. None: by the model.
        inline_refs: the server accepts no `$ref` in a schema.
        unsupported_keywords: schema keywords that the server refuses.
        reasoning_field: where the reasoning of an earlier turn is sent back: a member of the message; "think_tag": in
            <think> before its text; "thinking_part" or "reasoning_part": a part of its content (Mistral, Databricks).
            None: it is not sent, because many servers refuse members that they do not know.
        reasoning_of_thinkers: only models that are known to think accept it. Groq's other models answer a 400.
        reasoning_required: a turn with calls is refused without its reasoning, so that at least an empty text is sent:
            DeepSeek, while it thinks (https://api-docs.deepseek.com/guides/thinking_mode).
        reasoning_details: the `reasoning_details` of an answer are sent back to the endpoint that they came from,
            and to no other, instead of the reasoning's text. OpenRouter and MiniMax want them unchanged: some are
            signed.
        returned_members: members of an answer's message that are sent back unchanged to the endpoint that they came
            from. GitHub Copilot signs reasoning in `reasoning_opaque`, LiteLLM in `thinking_blocks`.
        reasoning_split: sent as `reasoning_split`. MiniMax writes reasoning into the text otherwise.
        thinking_switch: the member that turns thinking on or off, for servers on which `reasoning_effort` does not:
            `thinking: {"type": ...}`, `enable_thinking: true`, or `reasoning: {"enabled": true}`. The effort "none" is
            off, any other is on. None: there is no such member.
        effort_grades: whether `reasoning_effort` is sent, to models that have levels of effort. Beside a switch it is
            sent for every effort but "none".
        forced_while_thinking: whether "required" and named tool choices can be sent while the model thinks, which it
            does unless the request says otherwise. If not, "auto" is sent, with a warning. For models that never accept
            forced choices there is the capability `forced_choice`.
        allowed_tools: whether a choice among some of the tools is sent as OpenAI's `allowed_tools`. Otherwise the other
            tools are left out, which means the same but changes the cached beginning of the prompt.
        tool_choice_auto: whether the choice "auto" is written. It is the default everywhere; strict servers refuse it.
        tool_choice_none: whether the choice "none" is accepted. If not, the tools are left out.
        result_images: whether a tool's message may contain images. OpenAI accepts images from users only, so that they
            are moved to a user message after the results.
        developer_role: whether the role "developer" is known. OpenAI's reasoning models use it for system messages.
        message_names: whether a message may have a `name`.
        refusals: whether an assistant's turn may have a `refusal`. Elsewhere its text is sent in the content: templates
            leave the member out, and some servers refuse it.
        model_in_path: the model stands in the path, as a deployment of Azure: /deployments/MODEL/chat/completions.
        empty_turns: whether turns of users and systems may be without content. Otherwise they are an error.
        seed_field: the name of the seed.
        stop_max: the most texts to stop at. Others are found by the reader.
        says_json: JSON mode is refused unless a message says "json" (OpenAI, Azure, DashScope).
        call_ids: which ids of calls are accepted. Mistral accepts nine letters and digits only; other ids are replaced,
            equal ids by equal ones.
        continues: how the server is told to continue the text of the last message, which is marked as partial: by the
            member `prefix` of the message (Mistral, DeepSeek's beta), or by the member `continue_final_message` of the
            request (vLLM, SGLang). None: it can't.
        refused_members: members of the body that this server refuses and others know. A framework that has a setting
            for one is told that it can't be sent.
        hosted_tools: in whose words tools that the provider runs are written; OpenAI has none on this API.
        call_signatures: the first call of each answer of the current turn is refused without the thought signature that
            came with it (Gemini 3). https://ai.google.dev/gemini-api/docs/thought-signatures#openai
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
