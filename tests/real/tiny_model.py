"""A language model that was written, not trained: which character follows which, as the weights of a llama.

It babbles, byte by byte, and stops at a full stop. What it is for is the server of llama.cpp round it: its API, its
grammar for tool calls, its errors, and how it closes connections. Attention and feed-forward are zero, so that what
comes next depends on the last character alone, and the grammar does the rest.
"""

from __future__ import annotations

import sys
from math import sqrt
from pathlib import Path

import gguf
import numpy as np

WIDTH, HEADS, HIDDEN = 384, 4, 32

# The server learns from this how calls are written, and makes a grammar of it.
TEMPLATE = """\
{%- if tools %}<|im_start|>system
Tools:
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}Write a call as <run>
{"name": ..., "arguments": ...}
</run><|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.content %}{{ message.content }}{% endif %}
{%- for call in message.tool_calls or [] %}
<run>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</run>
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

END = "<|im_end|>"
FOLLOWS = {
    "\n": "ss<", "s": "ao", "a": "y s", "y": " .", "o": " k", "k": " .", " ": "soa<", ".": [END, END, END, " "],
    "<": "r", "r": "u", "u": "n", "n": ">", ">": ["\n", END], "}": "\n",
}  # fmt: skip


def write_model(path: Path) -> None:
    """Writes the file, the same bytes every time."""
    letters = [chr(code) for code in range(33, 127)]
    words = ["<unk>", "<|im_start|>", END, *(f"<0x{byte:02X}>" for byte in range(256)), *letters, "\u2581"]
    kind = gguf.TokenType
    kinds = [kind.UNKNOWN, kind.CONTROL, kind.CONTROL, *[kind.BYTE] * 256, *[kind.NORMAL] * (len(letters) + 1)]
    number = {**{word: at for at, word in enumerate(words)}, "\n": 3 + 10, " ": len(words) - 1}

    logits = np.full((len(words), WIDTH), -12.0, np.float32)  # of the next, by the last
    for last, following in FOLLOWS.items():
        for word in following:
            logits[number[word], number[last]] = max(logits[number[word], number[last]], 0) + 1

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(4096)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(words))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(words)
    writer.add_token_scores([0.0] * len(words))
    writer.add_token_types(kinds)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(TEMPLATE)

    def add(name: str, values: np.ndarray) -> None:
        writer.add_tensor(name, values.astype(np.float32))

    add("token_embd.weight", np.eye(len(words), WIDTH))  # each its own direction; the norm makes it sqrt(WIDTH) long
    add("output_norm.weight", np.ones(WIDTH))
    add("output.weight", logits / sqrt(WIDTH))
    add("blk.0.attn_norm.weight", np.ones(WIDTH))
    add("blk.0.ffn_norm.weight", np.ones(WIDTH))
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        add(f"blk.0.{name}.weight", np.zeros((WIDTH, WIDTH)))
    for name, shape in {"gate": (HIDDEN, WIDTH), "up": (HIDDEN, WIDTH), "down": (WIDTH, HIDDEN)}.items():
        add(f"blk.0.ffn_{name}.weight", np.zeros(shape))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write_model(Path(sys.argv[1]))
