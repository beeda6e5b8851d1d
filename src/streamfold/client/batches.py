"""The batch API of one provider: requests as its batches have them, the calls, and replies from the results."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from ..adapters import Adapter, Prepared
from ..adapters.batches import BatchAPI, BatchCall, BatchResult
from ..config import Profile
from ..engine import StreamDecoder
from ..limits import account_digest
from ..net import Exchange, Redactor, redact_error
from ..values import APIError, ProtocolWarning, Reply, StreamError, UpstreamError, status_error
from .pricing import ProfilePricing
from .whole import json_reader

if TYPE_CHECKING:
    from ..answers import Arguments
    from .requester import Requester

__all__ = ["BatchClient", "BatchRequest"]

T = TypeVar("T")

_MIB = 2**20
_BODY = 256 * _MIB  # an operation of Gemini has all results in it
# A batch is checked, line by line, before the answer to the call comes.
_FIRST_BYTES = 600.0


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """One request of a batch, and how its answer is read.

    Attributes:
        group: requests with the same one may be in one batch.
    """

    prepared: Prepared
    group: str
    provider: str
    _api: BatchAPI
    _adapter: Adapter
    _decoder: Callable[[], StreamDecoder]
    _pricing: ProfilePricing
    _secrets: Callable[[], list[str]]

    def line(self, name: str) -> bytes:
        """Returns the request as a line of the batch."""
        return self._api.line(name, self.prepared)

    def reply(self, result: BatchResult) -> Reply:
        """Returns the reply, read by the same engine as a streamed one.

        Raises:
            APIError: the request was not answered, or the answer is not complete.
        """
        try:
            return self._reply(result)
        except APIError as error:
            error.provider, error.request_id = self.provider, error.request_id or result.request_id
            if error.partial is not None:
                error.partial = replace(error.partial, pricing=replace(self._pricing, partial=True))
            redact_error(error, Redactor(self._secrets()))
            raise

    def _reply(self, result: BatchResult) -> Reply:
        if result.answer is None:
            raise self._error(result)
        decoder = self._decoder()
        decoder.feed(json.dumps(result.answer).encode())
        decoder.close()
        reply = decoder.reply
        warnings: list[ProtocolWarning] = [*self.prepared.warnings, *reply.warnings]
        return replace(
            reply,
            request_id=result.request_id,
            warnings=warnings,
            provider=self.provider,
            origin=self.prepared.request.origin,
            pricing=self._pricing,
        )

    def _error(self, result: BatchResult) -> APIError:
        info = self._adapter.read_error(result.problem, result.status)
        if result.status is not None:
            return status_error(info, body=result.problem)
        error: StreamError = UpstreamError(
            info.message, type=info.type, code=info.code, status_code=info.status, retryable=info.retryable
        )
        return error


class BatchClient:
    """The batch API of one provider.

    Attributes:
        api: writes the calls and reads what they bring.
        account: a digest of the base URL and the key. Batches belong to the account that they were created with.

    Raises:
        ConfigError: the provider's wire format has no batches, or the key is not set.
    """

    def __init__(self, profile: Profile, requester: Requester) -> None:
        self._requester = requester
        self._timeouts = replace(profile.timeouts, first_event=_FIRST_BYTES)
        self._limits = replace(profile.limits, event_bytes=max(profile.limits.event_bytes, _BODY))
        self.api = profile.make_adapter(profile.sent_model()).batch_api(profile.batches)
        self.account = account_digest(profile)

    def request(self, arguments: Arguments) -> BatchRequest:
        """Returns a request of a batch. Raises ConfigError if it can't be sent as it is."""
        return self._requester.batched(arguments, self.api)

    async def ask(self, call: BatchCall, what: str, read: Callable[[Any], T], *, max_retries: int | None = None) -> T:
        """Returns what the JSON answer to a call says.

        Args:
            what: what the answer should be, for errors.
            read: reads the answer; raises ValueError if it is something else.
            max_retries: how often the call is sent again if it fails. None: as configured.

        Raises:
            APIError: the call failed.
        """
        reader = json_reader(what, read, self._limits)
        return await self._requester.call(call, reader, self._timeouts, self._limits, max_retries).send()

    async def save(self, call: BatchCall, path: Path) -> None:
        """Writes the answer to a call into a file. Raises APIError if the call failed."""
        await self._requester.call(call, partial(_save, path), self._timeouts, self._limits, None).send()


async def _save(path: Path, exchange: Exchange) -> None:
    async with await anyio.open_file(path, "wb") as file:
        while (data := await exchange.read()) is not None:
            await file.write(data)
