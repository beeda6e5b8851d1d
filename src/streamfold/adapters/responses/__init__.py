"""OpenAI's Responses API: an answer is a list of items, each of them streamed in parts and repeated whole.

https://platform.openai.com/docs/api-reference/responses is the format. `encode.py` writes requests, `decode.py` reads
answers. Deviations that are read here, always, each have a comment with the server they come from; deviations in what
may be *sent* are `ResponsesQuirks`.
"""

from __future__ import annotations

from ...request import Request
from ...types import ProtocolWarning
from .decode import EventReader
from .encode import RequestWriter, ResponsesQuirks

__all__ = ["ResponsesAdapter", "ResponsesQuirks"]


class ResponsesAdapter(RequestWriter, EventReader):
    """Requests and events of the Responses API."""

    name = "responses"
    path = "/responses"
    Quirks = ResponsesQuirks

    def __init__(self, quirks: ResponsesQuirks | None = None) -> None:
        self.quirks = quirks or ResponsesQuirks()

    def prepare(self, request: Request) -> tuple[Request, list[ProtocolWarning]]:
        """The request as it is: this wire takes what it is given."""
        return request, []
