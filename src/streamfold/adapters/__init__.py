"""Wire formats: how a request is written and how an event of the answer is read.

An adapter is a stateless value. Other packages add theirs by an entry point in the group `streamfold.adapters`.
"""

from .dropped import *
from .passing import *
from .prepared import *
from .protocol import *
from .requested import *
