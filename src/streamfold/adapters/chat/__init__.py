"""OpenAI's Chat Completions, and compatible servers."""

from .adapter import ChatAdapter
from .decode import REASONING
from .quirks import ChatQuirks
