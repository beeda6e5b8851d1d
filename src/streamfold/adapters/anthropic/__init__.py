"""Anthropic's Messages API: requests and answers, both ways."""

from .adapter import *
from .decode import *
from .emit import *
from .overlay import *
from .parse import *
from .whole import *
