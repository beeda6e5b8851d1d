"""Memory: what clients leave out of earlier turns (reasoning, signatures, encrypted items) is given back.

turns     which turn is which, and what a turn that came back has lost
store     where it is kept: in memory, in an SQLite file (`sqlite`), in Valkey or Redis (`valkey`)
memory    what joins the two, and `answer` the stream that uses them
"""

from .answer import *
from .memory import *
from .sqlite import *
from .store import *
from .valkey import *
