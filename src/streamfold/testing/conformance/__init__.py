"""Judges a server by the documentation of its wire: every rule, every violation, and a score."""

from .judge import *
from .rules import *
