"""Chat Completions with the rules of Moonshot's Kimi API for requests."""

from .adapter import KimiAdapter, KimiQuirks
