"""The version of streamfold. The build reads it from this file, so that it is also known in a checkout."""

from __future__ import annotations

__version__ = "0.1.0"
