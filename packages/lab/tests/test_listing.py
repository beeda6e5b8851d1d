"""Lists of models in the shapes that servers give them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from streamfold.config import read_profile
from streamfold_lab.doctor import ServedModel, read_models, served_models


@pytest.mark.parametrize(
    ("row", "limits"),
    [
        ({"id": "m", "context_length": 8, "top_provider": {"max_completion_tokens": 4}}, (8, 4)),  # OpenRouter
        ({"id": "m", "max_model_len": 8}, (8, None)),  # vLLM
        ({"id": "m", "context_window": 8, "max_completion_tokens": 4}, (8, 4)),  # Groq
        ({"id": "m", "max_context_length": 8}, (8, None)),  # Mistral
        ({"id": "m", "meta": {"n_ctx_train": 8}}, (8, None)),  # llama.cpp
        ({"id": "m", "max_input_tokens": 8, "max_tokens": 4}, (8, 4)),  # Anthropic
        ({"name": "models/m", "inputTokenLimit": 8, "outputTokenLimit": 4}, (8, 4)),  # Gemini
        ({"id": "m", "context_length": None}, (None, None)),
        ("m", (None, None)),
    ],
)
async def test_limits_are_found_where_servers_tell_them(row: Any, limits: tuple[int | None, int | None]) -> None:
    """Each server has names of its own."""
    for listed in ({"data": [row]}, {"models": [row]}, [row]):
        assert read_models(listed) == [ServedModel("m", *limits)]


async def test_all_pages_are_fetched_and_known_models_are_marked() -> None:
    """Anthropic's list has pages; the version is in the header, and the catalogue knows one of the models."""
    pages = {
        "": {"data": [{"id": "claude-opus-4-8"}], "has_more": True, "last_id": "claude-opus-4-8"},
        "after_id=claude-opus-4-8": {"data": [{"id": "nobody-1"}], "has_more": False},
    }

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["anthropic-version"]
        assert request.headers["x-api-key"] == "sk-test"
        return httpx.Response(200, json=pages[request.url.query.decode()])

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        profile = read_profile("anthropic", {"api_key": "sk-test"})
        found = await served_models(profile, http_client=client)
    assert [(model.name, model.known) for model in found] == [("claude-opus-4-8", True), ("nobody-1", False)]


async def test_a_page_token_comes_back_as_it_was() -> None:
    """Gemini's token is base64, whose plus sign would be a space in a query."""
    asked: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.params.get("pageToken"))
        page = {"models": [{"name": f"models/m-{len(asked)}"}]}
        return httpx.Response(200, json=page if asked[-1] else {**page, "nextPageToken": "a+b/c=&d"})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        found = await served_models(read_profile("gemini", {"api_key": "test"}), http_client=client)
    assert (asked, [model.name for model in found]) == ([None, "a+b/c=&d"], ["m-1", "m-2"])
