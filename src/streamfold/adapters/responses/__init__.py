"""OpenAI's Responses API: requests and answers, both ways."""

from .adapter import *
from .emit import *
from .parse import *
