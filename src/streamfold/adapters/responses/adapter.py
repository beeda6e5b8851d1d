"""OpenAI's Responses API. A response is a list of output items. The API first streams each item in pieces and then
sends it complete.

The API is documented at https://platform.openai.com/docs/api-reference/responses. `encode.py` encodes requests, and
`decode.py` decodes responses. Comments name the servers whose responses deviate from OpenAI's. `ResponsesQuirks`
describes how requests differ between servers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from ...requests import HistoryRules, OptionRules, Request, Rules, read_items, schema_rules
from ...types import GeneratedFile, Message, Reply, ReplyWarning
from ..base import Adapter
from ..batches.base import BatchAPI, BatchSettings
from ..chat.reasoning import only_allowed_tools
from ..encoding_report import EncodingReport
from ..prepared_request import required_count
from .decode import ResponsesEventReader
from .encode import ResponsesQuirks, ResponsesRequestWriter
from .output_items import UNFINISHED

# The fields of `InputTokenCountParams` in https://github.com/openai/openai-python.
_COUNTED = (
    "model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "text", "truncation",
    "conversation", "previous_response_id",
)  # fmt: skip


class ResponsesAdapter(ResponsesRequestWriter, ResponsesEventReader, Adapter):
    """Encodes requests to the Responses API and decodes its events."""

    name = "responses"
    path = "/responses"
    Quirks = ResponsesQuirks
    sends = (
        "temperature", "top_p", "max_output_tokens", "parallel_tool_calls", "reasoning_effort", "response_format",
        "tools", "tool_choice", "compact_threshold",
    )  # fmt: skip
    conversation_members = ("previous_response_id", "conversation")
    compacts = True

    def __init__(self, quirks: ResponsesQuirks | None = None) -> None:
        self.quirks = quirks or ResponsesQuirks()
        self.counts_tokens = self.quirks.counts_tokens
        self.keeps_conversations = self.quirks.conversations != "none"

    def history_rules(self, request: Request) -> HistoryRules:
        """Returns the rules that a conversation must follow so that the API accepts it. A tool result needn't follow
        its tool call directly, because its `call_id` names the call."""
        # "Duplicate function_call_output for call_id" (NousResearch/hermes-agent#111443)
        kept = [request.options.extra_body.get(name) for name in self.conversation_members]
        items = (item for message in request.messages for item in message.extras.get("output") or ())
        kept += [isinstance(item, Mapping) and item.get("type") == "item_reference" for item in items]
        return HistoryRules(
            HistoryRules().roles - {"function"},
            late_results=True,
            added_tools=self.quirks.added_tools,
            results_follow=False,
            unique_ids="conversation",
            id_length=64,  # "Expected a string with maximum length 64" (openai/codex#14355)
            knows_more=any(kept) or request.follows_stored,
            reads_items=True,
            refusals=True,
        )

    def rewrite(self, request: Request) -> tuple[Request, list[ReplyWarning]]:
        if not request.stream and request.options.extra_body.get("background"):
            request = replace(request, stream=True)  # without a stream, the response would be incomplete
        if request.compact:  # this response isn't streamed
            request = replace(request, stream=False)
        request, changes = super().rewrite(request)
        if not self.quirks.tool_choice:
            request, only = only_allowed_tools(request)
            changes += only
        return request, changes

    def resume_path(self, request: Request, answer_id: str, after: int | str) -> str | None:
        """Returns the path of a request that streams the rest of a stored response, or None if the server doesn't store
        responses."""
        whole = self.answer_path(request, answer_id)
        last = f"&starting_after={after}" if after != "" else ""
        return None if whole is None else f"{whole}?stream=true{last}"

    def answer_path(self, request: Request, answer_id: str) -> str | None:
        body = request.options.extra_body
        stored = body.get("store") or body.get("background") or self.quirks.store
        return f"{self.path}/{quote(answer_id, safe='')}" if stored else None

    def is_running(self, body: Any) -> bool:
        return isinstance(body, Mapping) and body.get("status") in UNFINISHED

    def cancel_path(self, answer_id: str) -> str | None:
        return f"{self.path}/{quote(answer_id, safe='')}/cancel"

    def request_path(self, request: Request) -> str:
        """Returns the path of a request. Requests that compact a conversation have another path:
        https://developers.openai.com/api/docs/guides/compaction."""
        return f"{self.path}/compact" if request.compact else self.path

    def compacted(self, reply: Reply) -> list[Message]:
        """Returns the compacted conversation: the user's messages, and a compaction item in place of all other
        messages.

        The next request must contain all these messages unchanged. Raises ValueError if the reply contains no
        compaction item.
        """
        items = reply.extras.get("output", [])
        if not any(item.get("type") == "compaction" for item in items):
            raise ValueError("the response has no item of the type compaction")
        numbered = ((f"output[{at}]", item) for at, item in enumerate(items))
        return [replace(message, origin=reply.origin) for message in read_items(numbered)]

    def count_path(self, request: Request) -> str:
        """Returns the path of a request that counts tokens.

        https://platform.openai.com/docs/api-reference/responses/input-tokens
        """
        return f"{self.path}/input_tokens"

    def encode_count(self, request: Request, report: EncodingReport) -> dict[str, Any]:
        if not self.counts_tokens:
            return Adapter.encode_count(self, request, report)
        body = self.encode(request, report)
        return {name: body[name] for name in _COUNTED if name in body}

    def read_count(self, body: Any) -> int:
        return required_count(body, "input_tokens")

    def file_request(self, file: GeneratedFile) -> tuple[str, Mapping[str, str]]:
        """Returns the path of an uploaded file, or of a file in a container of the code interpreter."""
        place = f"/containers/{quote(file.container_id, safe='')}" if file.container_id else ""
        return f"{place}/files/{quote(file.file_id or '', safe='')}/content", {}

    def batch_api(self, settings: BatchSettings) -> BatchAPI:
        from ..batches.openai import OpenAIBatchAPI

        return OpenAIBatchAPI(f"/v1{self.path}", settings)

    def rules(self, request: Request) -> Rules:
        return Rules(
            schemas=schema_rules(self.quirks.schemas, request.family.closed_vendor, "openai"),
            strict_output=self.quirks.strict_output,
            json_mode="says_json" if self.quirks.says_json else "yes",
            hosted=self.hosted_forms,
            tool_choice_none=self.quirks.tool_choice,
        )

    def background_tools(self, request: Request) -> bool:
        """Returns True if the model supports tools with the field `async`. According to OpenAI's guide to async tools,
        GPT-6 and later models support them."""
        return request.family.background_tools == "yes"

    def option_rules(self, request: Request) -> OptionRules:
        """Returns which options the API supports. The API refuses output limits below 16 tokens
        (earendil-works/pi#6265)."""
        return OptionRules(seed=False, stops=0, least_output_tokens=16)
