"""Text that is JSON, or nearly: parsing, repairs, paths, references."""

from .arguments import *
from .jsontext import *
from .paths import *
from .references import *
