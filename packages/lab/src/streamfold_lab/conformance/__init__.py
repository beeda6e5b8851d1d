"""Checks whether a server follows the documentation of its API. The result contains every rule, every violation, and a
score.
"""

from __future__ import annotations

from .judge import RULES, ConformanceReport, RuleResult, judge, judge_server, rulings_to_dict
