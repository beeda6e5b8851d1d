"""Configuration: the settings of providers, the catalogue, and `streamfold.toml`."""

from .catalogue import *
from .checks import *
from .file import *
from .gateway import *
from .lines import *
from .places import *
from .problems import *
from .profile import *
from .rate_limits import *
from .show import *
from .stores import *
from .typed import *
