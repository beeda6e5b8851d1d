"""Gemini's own API: requests and answers, and the same for a server that speaks it to clients."""

from .adapter import *
from .decode import *
from .emit import *
from .errors import *
from .overlay import *
from .parse import *
from .signatures import *
from .spelling import *
