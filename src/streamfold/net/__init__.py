"""The network: one POST to a stream of bytes, with timeouts, retries and redaction."""

from .clients import *
from .clocks import *
from .compression import *
from .exceptions import *
from .failures import *
from .handshakes import *
from .lanes import *
from .pool import *
from .ratelimit import *
from .redaction import *
from .retries import *
from .secrets import *
from .signing import *
from .transport import *
from .urls import *
from .waits import *
