"""Gemini's own API, on AI Studio and on Vertex AI: https://ai.google.dev/api/generate-content.

`encode.py` writes the conversation, `decode.py` parses answers. Differences in requests are `GeminiQuirks`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Literal
from urllib.parse import quote

from ...errors import ConfigError, ErrorInfo
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
)
from ...requests.schema import openapi_subset
from ...types import INSTRUCTION_ROLES, AllowedTools, Message, NamedTool, ReplyWarning, Tool, continuation_token
from ..base import Adapter
from ..batches.base import BatchAPI, BatchSettings
from ..batches.gemini import GeminiBatchAPI
from ..chat.reasoning import only_allowed_tools
from ..encoding_report import EncodingReport
from ..prepared_request import deep_merged, required_count
from .decode import GeminiEventReader
from .encode import content_parts, encode_contents, report_unsent, sign_open_calls, thinking_config
from .errors import read_google_error
from .quirks import GeminiQuirks
from .tools import FORMS, mixes_tools, tool_entries

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
_PLACE = re.compile(r"(?:(?:publishers/[^/?#&]+/)?models|tunedModels|endpoints)/[A-Za-z0-9_.@-]+")
_NEWEST = ModelFacts(thinking="always", efforts=("low", "medium", "high"))
_METHODS = {True: "streamGenerateContent?alt=sse", False: "generateContent"}  # by whether the answer is streamed
_COUNTED = ("contents", "systemInstruction", "tools", "generationConfig")  # what Vertex AI takes
_SAYS_NOTHING = ("type", "title", "description", "$schema")  # of a function without parameters: it is sent none
_WITH_CACHE = ("systemInstruction", "tools", "toolConfig")


class GeminiAdapter(GeminiEventReader, Adapter):
    """Requests and events of `streamGenerateContent`."""

    name = "gemini"
    kind_follows_text = True  # `thought` stands beside `text`, mostly behind it
    path = "/models"
    Quirks = GeminiQuirks
    sends = (
        "temperature", "top_p", "max_output_tokens", "stop", "seed", "reasoning_effort", "response_format", "tools",
        "tool_choice",
    )  # fmt: skip
    counts_tokens = True

    def __init__(self, quirks: GeminiQuirks | None = None) -> None:
        self.quirks = quirks or GeminiQuirks()

    # --- what the request asks for, and what can be had ---------------------------------------------------------------

    def history_rules(self, request: Request) -> HistoryRules:
        """Returns the API's rules for conversations."""
        return HistoryRules(
            HistoryRules().roles - {"function"},
            object_arguments=True,
            blanks="refused",
            result_media=self.quirks.result_images,
            begins_with_user=True,
            ends_with_user=_continued_turn(request) is None,
        )

    def rules(self, request: Request) -> Rules:
        """Returns the endpoint's rules for tool names, schemas and response formats."""
        functions = any(tool.hosted is None for tool in request.tools)
        form: Literal["json_schema", "tool"] = "json_schema" if self.quirks.json_with_tools or not functions else "tool"
        if self.quirks.schemas == "openapi":
            return Rules(
                tool_name=_NAME, response_format=form, format_names=False, passes=(openapi_subset,), hosted=FORMS
            )
        schemas = schema_rules("gemini", None, "")
        return Rules(tool_name=_NAME, response_format=form, format_names=False, schemas=schemas, hosted=FORMS)

    def rewrite(self, request: Request) -> tuple[Request, list[ReplyWarning]]:
        """Returns the request as the endpoint accepts it, and a warning for each change."""
        request, changes = super().rewrite(request)
        most, wanted = request.family.whole_output_tokens, request.options.max_output_tokens
        if not request.stream and most is not None and wanted is not None and wanted > most:
            detail = f"{request.model} writes at most {most} tokens in one piece: for {wanted}, it was streamed"
            request = replace(request, stream=True)
            changes.append(ReplyWarning("option_changed", detail))
        if isinstance(request.tool_choice, AllowedTools) and request.tool_choice.mode == "auto":
            request, only = only_allowed_tools(request)
            changes += only
        strict = [tool.name for tool in request.tools if tool.strict]
        if strict and not self.quirks.validated and request.tool_choice == "auto":  # a forced call is always held to it
            detail = f"strict was not sent for {', '.join(strict)}: the endpoint has no such mode"
            changes.append(ReplyWarning("option_dropped", detail))
        return request, changes

    def option_rules(self, request: Request) -> OptionRules:
        """Returns which options the API supports."""
        return OptionRules(stops=5, parallel_calls=False, budgets=True)

    def known_family(self, family: Family) -> Family:
        """Returns the facts of a model. An unknown model is treated like the newest models."""
        return family.filled(_NEWEST).over(self.quirks.facts())

    def read_error(self, body: Any, status: int | None = None) -> ErrorInfo:
        """Reads the error object of a response whose status is not 2xx."""
        return read_google_error(body, status)

    # --- how it is written --------------------------------------------------------------------------------------------

    def request_path(self, request: Request) -> str:
        """Returns the path, which contains the model."""
        return f"/{_place(request.model)}:{_METHODS[request.stream]}"

    def handles_path(self, path: str) -> bool:
        """Returns whether requests of this wire format go to URLs with this path."""
        return path.endswith((":streamGenerateContent", ":generateContent"))

    def encode(self, request: Request, report: EncodingReport) -> dict[str, Any]:
        """Returns the JSON body. Raises ConfigError for content that this API doesn't support."""
        options, quirks = request.options, self.quirks
        continued = _continued_turn(request)
        opening = next((n for n, message in enumerate(request.messages) if message.role not in INSTRUCTION_ROLES), 0)
        talk, system, late = list[tuple[int, Message]](), list[dict[str, Any]](), list[str]()
        for number, (at, message) in enumerate(request.numbered):
            if message is continued:
                continue  # the token stands for it
            report_unsent(message, f"messages[{at}]", request, quirks, report)
            if message.role not in INSTRUCTION_ROLES:
                talk.append((at, message))
                continue
            system += [part for part in content_parts(message, f"messages[{at}]") if part.get("text") != ""]
            if number > opening:
                late.append(f"messages[{at}]")
        if late:
            detail = f"{', '.join(late)}: a system message inside the conversation was sent with those before it"
            report.warn("history_mismatch", detail)
        contents = encode_contents(talk, request, quirks)
        if quirks.signatures == "required" and sign_open_calls(contents):
            report.warn(
                "lost_reasoning", "calls of this turn lack the thought signature of this model: a placeholder was sent"
            )
        body: dict[str, Any] = {"contents": contents}
        if system and self.quirks.system_instruction:
            body["systemInstruction"] = {"parts": system}
        elif system:
            contents[0]["parts"] = [*system, *contents[0]["parts"]]
        if request.tools:
            body["tools"] = tool_entries(request, self._tool)
            functions = any(tool.hosted is None for tool in request.tools)
            if functions and (config := _calling(request, self.quirks)):
                body["toolConfig"] = {"functionCallingConfig": config}
        if mixes_tools(request, self.quirks):
            body["toolConfig"] = {**body.get("toolConfig", {}), "includeServerSideToolInvocations": True}
        if config := self._generation(request):
            body["generationConfig"] = config
        body = deep_merged(body, with_raw_tools(body, options.extra_body))
        if continued is not None:
            body["continuationToken"] = continuation_token(continued.extras)
        if "cachedContent" in body and (beside := [name for name in _WITH_CACHE if name in body]):
            raise ConfigError(
                f"extra_body.cachedContent can't be sent beside {', '.join(beside)}: put them into the cache"
            )
        return body

    def batch_api(self, settings: BatchSettings) -> BatchAPI:
        """Returns the batch API."""
        return GeminiBatchAPI(settings)

    def count_path(self, request: Request) -> str:
        """Returns the path of a request for the number of tokens: https://ai.google.dev/api/tokens."""
        return f"/{_place(request.model)}:countTokens"

    def encode_count(self, request: Request, report: EncodingReport) -> dict[str, Any]:
        """Returns the JSON body of a request for the number of tokens."""
        body = self.encode(request, report)
        if self.quirks.count_form == "members":
            return {name: body[name] for name in _COUNTED if name in body}
        return {"generateContentRequest": {"model": _place(request.model), **body}}

    def read_count(self, body: Any) -> int:
        """Returns the number of tokens in the answer to `encode_count`. Raises ValueError if the answer has no
        number."""
        return required_count(body, "totalTokens")

    def _tool(self, tool: Tool) -> dict[str, Any]:
        if tool.kind != "function":
            raise ConfigError(f"the tool {tool.name!r} is a {tool.kind!r}: write it as HostedTool")
        out: dict[str, Any] = {"name": tool.name, "description": tool.description}
        says = any(value for name, value in tool.parameters.items() if name not in _SAYS_NOTHING)
        if self.quirks.schemas == "openapi" and says:
            out["parameters"] = dict(tool.parameters)
        elif self.quirks.schemas == "json" and (says or "properties" not in tool.parameters):  # any members
            out["parametersJsonSchema"] = dict(tool.parameters)
        return out | dict(tool.extra)

    def _generation(self, request: Request) -> dict[str, Any]:
        options = request.options
        config: dict[str, Any] = {
            "temperature": options.temperature,
            "topP": options.top_p,
            "seed": options.seed,
            "maxOutputTokens": options.max_output_tokens,
            "stopSequences": options.stop_texts or None,
            "thinkingConfig": thinking_config(request),
        }
        wanted = read_response_format(options.response_format)
        if wanted is not None:
            config["responseMimeType"] = "application/json"
            if wanted.schema is not None:
                name = "responseSchema" if self.quirks.schemas == "openapi" else "responseJsonSchema"
                config[name] = dict(wanted.schema)
        return {name: value for name, value in config.items() if value is not None}


def _continued_turn(request: Request) -> Message | None:
    """Returns the unfinished turn at the end of the conversation, which its token continues; None if there is none.

    https://ai.google.dev/gemini-api/docs/generate-content/long-decode
    """
    last = request.messages[-1] if request.messages else None
    if last is None or not last.paused or not request.came_from_here(last):
        return None
    return last if continuation_token(last.extras) is not None else None


def _place(model: str) -> str:
    """Returns the model in the form of a path."""
    return model if _PLACE.fullmatch(model) else f"models/{quote(model, safe='')}"


def _calling(request: Request, quirks: GeminiQuirks) -> dict[str, Any] | None:
    match request.tool_choice:
        case "none":
            return {"mode": "NONE"}
        case "required":
            return {"mode": "ANY"}
        case NamedTool(name, hosted=tool) if tool is not None:
            raise ConfigError(f"tool_choice names {name!r}, a hosted tool: only functions can be chosen")
        case NamedTool(name):
            return {"mode": "ANY", "allowedFunctionNames": [name]}
        case AllowedTools(names):
            return {"mode": "ANY", "allowedFunctionNames": list(names)}
        case _ if quirks.validated and any(tool.strict for tool in request.tools):
            return {"mode": "VALIDATED"}  # as AUTO, with the arguments held to their schemas
    return None
