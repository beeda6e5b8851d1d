"""Bytes to chunks, without I/O: events, deltas, calls, and the fold."""

from .body import *
from .brackets import *
from .calls import *
from .decoder import *
from .drafts import *
from .finish import *
from .fold import *
from .fragments import *
from .framing import *
from .known import *
from .lanes import *
from .names import *
from .opencall import *
from .parts import *
from .pipeline import *
from .placement import *
from .rewriter import *
from .sse import *
from .transcript import *
