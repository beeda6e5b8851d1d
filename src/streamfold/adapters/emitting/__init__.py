"""What the writers of answers share: deltas in, server-sent events out."""

from .answers import *
from .emitter import *
