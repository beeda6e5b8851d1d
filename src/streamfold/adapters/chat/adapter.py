"""The adapter for OpenAI's Chat Completions API, and for servers that are compatible with it.

`encode.py` encodes requests, and `decode.py` decodes responses. Comments name the servers whose responses deviate from
OpenAI's. streamfold accepts each deviation from every server. `ChatQuirks` describes how requests differ between
servers.
"""

from __future__ import annotations

from typing import Literal
from urllib.parse import quote

from ...requests import HistoryRules, OptionRules, Request, Rules, schema_passes, schema_rules
from ...types import Message, ReplyWarning
from ..base import Adapter
from ..batches.base import BatchAPI, BatchSettings
from .decode import ChatEventReader
from .encode import ChatRequestWriter, returned_members, sent_extras
from .quirks import ChatQuirks
from .reasoning import fit_forced_choice, may_reason, only_allowed_tools, should_resend_reasoning


class ChatAdapter(ChatRequestWriter, ChatEventReader, Adapter):
    """Encodes requests to Chat Completions and decodes its events."""

    name = "chat"
    path = "/chat/completions"
    Quirks = ChatQuirks
    sends = (
        "temperature", "top_p", "max_output_tokens", "stop", "seed", "parallel_tool_calls", "reasoning_effort",
        "response_format", "tools", "tool_choice",
    )  # fmt: skip

    def __init__(self, quirks: ChatQuirks | None = None) -> None:
        self.quirks = quirks or ChatQuirks()

    def request_path(self, request: Request) -> str:
        """Returns the path of a request, which contains the model's name if the server requires that."""
        if self.quirks.model_in_path:
            return f"/deployments/{quote(request.model, safe='')}{self.path}"
        return self.path

    def continues(self, request: Request) -> Literal["exactly", "with_echo"] | None:
        """Returns "with_echo" for servers with the message field `prefix`, because they may first repeat the text that
        they continue."""
        if self.quirks.continues is None:
            return None
        return "with_echo" if self.quirks.continues == "prefix" else "exactly"

    def batch_api(self, settings: BatchSettings) -> BatchAPI:
        from ..batches.openai import OpenAIBatchAPI

        return OpenAIBatchAPI(f"/v1{self.path}", settings)

    def rules(self, request: Request) -> Rules:
        quirks = self.quirks
        return Rules(
            response_format=quirks.response_format,
            json_mode="says_json" if quirks.says_json else "yes",
            schemas=schema_rules(quirks.schemas, request.family.closed_vendor, "compatible"),
            strict_output=quirks.strict_output,
            passes=schema_passes(inline=quirks.inline_refs, unsupported=quirks.unsupported_keywords),
            hosted=self.hosted_forms,
            tool_choice_none=quirks.tool_choice_none,
        )

    def option_rules(self, request: Request) -> OptionRules:
        quirks = self.quirks
        switch = quirks.thinking_switch is not None
        return OptionRules(chat=True, stops=quirks.stop_max, efforts=quirks.effort_grades, switch=switch)

    def history_rules(self, request: Request) -> HistoryRules:
        roles = HistoryRules().roles - (set() if self.quirks.developer_role else {"developer"})
        wants = self.quirks.reasoning_required and may_reason(request)
        back = should_resend_reasoning(request, self.quirks, finished=self.keeps_reasoning)
        resent = {id(message) for message, sent in zip(request.messages, back, strict=True) if sent}

        def has_other_content(message: Message) -> bool:
            if message.reasoning and id(message) in resent:
                return True
            return bool(sent_extras(message) or returned_members(message, request, self.quirks))

        return HistoryRules(
            roles,
            result_media=self.quirks.result_images,
            ids="nine" if self.quirks.call_ids == "nine_alphanumeric" else "any",
            empty_others=self.quirks.empty_turns,
            other_content=has_other_content,
            wants_reasoning=wants,
            refusals=self.quirks.refusals,
        )

    def rewrite(self, request: Request) -> tuple[Request, list[ReplyWarning]]:
        request, changes = super().rewrite(request)
        if not self.quirks.allowed_tools:
            request, only = only_allowed_tools(request)
            changes += only
        request, free = self._forced_choice(request)
        return request, [*changes, *free]

    def _forced_choice(self, request: Request) -> tuple[Request, list[ReplyWarning]]:
        return (request, []) if self.quirks.forced_while_thinking else fit_forced_choice(request)
