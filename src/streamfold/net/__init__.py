"""The network: one POST to a stream of bytes, with timeouts, retries and redaction."""

from .clients import *
from .clocks import *
from .connecting import *
from .redaction import *
from .retries import *
from .transport import *
from .waiting import *
