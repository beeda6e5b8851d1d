"""API requests other than chat: token counts, the batch API and file downloads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import takewhile
from typing import Any, TypeVar

from ..adapters.batches import EndpointRequest
from ..answers import ChatParams, ChatStream
from ..engine import NonStreamBody
from ..errors import APIError, ConfigError, ProtocolError, StreamError, UpstreamError
from ..net import Exchange, HTTPRequest
from ..requests import Request
from ..types import Compaction, GeneratedFile, Limits, Reply, Timeouts
from .endpoint import Endpoint, headers_without_body
from .hooks import Notifier, RequestInfo
from .network_stream import NetworkStream
from .prepared_call import PreparedCall
from .retry_backoff import RetryLoop

T = TypeVar("T")


async def call_api(
    endpoint: Endpoint,
    call: EndpointRequest,
    read: Callable[[Exchange], Awaitable[T]],
    *,
    timeouts: Timeouts | None = None,
    limits: Limits | None = None,
    max_retries: int | None = None,
) -> T:
    """Sends an HTTP request to the provider, and returns the result of the function `read` for the response.

    Args:
        timeouts, limits, max_retries: settings for this request. None means the provider's configured setting.

    Raises:
        ConfigError: the request can't be sent.
        APIError: the request failed.
    """
    model = endpoint.resolved().model or ""
    request = endpoint.http_request(endpoint.model(model).adapter, call, timeouts)
    if limits is not None:
        request = request._replace(limits=limits)
    return await _send(endpoint, request, endpoint.request_info(call.path, Request(model, ())), read, max_retries)


def counts_tokens(endpoint: Endpoint, model: str | None) -> bool:
    """Returns True if the endpoint has an API that counts the input tokens of a request to this model."""
    name = model or ""
    return endpoint.model(name).adapter.counts_tokens or _counting_api(endpoint, name) is not None


def _counting_api(endpoint: Endpoint, model: str) -> str | None:
    # OpenAI's Responses API counts tokens, but Chat Completions doesn't.
    adapter = endpoint.model(model).adapter
    other = None if adapter.counts_tokens else endpoint.other_api(adapter.name)
    return other if other is not None and endpoint.model(model, other).adapter.counts_tokens else None


async def count_tokens(endpoint: Endpoint, params: ChatParams) -> int:
    if params.conversation is not None and params.conversation.after is not None:
        raise ConfigError(
            "the tokens of a stored conversation can't be counted: pass all messages, without conversation="
        )
    request = endpoint.request(params.request)
    api = _counting_api(endpoint, request.model)
    adapter = endpoint.model(request.model, api).adapter
    if api is not None:
        request = endpoint.request(params.request, api)
    ready = adapter.prepare_count(request, repair_history=params.repair_history, endpoint=endpoint.profile)
    http_request = endpoint.http_request(adapter, ready, params.timeouts, params.extra_headers)
    read = json_reader("a count of tokens", adapter.read_count, endpoint.profile.limits)
    return await _send(endpoint, http_request, endpoint.request_info(ready.path, request), read)


async def compact_history(endpoint: Endpoint, params: ChatParams) -> Compaction:
    if params.conversation is not None:
        raise ConfigError("conversation= isn't supported by compact(): pass all messages")
    options = replace(params.request.options, response_format=None, stop=None, compact_threshold=None)
    request = replace(params.request, options=options, compact=True)  # these options apply to answers only
    call = PreparedCall.of(endpoint, replace(params, request=request))
    reply = await ChatStream(NetworkStream(call)).read()
    try:
        compacted = call.adapter.compacted(reply)
    except ValueError as exc:
        message = f"the provider did not compact the conversation: {exc}"
        provider, request_id = endpoint.profile.name, reply.request_id
        raise UpstreamError(message, provider=provider, request_id=request_id, partial=reply) from exc
    opening = takewhile(lambda message: message.role in ("system", "developer"), request.messages)
    return Compaction([*opening, *compacted], reply)


def retrieve_answer(endpoint: Endpoint, answer_id: str, params: ChatParams) -> ChatStream:
    _check_answer_id(answer_id)
    options = params.request.options
    options = replace(options, extra_body={**options.extra_body, "store": True})
    params = replace(params, request=replace(params.request, options=options), max_continuations=0, conversation=None)
    call = PreparedCall.of(endpoint, params).retrieving(answer_id)
    return ChatStream(NetworkStream(call), yields_call_deltas=params.partial_tool_calls)


async def cancel_answer(endpoint: Endpoint, answer_id: str) -> None:
    _check_answer_id(answer_id)
    model = endpoint.resolved().model or ""
    adapter = endpoint.model(model).adapter
    if (path := adapter.cancel_path(answer_id)) is None:
        raise ConfigError(f"the API of adapter {adapter.name!r} can't cancel an answer")
    headers = headers_without_body(adapter, Request(model, (), stream=False))
    read = json_reader("a cancelled answer", lambda body: None, endpoint.profile.limits)
    await call_api(endpoint, EndpointRequest("POST", path, headers), read)


def _check_answer_id(answer_id: object) -> None:
    if not isinstance(answer_id, str) or not answer_id:
        raise ConfigError(f"answer_id must be the id of an answer, such as reply.id, not {answer_id!r:.80}")


async def fetch_file(endpoint: Endpoint, file: GeneratedFile, max_bytes: int) -> bytes:
    if file.data is not None:
        return file.data
    profile = endpoint.profile
    if file.file_id is None:
        where = f": it is at {file.url}" if file.url else ""
        raise ConfigError(f"the file can't be downloaded from {profile.name!r}, because it has no file_id{where}")
    path, headers = profile.make_adapter(profile.resolve().model).file_request(file)

    async def read(exchange: Exchange) -> bytes:
        pieces, size = list[bytes](), 0
        while (data := await exchange.read()) is not None:
            size += len(data)
            if size > max_bytes:
                raise ProtocolError(f"the file is larger than {max_bytes} bytes (max_bytes)")
            pieces.append(data)
        return b"".join(pieces)

    return await call_api(endpoint, EndpointRequest("GET", path, {**headers, "Accept": "*/*"}), read)


def json_reader(what: str, read: Callable[[Any], T], limits: Limits) -> Callable[[Exchange], Awaitable[T]]:
    """Returns a function that parses a JSON response, for the argument `read` of `call_api`.

    Args:
        what: a description of the expected value, for error messages.
        read: a function that converts the JSON value to the result, or raises ValueError if the value is unexpected.
    """

    async def read_json(exchange: Exchange) -> T:
        body = NonStreamBody("json", limits)
        while (data := await exchange.read()) is not None:
            body.feed(data)
        value = body.finish(None)
        try:
            return read(value)
        except ValueError as exc:
            raise ProtocolError(f"the response is not {what}: {exc}", body=value) from exc

    return read_json


async def _send(
    endpoint: Endpoint,
    request: HTTPRequest,
    info: RequestInfo,
    read: Callable[[Exchange], Awaitable[T]],
    max_retries: int | None = None,
) -> T:
    notifier = Notifier(info, ())  # hooks are called for answers only
    retries = endpoint.profile.max_retries if max_retries is None else max_retries
    attempts = RetryLoop(request, notifier, endpoint.connections, max_retries=retries)
    try:
        return await attempts.run(lambda: read)
    except APIError as error:
        if isinstance(error, StreamError):
            error.partial = error.partial or Reply()
        attempts.complete_error(error)
        notifier.notify("on_error", error)
        raise
    finally:
        await attempts.aclose()
