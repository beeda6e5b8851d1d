"""Encodes requests and decodes responses of OpenAI's Chat Completions API, and of compatible servers."""

from .adapter import ChatAdapter
from .decode import REASONING
from .quirks import ChatQuirks
