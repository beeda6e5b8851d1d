"""OpenAI's Chat Completions, and what a hundred servers have made of it: requests and answers, both ways."""

from .adapter import ChatAdapter
from .decode import REASONING
from .quirks import ChatQuirks
