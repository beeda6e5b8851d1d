"""Detects tool calls and reasoning markup in text that neither the server nor a configured dialect has parsed."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache

# What follows `<`, by form. Forms with a dialect of the same name come first.
_LEAKS = {
    "kimi": r"\|tool_calls?_section_begin\|>|\|tool_call_begin\|>",
    "deepseek": r"｜tool▁calls?▁begin｜>",
    "hermes": r"tool_call>\s*+\{",
    "qwen3coder": r"function=[^<>\n]++>\s*+(?:<parameter=|</function>)",
    "glm": r"tool_call>\s*+[\w.\-]++\s*+(?:<arg_key>|</tool_call>)",
    "llama3": r"\|python_tag\|>",
    "harmony": r"\|channel\|>\s*+(?:analysis|commentary|final)|\|start\|>assistant|\|message\|>",
    "dsml": r"｜DSML｜ ?(?:function_calls|tool_calls|toolcalls|tool|calls|invoke)",
    "kimi3": r"\|(?:open|close)\|>(?:tools|think|response|call|message)\b",
    "minimax": r"minimax:tool_call>\s*+<invoke name=",
    "minimax3": r"(?<=\]<)\]minimax\[>\[\s*+<",
    "gemma4": r"\|tool_call>\s*+(?:call)?:|\|channel>thought",
    "functiongemma": r"start_function_call>\s*+(?:call)?:",
    "seed": r"seed:(?:tool_call|think)>",
    "lfm2": r"\|tool_call_start\|>\s*+(?:\[|\w++\()",
    "cohere": r"\|START_(?:ACTION|THINKING|RESPONSE|TEXT)\|>",
    "llama4": r"\|python_start\|>",
    "granite3": r"\|tool_call\|>\s*+\[",
    "hunyuan3": r"tool_calls[^>\s]*+>\s*+<tool_call[^>\s]*+>|tool_sep[^>\s]*+>",
    "hunyuan-a13b": r"tool_calls>\s*+[\[{]",
    "nemotron2": r"TOOLCALL>\s*+\[",
    "solar": r"\|tool_call:begin\|>",
    "longcat": r"longcat_tool_call>",
    "olmo3": r"function_calls>\s*+\w[\w.]*+\(",
    "apertus": r"\|tools_prefix\|>\s*+\[",
    "step3": r"｜tool_calls?_begin｜>|steptml:invoke",
    "internlm": r"\|action_start\|>\s*+<\|plugin\|>",
    "k2-horizon": r"ifm\|tool_call",
    "gigachat": r"｜GCML｜|\|function_call\|>|(?<=function call<)\|role_sep\|>",
    "muse": r"atem:(?:function_calls|invoke)",
    "minicpm5": r"""function name=["'][^"'>]++["'][^>]*+>\s*+(?:<param|</function>)""",
    "plamo": r"\|plamo:begin_tool_request",
}
# Calls in ordinary characters, to be confirmed by the dialect and the declared tools.
_BARE = {"minimax": "<invoke name="}
_BARE_HEADS = {
    "llama3": r"""\s*+(?:\{\s*+"(?:name|parameters|arguments|type)"\s*+:|\[\s*+[\w.]++\s*+\()""",
    "required": r"\s*+\[\s*+\{",
    "named": r"\s*+\{",
}
# Only at the beginning of the text.
_HEADS = {
    "phi4-mini": r"functools\s*+\[\s*+\{",
    "mistral-think": r"\[THINK\]",
    "harmony-plain": (
        r"(?:assistant)?(?:analysis|commentary)\s*+to=functions\."
        r"|(?:assistant)?(?:analysis|commentary|final)(?s:.)*?assistant(?:final|commentary|analysis)"
    ),
    "think": r"<think>|◁think▷",
}
_UNREAD = (*list(_LEAKS)[list(_LEAKS).index("granite3") :], "phi4-mini", "harmony-plain")
_READERS = {"llama4": "llama3", "mistral-think": "mistral"} | dict.fromkeys(_UNREAD)


def leaked_markup(text: str, read: Collection[str] = ()) -> str | None:
    """Returns the name of the dialect whose markup a text contains, except the dialects in `read`.

    The markup doesn't prove that the model called a tool, because the text may be about tool calls.

    >>> leaked_markup('Sure. <tool_call>{"name": "search", "arguments": {}}</tool_call>')
    'hermes'
    """
    leak, head = _patterns()
    for found in (*leak.finditer(text), head.match(text)):
        name = found.lastgroup.replace("_", "-") if found and found.lastgroup else None
        if name and _READERS.get(name, name) not in read:
            return name
    return None


def bare_forms(text: str) -> list[str]:
    """Returns the names of dialects whose tool calls need no marker, if a text may contain such a tool call."""
    return [name for name, form in _BARE.items() if form in text] + [
        name for name, form in _BARE_HEADS.items() if re.match(form, text)
    ]


def reader_of(name: str) -> str | None:
    return _READERS.get(name, name)


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Returns a pattern for markup anywhere in a text, and a pattern for markup at the beginning of a text. The name of
    a match's group is the name of the dialect, with `_` instead of `-`."""
    leaks, heads = (
        "|".join(f"(?P<{name.replace('-', '_')}>{pattern})" for name, pattern in patterns.items())
        for patterns in (_LEAKS, _HEADS)
    )
    # Each alternative begins with a plain character, so that the search can skip to it.
    return re.compile(rf"<(?:{leaks})|\[(?P<mistral>TOOL_CALLS\])"), re.compile(rf"\s*+(?:{heads})")
