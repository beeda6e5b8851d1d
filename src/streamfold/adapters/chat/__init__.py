"""OpenAI's Chat Completions, and what a hundred servers have made of it: requests and answers, both ways."""

from .adapter import ChatAdapter
from .decode import REASONING
from .parse import parse_chat_request, wants_usage
from .quirks import ChatQuirks
from .serializer import ChatSerializer
