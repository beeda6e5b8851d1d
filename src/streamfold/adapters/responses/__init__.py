"""Encodes requests and decodes responses of OpenAI's Responses API."""

from .adapter import ResponsesAdapter, ResponsesQuirks
from .decode import TEXT_EVENTS, TextEvent
from .output_items import as_object
from .websocket import CONNECTION_EXPIRED, RESPONSE_FORGOTTEN, NewestResponse, SocketError, SocketTurn
