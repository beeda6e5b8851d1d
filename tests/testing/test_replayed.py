"""A provider that plays recordings, without pytest: what an application gets, and what it is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from folding import DONE, call, entry, fin, text
from streamfold import ConfigError, IncompleteStreamError, Provider, RateLimitError, StreamfoldError
from streamfold.faults import cut_after, status
from streamfold.recording import Recording, RecordTransport, ReplayTransport, SentExchange
from streamfold.testing import ReplayProvider, ScriptError

FIXTURES = Path(__file__).parents[2] / "fixtures"
MARKUP = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
TOOLS: list[Any] = [{"type": "function", "function": {"name": "f"}}]


def asked(number: int, said: str, *, conversation: str = "") -> Recording:
    """A recording of `said` with the request that it answers."""
    message = {"role": "user", "content": f"question {number}"}
    body = {"model": "acme-1", "messages": [message], "stream": True, "stream_options": {"include_usage": True}}
    sent = SentExchange("POST", "/v1/chat/completions", json.dumps(body))
    return Recording(f"acme/{number}", text(said) + fin("stop") + DONE, sent=sent, conversation=conversation)


async def test_paths_names_and_values() -> None:
    """Each is played for one request, on the wire that it names."""
    provider = ReplayProvider(
        FIXTURES / "kimi" / "parallel_calls", "demo/reasoning_text", Recording("mine", text("Hi") + fin("stop"))
    )
    replies = [await provider.chat(word) for word in ("a", "b", "c")]
    assert [len(reply.tool_calls) for reply in replies] == [2, 0, 0]
    assert (bool(replies[1].reasoning), replies[2].text) == (True, "Hi")
    assert [request.text for request in provider.requests] == ["a", "b", "c"]
    assert provider.profile.adapter == "chat"
    assert ReplayProvider(FIXTURES / "openai" / "responses_parallel_calls").profile.adapter == "responses"


async def test_the_configuration_of_another_provider() -> None:
    """Its dialect and quirks hold."""
    answer = Recording("mine", text(MARKUP) + fin("stop"))
    reply = await ReplayProvider(answer, provider="vllm:qwen3", dialect="hermes").chat("Hi", TOOLS)
    assert [made.name for made in reply.tool_calls] == ["f"]


async def test_a_recording_that_names_its_dialect() -> None:
    """It is read in it."""
    answer = Recording("mine", text(MARKUP) + fin("stop"), dialect="hermes", tools=("f",))
    assert [made.name for made in (await ReplayProvider(answer).chat("Hi", TOOLS)).tool_calls] == ["f"]


async def test_a_conversation_is_played_in_its_order(tmp_path: Path) -> None:
    """The first recording brings those that followed it, and the model is the one that was asked."""
    for number, name in ((1, "talk"), (2, "talk-2")):
        asked(number, f"answer {number}", conversation="x").save(tmp_path / name)
    provider = ReplayProvider(tmp_path / "talk")
    assert [(await provider.chat(f"question {number}")).text for number in (1, 2)] == ["answer 1", "answer 2"]


async def test_another_request_than_the_recorded_one() -> None:
    """It is told with the difference, and is no error of the provider."""
    with pytest.raises(ScriptError, match=r'-.*"question 1",\n\+.*"question 7"') as caught:
        await ReplayProvider(asked(1, "Hi")).chat("question 7")
    assert not isinstance(caught.value, StreamfoldError)
    assert (await ReplayProvider(asked(1, "Hi"), match="any").chat("question 7")).text == "Hi"


@pytest.mark.parametrize(
    ("name", "spec", "model", "api"),
    [
        ("anthropic/parallel_calls", "anthropic:claude-sonnet-4-5", "claude-sonnet-4-5", "anthropic"),
        ("gemini/native_parallel_calls", "gemini:gemini-2.5-flash", "gemini-2.5-flash", "gemini"),
        ("openai/responses_parallel_calls", "openai-responses:gpt-5", "gpt-5", "responses"),
        ("kimi/parallel_calls", "kimi:kimi-k2.6", "kimi-k2.6", "chat"),
    ],
)
async def test_recordings_of_every_wire_format(tmp_path: Path, name: str, spec: str, model: str, api: str) -> None:
    """A recording has the wire format of the path that was called, and is played with the model that was asked."""
    played = RecordTransport(ReplayTransport(FIXTURES / name), tmp_path, name="x")
    async with httpx.AsyncClient(transport=played) as client:
        recorded = await Provider.from_config(spec, api_key="key-0123", http_client=client).chat("Hi")
    recording, provider = Recording.load(tmp_path / "x"), ReplayProvider(tmp_path / "x")
    assert (recording.adapter, provider.profile.model) == (api, model)
    reply = await provider.chat("Hi")
    assert reply.tool_calls
    assert (reply.text, reply.tool_calls) == (recorded.text, recorded.tool_calls)


async def test_a_request_too_many() -> None:
    """Nothing is played twice."""
    provider = ReplayProvider("demo/parallel_calls")
    await provider.chat("Hi")
    with pytest.raises(ScriptError, match=r"request 2 .* has no recording"):
        await provider.chat("Hi")


async def test_faults_and_retries() -> None:
    """A fault is what the application sees, unless it is given retries."""
    limited = status(429, times=1, retry_after=0)
    with pytest.raises(RateLimitError):
        await ReplayProvider("demo/parallel_calls", faults=[limited]).chat("Hi")
    assert (await ReplayProvider("demo/parallel_calls", faults=[limited], max_retries=1).chat("Hi")).tool_calls
    answer = Recording("mine", text("Half") + call(entry(0, "a", "f", "{}")) + fin("tool_calls"))
    with pytest.raises(IncompleteStreamError) as caught:
        await ReplayProvider(answer, faults=[cut_after(events=2)]).chat("Hi")
    assert caught.value.partial is not None
    assert caught.value.partial.text == "Half"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ReplayProvider(), "no recording was passed"),
        (lambda: ReplayProvider("nowhere/nothing"), r"there is no recording .*nowhere/nothing"),
        (lambda: ReplayProvider("demo/parallel_calls", cuts="x"), "cuts must be"),
    ],
)
def test_mistakes(make: Any, message: str) -> None:
    """What can't be played is an error when the provider is made."""
    with pytest.raises(ConfigError, match=message):
        make()
