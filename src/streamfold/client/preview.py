"""The request that would be sent, to look at."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..values import ReplyWarning

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
