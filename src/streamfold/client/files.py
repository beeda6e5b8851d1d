"""Files that tools of the provider made: fetched when somebody asks, and never more of them than a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..adapters.batches import EndpointRequest
from ..net import Exchange
from ..values import ConfigError, GeneratedFile, ProtocolError

if TYPE_CHECKING:
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
