"""Builds, sends and parses requests of a provider's batch API."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import anyio

from ..adapters import PreparedRequest
from ..adapters.batches import BatchAPI, BatchResult, EndpointRequest
from ..answers import ChatParams
from ..errors import APIError, ConfigError, status_error, upstream_error
from ..limits import account_digest
from ..net import Exchange, Redactor, redact_error, whole_answer_timeouts
from ..public_names import set_public_module
from ..types import Reply, ReplyWarning
from .api_calls import call_api, json_reader
from .endpoint import Endpoint
from .prepared_call import PreparedCall

T = TypeVar("T")

_BODY = 2**28  # bytes: Gemini's operation object contains all results


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """One chat request in a batch of a provider's batch API. The object also parses the response to this chat request.

    Attributes:
        group: a text that must be the same for all requests in a batch, such as the model's name.
    """

    group: str
    _call: PreparedCall
    _api: BatchAPI

    @property
    def prepared(self) -> PreparedRequest:
        """The chat request as HTTP path, headers and JSON body in the format of the provider's API."""
        return self._call.sent

    def line(self, name: str) -> bytes:
        """Returns the request as one line of the batch's JSONL file. `name` identifies the request in the results."""
        return self._api.line(name, self._call.sent)

    def reply(self, result: BatchResult) -> Reply:
        """Parses the batch API's response to this chat request, and returns the reply.

        Raises:
            APIError: the request failed, or the answer is incomplete.
        """
        call = self._call
        try:
            if result.answer is None:
                info = call.adapter.read_error(result.problem, result.status)
                if result.status is None:
                    raise upstream_error(info, body=result.problem)
                raise status_error(info, body=result.problem)
            decoder = call.new_decoder()
            decoder.feed(json.dumps(result.answer).encode())
            decoder.close()
        except APIError as error:
            error.provider, error.request_id = call.endpoint.profile.name, error.request_id or result.request_id
            call.complete_partial(error)
            redact_error(error, Redactor(call.endpoint.profile.resolve().secrets()))
            raise
        reply = decoder.reply
        call.complete(reply)
        if reply.paused:
            detail = f"the answer needs another request ({reply.raw_finish_reason}), which a batch can't send"
            reply.warnings.append(ReplyWarning("not_continued", detail))
        reply.request_id = result.request_id
        return reply


class BatchClient:
    """A client for a provider's batch API, which answers many chat requests within hours.

    Attributes:
        api: creates the HTTP requests of the batch API, and parses the responses.
        account: a digest of the base URL and the API key. A batch belongs to the account that created it.

    Raises:
        ConfigError: the provider's wire format has no batch API, or the API key isn't set.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        profile = endpoint.profile
        self._endpoint = endpoint
        # The provider checks all lines of a batch before it responds.
        self._timeouts = whole_answer_timeouts(profile.timeouts)
        self._limits = replace(profile.limits, event_bytes=max(profile.limits.event_bytes, _BODY))
        self.api = profile.make_adapter(profile.resolve().model).batch_api(profile.batches)
        self.account = account_digest(profile)

    def request(self, params: ChatParams) -> BatchRequest:
        """Converts the arguments of `chat` to a request for a batch. Raises ConfigError for invalid arguments."""
        if params.extra_headers:
            raise ConfigError("extra_headers: a request in a batch can't have headers")
        call = PreparedCall.of(self._endpoint, replace(params, many_conversations=True), batched=True)
        return BatchRequest(self.api.group(call.sent), call, self.api)

    async def ask(
        self, call: EndpointRequest, what: str, read: Callable[[Any], T], *, max_retries: int | None = None
    ) -> T:
        """Sends an HTTP request of the batch API, and returns the parsed JSON response.

        Args:
            what: a description of the expected response, for error messages.
            read: parses the response; raises ValueError if the response is unexpected.
            max_retries: the maximum number of retries. None means the provider's configured maximum.

        Raises:
            APIError: the HTTP request failed.
        """
        reader = json_reader(what, read, self._limits)
        return await call_api(
            self._endpoint, call, reader, timeouts=self._timeouts, limits=self._limits, max_retries=max_retries
        )

    async def save(self, call: EndpointRequest, path: Path) -> None:
        """Sends an HTTP request of the batch API, and writes the response body to a file. Raises APIError if the
        request failed.
        """

        async def read(exchange: Exchange) -> None:
            async with await anyio.open_file(path, "wb") as file:
                while (data := await exchange.read()) is not None:
                    await file.write(data)

        await call_api(self._endpoint, call, read, timeouts=self._timeouts, limits=self._limits)


set_public_module("streamfold.types", [BatchClient, BatchRequest])
