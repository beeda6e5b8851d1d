"""What every model is and what every answer does: the interface, the stream of chunks, and ways to watch it."""

from ..values import set_public_module
from .async_hints import AsyncContext, AsyncIteration
from .base_model import BaseChatModel, forward, forward_source, open_stream
from .chat_model import ChatModel
from .chat_params import ChatParams
from .extract import extract
from .json_watchers import Watcher, checked_watcher
from .model_info import BackendInfo, DirectModel, ModelInfo, get_model_info
from .partial import Partial
from .source import ChunkSource
from .stream import ChatStream
from .wrapped import WrappedAnswer, context_window

set_public_module("streamfold", [ChatModel, ChatStream])
