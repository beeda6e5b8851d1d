"""Markup in a text that nobody read: the sign of a server without a parser, and of an endpoint without a dialect."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache

__all__ = ["describe_leak", "leaked_markup"]

# What stands behind `<`. Kimi K3, DeepSeek V3.2 and MiniMax write languages of their own, which no dialect reads.
_LEAKS = {
    "kimi": r"\|tool_calls?_section_begin\|>|\|tool_call_begin\|>",
    "kimi_k3": r"\|open\|>",
    "deepseek": r"｜tool▁calls?▁begin｜>",
    "deepseek_dsml": r"｜DSML｜",
    "hermes": r"tool_call>\s*+\{",
    "qwen3coder": r"function=[^<>\n]++>\s*+(?:<parameter=|</function>)",
    "glm": r"tool_call>\s*+[\w.\-]++\s*+(?:<arg_key>|</tool_call>)",
    "llama3": r"\|python_tag\|>",
    "minimax": r"minimax:tool_call>",
}


_UNREAD = ("kimi_k3", "deepseek_dsml", "minimax")


def leaked_markup(text: str, read: Collection[str] = ()) -> str | None:
    """Which dialect would read markup that stands in a text; None if none does, or one of those that did `read` it.

    A sign, not a proof: somebody may have asked the model how tool calls are written. `kimi-k3`, `deepseek-dsml` and
    `minimax` are languages that no dialect reads.

    >>> leaked_markup('Sure. <tool_call>{"name": "search", "arguments": {}}</tool_call>')
    'hermes'
    """
    for found in _any_leak().finditer(text):
        name = (found.lastgroup or "").replace("_", "-")
        if name not in read:
            return name
    return "think" if not read and text.lstrip().startswith(("<think>", "◁think▷")) else None


def describe_leak(text: str, read: Collection[str] = ()) -> str | None:
    """The same as a sentence for a warning."""
    name = leaked_markup(text, read)
    if name is None:
        return None
    what = "reasoning" if name == "think" else "tool calls"
    if name.replace("-", "_") in _UNREAD:
        return f"the text has {what} in it, as {name} writes them, which no dialect reads"
    return f"the text has {what} in it that the dialect {name!r} would read"


@cache
def _any_leak() -> re.Pattern[str]:
    # Each alternative begins with a plain character: the search skips to one of the two.
    leaks = "|".join(f"(?P<{name}>{pattern})" for name, pattern in _LEAKS.items())
    return re.compile(rf"<(?:{leaks})|\[(?P<mistral>TOOL_CALLS\])")
