"""`facts()`: what stands behind a model, whatever is around it."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from folding import DONE, fin, text
from streamfold import ChatModel, Fallback, Provider
from streamfold.answers import get_model_info
from streamfold.middleware import Middleware
from streamfold.testing import ScriptedProvider

WRAPS: dict[str, Any] = {"bare": lambda model: model, "middleware": Middleware, "fallback": Fallback}


def provider(
    adapter: str = "chat", *, name: str = "a", model: str = "m", client: httpx.AsyncClient | None = None
) -> Provider:
    values = {"adapter": adapter, "base_url": "http://127.0.0.1:1/v1", "model": model, "name": name, "api_key": "k"}
    return Provider.from_config(values, http_client=client)


def answering(body: bytes) -> tuple[httpx.AsyncClient, list[Any]]:
    """A client that answers everything with this body, and what was sent with it."""
    sent: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=body)

    return httpx.AsyncClient(transport=httpx.MockTransport(answer)), sent


@pytest.mark.parametrize("wrap", WRAPS)
def test_wrappers_pass_them_on(wrap: str) -> None:
    """The endpoint is known behind each of them; only a bare provider sends requests as they are asked."""
    model: ChatModel = WRAPS[wrap](provider("anthropic"))
    facts = get_model_info(model)
    assert facts is not None
    assert [str(endpoint) for endpoint in facts.endpoints] == ["a anthropic http://127.0.0.1:1/v1 m"]
    assert facts.count is not None
    assert (facts.direct is not None, facts.changed) == (wrap == "bare", wrap == "middleware")


def test_nothing_is_known_of_a_model_that_does_not_say() -> None:
    """Beside others it makes what happens to requests uncertain."""
    assert get_model_info(ScriptedProvider([])) is None
    facts = get_model_info(Fallback(provider(), ScriptedProvider([])))
    assert facts is not None
    assert (len(facts.endpoints), facts.changed) == (1, True)


def test_endpoints_of_all_that_may_answer() -> None:
    """In the order in which they are asked, with what they lack."""
    facts = get_model_info(
        Fallback(provider(name="a"), Fallback(provider("anthropic", name="b"), provider("gemini", name="c")))
    )
    assert facts is not None
    assert [(each.name, each.adapter, each.problem) for each in facts.endpoints] == [
        ("a", "chat", None),
        ("b", "anthropic", None),
        ("c", "gemini", None),
    ]
    lacking = Provider.from_config(
        {"adapter": "chat", "base_url": "http://h/v1", "api_key_env": ["NO_SUCH_KEY"]}
    ).facts()
    assert "NO_SUCH_KEY" in (lacking.endpoints[0].problem or "")


async def test_a_gateway_of_any_model() -> None:
    """One model that is no provider is served under its name."""
    gateway = pytest.importorskip("streamfold_gateway").gateway
    app = gateway(Fallback(provider(name="a"), provider(name="b")))
    async with app, httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        served = (await client.get("/v1/models")).json()
    assert [model["id"] for model in served["data"]] == ["a"]


@pytest.mark.slow
@pytest.mark.parametrize("wrap", WRAPS)
async def test_members_that_the_endpoint_does_not_know(wrap: str) -> None:
    """A client's own members of Chat Completions are not sent to another API, whatever stands before it."""
    gateway = pytest.importorskip("streamfold_gateway").gateway
    sent: list[dict[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        return httpx.Response(500)

    asked = provider("anthropic", client=httpx.AsyncClient(transport=httpx.MockTransport(answer)))
    app = gateway({"main": WRAPS[wrap](asked)})
    body = {
        "model": "main",
        "messages": [{"role": "user", "content": "hi"}],
        "logit_bias": {"1": 2},
        "verbosity": "low",
    }
    async with app, httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        await client.post("/v1/chat/completions", json=body)
    assert sent
    assert not {"logit_bias", "verbosity"} & set(sent[0])


async def test_models_that_share_an_adapter_share_no_facts() -> None:
    """What is known of the first model that was asked says nothing about the next one, of which nothing is known."""
    client, sent = answering(text("Hi") + fin("stop") + DONE)
    async with provider(client=client) as shared:
        known = await shared.chat("Hello", model="gpt-5", temperature=0.3)
        unknown = await shared.chat("Hello", model="m", temperature=0.3)
    assert [warning.code for warning in known.warnings] == ["option_dropped"]
    assert (unknown.warnings, ["temperature" in body for body in sent]) == ([], [False, True])
