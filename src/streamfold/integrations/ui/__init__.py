"""What the protocols of user interfaces have in common: how a run becomes events, and how a request becomes a run."""

from .requests import *
from .signing import *
from .streams import *
