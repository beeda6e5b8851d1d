"""A cache of answers, as recordings: what was asked before is answered from a file."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

import httpx

from streamfold import ConfigError
from streamfold.recording import Recording, RecordTransport, ReplayTransport

__all__ = ["CacheTransport"]


class CacheTransport(httpx.AsyncBaseTransport):
    """Answers a request that was answered before from its recording. Sends any other one, and records the answer.

        client = httpx.AsyncClient(transport=CacheTransport("cache"))
        provider = Provider.from_config("kimi:kimi-k2.6", http_client=client)

    Two requests are the same if method, address and body are: the order of the members of a JSON body does not count,
    and headers don't. Only answers that were read to their end in order are used again. As in every recording, keys are
    taken out of the files.

    Args:
        directory: where the recordings are. They can be shared between processes, and used in tests.
        transport: sends the requests. Default: httpx's own. It is closed with this one.
        secrets: texts that must not be in the files.

    Attributes:
        hits, misses: how many requests were answered from a recording, and how many were sent.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        secrets: Iterable[str] = (),
    ) -> None:
        self._directory = Path(directory)
        self._transport = transport or httpx.AsyncHTTPTransport()
        self._secrets = [secrets] if isinstance(secrets, str) else list(secrets)
        self.hits = self.misses = 0
        RecordTransport(self._transport, self._directory, secrets=self._secrets)  # raises ConfigError for a mistake

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answers with a recording, or sends the request. Raises ConfigError if the files can't be written."""
        await request.aread()
        name = _key(request)
        if (found := self._found(name)) is not None:
            self.hits += 1
            return await ReplayTransport(found, match="any").handle_async_request(request)
        self.misses += 1
        recorder = RecordTransport(self._transport, self._directory, name=name, secrets=self._secrets)
        return await recorder.handle_async_request(request)

    async def aclose(self) -> None:
        """Closes the transport below."""
        await self._transport.aclose()

    def _found(self, name: str) -> Recording | None:
        try:
            recording = Recording.load(self._directory / name)
        except ConfigError:  # there is none, or another program has written it
            return None
        fits = recording.complete and recording.status == 200 and not recording.broken
        return recording if fits and "error" not in recording.expect else None


def _key(request: httpx.Request) -> str:
    try:
        body = json.dumps(json.loads(request.content), sort_keys=True).encode()
    except ValueError:
        body = request.content
    return hashlib.sha256(f"{request.method} {request.url}\n".encode() + body).hexdigest()[:40]
