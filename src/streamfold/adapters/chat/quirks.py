"""The differences between servers of Chat Completions that requests must respect, one typed field for each.

The defaults suit a server of which nothing is known: what most of them take, and only OpenAI refuses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["ChatQuirks"]


@dataclass(frozen=True, slots=True)
class ChatQuirks:
    """What differs between servers in the request.

    Attributes:
        max_tokens_field: what the output limit is called. OpenAI's reasoning models refuse the old name, many
            compatible servers ignore the new one.
        stream_usage: whether `stream_options.include_usage` may be sent. Without it OpenAI sends no usage; a few
            servers refuse the member, others send usage unasked.
        response_format: how an answer that fits a schema is asked for: by the schema; by JSON mode and an instruction,
            for servers that know no more (DeepSeek); or by a tool that the model must call, for those that have tools
            and no JSON mode. Its arguments are then the text of the answer, and come at the end in one piece.
        strict_output: a `response_format` that is a pydantic model is sent in the subset of OpenAI's strict mode, which
            makes it sure to fit. Not for all: Groq, for one, answers a 400 for the models that have no such mode.
        inline_refs: the server takes no `$ref` in a schema.
        unsupported_keywords: keywords that the server refuses in a schema.
        reasoning_field: what reasoning is called in the history that is sent back; None: it stays out, because many
            servers refuse a member that they do not know.
        reasoning_required: a turn with calls is refused without its reasoning, so that at least an empty one is sent:
            DeepSeek, while it thinks (https://api-docs.deepseek.com/guides/thinking_mode).
        reasoning_details: the `reasoning_details` of an answer go back to the endpoint that they came from, and to no
            other, instead of its text. OpenRouter and MiniMax want them unchanged, because some are signed.
        reasoning_split: sent as `reasoning_split`. MiniMax writes reasoning into the text unless it is asked for apart.
        thinking_switch: the member that turns thinking on or off, for servers on which `reasoning_effort` does not:
            `thinking: {"type": ...}`, `enable_thinking: true`, or `reasoning: {"enabled": true}`. The effort "none" is
            off, any other is on; None: there is no such member.
        effort_grades: whether `reasoning_effort` is sent. Beside a switch it is sent for every effort but "none"; where
            there is only a switch, the reply says that the grade was not sent.
        forced_while_thinking: whether "required" and named tool choices can be sent while the model thinks, which it
            does unless the request says otherwise. Where they can't, "auto" is sent, and the reply says so. Where a
            model never takes them, that is its capability `forced_choice`.
        allowed_tools: whether a choice among some of the tools is sent as OpenAI's `allowed_tools`. Otherwise the other
            tools are left out, which means the same and spoils a cached prompt.
        result_images: whether a tool's message may hold images. OpenAI takes them from users alone, so that they are
            sent in a user's message after the results.
        developer_role: whether the role "developer" is known. OpenAI's reasoning models call the system so.
        message_names: whether a message may have a `name`.
        empty_turns: whether turns of users and systems may be without content. Without it they are an error.
        seed_field: what the seed is called.
        call_ids: the ids of calls that the history may have. Mistral takes nine letters and digits, so that ids of any
            other form are replaced, the same ones always by the same.
    """

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream_usage: bool = True
    response_format: Literal["json_schema", "json_object", "tool"] = "json_schema"
    strict_output: bool = False
    inline_refs: bool = False
    unsupported_keywords: tuple[str, ...] = ()
    reasoning_field: Literal["reasoning_content", "reasoning"] | None = None
    reasoning_required: bool = False
    reasoning_details: bool = False
    reasoning_split: bool = False
    thinking_switch: Literal["thinking", "enable_thinking", "reasoning"] | None = None
    effort_grades: bool = True
    forced_while_thinking: bool = True
    allowed_tools: bool = False
    result_images: bool = False
    developer_role: bool = True
    message_names: bool = True
    empty_turns: bool = False
    seed_field: Literal["seed", "random_seed"] = "seed"
    call_ids: Literal["any", "nine_alphanumeric"] = "any"
