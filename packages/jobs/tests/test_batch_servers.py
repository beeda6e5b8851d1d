"""The batch servers of the tests are like those of the providers: the providers' own SDKs can use them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from batch_servers import ANSWER, KEY, FilesServer, GeminiServer, MessagesServer

LINE = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions"}


@pytest.mark.slow
def test_the_sdk_of_openai_uses_files_and_batches() -> None:
    """Upload, creation, looks, lists over several pages and results are what the SDK sends and understands."""
    openai = pytest.importorskip("openai")
    server = FilesServer(looks=1)
    with server.serving() as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)
        body = {"model": "m", "messages": [{"role": "user", "content": "p"}]}
        for name in "abc":
            content = json.dumps({**LINE, "custom_id": name, "body": body}).encode() + b"\n"
            file = client.files.create(file=(f"{name}.jsonl", content), purpose="batch")
            made = client.batches.create(
                input_file_id=file.id,
                endpoint="/v1/chat/completions",
                completion_window="24h",
                metadata={"name": name},
            )
            assert made.status == "validating"
        assert [found.metadata["name"] for found in client.batches.list()] == ["c", "b", "a"]
        assert [found.filename for found in client.files.list(purpose="batch")] == ["c.jsonl", "b.jsonl", "a.jsonl"]
        assert client.batches.retrieve(made.id).status == "in_progress"
        ended = client.batches.retrieve(made.id)
        assert ended.status == "completed"
        assert ended.request_counts.completed == 1
        result: dict[str, Any] = json.loads(client.files.content(ended.output_file_id).text)
    assert result["custom_id"] == "c"
    assert result["response"]["body"]["choices"][0]["message"]["content"] == ANSWER.format("p")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({**LINE, "body": {"model": "m", "messages": [], "stream": True}}, "does not stream"),
        ({**LINE, "url": "/v1/other", "body": {"model": "m", "messages": []}}, "/v1/other"),
        ({"custom_id": "a", "body": {}}, "a line has"),
    ],
)
def test_wrong_requests_are_refused(line: dict[str, Any], problem: str) -> None:
    """What a provider would refuse is refused here, so that no test passes with it."""
    openai = pytest.importorskip("openai")
    with FilesServer().serving() as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)
        with pytest.raises(openai.BadRequestError, match=problem):
            client.files.create(file=("a.jsonl", json.dumps(line).encode() + b"\n"), purpose="batch")


@pytest.mark.slow
def test_the_sdk_of_anthropic_uses_message_batches() -> None:
    """Creation, looks, lists over several pages and results are what the SDK sends and understands."""
    anthropic = pytest.importorskip("anthropic")
    server = MessagesServer(looks=1, odd={"late": "expired"})
    with server.serving() as url:
        client = anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=0)
        for _ in range(3):
            rows = [
                {
                    "custom_id": prompt,
                    "params": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": prompt}]},
                }
                for prompt in ("p", "late")
            ]
            made = client.messages.batches.create(requests=rows)
            assert made.processing_status == "in_progress"
        assert [found.id for found in client.messages.batches.list()] == ["msgbatch_2", "msgbatch_1", "msgbatch_0"]
        assert client.messages.batches.retrieve(made.id).processing_status == "in_progress"
        ended = client.messages.batches.retrieve(made.id)
        assert (ended.processing_status, ended.request_counts.succeeded, ended.request_counts.expired) == (
            "ended",
            1,
            1,
        )
        found = {result.custom_id: result.result for result in client.messages.batches.results(made.id)}
    assert found["late"].type == "expired"
    assert found["p"].message.content[0].text == ANSWER.format("p")


@pytest.mark.slow
def test_the_sdk_of_google_uses_batches_of_gemini() -> None:
    """Creation, looks, lists over several pages and results are what the SDK sends and understands."""
    genai = pytest.importorskip("google.genai")
    server = GeminiServer(looks=1)
    with server.serving() as url:
        client = genai.Client(api_key=KEY, vertexai=False, http_options={"base_url": url})
        for name in "abc":
            rows = [{"contents": [{"role": "user", "parts": [{"text": "p"}]}], "metadata": {"key": "k"}}]
            made = client.batches.create(model="m", src=rows, config={"display_name": name})
        assert [found.display_name for found in client.batches.list(config={"page_size": 2})] == ["c", "b", "a"]
        assert client.batches.get(name=made.name).state.name == "JOB_STATE_RUNNING"
        ended = client.batches.get(name=made.name)
    assert ended.state.name == "JOB_STATE_SUCCEEDED"
    result = ended.dest.inlined_responses[0]
    assert result.response.text == ANSWER.format("p")
    assert result.metadata == {"key": "k"}
