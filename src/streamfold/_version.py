"""The version of streamfold. The build reads the version from this file. A checkout that isn't installed therefore has
a version too."""

from __future__ import annotations

__version__ = "0.1.0"
