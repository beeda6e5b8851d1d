"""What every model is and what every answer does: the interface, the stream of chunks, and ways to watch it."""

from .arguments import *
from .base_model import *
from .facts import *
from .misuse import *
from .model import *
from .partial import *
from .source import *
from .stream import *
from .watching import *
from .wrapped import *
