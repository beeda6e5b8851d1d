"""From what was asked to what an endpoint takes: checks, repairs and rewrites, each with its warning."""

from .caching import *
from .capabilities import *
from .fields import *
from .headers import *
from .history import *
from .items import *
from .messages import *
from .options import *
from .parts import *
from .request import *
from .requirements import *
from .rewrite import *
