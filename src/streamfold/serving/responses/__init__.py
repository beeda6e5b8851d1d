"""Parses the requests and serializes the responses of a server that offers OpenAI's Responses API."""

from .request import FunctionRequest, parse_responses_as_functions, parse_responses_request
from .serializer import ResponsesSerializer
from .tools_as_functions import BUILT_IN, ClientTool
