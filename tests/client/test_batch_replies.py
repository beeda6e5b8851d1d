"""Replies of the batch API have what streamed ones have."""

from __future__ import annotations

from streamfold import Provider, Tool
from streamfold.adapters.batches import BatchResult
from streamfold.requests import Request
from streamfold.types import ChatParams

CALLS = [
    {"id": f"call_{name}", "type": "function", "function": {"name": name, "arguments": "{}"}} for name in ("one", "two")
]
ANSWER = {
    "id": "c",
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "tool_calls": CALLS}, "finish_reason": "tool_calls"}],
}


def test_calls_that_came_together_are_a_warning_in_a_batch_too() -> None:
    """Where the server can't be told to send one call at a time, the reply says that several came."""
    provider = Provider.from_config(
        {
            "adapter": "chat",
            "base_url": "https://api.test/v1",
            "model": "m",
            "api_key": "k",
            "models": [{"pattern": "*", "parallel_calls": "no"}],
        }
    )
    tools = [Tool(name, "", {"type": "object", "properties": {}}) for name in ("one", "two")]
    request = Request.read("", "Both", tools, "auto", {"parallel_tool_calls": False})
    reply = provider.batches().request(ChatParams(request)).reply(BatchResult("1", ANSWER, request_id="req_1"))
    assert [call.name for call in reply.tool_calls] == ["one", "two"]
    assert [warning.code for warning in reply.warnings] == ["option_dropped", "parallel_calls_unmet"]
    assert (reply.provider, reply.request_id) == ("custom", "req_1")
