"""OpenAI's Responses API: requests and answers, both ways."""

from .adapter import ResponsesAdapter, ResponsesQuirks
from .client_side_tools import BUILT_IN, ClientTool, ClientTools
from .parse import FunctionRequest, parse_responses_as_functions, parse_responses_request
from .response_object import new_response_object
from .serializer import ResponsesSerializer
from .sse_events import SerializedEvent
from .stream_patcher import ResponsesStreamPatcher
from .tools_as_functions import has_only_function_tools
