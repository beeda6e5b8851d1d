"""OpenAI's Chat Completions, and what a hundred servers have made of it: requests and answers, both ways."""

from .adapter import ChatAdapter
from .emit import ChatEmitter
from .overlay import ChatOverlay
from .parse import parse_request, wants_usage
from .quirks import ChatQuirks
