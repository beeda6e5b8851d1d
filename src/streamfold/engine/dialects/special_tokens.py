"""The special tokens of models. Tokenizers recognize these tokens anywhere in a prompt.

A special token in a tool result or in pasted text could end the message or forge a tool call. Some chat templates also
truncate an earlier message at such a token, or reject the message.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """Patterns for the special tokens that must be escaped.

    Attributes:
        text: the special tokens to escape in texts of users and tools.
        history: the special tokens to escape in the model's earlier messages.
    """

    text: re.Pattern[str]
    history: re.Pattern[str] | None


@dataclass(frozen=True, slots=True)
class _Tokenizer:
    """Patterns for the special tokens of one family of tokenizers. `models` contains prefixes of the model names that
    use such a tokenizer."""

    text: str
    history: str = ""
    models: tuple[str, ...] = ()


_THINK = "</?think>"
_TOOLS = "</?tool_(?:call|response)>|</?tools>"
_CHATML = rf"<\|im_(?:start|end|sep)\|>|<\|endoftext\|>|<\|tool_call_(?:start|end)\|>|{_TOOLS}"
_FILL_IN = r"<\|(?:fim_[a-z]{1,12}|repo_name|file_sep)\|>"
_MINIMAX = (
    r"\]~!?b\[|\]~b\]|\[e~\[|\]![pd]~\[|\]<\][a-z ]{1,20}\[>\["
    r"|<(?:fim_[a-z]{1,12}|reponame|filename|gh_stars|jupyter_[a-z_]{1,20})>"
)

# From the `added_tokens` of tokenizer_config.json (tokenizer.json, tekken.json, tiktoken's table in the Python file) of
# these repositories on huggingface.co, and from their chat templates.
_TOKENIZERS: dict[str, _Tokenizer] = {
    # Qwen/Qwen3-8B, Qwen/Qwen3.5-35B-A3B; the models that others have trained with ChatML: NousResearch/Hermes-3
    "chatml": _Tokenizer(
        rf"{_CHATML}|{_FILL_IN}|<\|(?:object_ref|box|quad|vision)_(?:start|end)\|>"
        rf"|<\|(?:vision|image|video)_pad\|>|{_THINK}",
        "</think>",
        ("qwen", "qwq", "qvq", "hermes", "nous-hermes", "smollm", "internlm", "yi-", "openhermes", "dolphin", "mimo"),
    ),
    # meta-llama/Llama-3.1-8B-Instruct; meta-llama/Llama-4-Scout-17B-16E-Instruct
    "llama3": _Tokenizer(
        r"<\|(?:begin_of_text|end_of_text|(?:start|end)_header_id|header_(?:start|end)|eot(?:_id)?|eom(?:_id)?"
        r"|python_(?:tag|start|end)|finetune_right_pad(?:_id)?|step(?:_id)?|(?:image|patch)(?:_start|_end)?"
        r"|tile_[xy]_separator|reasoning_thinking_(?:start|end)|(?:fim_[a-z]{1,12})"
        r"|(?:(?:reasoning|vision)_)?reserved_special_token_\d{1,4}|text_post_train_[a-z_\d]{1,40})\|>",
        models=("llama-3", "llama3", "llama-4", "llama4", "meta-llama-3", "codellama-3"),
    ),
    # mistralai/Mistral-7B-Instruct-v0.3, mistralai/Mistral-Small-3.2-24B-Instruct-2506, mistralai/Devstral-Small-2507
    "mistral": _Tokenizer(
        r"</?s>|<(?:unk|pad)>|\[/?(?:INST|AVAILABLE_TOOLS|TOOL_RESULTS|SYSTEM_PROMPT|THINK|MODEL_SETTINGS)\]"
        r"|\[(?:TOOL_CALLS|TOOL_CONTENT|ARGS|CALL_ID|PREFIX|MIDDLE|SUFFIX|IMG|IMG_BREAK|IMG_END|AUDIO|BEGIN_AUDIO"
        r"|TRANSCRIBE|control_\d{1,4})\]|<SPECIAL_\d{1,4}>",
        models=(
            "mistral",
            "mixtral",
            "ministral",
            "magistral",
            "devstral",
            "codestral",
            "pixtral",
            "voxtral",
            "open-mi",
        ),
    ),
    # moonshotai/Kimi-K2-Instruct (tokenization_kimi.py), moonshotai/Kimi-K2.5
    "kimi": _Tokenizer(
        r"<\|(?:im_(?:end|user|assistant|system|middle)|(?:start|end)_header_id|tool_calls?_section_(?:begin|end)"
        r"|tool_call_(?:begin|argument_begin|end)|media_(?:begin|content|end|pad))\|>|\[(?:BOS|EOS|EOT|PAD|UNK)\]"
        rf"|<\|reserved_token_\d{{1,7}}\|>|{_THINK}",
        "</think>",
        ("kimi-k2", "kimi-dev", "kimi-vl", "moonlight"),
    ),
    # moonshotai/Kimi-K3 (chat template)
    "kimi3": _Tokenizer(r"<\|(?:open|close|sep|end_of_msg)\|>", models=("kimi-k3",)),
    # openai/gpt-oss-20b: https://github.com/openai/harmony
    "harmony": _Tokenizer(
        r"<\|(?:start|end|message|channel|constrain|return|call|startoftext|endoftext|endofprompt|reserved_\d{1,7})\|>",
        r"<\|channel\|>(?=(?:analysis|final)<\|message\|>)",
        ("gpt-oss",),
    ),
    # deepseek-ai/DeepSeek-V3.2, deepseek-ai/DeepSeek-R1
    "deepseek": _Tokenizer(rf"<｜[^｜<>\n]{{1,60}}｜>|<\|EOT\|>|｜DSML｜|{_THINK}", "</think>", ("deepseek",)),
    # zai-org/GLM-4.6
    "glm": _Tokenizer(
        rf"{_CHATML}|<\|(?:user|assistant|system|observation|(?:begin|end)_of_(?:image|video|audio|transcription))\|>"
        rf"|\[(?:g|s)?MASK\]|<(?:s|e)op>|<\|code_(?:prefix|middle|suffix)\|>|</?arg_(?:key|value)>|/nothink|{_THINK}",
        "</think>",
        ("glm", "chatglm"),
    ),
    # MiniMaxAI/MiniMax-M2; MiniMaxAI/MiniMax-M3
    "minimax": _Tokenizer(rf"</?minimax:tool_call>|{_MINIMAX}|{_THINK}", "</think>", ("minimax-m1", "minimax-m2")),
    "minimax3": _Tokenizer(rf"\]<\]minimax\[>\[|{_MINIMAX}|</?mm:think>", "</mm:think>", ("minimax-m3",)),
    # google/gemma-3-27b-it, google/functiongemma-270m-it; google/gemma-4-27b-it
    "gemma": _Tokenizer(
        r"<(?:start|end)_function_(?:call|response|declaration)>|<escape>|<(?:start|end)_of_turn>"
        r"|<(?:start|end)_of_image>|<(?:bos|eos|pad|unk|image_soft_token)>|<unused\d{1,4}>",
        models=("gemma", "functiongemma", "medgemma", "codegemma", "shieldgemma"),
    ),
    "gemma4": _Tokenizer(
        r'<\|tool(?:_call|_response)?>|<tool(?:_call|_response)?\|>|<\|"\|>|<\|channel>|<channel\|>|<\|turn>|<turn\|>'
        r"|<\|(?:image|audio|video|think)>|<(?:image|audio|video)\|>|<\|(?:image|audio|video)\|>|<(?:bos|eos|pad|unk)>",
        r"<\|channel>",
        ("gemma-4", "gemma4"),
    ),
    # LiquidAI/LFM2-1.2B
    "lfm2": _Tokenizer(
        rf"{_CHATML}|<\|(?:startoftext|pad)\|>|<\|tool_(?:list|response)_(?:start|end)\|>|{_FILL_IN}|{_THINK}",
        "</think>",
        ("lfm2",),
    ),
    # ByteDance-Seed/Seed-OSS-36B-Instruct
    "seed": _Tokenizer("</?seed:[^<>\n]{1,60}>", models=("seed-oss",)),
    # CohereLabs/c4ai-command-a-03-2025
    "cohere": _Tokenizer(
        r"<\|(?:START|END)_[A-Z_]{1,40}\|>|<\|[A-Z_]{1,40}_TOKEN\|>|<(?:BOS|EOS|PAD|UNK|CLS|SEP|MASK)_TOKEN>|<EOP_TOKEN>",
        models=("command", "c4ai-command", "aya"),
    ),
    # microsoft/Phi-4-mini-instruct, microsoft/phi-4
    "phi": _Tokenizer(
        rf"<\|(?:system|user|assistant|end|tool|/?tool(?:_call|_response)?|placeholder\d{{1,2}})\|>|{_CHATML}|{_THINK}",
        models=("phi-", "phi3", "phi4"),
    ),
    # ibm-granite/granite-3.3-8b-instruct
    "granite": _Tokenizer(
        r"<\|(?:start_of_role|end_of_role|end_of_text|tool_call|start_of_cite|end_of_cite|start_of_plugin|end_of_plugin"
        rf"|unused_\d{{1,3}})\|>|{_FILL_IN}|</?tool_call>",
        models=("granite",),
    ),
}
_OF_DIALECTS = {"hermes": "chatml", "qwen3coder": "chatml", "dsml": "deepseek", "functiongemma": "gemma"}


def special_tokens(dialect: str | None, model: str | None = None) -> SpecialTokens | None:
    """Returns patterns for the special tokens of a model and of its dialects; None if no special tokens are known.

    Args:
        dialect: the name of a dialect, or several names joined by `+`.
        model: the name of the model, if the model's server renders the chat template. Otherwise None.

    >>> tokens = special_tokens("kimi3")
    >>> bool(tokens and tokens.text.search("close with <|close|>"))
    True
    """
    named = [_OF_DIALECTS.get(name, name) for name in map(str.strip, (dialect or "").split("+"))]
    if model is not None:
        name = model.rpartition("/")[2].lower()
        found = [(len(start), key) for key, of in _TOKENIZERS.items() for start in of.models if name.startswith(start)]
        if found:
            named.append(max(found)[1])
    known = tuple(dict.fromkeys(name for name in named if name in _TOKENIZERS))
    return _compiled(known) if known else None


def any_special_token() -> re.Pattern[str]:
    """Returns a pattern for the special tokens of all known tokenizers, for a text that may be sent to any model."""
    return _compiled(tuple(_TOKENIZERS)).text


@lru_cache(64)
def _compiled(names: tuple[str, ...]) -> SpecialTokens:
    tokenizers = [_TOKENIZERS[name] for name in names]
    text = "|".join(each.text for each in tokenizers)
    history = "|".join(each.history for each in tokenizers if each.history)
    return SpecialTokens(re.compile(text), re.compile(history) if history else None)
