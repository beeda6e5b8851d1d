"""The adapter for Anthropic's Messages API, which other providers offer too:
https://docs.anthropic.com/en/api/messages.

`encode.py` encodes requests, and `decode.py` decodes responses. Where the responses of another server differ from
Anthropic's, a comment in `decode.py` names this server. `AnthropicQuirks` has the settings by which requests differ
between models and servers.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any
from urllib.parse import quote

from ...requests import Family, HistoryRules, ModelFacts, OptionRules, Request, Rules, schema_rules
from ...types import INSTRUCTION_ROLES, RESPONSE_STATES, GeneratedFile, Message, Reply, ReplyWarning
from ..base import Adapter
from ..batches.base import BatchAPI, BatchSettings
from ..chat.reasoning import only_allowed_tools
from ..encoding_report import EncodingReport
from ..prepared_request import encode_body, required_count
from .compaction import asks_for_compaction, is_signed_compaction
from .decode import AnthropicEventReader
from .encode import encode_request, requested_betas
from .prompt_caching import limit_cache_breakpoints
from .quirks import AnthropicQuirks
from .reasoning import fit_thinking
from .tools import FILES_BETA, hosted_forms

# The request fields that the endpoint `count_tokens` accepts.
_COUNTED = (
    "anthropic_version", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control",
    "mcp_servers", "context_management",
)  # fmt: skip
# The ends of the URL paths on other platforms, by whether the response is streamed.
_BEDROCK = {True: "/invoke-with-response-stream", False: "/invoke"}
_VERTEX = {True: ":streamRawPredict", False: ":rawPredict"}
_PATH = ":;@!$&'()*+,="  # characters that need no escape in a path (RFC 3986)
_UNKNOWN = ModelFacts(thinking="asked", efforts=("low", "medium", "high"))
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")


class AnthropicAdapter(AnthropicEventReader, Adapter):
    """Encodes requests to the Messages API and decodes its events."""

    name = "anthropic"
    path = "/messages"
    Quirks = AnthropicQuirks
    sends = (
        "temperature", "top_p", "max_output_tokens", "stop", "parallel_tool_calls", "reasoning_effort",
        "response_format", "tools", "tool_choice", "compact_threshold",
    )  # fmt: skip
    compacts = True
    counts_tokens = True
    drops_bound_thinking = True

    def __init__(self, quirks: AnthropicQuirks | None = None) -> None:
        self.quirks = quirks or AnthropicQuirks()
        self.cache_included = self.quirks.cache_included
        if self.quirks.platform == "bedrock":
            from .aws_event_stream import AWSEventStream

            self.framing = AWSEventStream

    # --- adapting the request -----------------------------------------------------------------------------------------

    def history_rules(self, request: Request) -> HistoryRules:
        first = next(
            (message for message in request.messages if message.role not in INSTRUCTION_ROLES), request.messages[0]
        )
        last = request.messages[-1]
        continued = asks_for_compaction(request) or (bool(last.extras) and last.paused)
        return HistoryRules(
            HistoryRules().roles - {"function"},
            unique_ids="conversation",
            ids="word",
            object_arguments=True,
            blanks="space_refused",
            begins_with_user=not (first.extras and is_signed_compaction(first, request)),
            ends_with_user=not continued
            and (not self.quirks.prefill or request.options.reasoning_effort not in (None, "none")),
        )

    def rules(self, request: Request) -> Rules:
        return self._rules

    @cached_property
    def _rules(self) -> Rules:
        return Rules(
            tool_name=_NAME,
            response_format=self.quirks.response_format,
            format_names=False,
            schemas=schema_rules(self.quirks.schemas, None, "claude"),
            hosted=hosted_forms(self.quirks.web_search),
            json_mode="no",
        )

    def option_rules(self, request: Request) -> OptionRules:
        sampling = self.quirks.version < "2026-10-21"
        efforts = self.quirks.effort_grades
        return OptionRules(sampling=sampling, seed=False, blank_stops=False, efforts=efforts, switch=True, budgets=True)

    def known_family(self, family: Family) -> Family:
        return family.filled(_UNKNOWN).over(self.quirks.facts())

    def rewrite(self, request: Request) -> tuple[Request, list[ReplyWarning]]:
        request, changes = super().rewrite(request)
        request, only = only_allowed_tools(request)
        request, fitted = fit_thinking(request, self.quirks)
        request, marks = limit_cache_breakpoints(request)
        return request, [*changes, *only, *fitted, *marks]

    # --- encoding -----------------------------------------------------------------------------------------------------

    def request_path(self, request: Request) -> str:
        """Returns the URL path of a request. On Bedrock and Vertex AI, this path contains the model's name.

        https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModelWithResponseStream.html,
        https://docs.anthropic.com/en/api/claude-on-vertex-ai
        """
        match self.quirks.platform:
            case "bedrock":  # AWS signs the path, so an HTTP library must not change its escapes
                return f"/model/{quote(request.model, safe=_PATH)}{_BEDROCK[request.stream]}"
            case "vertex":
                return f"/models/{quote(request.model, safe='@')}{_VERTEX[request.stream]}"
        return self.path

    def handles_path(self, path: str) -> bool:
        return path.endswith((self.path, *_VERTEX.values(), *_BEDROCK.values()))

    def headers(self, request: Request) -> Mapping[str, str]:
        if self.quirks.platform == "bedrock" and request.stream:
            return {**super().headers(request), "Accept": "application/vnd.amazon.eventstream"}
        if self.quirks.platform != "anthropic":
            return super().headers(request)
        betas = requested_betas(request, self.quirks)
        allowed = {"anthropic-beta": ",".join(betas)} if betas else {}
        return {**super().headers(request), "anthropic-version": self.quirks.version, **allowed}

    def encode(self, request: Request, report: EncodingReport) -> dict[str, Any]:
        return encode_request(request, self.quirks, report)

    def file_request(self, file: GeneratedFile) -> tuple[str, Mapping[str, str]]:
        """Returns the path and the headers of the request that downloads a file from Anthropic's Files API:
        https://docs.anthropic.com/en/docs/build-with-claude/files."""
        if self.quirks.platform != "anthropic":
            return super().file_request(file)
        headers = {"anthropic-version": self.quirks.version, "anthropic-beta": FILES_BETA}
        return f"/files/{quote(file.file_id or '', safe='')}/content", headers

    def batch_api(self, settings: BatchSettings) -> BatchAPI:
        """Returns the client of Anthropic's batch API. Raises ConfigError for Bedrock and Vertex AI, which read batches
        only from their own cloud storage."""
        if self.quirks.platform != "anthropic":
            return super().batch_api(settings)
        from ..batches.anthropic import AnthropicBatchAPI

        return AnthropicBatchAPI(settings, self.quirks.version)

    def compacted(self, reply: Reply) -> list[Message]:
        blocks = reply.extras.get("blocks", [])
        if not any(block.get("type") == "compaction" and block.get("content") for block in blocks):
            raise ValueError(f"the response contains no summary: its stop reason is {reply.raw_finish_reason!r}")
        message = reply.message
        extras = {name: value for name, value in message.extras.items() if name not in RESPONSE_STATES}
        return [replace(message, extras=extras)]

    def count_path(self, request: Request) -> str:
        """Returns the URL path of the request that counts a prompt's tokens.

        https://docs.anthropic.com/en/api/messages-count-tokens,
        https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_CountTokens.html
        """
        match self.quirks.platform:
            case "bedrock":
                return f"/model/{quote(request.model, safe=_PATH)}/count-tokens"
            case "vertex":  # one path for all models
                return "/models/count-tokens:rawPredict"
        return f"{self.path}/count_tokens"

    def encode_count(self, request: Request, report: EncodingReport) -> dict[str, Any]:
        body = self.encode(request, report)
        if self.quirks.platform == "bedrock":  # expects the body of a request for a response
            return {"input": {"invokeModel": {"body": b64encode(encode_body(body, {})[0]).decode()}}}
        return {"model": request.model, **{name: body[name] for name in _COUNTED if name in body}}

    def read_count(self, body: Any) -> int:
        return required_count(body, "inputTokens" if self.quirks.platform == "bedrock" else "input_tokens")
