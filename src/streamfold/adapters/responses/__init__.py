"""OpenAI's Responses API: requests and answers, both ways."""

from .adapter import ResponsesAdapter, ResponsesQuirks
from .client_side_tools import BUILT_IN, ClientTool, ClientTools
from .content_parts import PART_KINDS, PartKind
from .decode import TEXT_EVENTS, TextEvent
from .parse import FunctionRequest, parse_responses_as_functions, parse_responses_request
from .response_object import new_response_object
from .serializer import ResponsesSerializer
from .sse_events import SerializedEvent
from .tools_as_functions import has_only_function_tools
