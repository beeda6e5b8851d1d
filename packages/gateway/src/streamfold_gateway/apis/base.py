"""Base class of the APIs that the gateway's clients can use, and functions that all these APIs need."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from streamfold import (
    APIConnectionError,
    APIError,
    BadRequestError,
    ConfigError,
    IncompleteStreamError,
    Reply,
    ReplyWarning,
    UpstreamError,
)
from streamfold.limits import estimated_tokens
from streamfold.serving import (
    ClientTools,
    ObjectReader,
    StreamSerializer,
    openai_error_body,
)
from streamfold.turn_cache import TurnCache
from streamfold.types import BackendInfo, ErrorInfo, Request

from ..auth import GatewayKey
from ..client_members import Known, MemberFilter
from ..config import GatewayOptions, KeyOptions
from ..http_errors import HTTPError, from_provider_error
from ..models import ModelRoute
from ..request_log import RequestLog

_TEMPORARY = re.compile(
    "overloaded|rate.?limit|too many requests|(server|internal|connection) error|service unavailable", re.IGNORECASE
)

# Values of tool fields without an effect. The last one means that the model calls the tool directly, the default.
_ASK_NOTHING: tuple[Any, ...] = (None, [], {}, False, ["direct"])
_GRANTED = ("eager_input_streaming", "cache_control")  # these work with every provider


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A client's request, after the gateway has parsed it.

    Attributes:
        client: the client's key.
        log: the log of the request.
        body: the JSON body of the request, without the fields that the client may not send.
        parsed: the request that the gateway parsed from the body.
        route: the provider and the model for the model name in the request.
        stream: true if the client requested a streamed response.
        id: the id that the gateway gives to the response.
        created: the time at which the request arrived, in seconds since 1970.
        headers: the request's HTTP headers, with names in lower case.
        params: the parameters in the URL's path and query.
        warnings: warnings about the fields and messages that the gateway doesn't send to the provider.
        end_user: the end user that the request names, as returned by `named_end_user`.
        turn_cache: the client's part of the turn cache; None if the response isn't stored there.
        tools: the original tools of a Responses API request, by the names of the function tools that replace them.
        stored: the fields `store`, `background` and `previous_response_id` of the response object; None if the response
            isn't stored.
    """

    api: ClientAPI
    client: GatewayKey
    log: RequestLog
    body: Mapping[str, Any]
    parsed: Request
    route: ModelRoute
    stream: bool
    id: str
    created: int
    headers: Mapping[str, str]
    params: Mapping[str, str]
    warnings: tuple[ReplyWarning, ...]
    end_user: str
    turn_cache: TurnCache | None = None
    tools: ClientTools | None = None
    stored: Mapping[str, Any] | None = None

    @property
    def model(self) -> str:
        """The model name that the client's request contains."""
        return self.parsed.model

    def with_extra_body(self, extra: Mapping[str, Any]) -> Self:
        """Returns a copy of the request with `extra` as its `extra_body`."""
        return replace(self, parsed=replace(self.parsed, options=replace(self.parsed.options, extra_body=extra)))

    def with_warnings(self, warnings: Iterable[ReplyWarning]) -> Self:
        """Returns a copy of the request with more warnings."""
        return replace(self, warnings=(*self.warnings, *warnings))


@dataclass(frozen=True, slots=True)
class APIEndpoint:
    """An HTTP endpoint for requests of one client API.

    Attributes:
        path: the URL path of the endpoint, with path parameters in braces.
        id_prefix: the prefix of the response ids that the gateway creates.
        streams: true if responses are always streamed, false if never; None if the field `stream` of the request
            decides.
        count_member: for endpoints that only count tokens, the name of the response field for the token count; "" for
            other endpoints.
        compacts: true if the endpoint replaces a long conversation with a summary ("compaction").
    """

    path: str
    id_prefix: str
    streams: bool | None = None
    count_member: str = ""
    compacts: bool = False


class ClientAPI(ABC):
    """An API that the gateway serves to clients. Instances have no state.

    Attributes:
        endpoints: the HTTP endpoints of the API.
        adapter: the name of the streamfold adapter for providers that have the same API.
        label: the name of the API, as warnings to clients show it.
        streams_partial_calls: true if a stream can deliver one tool call in several events.
        returns_ids: true if every client of the API sends the ids of earlier tool calls in its next request.
        forwards_error_type: true if the gateway sends the provider's error `type` to the client.
        continues: true if the API lets the model continue an assistant message at the end of the conversation
            (prefill).
        client_ids: the request fields that identify a client installation, a session or a user.
        members: the request fields that the gateway may send to a provider.
        keep_alive: the bytes that the gateway sends to the client of a silent stream, so that proxies keep the
            connection open.
    """

    endpoints: ClassVar[tuple[APIEndpoint, ...]]
    adapter: ClassVar[str]
    label: ClassVar[str]
    streams_partial_calls: ClassVar[bool] = True
    returns_ids: ClassVar[bool] = True
    forwards_error_type: ClassVar[bool] = True
    continues: ClassVar[bool] = False
    client_ids: ClassVar[tuple[str, ...]] = ()
    members: ClassVar[Known]
    # Our streams have no `id:` lines: after one, some clients treat a comment as an event.
    keep_alive: ClassVar[bytes] = b": keepalive\n\n"

    def matches(self, path: str, headers: Mapping[str, str]) -> bool:
        """Returns whether the client that sent a request uses this API. Several APIs share some paths, such as the list
        of models.
        """
        return False

    def model(self, fields: ObjectReader, params: Mapping[str, str]) -> str:
        """Returns the model name from the fields of a request body, or from the parameters in the URL. Raises
        ConfigError if the body has none.
        """
        return fields.need("model")

    @abstractmethod
    def parse(self, body: Any, params: Mapping[str, str], *, native: bool) -> Request:
        """Parses a request body. Raises ConfigError if a field is invalid; the error message begins with the field's
        path.

        Args:
            params: the parameters in the URL's path and query.
            native: true if the provider has the same API as the client, so that it supports all fields.
        """

    def count_body(self, member: str, number: int) -> dict[str, Any]:
        """Returns the body of a response that contains only a token count."""
        return {member: number}

    def compaction_body(self, request: ClientRequest, reply: Reply) -> dict[str, Any]:
        """Returns the body of a response that contains a compacted conversation."""
        raise NotImplementedError  # called only for an endpoint with `compacts`, whose API has its own method

    def counted_body(self, body: Any) -> Any:
        """Converts the body of a token count request to the body of the model request whose tokens are counted."""
        return body

    @abstractmethod
    def serializer(self, request: ClientRequest, options: GatewayOptions) -> StreamSerializer:
        """Returns the serializer for the response to `request`."""

    def headers(self, answer_id: str) -> dict[str, str]:
        """Returns the HTTP headers that every response of this API has."""
        return {"x-request-id": answer_id}

    def stream_headers(self, request: ClientRequest) -> dict[str, str]:
        """Returns the HTTP headers that only a streamed response of this API has."""
        return {}

    def info(self, refusal: HTTPError) -> ErrorInfo:
        """Returns the error object with the `type` and the `code` that clients of this API expect."""
        meaning = refusal.info.meaning()
        if meaning is not None and meaning.kind == "context_length":  # Codex then compacts the conversation
            return replace(refusal.info, code="context_length_exceeded")
        return refusal.info

    def stream_info(self, refusal: HTTPError) -> ErrorInfo:
        """Returns the error object that the gateway sends at the end of a failed stream.

        The words "server error" in the message make the agents pi 0.73 and opencode 1.18 send the request again. So the
        method adds these words to the message of a temporary error. It doesn't add them to an error of the provider if
        this API forwards the error's type.
        """
        info, cause = self.info(refusal), refusal.cause
        kinds = (APIConnectionError, IncompleteStreamError, *(() if self.forwards_error_type else (UpstreamError,)))
        if not isinstance(cause, kinds) or not cause.retryable or _TEMPORARY.search(info.message):
            return info
        return replace(info, message=f"{info.message} (server error)")

    def split_failure(self, failure: bytes) -> list[bytes]:
        """Splits the last events of a failed stream into pieces that are sent one after the other."""
        return [failure]

    def error(self, refusal: HTTPError, answer_id: str) -> tuple[int, dict[str, Any]]:
        """Returns the HTTP status and the JSON body of an error response."""
        return refusal.status, openai_error_body(replace(self.info(refusal), status=None))

    def error_response(self, refusal: HTTPError, answer_id: str) -> tuple[int, dict[str, Any], dict[str, str]]:
        """Returns the HTTP status, the JSON body and the headers of an error response."""
        status, body = self.error(refusal, answer_id)
        return status, body, {**self.headers(answer_id), **refusal.headers}

    def model_entry(self, name: str, began: int) -> dict[str, Any]:
        """Returns a model's entry in the list of models. `began` is the time at which the server started, in seconds
        since 1970.
        """
        return {"id": name, "object": "model", "created": began, "owned_by": "streamfold"}

    def model_list(self, names: Sequence[str], began: int) -> dict[str, Any]:
        """Returns the list of all models."""
        return {"object": "list", "data": [self.model_entry(name, began) for name in names]}

    def adapt_request(self, request: ClientRequest, adapters: Collection[str]) -> ClientRequest:
        """Converts a request for providers with these adapters.

        Raises:
            ConfigError: the gateway can't convert the request for these providers.
        """
        if set(adapters) == {self.adapter}:
            return request
        return self.without_own_fields(request, request.parsed.options.extra_body)

    def without_own_fields(
        self, request: ClientRequest, lost: Mapping[str, Any], extra_body: Mapping[str, Any] | None = None
    ) -> ClientRequest:
        """Removes the fields of this API from a request to a provider with another API.

        Args:
            lost: the removed fields. A warning lists them, except fields without an effect, such as an empty list.
            extra_body: the other fields, which the provider supports.
        """
        tools = request.parsed.tools
        in_tools = {
            f"tools[].{name}": value
            for tool in tools
            for name, value in {**tool.extra, **tool.extra.get("function", {}), "function": None}.items()
            if value not in _ASK_NOTHING and name not in _GRANTED
        }
        plain = tuple(replace(tool, extra={}) if tool.extra else tool for tool in tools)
        request = replace(request, parsed=replace(request.parsed, tools=plain)).with_extra_body(extra_body or {})
        for members in (lost, in_tools):
            if names := [name for name, value in members.items() if value not in (None, [], {}, False)]:
                detail = f"{' and '.join(names)}: only {self.label} supports this; not sent to the provider"
                request = request.with_warnings([ReplyWarning("option_dropped", detail)])
        return request

    def without_client_ids(self, request: ClientRequest) -> ClientRequest:
        """Returns a copy of the request without the fields in `client_ids`."""
        extra = request.parsed.options.extra_body
        return request.with_extra_body({name: value for name, value in extra.items() if name not in self.client_ids})


def permitted_members(
    body: Mapping[str, Any], known: Known, key: KeyOptions, *, any_model: bool
) -> tuple[dict[str, Any], tuple[ReplyWarning, ...]]:
    """Removes from a request body the fields that the client may not send. Returns the new body, and warnings about the
    removed fields.

    Args:
        known: the fields that the client's API documents.
        key: the rights of the client's key.
        any_model: true if the client may use every model of the gateway's providers.
    """
    members = MemberFilter(
        known, only_known=key.only_known_members, passthrough=key.passthrough_members, any_model=any_model
    )
    kept, warnings = members.filter(body), []
    if members.destinations:
        why = "only the operator of the gateway chooses models, addresses and keys"
        warnings.append(_not_sent(members.destinations, why))
    if members.unknown:
        why = "this gateway key may only send documented fields; `passthrough_members` allows more"
        warnings.append(_not_sent(members.unknown, why))
    return kept, tuple(warnings)


def with_operator_members(request: ClientRequest, endpoints: Collection[BackendInfo]) -> ClientRequest:
    """Prevents a client's request from overriding the `extra_body` in the settings of its provider.

    In `Provider`, the `extra_body` of a request takes precedence over the configured one. So if both contain a field,
    this function replaces the client's value with the configured value. If a provider and its fallbacks have different
    configured values, it removes the client's value.
    """
    extra = dict(request.parsed.options.extra_body)
    lost: list[str] = []
    for name in [name for name in extra if any(name in endpoint.extra_body for endpoint in endpoints)]:
        first, *others = [endpoint.extra_body.get(name) for endpoint in endpoints]
        if any(other != first for other in others):
            del extra[name]
            lost.append(name)
        elif name == "tools" and isinstance(first, list) and isinstance(extra[name], list):
            extra[name] = [*extra[name], *first]
        else:
            extra[name] = _merged(extra[name], first, name, lost)
    if extra == request.parsed.options.extra_body:
        return request
    why = "the operator of the gateway has set the same field"
    return request.with_extra_body(extra).with_warnings([_not_sent(lost, why)] if lost else [])


def _merged(mine: Any, operators: Any, where: str, lost: list[str]) -> Any:
    if isinstance(mine, Mapping) and isinstance(operators, Mapping):
        both = {name: _merged(mine[name], value, f"{where}.{name}", lost) if name in mine else value
                for name, value in operators.items()}  # fmt: skip
        return {**mine, **both}
    if mine != operators:
        lost.append(where)
    return operators


def _not_sent(paths: list[str], why: str) -> ReplyWarning:
    named = ", ".join(path[:80] for path in paths[:10]) + (", ..." if len(paths) > 10 else "")
    return ReplyWarning("option_dropped", f"{named}: not sent, because {why}")


_SECONDS = 10.0  # timeout in seconds, because clients count tokens often


async def counted_tokens(request: ClientRequest) -> tuple[int, str]:
    """Returns the number of tokens in a request, without calling a model.

    Returns:
        The provider's token count and ""; or an estimate, and the reason why the provider couldn't count.

    Raises:
        HTTPError: the provider rejected the token count request.
    """
    why = "the provider's API can't count tokens"
    try:
        if (number := await request.route.count(request.parsed, {"total": _SECONDS})) is not None:
            return number, ""
    except BadRequestError as error:
        raise from_provider_error(error) from error
    except (APIError, ConfigError) as error:
        why = f"the provider could not count ({type(error).__name__})"
    return estimated_tokens(request.parsed), f"estimated: {why}"
