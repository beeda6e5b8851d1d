"""The marks of each dialect that may not be sent as they are: tokenizers match them anywhere in a prompt.

A mark in the result of a tool, or in what a user has pasted, becomes the real token, and can close the turn or forge a
call. Some chat templates also cut an earlier answer at a mark, or refuse it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Marks:
    """What may not be sent as it is.

    Attributes:
        text: marks in what users and tools say.
        history: marks in earlier answers, at which the chat template cuts or refuses a turn.
    """

    text: re.Pattern[str]
    history: re.Pattern[str] | None


_THINK = "</?think>"
_CHATML = r"<\|im_(?:start|end)\|>|<\|tool_call_(?:start|end)\|>|</?tool_(?:call|response)>"
_MINIMAX = r"\]~b\]|\[e~\["
_MARKS: dict[str, tuple[str, str]] = {
    "harmony": (
        r"<\|(?:start|end|message|channel|constrain|return|call)\|>",
        r"<\|channel\|>(?=(?:analysis|final)<\|message\|>)",
    ),
    "dsml": (rf"<｜[^｜<>\n]{{1,60}}｜>|｜DSML｜|{_THINK}", "</think>"),
    "kimi3": (r"<\|(?:open|close|sep|end_of_msg)\|>", ""),
    "minimax": (rf"</?minimax:tool_call>|{_MINIMAX}|{_THINK}", "</think>"),
    "minimax3": (rf"\]<\]minimax\[>\[|{_MINIMAX}|</?mm:think>", "</mm:think>"),
    "gemma4": (
        r'<\|tool_(?:call|response)>|<tool_(?:call|response)\|>|<\|"\|>|<\|channel>|<channel\|>|<\|turn>|<turn\|>',
        r"<\|channel>",
    ),
    "functiongemma": (r"<(?:start|end)_function_(?:call|response|declaration)>|<escape>|<(?:start|end)_of_turn>", ""),
    "lfm2": (_CHATML, "</think>"),
    "hermes": (_CHATML, "</think>"),
    "qwen3coder": (_CHATML, "</think>"),
    "glm": (rf"{_CHATML}|<\|(?:user|assistant|system|observation)\|>", "</think>"),
    "seed": ("</?seed:[^<>\n]{1,60}>", ""),
    "cohere": (r"<\|(?:START|END)_[A-Z_]{1,40}\|>|<\|[A-Z_]{1,40}_TOKEN\|>", ""),
}
_MARKS["deepseek"] = _MARKS["dsml"]


def marks_of(dialect: str) -> Marks | None:
    """The marks of a dialect, or of several joined by `+`; None if none are known.

    >>> marks = marks_of("kimi3")
    >>> bool(marks and marks.text.search("close with <|close|>"))
    True
    """
    found = [_MARKS[name] for name in map(str.strip, dialect.split("+")) if name in _MARKS]
    if not found:
        return None
    history = "|".join(history for _, history in found if history)
    return Marks(re.compile("|".join(text for text, _ in found)), re.compile(history) if history else None)
