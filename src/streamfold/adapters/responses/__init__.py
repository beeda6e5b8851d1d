"""OpenAI's Responses API: requests and answers, both ways."""

from .adapter import ResponsesAdapter, ResponsesQuirks
from .client_side_tools import BUILT_IN, ClientTool, ClientTools
from .parse import FunctionRequest, parse_for_functions, parse_request
from .response_object import response_skeleton
from .serializer import ResponsesEmitter
from .sse_events import WrittenEvent
from .stream_patcher import ResponsesOverlay
from .tools_as_functions import only_functions
