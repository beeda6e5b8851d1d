"""Token counts of OpenAI's APIs, by all the names that servers have for them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamfold import StreamDecoder, Usage

COUNTS = {"input_tokens": 9, "output_tokens": 5}
CHAT = {"prompt_tokens": 9, "completion_tokens": 5}
BODIES: dict[str, Any] = {
    "chat": {"choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]},
    "responses": {"object": "response", "status": "completed", "output": [{"type": "message", "content": "Hi"}]},
}


@pytest.mark.parametrize("api", BODIES)
@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (COUNTS, {}),
        (CHAT, {}),
        ({**CHAT, "total_tokens": 14}, {"total_tokens": 14}),
        ({**CHAT, "cached_tokens": 2}, {"cached_tokens": 2}),  # Moonshot
        ({**CHAT, "prompt_cache_hit_tokens": 2}, {"cached_tokens": 2}),  # DeepSeek
        ({**CHAT, "prompt_tokens_details": {"cached_tokens": None}, "cached_tokens": 2}, {"cached_tokens": 2}),
        (
            {**CHAT, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 3},  # LiteLLM
            {"cached_tokens": 2, "cache_write_tokens": 3},
        ),
        (
            {**CHAT, "prompt_tokens_details": {"cached_tokens": 2, "cache_creation_tokens": 3}},  # LiteLLM's proxy
            {"cached_tokens": 2, "cache_write_tokens": 3},
        ),
        (
            {**CHAT, "prompt_tokens_details": {"cached_tokens": 2, "cache_creation_input_tokens": 3}},  # DashScope
            {"cached_tokens": 2, "cache_write_tokens": 3},
        ),
        (  # Databricks' Claude: the input is without the cache
            {
                "prompt_tokens": 4,
                "completion_tokens": 5,
                "total_tokens": 9,
                "cache_read_input_tokens": 2,
                "cache_creation_input_tokens": 3,
            },
            {"cached_tokens": 2, "cache_write_tokens": 3, "total_tokens": 14},
        ),
        ({**CHAT, "input_tokens": 0, "output_tokens": 0}, {}),  # the other API's names, not filled in
        ({**COUNTS, "prompt_tokens": 0, "completion_tokens": 0}, {}),
        (
            {**CHAT, "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 3}, "reasoning_tokens": 4},
            {"cached_tokens": 2, "cache_write_tokens": 3, "reasoning_tokens": 4},
        ),
        (
            {
                **COUNTS,
                "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 3},
                "output_tokens_details": {"reasoning_tokens": 4},
            },
            {"cached_tokens": 2, "cache_write_tokens": 3, "reasoning_tokens": 4},
        ),
    ],
)
def test_a_count_is_read_wherever_it_was_sent(api: str, sent: dict[str, Any], read: dict[str, int]) -> None:
    """The names of either API count on both, in the details or on top; what isn't sent is None."""
    decoder = StreamDecoder(api)
    decoder.feed(json.dumps({**BODIES[api], "usage": sent}).encode())
    decoder.close()
    assert decoder.reply.usage == Usage(**COUNTS, **read, raw=sent)
