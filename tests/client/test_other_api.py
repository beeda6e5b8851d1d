"""A model that is served by one API alone: the refusal is learned, and requests go to the provider's other API."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from streamfold import BadRequestError, Hooks, NotFoundError, Provider, Tool, UnsupportedOptionError, WebSearch, user
from streamfold.client import requests_of
from streamfold.config import provider_files, read_profile
from streamfold.errors import ErrorInfo
from streamfold.types import AudioPart
from tables import each_row

CHAT = {"choices": [{"message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}]}
ITEM = {
    "type": "message", "id": "m1", "role": "assistant", "status": "completed",
    "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
}  # fmt: skip
RESPONSES = {"id": "r1", "object": "response", "status": "completed", "output": [ITEM]}
ANSWERS = {"chat": CHAT, "responses": RESPONSES}
PATHS = {"chat": "/chat/completions", "responses": "/responses"}
OWN = {"base_url": "http://test/v1", "model": "m"}
F = Tool("f", "Does it.", {"type": "object", "properties": {}})

# Words of servers (their sources are in facts/errors.toml), the API that was called, and the one that they name.
WORDS: list[tuple[int, str, str | None, str, str | None]] = [
    (404, "This model is only supported in v1/responses and not in v1/chat/completions.", None, "chat", "responses"),
    (404, ("This is not a chat model and thus not supported in the v1/chat/completions endpoint. Did you mean to use"
     " v1/completions?"), None, "chat", "responses"),
    (400, 'model "gpt-5.3-codex" is not accessible via the /chat/completions endpoint', "unsupported_api_for_model",
     "chat", "responses"),
    (400, "Multi Agent requests are not allowed on chat completions", None, "chat", "responses"),
    (400, ("The chatCompletion operation does not work with the specified model, gpt-5-codex. Please choose different"
     " model and try again."), "OperationNotSupported", "chat", "responses"),
    (400, ("Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions. Please use"
     " /v1/responses instead."), None, "chat", "responses"),
    (400, "Unsupported legacy protocol: /v1/chat/completions is not supported. Please use /v1/responses.", None, "chat",
     "responses"),
    (404, "The requested model 'gpt-4o-search-preview' is not supported with the Responses API.", "model_not_found",
     "responses", "chat"),
    (400, "This model is only supported in v1/chat/completions and not in v1/responses.", None, "responses", "chat"),
    (404, "This model is only supported in v1/responses and not in v1/chat/completions.", None, "responses", None),
    (404, "The model `x` does not exist or you do not have access to it.", "model_not_found", "chat", None),
    (400, "Unsupported parameter: 'seed' is not supported in chat completions with this model.", None, "chat", None),
    (400, "Invalid value: 'input_text'. Supported values are: 'text'.", None, "chat", None),
    (429, "Requests to v1/chat/completions are not allowed at this rate, use /v1/responses", None, "chat", None),
    (401, "You are not allowed to use v1/chat/completions, only v1/responses", None, "chat", None),
]  # fmt: skip


@each_row(("status", "message", "code", "called", "named"), WORDS)
def test_what_servers_say_of_their_apis(status: int, message: str, code: str | None, called: str, named: Any) -> None:
    """A refusal of an option, of a key or for a while names no other API."""
    assert ErrorInfo(message, code=code, status=status).required_api(called) == named


class OneApi:
    """A server with a model on one of its APIs; the other one refuses it in the given words."""

    def __init__(
        self, served: str | None, words: str = WORDS[0][1], param: str | None = None, status: int = 404
    ) -> None:
        self.served, self.words, self.param, self.status = served, words, param, status
        self.called: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        api = next(api for api, path in PATHS.items() if request.url.path.endswith(path))
        self.called.append(api)
        if api == self.served:
            return httpx.Response(200, json=ANSWERS[api])
        error = {"message": self.words, "type": "invalid_request_error", "param": self.param}
        return httpx.Response(self.status, json={"error": error})

    def provider(self, spec: Any = OWN, **settings: Any) -> Provider:
        client = httpx.AsyncClient(transport=httpx.MockTransport(self))
        return Provider.from_config(spec, http_client=client, max_retries=0, **settings)

    def calls(self) -> list[str]:
        found = [*self.called]
        self.called.clear()
        return found


SPECS: list[tuple[Any, str, str]] = [
    ("openai:new-model", "chat", "responses"),
    ("xai:new-model", "chat", "responses"),
    ("github-copilot:new-model", "chat", "responses"),
    ("openai:gpt-5.4", "responses", "chat"),
    ("openai-responses:new-model", "responses", "chat"),
    (OWN, "chat", "responses"),
    ({**OWN, "adapter": "responses"}, "responses", "chat"),
]
SAYS = {"chat": WORDS[8][1], "responses": WORDS[0][1]}


@each_row(("spec", "usual", "served"), SPECS)
async def test_the_request_goes_to_the_other_api(spec: Any, usual: str, served: str) -> None:
    """Once refused, with a warning; at once the next time, in the preview too; but for this model and owner alone."""
    server = OneApi(served, SAYS[served])
    provider = server.provider(spec, api_key="k")
    reply = await provider.chat("Hello", stream=False)
    assert (reply.text, server.calls(), len(reply.attempts)) == ("Hi", [usual, served], 1)
    (warning,) = [found for found in reply.warnings if found.code == "api_changed"]
    assert SAYS[served] in warning.detail
    reply = await provider.chat("Hello", stream=False)
    assert [found.code for found in reply.warnings] == ["api_changed"]
    assert server.calls() == [served]
    assert provider.preview("Hello").url.endswith(PATHS[served])
    own_api = provider.profile.adapter_of("another-model")
    assert provider.preview("Hello", model="another-model").url.endswith(PATHS[own_api])
    with requests_of("another"):
        await provider.chat("Hello", stream=False)
    assert server.calls() == [usual, served]


async def test_the_other_api_has_its_own_settings() -> None:
    """What is sent is what the provider of the catalogue with the other API sends, with the tools that it runs."""
    server, options = OneApi("responses"), {"reasoning_effort": "low", "max_output_tokens": 5}
    provider = server.provider("xai:new-model", api_key="k")
    await provider.chat("Hello", stream=False)
    direct = Provider.from_config("xai-responses:new-model", api_key="k")
    for tools in ([F], [F, WebSearch()]):
        sent, wanted = (each.preview("Hello", tools, **options) for each in (provider, direct))
        assert (sent.url, sent.json()) == (wanted.url, wanted.json())


async def test_a_pinned_api_stays() -> None:
    """`api = "chat"` is the program's own word: the refusal is an error."""
    server = OneApi("responses")
    with pytest.raises(NotFoundError, match="only supported in v1/responses"):
        await server.provider("openai:new-model", api="chat", api_key="k").chat("Hello", stream=False)
    assert server.calls() == ["chat"]


async def test_a_refusal_of_an_option_that_was_not_sent() -> None:
    """It says nothing of this request, unless tools were sent: OpenAI names its own default of the option then."""
    server = OneApi("responses", WORDS[5][1], "reasoning_effort", 400)
    with pytest.raises(UnsupportedOptionError, match="Function tools"):
        await server.provider(api_key="k").chat("Hello", stream=False)
    assert server.calls() == ["chat"]
    await server.provider(api_key="k").chat("Hello", [F], stream=False)
    await server.provider(api_key="k").chat("Hello", reasoning_effort="low", stream=False)
    assert server.calls() == ["chat", "responses"] * 2


async def test_a_request_that_the_other_api_has_no_place_for() -> None:
    """It isn't sent there; the refusal is raised."""
    server = OneApi("responses")
    with pytest.raises(NotFoundError, match="only supported in v1/responses"):
        await server.provider(api_key="k").chat([user("Hi", AudioPart(b"x", media_type="audio/wav"))], stream=False)
    assert server.calls() == ["chat"]


async def test_an_endpoint_without_the_other_api() -> None:
    """A path that isn't there is not the error: the refusal is. Another error of the other API is raised."""
    for status, kind, match in ((404, NotFoundError, "only supported in v1/responses"), (400, BadRequestError, "Bad")):

        def serve(request: httpx.Request, status: int = status) -> httpx.Response:
            if request.url.path == "/v1/responses":
                return httpx.Response(status, json={"error": {"message": "Bad"}})
            return httpx.Response(404, json={"error": {"message": WORDS[0][1]}})

        client = httpx.AsyncClient(transport=httpx.MockTransport(serve))
        with pytest.raises(kind, match=match):
            await Provider.from_config(OWN, http_client=client, max_retries=0).chat("Hello", stream=False)


async def test_apis_that_refer_to_each_other() -> None:
    """The request is sent to each of them once."""
    called = []

    def serve(request: httpx.Request) -> httpx.Response:
        called.append(request.url.path)
        words = SAYS["responses" if request.url.path.endswith("completions") else "chat"]
        return httpx.Response(400, json={"error": {"message": words}})

    client = httpx.AsyncClient(transport=httpx.MockTransport(serve))
    with pytest.raises(BadRequestError):
        await Provider.from_config(OWN, http_client=client).chat("Hello", stream=False)
    assert called == ["/v1/chat/completions", "/v1/responses"]


async def test_hooks_are_told_of_the_other_api() -> None:
    """The URL and the name of the wire format are those of the request that was answered."""
    found: list[tuple[str, str]] = []
    hooks = Hooks(on_finish=lambda info, reply: found.append((info.adapter, info.url)))
    provider = OneApi("responses").provider(hooks=hooks)
    for _ in range(2):
        await provider.chat("Hello", stream=False)
    assert found == [("responses", "http://test/v1/responses")] * 2


def test_the_other_api_of_a_provider_is_at_the_same_address() -> None:
    """`other_api` names a provider of the catalogue with the same address and key, which names it in turn."""
    profiles = {name: read_profile(name) for name in provider_files()}
    pairs = {name: profile.other_api for name, profile in profiles.items() if profile.other_api is not None}
    assert pairs
    for name, other in pairs.items():
        one, two = profiles[name], profiles[other]
        assert {one.adapter, two.adapter} == {"chat", "responses"}
        assert (one.base_url, one.api_key_env) == (two.base_url, two.api_key_env)
        assert two.other_api == name
