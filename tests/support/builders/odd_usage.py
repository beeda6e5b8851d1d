"""Usage objects with a number that can't be a count, on each wire format."""

from __future__ import annotations

ODD = [
    "NaN",
    "Infinity",
    "-Infinity",
    "-1",
    "-0.5",
    "1e12",
    "1e308",
    "1000000000000",
    "true",
    '"7"',
    "[7]",
    "1" + "0" * 400,
]

CHAT = """data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,\
"completion_tokens":5,"total_tokens":14,"cost":3,"prompt_tokens_details":{"cached_tokens":2,"cache_write_tokens":1},\
"completion_tokens_details":{"reasoning_tokens":4}}}

data: [DONE]

"""
RESPONSES = """data: {"type":"response.completed","response":{"id":"r","status":"completed","output":[{"type":\
"message","role":"assistant","content":[{"type":"output_text","text":"Hi"}]}],"tool_usage":{"web_search":{"num_requests":3}},\
"usage":{"input_tokens":9,"output_tokens":5,"total_tokens":14,\
"input_tokens_details":{"cached_tokens":2,"cache_write_tokens":1},"output_tokens_details":{"reasoning_tokens":4}}}}

"""
ANTHROPIC = """data: {"type":"message_start","message":{"id":"m","model":"c","role":"assistant","content":[],"usage":\
{"input_tokens":6,"cache_read_input_tokens":2,"cache_creation_input_tokens":1,"output_tokens":1,\
"cache_creation":{"ephemeral_1h_input_tokens":1}}}}

data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hi"}}

data: {"type":"content_block_stop","index":0}

data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5,\
"output_tokens_details":{"thinking_tokens":4},"server_tool_use":{"web_search_requests":3}}}

data: {"type":"message_stop"}

"""
GEMINI = """data: {"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"STOP"}],"usageMetadata":\
{"promptTokenCount":8,"toolUsePromptTokenCount":1,"candidatesTokenCount":1,"thoughtsTokenCount":4,\
"cachedContentTokenCount":2,"totalTokenCount":14}}

"""
STREAMS = {"chat": CHAT, "kimi": CHAT, "responses": RESPONSES, "anthropic": ANTHROPIC, "gemini": GEMINI}
# What is lost with each number: of sums, all that it is a part of.
LOST: dict[str, dict[str, tuple[str, ...]]] = {
    "chat": {
        '"prompt_tokens":9': ("input_tokens",), '"completion_tokens":5': ("output_tokens",),
        '"total_tokens":14': ("total_tokens",), '"cached_tokens":2': ("cached_tokens",), '"cost":3': (),
        '"cache_write_tokens":1': ("cache_write_tokens",), '"reasoning_tokens":4': ("reasoning_tokens",),
    },
    "responses": {
        '"input_tokens":9': ("input_tokens",), '"output_tokens":5': ("output_tokens",),
        '"total_tokens":14': ("total_tokens",), '"cached_tokens":2': ("cached_tokens",),
        '"cache_write_tokens":1': ("cache_write_tokens",), '"reasoning_tokens":4': ("reasoning_tokens",),
        '"num_requests":3': ("tools",),
    },
    "anthropic": {
        '"input_tokens":6': ("input_tokens", "total_tokens"), '"output_tokens":5': ("output_tokens", "total_tokens"),
        '"cache_read_input_tokens":2': ("cached_tokens", "input_tokens", "total_tokens"),
        '"cache_creation_input_tokens":1': ("cache_write_tokens", "input_tokens", "total_tokens"),
        '"thinking_tokens":4': ("reasoning_tokens",), '"web_search_requests":3': ("tools",),
        '"ephemeral_1h_input_tokens":1': ("details",),
    },
    "gemini": {
        '"promptTokenCount":8': ("input_tokens",), '"toolUsePromptTokenCount":1': ("input_tokens", "details"),
        '"candidatesTokenCount":1': ("output_tokens",), '"totalTokenCount":14': ("total_tokens",),
        '"thoughtsTokenCount":4': ("output_tokens", "reasoning_tokens"),
        '"cachedContentTokenCount":2': ("cached_tokens",),
    },
}  # fmt: skip
LOST["kimi"] = LOST["chat"]
MEMBERS = [(adapter, member) for adapter, members in LOST.items() for member in members]
