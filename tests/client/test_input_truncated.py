"""`input_maybe_truncated`: a long input that the provider counts as less than half of what it has."""

from __future__ import annotations

import json

import httpx
import pytest

from streamfold import Provider, Tool, image, user
from streamfold.types import Messages

SENTENCE = "The quick brown fox jumps over the lazy dog. "  # 45 characters, about 10 tokens
BIG_TOOL = Tool("big", "A tool. " + SENTENCE * 500, {"type": "object", "properties": {}})


async def codes(messages: Messages, counted: int | None, *, stream: bool = True) -> list[tuple[str, str]]:
    """Returns the warnings of an answer whose provider counts so many input tokens."""
    usage = None if counted is None else {"prompt_tokens": counted, "completion_tokens": 1, "total_tokens": counted + 1}
    shared = {"id": "1", "model": "m", "created": 1, "usage": usage}
    whole = {"message": {"role": "assistant", "content": "Hi"}, "index": 0, "finish_reason": "stop"}
    delta = {"delta": {"role": "assistant", "content": "Hi"}, "index": 0, "finish_reason": "stop"}
    body = json.dumps({**shared, "choices": [whole]}).encode()
    events = f"data: {json.dumps({**shared, 'choices': [delta]})}\n\ndata: [DONE]\n\n".encode()

    def respond(request: httpx.Request) -> httpx.Response:
        kind = "text/event-stream" if stream else "application/json"
        return httpx.Response(200, headers={"content-type": kind}, content=events if stream else body)

    config = {"adapter": "chat", "base_url": "http://ollama.test/v1", "model": "m"}
    async with (
        httpx.AsyncClient(transport=httpx.MockTransport(respond)) as client,
        Provider.from_config(config, http_client=client) as provider,
    ):
        reply = await provider.chat(messages, [BIG_TOOL], stream=stream)
    return [(warning.code, warning.detail) for warning in reply.warnings]


@pytest.mark.anyio
@pytest.mark.parametrize("stream", [True, False])
async def test_a_long_input_that_is_cut_is_noticed(stream: bool) -> None:
    """Ollama reads 4,096 tokens of a longer input by default, and reports nothing but their number."""
    counts = "the messages have about 11,250 tokens, and the provider counted 4,096"
    detail = f"{counts}: the provider may have truncated the input"
    assert await codes(SENTENCE * 1000, 4096, stream=stream) == [("input_maybe_truncated", detail)]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("messages", "counted"),
    [
        (SENTENCE * 1000, 10_000),  # as a tokenizer counts it
        (SENTENCE * 1000, 5_700),  # a tokenizer with long tokens
        (SENTENCE * 1000, None),  # no usage
        (SENTENCE * 100, 20),  # too short to say
        ("東京" * 3000, 2_500),  # other scripts need fewer tokens for their bytes
        ([user("Look.", image(b"\x89PNG" + b"0" * 60_000, media_type="image/png"))], 300),  # media count otherwise
    ],
)
async def test_what_tokenizers_count_otherwise_is_no_cut(messages: Messages, counted: int | None) -> None:
    """Estimates differ from counts: by half, for short texts, for other scripts, for media and tools."""
    assert await codes(messages, counted) == []
