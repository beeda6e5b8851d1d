"""What is called: models, providers, streams, fallbacks and the tool loop."""

from .answer import *
from .arguments import *
from .connections import *
from .failover import *
from .fallback import *
from .hooks import *
from .misuse import *
from .model import *
from .partial import *
from .preview import *
from .provider import *
from .stream import *
from .tool_loop import *
