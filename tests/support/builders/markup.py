"""One call in the text of an answer, in the words of each dialect: `search` with the query "x"."""

from __future__ import annotations

X = '{"q": "x"}'
BEGIN, END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
CALL, ARGUMENTS, CALL_END = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"
KIMI = f"{BEGIN}{CALL}functions.search:0{ARGUMENTS}{X}{CALL_END}{END}"
HERMES = '<tool_call>\n{"name": "search", "arguments": {"q": "x"}}\n</tool_call>'
QWEN = "<tool_call>\n<function=search>\n<parameter=q>\nx\n</parameter>\n</function>\n</tool_call>"
GLM = "<tool_call>search\n<arg_key>q</arg_key>\n<arg_value>x</arg_value>\n</tool_call>"
DEEPSEEK = f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>search<｜tool▁sep｜>{X}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
LLAMA = '{"name": "search", "parameters": {"q": "x"}}'
MISTRAL = "[TOOL_CALLS]search[ARGS]" + X
LIST = '[{"name": "search", "parameters": {"q": "x"}}]'
CALLS = {
    "kimi": KIMI,
    "hermes": HERMES,
    "qwen3coder": QWEN,
    "glm": GLM,
    "deepseek": DEEPSEEK,
    "llama3": LLAMA,
    "mistral": MISTRAL,
    "required": LIST,
    "named": X,
    "harmony": "<|start|>assistant<|channel|>commentary to=functions.search <|constrain|>json<|message|>"
    '{"q": "x"}<|call|>',
    "dsml": '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="search">\n<｜DSML｜parameter name="q" string="true">x'
    "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
    "kimi3": '<|open|>tools<|sep|><|open|>call tool="search" index="1"<|sep|>'
    '<|open|>argument key="q" type="string"<|sep|>x'
    "<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>",
    "minimax": '<minimax:tool_call>\n<invoke name="search">\n<parameter name="q">x</parameter>\n</invoke>\n'
    "</minimax:tool_call>",
    "minimax3": ']<]minimax[>[<tool_call>]<]minimax[>[<invoke name="search">]<]minimax[>[<q>x]<]minimax[>[</q>'
    "]<]minimax[>[</invoke>]<]minimax[>[</tool_call>",
    "gemma4": '<|tool_call>call:search{q:<|"|>x<|"|>}<tool_call|>',
    "functiongemma": "<start_function_call>call:search{q:<escape>x<escape>}<end_function_call>",
    "lfm2": "<|tool_call_start|>[search(q='x')]<|tool_call_end|>",
    "seed": "<seed:tool_call>\n<function=search>\n<parameter=q>x</parameter>\n</function>\n</seed:tool_call>",
    "cohere": '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "search", "parameters": {"q": "x"}}]<|END_ACTION|>',
}
