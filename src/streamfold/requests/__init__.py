"""From what was asked to what an endpoint takes: checks, repairs and rewrites, each with its warning."""

from .capabilities import *
from .chatdicts import *
from .fields import *
from .headers import *
from .history import *
from .options import *
from .request import *
from .requirements import *
from .rewrite import *
from .turns import *
