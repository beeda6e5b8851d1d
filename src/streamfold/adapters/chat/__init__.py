"""OpenAI's Chat Completions, and what a hundred servers have made of it: requests and answers, both ways."""

from .adapter import *
from .emit import *
from .overlay import *
from .parse import *
from .quirks import *
