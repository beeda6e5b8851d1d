"""Bytes to chunks, without I/O: events, deltas, calls, and the fold."""

from .body import *
from .brackets import *
from .calls import *
from .decoder import *
from .fold import *
from .framing import *
from .parts import *
from .pipeline import *
from .sse import *
