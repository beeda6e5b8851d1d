"""Anthropic's Messages API, and what other servers have made of it: https://docs.anthropic.com/en/api/messages.

`encode` writes requests, `decode.py` reads answers. Deviations that are read here, always, have a comment with the
server that they come from; deviations in what may be sent are `AnthropicQuirks`.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from ...errors import ConfigError
from ...requests import (
    Family,
    HistoryRules,
    ModelFacts,
    OptionRules,
    Request,
    Rules,
    read_response_format,
    schema_rules,
    with_raw_tools,
    written_hosted,
)
from ...types import GeneratedFile, NamedTool, ReplyWarning, Tool
from ..base import Adapter
from ..batches.anthropic import AnthropicBatchAPI
from ..batches.base import BatchAPI, BatchSettings
from ..chat.reasoning import only_allowed_tools
from ..encoding_report import EncodingReport
from ..prepared_request import encode_utf8, required_count, write_body
from .aws_event_stream import AWSEventStream
from .bound_thinking import BINDING_BETA, SentTurn, bind_thinking, drop_mismatched, leave_out_thinking
from .decode import AnthropicEventReader
from .encode import content_blocks, encode_turns, is_system
from .prompt_caching import limit_cache_breakpoints, with_cache_control
from .quirks import AnthropicQuirks
from .reasoning import fit_thinking, output_limit, thinking_details, thinking_members
from .tools import FILES_BETA, MCP_BETA, add_hosted_members, hosted_forms, uses_mcp

# The members of a request that count_tokens takes.
_COUNTED = (
    "anthropic_version", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control",
    "mcp_servers", "context_management",
)  # fmt: skip
# Where requests go on the other platforms, by whether the answer is streamed.
_BEDROCK = {True: "/invoke-with-response-stream", False: "/invoke"}
_VERTEX = {True: ":streamRawPredict", False: ":rawPredict"}
_PATH = ":;@!$&'()*+,="  # what may stand in a part of a path (RFC 3986)
_UNKNOWN = ModelFacts(thinking="asked", efforts=("low", "medium", "high"))
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")


class AnthropicAdapter(AnthropicEventReader, Adapter):
    """Requests and events of the Messages API."""

    name = "anthropic"
    path = "/messages"
    Quirks = AnthropicQuirks
    sends = (
        "temperature", "top_p", "max_output_tokens", "stop", "parallel_tool_calls", "reasoning_effort",
        "response_format", "tools", "tool_choice",
    )  # fmt: skip
    counts_tokens = True
    drops_bound_thinking = True

    def __init__(self, quirks: AnthropicQuirks | None = None) -> None:
        self.quirks = quirks or AnthropicQuirks()
        self.cache_included = self.quirks.cache_included
        self.framing = AWSEventStream if self.quirks.platform == "bedrock" else None

    # --- what the request asks for, and what can be had ---------------------------------------------------------------

    def history_rules(self, request: Request) -> HistoryRules:
        """Returns what this API demands of a conversation."""
        return HistoryRules(
            HistoryRules().roles - {"function"},
            unique_ids="conversation",
            ids="word",
            object_arguments=True,
            blanks="space_refused",
            begins_with_user=True,
            ends_with_user=not request.messages[-1].paused
            and (not self.quirks.prefill or request.options.reasoning_effort not in (None, "none")),
        )

    def rules(self, request: Request) -> Rules:
        """Returns what the API accepts in tool names, schemas and response formats."""
        return Rules(
            tool_name=_NAME,
            response_format=self.quirks.response_format,
            format_names=False,
            schemas=schema_rules(self.quirks.schemas, None, "claude"),
            hosted=hosted_forms(self.quirks.web_search) if request.tools else {},
            json_mode="no",
        )

    def option_rules(self, request: Request) -> OptionRules:
        """Returns which options the API has a place for."""
        sampling = self.quirks.version < "2026-10-21"
        efforts = self.quirks.effort_grades
        return OptionRules(sampling=sampling, seed=False, blank_stops=False, efforts=efforts, switch=True, budgets=True)

    def known_family(self, family: Family) -> Family:
        """Returns what is known of a model, and what is assumed where nothing is known of it."""
        return family.filled(_UNKNOWN).over(self.quirks.facts())

    def rewrite(self, request: Request) -> tuple[Request, list[ReplyWarning]]:
        """Returns the request as the endpoint accepts it, and a warning for each change."""
        request, changes = super().rewrite(request)
        request, only = only_allowed_tools(request)
        request, fitted = fit_thinking(request, self.quirks)
        request, marks = limit_cache_breakpoints(request)
        return request, [*changes, *only, *fitted, *marks]

    # --- how it is written --------------------------------------------------------------------------------------------

    def request_path(self, request: Request) -> str:
        """Returns the path of this request; on other platforms the model stands in it.

        https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModelWithResponseStream.html,
        https://docs.anthropic.com/en/api/claude-on-vertex-ai
        """
        match self.quirks.platform:
            case "bedrock":  # the path is signed: it may have no escapes that an HTTP library would take back
                return f"/model/{quote(request.model, safe=_PATH)}{_BEDROCK[request.stream]}"
            case "vertex":
                return f"/models/{quote(request.model, safe='@')}{_VERTEX[request.stream]}"
        return self.path

    def handles_path(self, path: str) -> bool:
        """Returns whether requests of this wire format go to URLs with this path."""
        return path.endswith((self.path, *_VERTEX.values(), *_BEDROCK.values()))

    def headers(self, request: Request) -> Mapping[str, str]:
        """Returns the headers of the wire format, with the version of the API."""
        if self.quirks.platform == "bedrock" and request.stream:
            return {**super().headers(request), "Accept": "application/vnd.amazon.eventstream"}
        if self.quirks.platform != "anthropic":
            return super().headers(request)
        betas = self._betas(request)
        allowed = {"anthropic-beta": ",".join(betas)} if betas else {}
        return {**super().headers(request), "anthropic-version": self.quirks.version, **allowed}

    def _betas(self, request: Request) -> list[str]:
        """The features that are asked for in a header: those of the provider, and `betas` as Anthropic's SDK has it."""
        asked = request.options.extra_body.get("betas")
        mcp = [MCP_BETA] if uses_mcp(request.tools) else []
        binding = [BINDING_BETA] if request.drop_bound_thinking else []
        return list(dict.fromkeys([*self.quirks.betas, *mcp, *binding, *(asked if isinstance(asked, list) else ())]))

    def encode(self, request: Request, report: EncodingReport) -> dict[str, Any]:
        """Returns the JSON body. Raises ConfigError for what this API can't carry."""
        options, numbered = request.options, list(request.numbered)
        start = next((n for n, message in enumerate(request.messages) if not is_system(message)), len(numbered))
        max_tokens = output_limit(request, self.quirks)
        body: dict[str, Any] = {"model": request.model, "max_tokens": max_tokens}
        system = [
            block
            for at, message in numbered[:start]
            for block in content_blocks(message, f"messages[{at}]", request, report)
        ]
        if system:
            body["system"] = system
        sent: list[SentTurn] = []
        turns = encode_turns(numbered[start:], request, self.quirks, report, sent)
        body |= {"messages": turns, "stream": request.stream}
        add_hosted_members(body, request)
        if request.tools:
            body["tools"] = [self._tool(tool) for tool in request.tools]
            if choice := self._tool_choice(request):
                body["tool_choice"] = choice
        stops = [options.stop] if isinstance(options.stop, str) else options.stop or []
        said = {
            "temperature": options.temperature,
            "top_p": options.top_p,
            "stop_sequences": stops or None,
        }
        body.update({name: value for name, value in said.items() if value is not None})
        body.update(thinking_members(request, self.quirks, max_tokens))
        if wanted := self._output_format(options.response_format):
            body["output_config"] = {**body.get("output_config", {}), "format": wanted}
        extra = thinking_details(body, with_raw_tools(body, options.extra_body))
        for name, value in extra.items():
            if name == "container" and isinstance(value, Mapping) and "id" not in value and name in body:
                value = {"id": body[name], **value}  # skills, in the container that is there
            mix = name == "output_config" and name in body and isinstance(value, Mapping)
            body[name] = {**body[name], **value} if mix else value
        body.pop("betas", None)  # they are in the headers
        if "messages" not in options.extra_body:
            self._bind_thinking(body, sent, request, report)
        if "messages" not in options.extra_body and not request.messages[-1].paused:
            _check_prefill(body)
        return self._for_platform(body, self._betas(request))

    def _bind_thinking(
        self, body: dict[str, Any], sent: list[SentTurn], request: Request, report: EncodingReport
    ) -> None:
        binds, thinking = request.family.binds_thinking, body.get("thinking")
        decided = isinstance(thinking, Mapping) and "block_binding" in thinking  # by the caller
        if binds is not None:
            bind_thinking(body, sent, report, checked=binds == "always" and not decided)
        if request.drop_bound_thinking and not decided and not drop_mismatched(body):
            leave_out_thinking(body)

    def _for_platform(self, body: dict[str, Any], betas: list[str]) -> dict[str, Any]:
        """The body with what other platforms want in it instead of in the path or the headers."""
        platform = self.quirks.platform
        if platform == "anthropic":
            return body
        version = "bedrock-2023-05-31" if platform == "bedrock" else "vertex-2023-10-16"
        left_out = ("model", "stream") if platform == "bedrock" else ("model",)
        out = {"anthropic_version": version, **({"anthropic_beta": betas} if betas else {})}
        return {**out, **{name: value for name, value in body.items() if name not in left_out}}

    def file_request(self, file: GeneratedFile) -> tuple[str, Mapping[str, str]]:
        """Returns where a file is: https://docs.anthropic.com/en/docs/build-with-claude/files."""
        if self.quirks.platform != "anthropic":
            return super().file_request(file)
        headers = {"anthropic-version": self.quirks.version, "anthropic-beta": FILES_BETA}
        return f"/files/{quote(file.file_id or '', safe='')}/content", headers

    def batch_api(self, settings: BatchSettings) -> BatchAPI:
        """Returns how batches are created. Bedrock and Vertex AI read them from their own storage."""
        if self.quirks.platform != "anthropic":
            return super().batch_api(settings)
        return AnthropicBatchAPI(settings, self.quirks.version)

    def count_path(self, request: Request) -> str:
        """Returns the path of a request for the number of tokens.

        https://docs.anthropic.com/en/api/messages-count-tokens,
        https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_CountTokens.html
        """
        match self.quirks.platform:
            case "bedrock":
                return f"/model/{quote(request.model, safe=_PATH)}/count-tokens"
            case "vertex":  # for all models, with the model in the body
                return "/models/count-tokens:rawPredict"
        return f"{self.path}/count_tokens"

    def encode_count(self, request: Request, report: EncodingReport) -> dict[str, Any]:
        """Returns the JSON body of a request for the number of tokens: what of a request belongs to its prompt."""
        body = self.encode(request, report)
        if self.quirks.platform == "bedrock":  # takes the whole body of a request, as text
            return {"input": {"invokeModel": {"body": b64encode(encode_utf8(write_body(body, {}))[0]).decode()}}}
        return {"model": request.model, **{name: body[name] for name in _COUNTED if name in body}}

    def read_count(self, body: Any) -> int:
        """Returns the number of tokens in the answer to `encode_count`. Raises ValueError if it has none."""
        return required_count(body, "inputTokens" if self.quirks.platform == "bedrock" else "input_tokens")

    def _tool(self, tool: Tool) -> dict[str, Any]:
        if (hosted := written_hosted(tool, hosted_forms(self.quirks.web_search))) is not None:
            return hosted
        if tool.kind != "function":
            raise ConfigError(f"the tool {tool.name!r} is a {tool.kind!r}: write it as HostedTool")
        strict = {"strict": True} if tool.strict else {}
        about = {"description": tool.description} if tool.description else {}
        return {
            "name": tool.name,
            **about,
            "input_schema": dict(tool.parameters),
            **strict,
            **tool.extra,
            **with_cache_control(tool.cache),
        }

    def _tool_choice(self, request: Request) -> dict[str, Any] | None:
        choice, parallel = request.tool_choice, request.options.parallel_tool_calls
        one = {"disable_parallel_tool_use": True} if parallel is False else {}
        match choice:
            case "none":
                return {"type": "none"}
            case "required":
                return {"type": "any", **one}
            case NamedTool(name):
                return {"type": "tool", "name": name, **one}
        return {"type": "auto", **one} if one else None

    def _output_format(self, wanted: Any) -> dict[str, Any] | None:
        read = read_response_format(wanted)
        if read is None or read.schema is None:
            return None
        return {"type": "json_schema", "schema": dict(read.schema)}


def _check_prefill(body: Mapping[str, Any]) -> None:
    """Raises ConfigError for a text that is to be continued beside what the API refuses there."""
    if body["messages"][-1]["role"] != "assistant":
        return
    thinking, output = body.get("thinking"), body.get("output_config")
    if isinstance(thinking, Mapping) and thinking.get("type") != "disabled":
        raise ConfigError(
            "messages: the last message is the assistant's, which can't be continued while thinking is on"
        )
    if isinstance(output, Mapping) and "format" in output:
        raise ConfigError(
            "messages: the last message is the assistant's, which can't be continued with response_format"
        )
