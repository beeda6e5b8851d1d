"""OpenAI's Responses API: requests and answers, both ways."""

from .adapter import ResponsesAdapter, ResponsesQuirks
from .client_tools import BUILT_IN, ClientTool, ClientTools
from .emit import ResponsesEmitter
from .functions import only_functions
from .overlay import ResponsesOverlay
from .parse import FunctionRequest, parse_for_functions, parse_request
from .skeleton import response_skeleton
from .written_events import WrittenEvent
