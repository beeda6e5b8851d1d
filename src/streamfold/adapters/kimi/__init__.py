"""The adapter for Moonshot's Kimi API, which is Chat Completions with additional rules for requests."""

from .adapter import KimiAdapter, KimiQuirks
