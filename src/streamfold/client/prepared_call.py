"""One request in the form in which it is sent, and how its answer is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..adapters import Adapter
from ..engine import StreamDecoder
from ..net import HTTPRequest
from ..requests import Request
from ..types import ReplyWarning
from .costs import ProfilePricing


class PreparedCall(NamedTuple):  # half as dear to make as a frozen dataclass, and each request needs one
    """One request in the form in which it is sent, and how its answer is read.

    Attributes:
        adapter: the adapter that wrote it.
        sent: what it was written from.
        decoder: makes a new decoder, given whether it is to return chunks of fragments; each attempt needs one.
        reconnect: given the id of an answer and the number of its last event, returns the request for the rest of it;
            None if the provider does not keep it.
        warnings: what had to be changed in the request.
        origin: the `origin` of the message that the answer becomes.
        one_call: one call at a time was asked for, and the server could not be told.
        pricing: finds out what the answer cost; None: nobody can.
        whole: the caller wants nothing of the answer before its end, whether it is streamed or not.
    """

    adapter: Adapter
    sent: Request
    request: HTTPRequest
    decoder: Callable[[bool], StreamDecoder]
    reconnect: Callable[[str, int], HTTPRequest | None]
    warnings: Sequence[ReplyWarning] = ()
    origin: str | None = None
    pricing: ProfilePricing | None = None
    one_call: bool = False
    whole: bool = False


HIDDEN = "***"


@dataclass(frozen=True, slots=True)
class Preview:
    """An HTTP request as `Provider.chat_stream` would send it, without secrets.

    Attributes:
        url: the address, with `${NAME}` for everything that comes from an environment variable.
        headers: the values of configured headers and of the key are `***`.
        body: the bytes of the JSON body.
        warnings: what had to be changed, dropped or is doubtful. They will also be on the reply.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    warnings: tuple[ReplyWarning, ...] = ()

    def json(self) -> Any:
        """Returns the body as JSON data."""
        return json.loads(self.body)
