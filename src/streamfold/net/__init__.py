"""The network: one POST to a stream of bytes, with timeouts, retries and redaction."""

from .clients import *
from .clocks import *
from .compression import *
from .failures import *
from .handshakes import *
from .ratelimit import *
from .redaction import *
from .retries import *
from .transport import *
from .waits import *
