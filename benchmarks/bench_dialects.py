"""What a dialect costs per character, as the answer grows, however it is cut.

Plain text must be cheap, because most answers are nothing else. A call of 400,000 characters that comes character by
character must cost no more for each than a short one: whoever searches again what has come so far, or puts it together
anew with each piece, pays for all of it each time. The last kind is made by somebody who wants that to happen: calls
whose strings never close, so that each might reach to the end.

    python benchmarks/bench_dialects.py [DIALECT ...]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import process_time

from streamfold.deltas import TextDelta, ToolCallDelta
from streamfold.engine.dialects import DialectContext, find_dialect
from streamfold.types.tools import Tool

SIZES = (10_000, 100_000, 400_000, 2_000_000)
PIECES = (1, 20)
TOOLS = (Tool("write"), Tool("search"))

PLAIN = "Whoever reads this text, a < b or not, has time. "
LINES = 'for (i = 0; i < n; i++) { print(\\"%d\\", a[i]); } '

LONG_CALLS: dict[str, tuple[str, str]] = {
    "kimi": (
        '<|tool_calls_section_begin|><|tool_call_begin|>functions.write:0<|tool_call_argument_begin|>{"text": "',
        '"}<|tool_call_end|><|tool_calls_section_end|>',
    ),
    "hermes": ('<tool_call>\n{"name": "write", "arguments": {"text": "', '"}}\n</tool_call>'),
    "qwen3coder": ("<tool_call>\n<function=write>\n<parameter=text>\n", "\n</parameter>\n</function>\n</tool_call>"),
    "glm": ("<tool_call>write\n<arg_key>text</arg_key>\n<arg_value>", "</arg_value>\n</tool_call>"),
    "deepseek": (
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>write\n```json\n{"text": "',
        '"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    ),
    "llama3": ('{"name": "write", "parameters": {"text": "', '"}}'),
    "mistral": ('[TOOL_CALLS]write[ARGS]{"text": "', '"}'),
    "required": ('[{"name": "write", "parameters": {"text": "', '"}}]'),
    "think": ("<think>", "</think>"),
    "harmony": (
        '<|start|>assistant<|channel|>commentary to=functions.write <|constrain|>json<|message|>{"text": "',
        '"}<|call|>',
    ),
    "dsml": (
        '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="write">\n<｜DSML｜parameter name="text" string="true">',
        "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
    ),
    "kimi3": (
        "<|open|>tools<|sep|><|open|>call tool=write index=1<|sep|><|open|>argument key=text type=string<|sep|>",
        "<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>",
    ),
    "minimax": (
        '<minimax:tool_call>\n<invoke name="write">\n<parameter name="text">',
        "</parameter>\n</invoke>\n</minimax:tool_call>",
    ),
    "minimax3": (
        ']<]minimax[>[<tool_call>]<]minimax[>[<invoke name="write">]<]minimax[>[<text>',
        "]<]minimax[>[</text>]<]minimax[>[</invoke>]<]minimax[>[</tool_call>",
    ),
    "gemma4": ('<|tool_call>call:write{text:<|"|>', '<|"|>}<tool_call|>'),
    "functiongemma": ("<start_function_call>call:write{text:<escape>", "<escape>}<end_function_call>"),
    "lfm2": ("<|tool_call_start|>[write(text='", "')]<|tool_call_end|>"),
    "seed": (
        "<seed:tool_call>\n<function=write>\n<parameter=text>\n",
        "\n</parameter>\n</function>\n</seed:tool_call>",
    ),
    "cohere": (
        '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "write", "parameters": {"text": "',
        '"}}]<|END_ACTION|>',
    ),
}
OPEN_STRINGS: dict[str, str] = {
    "kimi": '<|tool_call_begin|>functions.write:0<|tool_call_argument_begin|>{"\\" <|tool_call_end|>',
    "hermes": '<tool_call>{"\\" </tool_call>',
    "deepseek": '<｜tool▁call▁begin｜>write<｜tool▁sep｜>{"\\" <｜tool▁call▁end｜>',
    "harmony": '<|start|>assistant to=functions.write<|message|>{"\\" <|call|>',
    "dsml": '<｜DSML｜invoke name="write">{"\\" </｜DSML｜invoke>',
    "minimax": '<minimax:tool_call><invoke name="write"><parameter name="text">',
    "minimax3": "]<]minimax[>[<tool_call>]<]minimax[>[<invoke name=write>]<]minimax[>[<a>",
    "kimi3": "<|open|>tools<|sep|><|open|>call tool=write",
    "gemma4": '<|tool_call>call:write{a: " <tool_call|>',
    "lfm2": "<|tool_call_start|>write(a=' <|tool_call_end|>",
    "seed": "<seed:tool_call><function=write><parameter=text>",
    "cohere": '<|START_ACTION|>{"\\" <|END_ACTION|>',
}


BROKEN = """'", !"""


def long_call(dialect: str, size: int) -> str:
    begin, end = LONG_CALLS[dialect]
    return begin + filled(LINES, size - len(begin) - len(end)) + end


def many_calls(dialect: str, size: int) -> str:
    begin, end = LONG_CALLS[dialect]
    return filled(f"Call. {begin}x{end} ", size)


def plain(_: str, size: int) -> str:
    return filled(PLAIN, size)


def open_strings(dialect: str, size: int) -> str:
    # What closes one of them at last shows that the text was no call: then all of it might be read again.
    return filled(OPEN_STRINGS[dialect], size - len(BROKEN)) + BROKEN


def filled(pattern: str, size: int) -> str:
    return (pattern * (size // len(pattern) + 1))[:size]


def measure(dialect: str, text: str, piece: int) -> float:
    """Microseconds of CPU per character."""
    pieces = [TextDelta(text[at : at + piece]) for at in range(0, len(text), piece)]
    reader = find_dialect(dialect, DialectContext(TOOLS, "required" if dialect == "required" else "auto"))
    began = process_time()
    for delta in pieces:
        reader.feed(delta)
    last = list(reader.finish())
    taken = process_time() - began
    assert all(call.index is not None for call in last if isinstance(call, ToolCallDelta))
    return taken / len(text) * 1e6


def row(kind: str, make: Callable[[str, int], str], dialect: str) -> None:
    for piece in PIECES:
        costs = [measure(dialect, make(dialect, size), piece) for size in SIZES]
        shown = "".join(f"{cost:9.3f}" for cost in costs)
        print(f"{kind:14s} {dialect:12s} {piece:6d} {shown} {costs[-1] / costs[0]:12.2f}x")


def main() -> None:
    dialects = sys.argv[1:] or list(LONG_CALLS)
    measure("hermes", PLAIN * 1000, 1)
    print("us per character             piece " + "".join(f"{size:9d}" for size in SIZES) + "   last/first")
    for kind, make in (("plain text", plain), ("one long call", long_call), ("many calls", many_calls)):
        for dialect in dialects:
            row(kind, make, dialect)
    for dialect in dialects:
        if dialect in OPEN_STRINGS:
            row("open strings", open_strings, dialect)


if __name__ == "__main__":
    main()
