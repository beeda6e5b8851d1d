"""Chat Completions, with the additional rules of Moonshot's Kimi API for requests."""

from .adapter import KimiAdapter, KimiQuirks
