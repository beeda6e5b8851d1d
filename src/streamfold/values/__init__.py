"""The nouns of the library: messages, tools, requests, replies, errors, and the deltas that the engine works on."""

from ..text import partial_value as partial_value
from .caching import *
from .chunks import *
from .configerrors import *
from .content import *
from .cost import *
from .deltas import *
from .errorinfo import *
from .errors import *
from .functions import *
from .growing import *
from .limits import *
from .media import *
from .messages import *
from .portable import *
from .ratelimit import *
from .replies import *
from .suggestions import *
from .toolcalls import *
from .tools import *
from .usage import *
from .validation import *
from .version import *
from .wire import *
from .writing import *
