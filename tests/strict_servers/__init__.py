"""Strict servers: mock endpoints that refuse what the makers' pages say the real ones refuse.

Written without a look at the library's own tables. See README.md.
"""

from __future__ import annotations

from .rules import CHECKS, Endpoint, Refusal, Rule, check_names, load_endpoints

__all__ = ["CHECKS", "Endpoint", "Refusal", "Rule", "check_names", "load_endpoints"]
