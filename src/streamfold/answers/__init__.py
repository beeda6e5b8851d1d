"""What every model is and what every answer does: the interface, the stream of chunks, and ways to watch it."""

from ..values import set_public_module
from .arguments import Arguments
from .base_model import BaseChatModel, open_answer, opened, pass_on
from .extract import extract
from .facts import DirectModel, EndpointFacts, ModelFacts, facts_of
from .misuse import AsyncContext, AsyncIteration
from .model import ChatModel
from .partial import Partial
from .source import ChunkSource
from .stream import ChatStream
from .watching import Watcher, checked_watcher
from .wrapped import WrappedAnswer, context_window

set_public_module("streamfold", [ChatModel, ChatStream])
