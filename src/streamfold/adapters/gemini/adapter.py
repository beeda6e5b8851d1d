"""The adapter for Gemini's own API, on Google AI Studio and Vertex AI: https://ai.google.dev/api/generate-content.

`encode.py` encodes requests, and `decode.py` decodes responses. `GeminiQuirks` has settings for differences between
models and endpoints.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from ...errors import ErrorInfo
from ...requests import Family, HistoryRules, ModelFacts, OptionRules, Request, Rules, schema_rules
from ...requests.schema import openapi_subset
from ...types import AllowedTools, ReplyWarning
from ..base import Adapter
from ..batches.base import BatchAPI, BatchSettings
from ..chat.reasoning import only_allowed_tools
from ..content_blocks import continued_turn
from ..encoding_report import EncodingReport
from ..prepared_request import required_count
from .decode import GeminiEventReader, without_open_part
from .encode import encode_request
from .errors import read_google_error
from .quirks import GeminiQuirks
from .tools import FORMS

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

    from ...deltas import Delta

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
_PLACE = re.compile(r"(?:(?:publishers/[^/?#&]+/)?models|tunedModels|endpoints)/[A-Za-z0-9_.@-]+")
_NEWEST = ModelFacts(thinking="always", efforts=("low", "medium", "high"))
_METHODS = {True: "streamGenerateContent?alt=sse", False: "generateContent"}  # by whether the response is a stream
_COUNTED = ("contents", "systemInstruction", "tools", "generationConfig")  # the fields that Vertex AI accepts


class GeminiAdapter(GeminiEventReader, Adapter):
    """Encodes requests to `streamGenerateContent` and decodes its events."""

    name = "gemini"
    path = "/models"
    Quirks = GeminiQuirks
    sends = (
        "temperature", "top_p", "max_output_tokens", "stop", "seed", "reasoning_effort", "response_format", "tools",
        "tool_choice",
    )  # fmt: skip
    counts_tokens = True

    def __init__(self, quirks: GeminiQuirks | None = None) -> None:
        self.quirks = quirks or GeminiQuirks()

    # --- adapting the request -----------------------------------------------------------------------------------------

    def history_rules(self, request: Request) -> HistoryRules:
        return HistoryRules(
            HistoryRules().roles - {"function"},
            object_arguments=True,
            blanks="refused",
            result_media=self.quirks.result_images,
            begins_with_user=True,
            ends_with_user=continued_turn(request) is None,
        )

    def rules(self, request: Request) -> Rules:
        functions = any(tool.hosted is None for tool in request.tools)
        form: Literal["json_schema", "tool"] = "json_schema" if self.quirks.json_with_tools or not functions else "tool"
        rules = Rules(tool_name=_NAME, response_format=form, format_names=False, hosted=FORMS)
        if self.quirks.schemas == "openapi":
            return replace(rules, passes=(openapi_subset,))
        return replace(rules, schemas=schema_rules("gemini", None, ""))

    def rewrite(self, request: Request) -> tuple[Request, list[ReplyWarning]]:
        request, changes = super().rewrite(request)
        most, wanted = request.family.whole_output_tokens, request.options.max_output_tokens
        if not request.stream and most is not None and wanted is not None and wanted > most:
            detail = f"{request.model} writes at most {most} tokens without a stream: a stream was used for {wanted}"
            request = replace(request, stream=True)
            changes.append(ReplyWarning("option_changed", detail))
        if isinstance(request.tool_choice, AllowedTools) and request.tool_choice.mode == "auto":
            request, only = only_allowed_tools(request)
            changes += only
        strict = [tool.name for tool in request.tools if tool.strict]
        if strict and not self.quirks.validated and request.tool_choice == "auto":  # a forced call follows its schema
            detail = f"strict was not sent for {', '.join(strict)}: the endpoint has no strict mode"
            changes.append(ReplyWarning("option_dropped", detail))
        return request, changes

    def option_rules(self, request: Request) -> OptionRules:
        return OptionRules(stops=5, parallel_calls=False, budgets=True)

    def known_family(self, family: Family) -> Family:
        """Returns a copy of the facts about a model. Unknown facts are replaced by those of Gemini's newest models."""
        return family.filled(_NEWEST).over(self.quirks.facts())

    def read_error(self, body: Any, status: int | None = None) -> ErrorInfo:
        return read_google_error(body, status)

    def decode_cut(self, event: ServerSentEvent) -> list[Delta]:
        return without_open_part(super().decode_cut(event), event.data)

    def decode_cut_body(self, text: str) -> list[Delta]:
        return without_open_part(super().decode_cut_body(text), text)

    # --- encoding -----------------------------------------------------------------------------------------------------

    def request_path(self, request: Request) -> str:
        """Returns the URL path of a request, which contains the model's name."""
        return f"/{_place(request.model)}:{_METHODS[request.stream]}"

    def handles_path(self, path: str) -> bool:
        return path.endswith((":streamGenerateContent", ":generateContent"))

    def encode(self, request: Request, report: EncodingReport) -> dict[str, Any]:
        return encode_request(request, self.quirks, report)

    def batch_api(self, settings: BatchSettings) -> BatchAPI:
        from ..batches.gemini import GeminiBatchAPI

        return GeminiBatchAPI(settings)

    def count_path(self, request: Request) -> str:
        """Returns the URL path of the request that counts a prompt's tokens: https://ai.google.dev/api/tokens."""
        return f"/{_place(request.model)}:countTokens"

    def encode_count(self, request: Request, report: EncodingReport) -> dict[str, Any]:
        body = self.encode(request, report)
        if self.quirks.count_form == "members":
            return {name: body[name] for name in _COUNTED if name in body}
        return {"generateContentRequest": {"model": _place(request.model), **body}}

    def read_count(self, body: Any) -> int:
        return required_count(body, "totalTokens")


def _place(model: str) -> str:
    return model if _PLACE.fullmatch(model) else f"models/{quote(model, safe='')}"
