"""Where a provider is and how it differs: profiles, the catalogue and `streamfold.toml`."""

from .catalogue import *
from .config import *
from .file import *
from .gateway import *
from .profile import *
from .sources import *
from .tomltext import *
