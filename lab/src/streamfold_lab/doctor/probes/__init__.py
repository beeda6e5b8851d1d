"""The probes, in the order in which they are asked: what later requests depend on comes first."""

from __future__ import annotations

from .basics import BASICS
from .calls import CALLS
from .conversation import CONVERSATION
from .errors import ERRORS
from .schemas import SCHEMAS, STRUCTURED
from .stream import STREAM
from .thinking import THINKING
from .turns import TURNS

__all__ = ["PROBES"]

_THEMES = (BASICS, THINKING, CALLS, SCHEMAS, STRUCTURED, CONVERSATION, TURNS, ERRORS, STREAM)
PROBES = tuple(probe for theme in _THEMES for probe in theme.probes)
