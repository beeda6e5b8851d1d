"""The version, written once: the build reads it from here, so that a checkout knows it without being installed."""

from __future__ import annotations

__version__ = "0.1.0"
