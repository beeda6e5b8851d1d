"""The common interface of models, streams of chunks, structured output, and trimming of conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..public_names import import_later, set_public_module
from .base_model import BaseChatModel, forward, forward_source, open_stream
from .chat_model import ChatModel, ChatParams, check_model
from .chat_stream import AsyncContext, AsyncIteration, ChatStream, ChunkSource, WrappedAnswer
from .extract import ask_again, can_ask_again, extract
from .model_info import BackendInfo, DirectModel, ModelInfo, get_model_info
from .trim_history import trim_by_estimate, trim_history

if TYPE_CHECKING:
    from .partial_values import Partial, Watcher, checked_watcher

set_public_module("streamfold", [ChatModel, ChatStream])

set_public_module("streamfold.types", [BackendInfo, ChatParams, ChunkSource, DirectModel, ModelInfo])


def __getattr__(name: str) -> Any:
    return import_later(__name__, name, {".partial_values": ("Partial", "Watcher", "checked_watcher")})
