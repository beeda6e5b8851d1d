"""The common part of the writers of answers: deltas in, server-sent events out."""

from .answers import *
from .emitter import *
from .order import *
from .writer import *
