"""Loads the rules that a conversation must follow so that an endpoint or a model accepts it
(`facts/histories.toml`).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from ..catalogue_path import catalogue_folder
from ..requests import HistoryRules, bare_name
from .tables import read_table


def history_facts(
    model: str, adapter: str, providers: Collection[str | None], host: str | None, templates: bool
) -> dict[str, Any]:
    """Returns the rules that a conversation must follow for a model at an endpoint. The keys are attributes of
    `HistoryRules`.

    Args:
        adapter: the name of the adapter.
        providers: the provider's name, and the name of the catalogue entry on which its settings are based.
        host: the host of the endpoint's URL, or None if unknown.
        templates: True if the endpoint applies the model's chat template to the messages.
    """
    found: dict[str, Any] = {}
    name = bare_name(model)
    for row in _tables()["rows"]:
        named, hosts = row.get("providers", ()), row.get("hosts", ())
        at = any(each in named for each in providers) or any(fnmatchcase(host or "", pattern) for pattern in hosts)
        fits = (
            name.startswith(tuple(row.get("models", ("",))))
            and (at or not (named or hosts))
            and (templates or not row.get("templates"))
            and adapter in row.get("adapters", (adapter,))
        )
        if fits:
            found |= row["rules"]
    return found


def learned_rules(message: str) -> dict[str, Any]:
    """Derives rules for conversations from a server's error message. Returns an empty dict if the message implies no
    rules.

    >>> learned_rules("Invalid 'input[4].call_id': string too long. Expected a string with maximum length 40")
    {'id_length': 40}
    """
    rules: dict[str, Any] = {}
    for pattern, stated in _refusals():
        if found := pattern.search(message):
            rules |= stated
            if "length" in pattern.groupindex:
                rules["id_length"] = int(found["length"])
    return rules


def check_history_rules(rules: Mapping[str, Any]) -> None:
    """Raises ValidationError if the rules for conversations in a user's settings contain a mistake."""
    read_table(HistoryRules, rules)


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads((catalogue_folder() / "facts" / "histories.toml").read_text("utf-8"))


@cache
def _refusals() -> list[tuple[re.Pattern[str], dict[str, Any]]]:
    rows = _tables()["refusals"]
    texts = [row["says"].replace("<length>", r"(?P<length>\d+)") for row in rows]
    return [(re.compile(text, re.I | re.S), row["rules"]) for text, row in zip(texts, rows, strict=True)]
