"""Anthropic's Messages API, as the gateway serves it to clients."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from time import gmtime, strftime
from typing import Any

from streamfold import APIError
from streamfold.serving import (
    AnthropicSerializer,
    StreamSerializer,
    anthropic_error_body,
    parse_anthropic_request,
    sse_event,
)
from streamfold.types import ErrorInfo, Request

from ..client_members import MESSAGES_MEMBERS
from ..config import GatewayOptions
from ..conversation import text_of, with_one_system
from ..http_errors import HTTPError
from .base import APIEndpoint, ClientAPI, ClientRequest

# Claude Code compacts a conversation when it reads `prompt is too long: 130000 tokens > 128000 maximum`. After any
# other message, it stops. `providers/facts/errors.toml` contains the messages of each server.

_PHRASE = "prompt is too long"


def prompt_too_long(info: ErrorInfo) -> str | None:
    """Returns the error message with which the Messages API rejects a prompt that is too long; None for other errors.

    The token counts come from the provider's error message. Without token counts, the result contains the provider's
    message instead.

    >>> prompt_too_long(ErrorInfo("Your request exceeded model token limit: 262144 (requested: 300000)"))
    'prompt is too long: 300000 tokens > 262144 maximum'
    >>> prompt_too_long(ErrorInfo("There is no such model"))
    """
    meaning = info.meaning()
    if meaning is None or meaning.kind != "context_length":
        return None
    if _PHRASE in info.message.lower():
        return info.message
    known = meaning.tokens and meaning.limit
    said = f"{meaning.tokens} tokens > {meaning.limit} maximum" if known else info.message
    return f"{_PHRASE}: {said}"


# Claude Code puts this before its instructions. It may change with every request, and then no server finds a prefix
# in its cache (ggml-org/llama.cpp#21793).
_BILLING = "x-anthropic-billing-header:"


class AnthropicAPI(ClientAPI):
    """Anthropic's Messages API, as the gateway serves it to clients."""

    endpoints = (
        APIEndpoint("/v1/messages", "msg_"),
        APIEndpoint("/v1/messages/count_tokens", "count_", count_member="input_tokens"),
    )
    adapter = "anthropic"
    label = "the Messages API"
    continues = True
    forwards_error_type = False
    client_ids = ("metadata",)  # contains Claude Code's device, account and session
    members = MESSAGES_MEMBERS
    keep_alive = sse_event({"type": "ping"}, "ping")

    def matches(self, path: str, headers: Mapping[str, str]) -> bool:
        return "anthropic-version" in headers or path.startswith("/v1/messages")

    def parse(self, body: Any, params: Mapping[str, str], *, native: bool) -> Request:
        return parse_anthropic_request(body, native=native)

    def counted_body(self, body: Any) -> Any:
        return {"max_tokens": 1, **body} if isinstance(body, Mapping) else body

    def serializer(self, request: ClientRequest, options: GatewayOptions) -> StreamSerializer:
        thinking = request.body.get("thinking")
        wants_thinking = isinstance(thinking, Mapping) and thinking.get("type") != "disabled"
        return AnthropicSerializer(
            id=request.id,
            model=request.model,
            tool_choice=request.parsed.tool_choice,
            # A client that did not request reasoning may not expect such blocks.
            thinking=wants_thinking or options.unasked_thinking,
            opaque=request.turn_cache is None,
            fill_finish_reason=True,
        )

    def headers(self, answer_id: str) -> dict[str, str]:
        return {**super().headers(answer_id), "request-id": answer_id}

    def model_entry(self, name: str, began: int) -> dict[str, Any]:
        created_at = strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(began))
        return {"type": "model", "id": name, "display_name": name, "created_at": created_at}

    def model_list(self, names: Sequence[str], began: int) -> dict[str, Any]:
        entries = [self.model_entry(name, began) for name in names]
        return {"data": entries, "has_more": False, "first_id": names[0], "last_id": names[-1]}

    def info(self, refusal: HTTPError) -> ErrorInfo:
        info = replace(refusal.info, status=refusal.info.status or refusal.status)
        if message := prompt_too_long(info):
            return replace(info, message=message, type="invalid_request_error", code=None, status=400)
        if info.quota:
            info = replace(info, status=402)
        if info.status == 503 and not isinstance(refusal.cause, APIError):
            info = replace(info, status=529)  # "overloaded", after which clients of this API retry
        return info

    def error(self, refusal: HTTPError, answer_id: str) -> tuple[int, dict[str, Any]]:
        info = self.info(refusal)
        return info.status or refusal.status, {**anthropic_error_body(info), "request_id": answer_id}

    def adapt_request(self, request: ClientRequest, adapters: Collection[str]) -> ClientRequest:
        if set(adapters) == {self.adapter}:
            return replace(request, parsed=_with_anthropic_fields(request))
        messages = tuple(
            message
            for message in request.parsed.messages
            if message.role != "system" or not (text_of(message) or "").startswith(_BILLING)
        )
        lost = request.parsed.options.extra_body
        parsed = replace(request.parsed, messages=with_one_system(messages))
        return self.without_own_fields(replace(request, parsed=parsed), lost)


def _with_anthropic_fields(request: ClientRequest) -> Request:
    parsed = request.parsed
    options, extra = parsed.options, dict(parsed.options.extra_body)
    betas = [beta.strip() for beta in request.headers.get("anthropic-beta", "").split(",")]
    if any(betas):  # the API rejects some fields without their beta header
        known = extra.get("betas")
        extra["betas"] = [*(known if isinstance(known, list) else ()), *filter(None, betas)]
    thinking = request.body.get("thinking")
    if isinstance(thinking, Mapping) and (details := {name: thinking[name] for name in thinking if name != "type"}):
        extra["thinking"] = details  # the display mode and the exact budget
    options = replace(options, extra_body=extra)
    if isinstance(thinking, Mapping) and thinking.get("type") == "adaptive" and options.reasoning_effort is None:
        options = replace(options, reasoning_effort="high")  # the API's own default
    return replace(parsed, options=options)
