"""The batch API of a provider, and the files that its tools made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from ..adapters.batches import EndpointRequest
from ..config import Profile
from ..errors import ConfigError, ProtocolError
from ..limits import account_digest
from ..net import Exchange
from ..types import GeneratedFile
from .api_calls import BatchRequest, json_reader
from .requester import Requester

if TYPE_CHECKING:
    from ..answers import ChatParams
    from ..config import Profile
    from .requester import Requester


async def fetch_file(profile: Profile, requester: Requester, file: GeneratedFile, max_bytes: int) -> bytes:
    """Returns the bytes of a file. See `Provider.fetch_file`."""
    if file.data is not None:
        return file.data
    if file.file_id is None:
        where = f": it is at {file.url}" if file.url else ""
        raise ConfigError(f"the file has no id under which {profile.name!r} keeps it{where}")
    path, headers = profile.make_adapter(profile.sent_model()).file_request(file)

    async def read(exchange: Exchange) -> bytes:
        pieces, size = list[bytes](), 0
        while (data := await exchange.read()) is not None:
            size += len(data)
            if size > max_bytes:
                raise ProtocolError(f"the file is larger than {max_bytes} bytes (max_bytes)")
            pieces.append(data)
        return b"".join(pieces)

    call = EndpointRequest("GET", path, {**headers, "Accept": "*/*"})
    return await requester.call(call, read, profile.timeouts, profile.limits, None).send()


T = TypeVar("T")

_MIB = 2**20
_BODY = 256 * _MIB  # an operation of Gemini has all results in it
# A batch is checked, line by line, before the answer to the call comes.
_FIRST_BYTES = 600.0


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

    def request(self, arguments: ChatParams) -> BatchRequest:
        """Returns a request of a batch. Raises ConfigError if it can't be sent as it is."""
        return self._requester.batched(arguments, self.api)

    async def ask(
        self, call: EndpointRequest, what: str, read: Callable[[Any], T], *, max_retries: int | None = None
    ) -> T:
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

    async def save(self, call: EndpointRequest, path: Path) -> None:
        """Writes the answer to a call into a file. Raises APIError if the call failed."""
        await self._requester.call(call, partial(_save, path), self._timeouts, self._limits, None).send()


async def _save(path: Path, exchange: Exchange) -> None:
    async with await anyio.open_file(path, "wb") as file:
        while (data := await exchange.read()) is not None:
            await file.write(data)
