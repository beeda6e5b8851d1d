"""Numbers in a usage object that can't be counts: none of them is counted, on any wire format."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from streamfold import Provider, StreamDecoder, Usage
from tables import each_row

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
        '"ephemeral_1h_input_tokens":1': (),
    },
    "gemini": {
        '"promptTokenCount":8': ("input_tokens",), '"toolUsePromptTokenCount":1': ("input_tokens",),
        '"candidatesTokenCount":1': ("output_tokens",), '"totalTokenCount":14': ("total_tokens",),
        '"thoughtsTokenCount":4': ("output_tokens", "reasoning_tokens"),
        '"cachedContentTokenCount":2': ("cached_tokens",),
    },
}  # fmt: skip
LOST["kimi"] = LOST["chat"]
MEMBERS = [(adapter, member) for adapter, members in LOST.items() for member in members]


def read(adapter: str, stream: str) -> Any:
    decoder = StreamDecoder(adapter)
    decoder.feed(stream.encode())
    decoder.close()
    return decoder.reply


@each_row(("adapter", "member"), MEMBERS)
def test_only_counts_are_counted(adapter: str, member: str) -> None:
    """Of a usage with one odd number, all others are counted, and a warning names it."""
    right = read(adapter, STREAMS[adapter]).usage
    name = member.partition(":")[0]
    for odd in ODD:
        reply = read(adapter, STREAMS[adapter].replace(member, f"{name}:{odd}"))
        expected = {each: getattr(right, each) for each in Usage.__dataclass_fields__ if each != "raw"}
        expected |= {each: {} if each == "tools" else None for each in LOST[adapter][member]}
        assert {each: getattr(reply.usage, each) for each in expected} == expected, odd
        assert [warning.code for warning in reply.warnings] == ["usage_invalid"], odd
        assert name.strip('"').partition("_")[0].removeprefix("num") in reply.warnings[0].detail
        assert reply.usage + reply.usage
        assert reply.text == "Hi"


@each_row("adapter", STREAMS)
def test_usual_numbers_are_counted_without_a_warning(adapter: str) -> None:
    """Null and zero are what many servers send, and a float without a fraction is a count."""
    for member in LOST[adapter]:
        name = member.partition(":")[0]
        for usual in ("null", "0", "2.0", "99999999999"):
            reply = read(adapter, STREAMS[adapter].replace(member, f"{name}:{usual}"))
            assert reply.warnings == [], (member, usual)


PRICES = {"input": 1.0, "output": 2.0, "cache_write_1h": 3.0, "reported": "cost"}


@each_row(("adapter", "member"), MEMBERS)
def test_an_odd_number_costs_nothing_and_gives_nothing_back(adapter: str, member: str) -> None:
    """`Reply.cost` is None or what the other counts cost: it never raises, and is never negative or infinite."""
    prices = Provider.from_config({"base_url": "http://u/v1", "adapter": adapter, "model": "m", "prices": PRICES})
    for odd in ODD:
        reply = read(adapter, STREAMS[adapter].replace(member, f"{member.partition(':')[0]}:{odd}"))
        (facts,) = prices.facts().endpoints
        assert facts.prices
        pricing = facts.prices("m")
        assert pricing
        cost = pricing.cost(reply)
        assert cost is None or Decimal(0) <= cost.amount <= Decimal(3), odd
