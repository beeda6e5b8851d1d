"""Where things are kept: databases of one's own."""

from .databases import *
