"""Prompts that are too long for a model, as each server says it, and as clients of the Messages API understand it.

Claude Code compacts a conversation when it reads `prompt is too long: 130000 tokens > 128000 maximum`. In any other
words the same error is the end of its turn.
"""

from __future__ import annotations

import re

from ..values import ErrorInfo

__all__ = ["prompt_too_long"]

_PHRASE = "prompt is too long"
_CODES = {"context_length_exceeded", "exceed_context_size_error", "context_window_exceeded"}
# `have` is the size of the prompt, `most` what the model takes. The first pattern that is found counts.
_PATTERNS = tuple(
    re.compile(pattern.replace("N", r"(?P<have>\d+)").replace("M", r"(?P<most>\d+)"), re.IGNORECASE | re.DOTALL)
    for pattern in (
        # OpenAI, DeepSeek, OpenRouter, vLLM, LiteLLM, SGLang
        r"maximum (?:context|model) length (?:is|of) M\b.*?(?:resulted in|requested(?: about| a total of)?|has) N\b",
        r"maximum prompt length is M\b.*?contains N\b",  # xAI
        r"length N\)? is longer than the maximum model length of M\b",  # vLLM
        r"input \(N tokens\) is longer than the model's context length \(M\b",  # SGLang
        r"request \(N tokens\) exceeds the available context size \(M\b",  # llama.cpp
        r"exceeded model token limit: M \(requested: N\)",  # Kimi
        r"input token count \(?N\)? exceeds the maximum number of tokens allowed \(?M\b",  # Gemini
        r"prompt contains N tokens\b.*?too large for model with M\b",  # Mistral
        r"input length and `max_tokens` exceed context limit: N \+ \d+ > M\b",  # Anthropic
        # Servers that give no numbers, or only the limit.
        r"exceeds the context window",  # OpenAI's Responses API
        r"context window exceeds limit",  # MiniMax
        r"maximum (?:context|model|prompt) length (?:is|of) M\b",
        r"exceeds the available context size",  # llama.cpp, older
        r"input length exceeds the context length",  # Ollama
        r"input is too long for requested model",  # Bedrock
        r"prompt exceeds max length",  # GLM
        r"range of input length should be \[\d+, M\]",  # Qwen
    )
)


def prompt_too_long(info: ErrorInfo) -> str | None:
    """Returns the message for clients of the Messages API if an error says that the prompt is too long, else None.

    Numbers are only repeated, never made up: without both of them, the message has the server's own words.

    >>> prompt_too_long(ErrorInfo("Your request exceeded model token limit: 262144 (requested: 300000)"))
    'prompt is too long: 300000 tokens > 262144 maximum'
    >>> prompt_too_long(ErrorInfo("There is no such model"))
    """
    message = info.message
    if _PHRASE in message.lower():
        return message
    found = next((found for pattern in _PATTERNS if (found := pattern.search(message))), None)
    if found is None and not {info.code, info.type} & _CODES:
        return None
    numbers = found.groupdict() if found else {}
    have, most = numbers.get("have"), numbers.get("most")
    return f"{_PHRASE}: {have} tokens > {most} maximum" if have and most else f"{_PHRASE}: {message}"
