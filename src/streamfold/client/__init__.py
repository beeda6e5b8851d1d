"""What is called: providers, streams, fallbacks and the tool loop."""

from .fallback import *
from .hooks import *
from .model import *
from .partial import *
from .preview import *
from .provider import *
from .stream import *
from .tool_loop import *
