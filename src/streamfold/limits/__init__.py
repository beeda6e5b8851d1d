"""Rate limits: requests and tokens per minute, requests at once and money per day, for one process or for many.

algorithm   the arithmetic: what is reserved, settled and believed (`lua` says the same for Valkey)
search      how a rate is found that nobody has configured
store       where it is counted: in this process, in an SQLite file (`sqlite`), in Valkey or Redis (`valkey`); `guard`
            says what happens while that can't be reached
limiter     waits for reservations, and settles them
"""

from .errors import *
from .limiter import *
from .opening import *
from .providers import *
from .reservation import *
from .sqlite import *
from .store import *
from .valkey import *
