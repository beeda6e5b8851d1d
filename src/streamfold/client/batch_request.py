"""One request of a provider's batch, and how its answer is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from ..adapters import Adapter, PreparedRequest
from ..adapters.batches import BatchAPI, BatchResult
from ..engine import StreamDecoder
from ..net import Redactor, redact_error
from ..values import APIError, Reply, ReplyWarning, status_error, upstream_error
from .pricing import ProfilePricing


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """One request of a batch, and how its answer is read.

    Attributes:
        group: requests with the same one may be in one batch.
    """

    prepared: PreparedRequest
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
        warnings: list[ReplyWarning] = [*self.prepared.warnings, *reply.warnings]
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
        return upstream_error(info, body=result.problem)
