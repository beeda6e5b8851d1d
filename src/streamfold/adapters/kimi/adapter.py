"""The adapter for Moonshot's Kimi API, which is Chat Completions with additional rules for requests.

The hosted API is documented at https://platform.moonshot.ai/docs. For Kimi models on vLLM or SGLang, set the quirk
`hosted = false`. streamfold then applies the model's rules for conversations and thinking, but not the rules of
Moonshot's servers.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from ...errors import ConfigError
from ...requests import Family, HistoryRules, ModelFacts, OptionRules, Rules, schema_rules
from ...types import AudioPart, FilePart, NamedTool, ReplyWarning, Tool
from ..chat import ChatAdapter, ChatQuirks
from ..chat.quirks import ReasoningField
from ..chat.reasoning import fit_forced_choice, keep_only_tools, may_reason
from ..encoding_report import EncodingReport
from ..prepared_request import required_count

if TYPE_CHECKING:
    from ...requests import Request


@dataclass(frozen=True, slots=True)
class KimiQuirks(ChatQuirks):
    """How requests differ between Kimi endpoints.

    Attributes:
        hosted: True if the endpoint is Moonshot's API, which restricts names, schemas and sampling options, and False
            for other servers, such as vLLM.
        counts_tokens: True if the endpoint has the path `/tokenizers/estimate-token-count`.
        max_tokens_field: the name of the request field that limits the output tokens. Moonshot has deprecated the name
            `max_tokens`, but inference engines such as vLLM accept only this name.
        reasoning_field: the message field for the reasoning of earlier messages. Kimi requires this field.
        result_images: True if the server accepts images in tool results, as MoonshotAI/kimi-cli sends them.
        continues: the message field that asks Kimi to continue a message. The response doesn't repeat the message.
    """

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_completion_tokens"
    reasoning_field: ReasoningField | None = "reasoning_content"
    result_images: bool = True
    continues: Literal["prefix", "partial", "continue_final_message"] | None = "partial"
    hosted: bool = True
    counts_tokens: bool = False


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{2,63}")


class KimiAdapter(ChatAdapter):
    """Encodes requests to Kimi's Chat Completions and decodes its events."""

    name = "kimi"
    maker = "moonshot"
    Quirks = KimiQuirks

    quirks: KimiQuirks
    keeps_reasoning = True  # the hosted API requires the reasoning of every tool call while it thinks

    def __init__(self, quirks: KimiQuirks | None = None) -> None:
        super().__init__(quirks or KimiQuirks())
        self.hosted = self.quirks.hosted
        self.counts_tokens = self.quirks.counts_tokens

    # --- rules --------------------------------------------------------------------------------------------------------

    def history_rules(self, request: Request) -> HistoryRules:
        """Returns the rules that a conversation must follow so that Kimi accepts it. These rules allow any tool call
        ids, because `encode` renumbers all ids."""
        # "role 'developer' is not allowed" (earendil-works/pi#8109)
        roles = HistoryRules().roles - {"developer", "function"} if self.hosted else HistoryRules().roles
        thinks = self.hosted and may_reason(request)
        return HistoryRules(
            roles,
            unique_ids=None,
            blanks="refused",  # "text content is empty", "the message at position 1 with role 'user' must not be empty"
            other_content=lambda message: False,
            result_media=self.quirks.result_images,
            empty_others=self.quirks.empty_turns,
            wants_reasoning=thinks,
        )

    def rewrite(self, request: Request) -> tuple[Request, list[ReplyWarning]]:
        if self.hosted:
            if len(request.tools) > 128:
                raise ConfigError(f"Kimi accepts at most 128 tools, not {len(request.tools)}")
            if request.messages[-1].partial and request.options.response_format == "json":
                raise ConfigError('Kimi refuses a partial message with response_format="json": leave one of them out')
        return super().rewrite(request)

    def option_rules(self, request: Request) -> OptionRules:
        rules = replace(super().option_rules(request), switch=True)
        return replace(rules, stops=5, stop_bytes=32) if self.hosted else rules

    def known_family(self, family: Family) -> Family:
        """Fills in the unknown facts about a model with the facts about Kimi's newest models."""
        return family.filled(ModelFacts(thinking="default", efforts=(), sampling="no" if self.hosted else None))

    def rules(self, request: Request) -> Rules:
        rules = super().rules(request)
        if not self.hosted:
            return replace(rules, schemas=schema_rules(self.quirks.schemas, None, "engine"))
        return replace(rules, tool_name=_NAME, schemas=schema_rules("kimi", None, ""), strict_output=False)

    def _forced_choice(self, request: Request) -> tuple[Request, list[ReplyWarning]]:
        if self.hosted and not request.family.efforts:
            return fit_forced_choice(request)
        choice = request.tool_choice
        if self.hosted and isinstance(choice, NamedTool) and may_reason(request):  # K3 accepts only "required" here
            return keep_only_tools(request, [choice.name], "required")
        return request, []

    # --- encoding -----------------------------------------------------------------------------------------------------

    def _effort_members(self, request: Request) -> dict[str, Any]:
        effort = request.options.reasoning_effort
        if effort is None:
            return {}
        if request.family.efforts:
            return {"reasoning_effort": effort}
        if not self.hosted:  # an argument of the chat template in vLLM, SGLang and KTransformers
            return {"chat_template_kwargs": {"thinking": effort != "none"}}
        return {"thinking": {"type": "disabled" if effort == "none" else "enabled"}}

    def _messages(self, request: Request, back: list[bool], report: EncodingReport) -> list[dict[str, Any]]:
        messages = super()._messages(request, back, report)
        _renumber_calls(messages, report)
        thinks = self.hosted and may_reason(request)
        for message in messages:
            if message["role"] == "assistant":
                message["content"] = message["content"] or None
            if thinks and message.get("tool_calls"):
                # Without it: "thinking is enabled but reasoning_content is missing in assistant tool call message"
                # (MoonshotAI/kimi-cli#2141).
                message.setdefault("reasoning_content", "")
        return messages

    def count_path(self, request: Request) -> str:
        """Returns the path of a request that counts tokens: https://platform.moonshot.ai/docs/api/estimate."""
        return "/tokenizers/estimate-token-count"

    def encode_count(self, request: Request, report: EncodingReport) -> dict[str, Any]:
        if not self.counts_tokens:
            return super().encode_count(request, report)
        body = self.encode(request, report)
        return {name: body[name] for name in ("model", "messages", "tools") if name in body}

    def read_count(self, body: Any) -> int:
        return required_count(body.get("data") if isinstance(body, Mapping) else None, "total_tokens")

    def _part(self, part: Any, where: str) -> dict[str, Any]:
        if isinstance(part, FilePart | AudioPart):
            kind = "a file" if isinstance(part, FilePart) else "audio"
            raise ConfigError(f"{where} is {kind}, which Kimi doesn't accept in a message. Allowed: text and images")
        out = super()._part(part, where)
        image = out.get("image_url")
        url = str(image.get("url") if isinstance(image, Mapping) else image or "")
        if self.hosted and url.lower().startswith(("http://", "https://")):
            # "unsupported image url" (OpenHands/software-agent-sdk#3155): Kimi fetches no URLs.
            raise ConfigError(
                f"{where} is an image by URL, which Kimi does not fetch: pass the bytes, or the ms:// URL of an upload"
            )
        return out

    def _tool(self, tool: Tool) -> dict[str, Any]:
        if tool.kind == "builtin_function":  # `$web_search`, which the server runs: only its name is sent
            return {"type": tool.kind, "function": {"name": tool.name}}
        return super()._tool(tool)


def _renumber_calls(messages: list[dict[str, Any]], report: EncodingReport) -> None:
    """Replaces tool call ids with ids in the model's own format.

    The model imitates the conversation's earlier ids in its next tool call. Servers read the function's name from this
    id, and fail if it has a different format (vllm-project/vllm#32146, sgl-project/sglang#21377). For this reason, the
    n-th tool call of the conversation gets the id `functions.NAME:n`. A tool result belongs to the nearest earlier tool
    call with the same id. Moonshot's API renumbers the ids itself, but inference engines such as vLLM don't.
    """
    number = 0
    renamed: dict[str, deque[str]] = {}  # by the old id
    for message in messages:
        if message["role"] == "assistant":
            renamed = {}
            for call in message.get("tool_calls", ()):
                old, new = call["id"], f"functions.{call.get('function', {}).get('name', '')}:{number}"
                renamed.setdefault(old, deque()).append(new)
                report.ids[old] = call["id"] = new
                number += 1
        elif message["role"] == "tool" and (ids := renamed.get(message.get("tool_call_id", ""))):
            # If an id stands twice in one turn, the results are in the order of the calls.
            message["tool_call_id"] = ids.popleft() if len(ids) > 1 else ids[0]
