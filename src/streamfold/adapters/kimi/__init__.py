"""Kimi: Chat Completions with Moonshot's rules for requests."""

from .adapter import KimiAdapter, KimiQuirks
