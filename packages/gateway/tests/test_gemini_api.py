"""Gemini's API of the gateway: what its clients get, from a provider that speaks another API."""

from __future__ import annotations

import json
import logging
from typing import Any

import httpx
import httpx2
import pytest

from folding import DONE, call, entry, event, fin, text
from gateways import CHAT, asking, behind, client_of
from google_sdk import google_answer
from mirror import payloads, read
from sdks import genai
from streamfold.recording import Recording
from streamfold.testing import ScriptedProvider, say, think
from streamfold.testing import call as calls
from streamfold_gateway import gateway
from tables import each_row

pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")

MODELS = "/v1beta/models"
STREAM, WHOLE = f"{MODELS}/main:streamGenerateContent", f"{MODELS}/main:generateContent"
COUNT = f"{MODELS}/main:countTokens"
EVENTS = {"alt": "sse"}
USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7, "prompt_tokens_details": {"cached_tokens": 3}}
HELLO = text("Hel") + text("lo") + event({"choices": [], "usage": USAGE}) + fin("stop") + DONE
THINKS = event({"choices": [{"index": 0, "delta": {"reasoning_content": "Hm."}}]})
CALL = call(entry(0, "functions.f:0", "f", '{"a":1}'))
THOUGHTS = {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}}
TOOL = {
    "functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT", "properties": {"a": {"type": "INTEGER"}}}}]
}


def body(*contents: dict[str, Any], **members: Any) -> dict[str, Any]:
    hi = {"role": "user", "parts": [{"text": "Hi"}]}
    return {"contents": [hi, *contents], **members}


def sent(client: Any, at: int = 0) -> dict[str, Any]:
    """What the provider was asked."""
    asked: dict[str, Any] = json.loads(client.upstream.requests[at].content)
    return asked


# --- answers ----------------------------------------------------------------------------------------------------------


async def test_a_stream_of_events() -> None:
    """It has Google's form, the client's name of the model, and the usage with the finish reason."""
    async with behind(HELLO) as client:
        answer = await client.post(STREAM, json=body(), params=EVENTS)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    chunks = payloads(answer.content)
    assert [part["text"] for chunk in chunks[:-1] for part in chunk["candidates"][0]["content"]["parts"]] == [
        "Hel",
        "lo",
    ]
    assert {chunk["modelVersion"] for chunk in chunks} == {"main"}
    assert {chunk["responseId"] for chunk in chunks} == {answer.headers["x-request-id"]}
    empty = {"parts": [{"text": ""}], "role": "model"}
    assert chunks[-1]["candidates"] == [{"content": empty, "finishReason": "STOP", "index": 0}]
    counts = {"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7, "cachedContentTokenCount": 3}
    assert chunks[-1]["usageMetadata"] == counts


async def test_the_three_forms_say_the_same() -> None:
    """Events, one array, and one object."""
    answer = THINKS + text("Hi") + CALL + text(" there") + fin("tool_calls") + DONE
    async with behind(answer, answer, answer) as client:
        asked = body(tools=[TOOL], **THOUGHTS)
        events = await client.post(STREAM, json=asked, params=EVENTS)
        array = await client.post(STREAM, json=asked)
        whole = await client.post(WHOLE, json=asked)
    assert array.headers["content-type"] == "application/json; charset=utf-8"
    assert isinstance(array.json(), list)
    genai.types.GenerateContentResponse.model_validate({**whole.json(), "streamfoldWarnings": None} and whole.json())
    replies = [read("gemini", form.content) for form in (events, array, whole)]
    for reply in replies:
        assert (reply.text, reply.reasoning) == ("Hi there", "Hm.")
        assert [(made.id, made.arguments) for made in reply.tool_calls] == [("functions.f:0", {"a": 1})]
    parts = whole.json()["candidates"][0]["content"]["parts"]
    assert [next(iter(part)) for part in parts] == ["text", "text", "functionCall", "text"]


@pytest.mark.parametrize("asked", [{}, THOUGHTS])
async def test_thoughts_are_for_clients_that_ask(asked: Any) -> None:
    """Others do not expect such parts."""
    async with behind(THINKS + HELLO) as client:
        answer = await client.post(STREAM, json=body(**asked), params=EVENTS)
    found = google_answer(answer.content)
    assert (found.thoughts, found.text) == ("Hm." if asked else "", "Hello")


async def test_signatures_make_the_round() -> None:
    """A signed call of Gemini's reaches the client signed, and Gemini gets it back on its part."""
    model = ScriptedProvider(calls("f", a=1), "Done.", provider="gemini:gemini-3-pro-preview")
    async with client_of(gateway({"main": model})) as client:
        first = await client.post(WHOLE, json=body(tools=[TOOL]))
        content = first.json()["candidates"][0]["content"]
        assert content["parts"][0]["thoughtSignature"]
        result = {"functionResponse": {"name": "f", "response": {"output": "sun"}}}
        await client.post(WHOLE, json=body(content, {"role": "user", "parts": [result]}, tools=[TOOL]))
    asked = model.requests[1].body["contents"]
    assert asked[1]["parts"] == content["parts"]
    assert not [warning for warning in first.json().get("streamfoldWarnings", []) if "lost_reasoning" in warning]


async def test_what_only_gemini_has() -> None:
    """It is not sent to other providers, and a warning names each; what must not be left out is refused."""
    config = {"topK": 40, "responseModalities": ["TEXT"]}
    async with behind(HELLO, HELLO) as client:
        asked = body(generationConfig=config, safetySettings=[{"category": "x", "threshold": "OFF"}])
        streamed = await client.post(STREAM, json=asked, params=EVENTS)
        whole = await client.post(WHOLE, json=asked)
        (warning,) = payloads(streamed.content)[-1]["streamfoldWarnings"]
        assert "safetySettings and generationConfig.topK: only Gemini's API supports this" in warning
        assert whole.headers["x-streamfold-warnings"] in warning
        assert not {"topK", "generationConfig", "safetySettings"} & sent(client).keys()
        refused = await client.post(WHOLE, json=body(cachedContent="cachedContents/x"))
        counted = await client.post(COUNT, json=body(cachedContent="cachedContents/x"))
    for answer in (refused, counted):
        assert answer.status_code == 400
        assert answer.json()["error"]["message"].startswith("cachedContent isn't supported by this provider")


async def test_what_only_gemini_has_reaches_gemini() -> None:
    """Its own members, and the wish for thoughts without a level, are sent as they came."""
    answer = b'data: {"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"STOP"}]}\r\n\r\n'
    safety = [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}]
    config = {"topK": 40, "thinkingConfig": {"includeThoughts": True, "thinkingBudget": -1}}
    async with behind(Recording("test", answer, "gemini"), adapter="gemini") as client:
        made = await client.post(WHOLE, json=body(generationConfig=config, safetySettings=safety))
        assert read("gemini", made.content).text == "Hi"
        asked = sent(client)
    assert asked["safetySettings"] == safety
    assert asked["generationConfig"] == {"topK": 40, "thinkingConfig": {"includeThoughts": True}}
    assert "streamfoldWarnings" not in made.json()


async def test_tools_that_google_runs() -> None:
    """Gemini gets them as they were sent, and the functions beside them; for others they are refused by their path."""
    answer = b'data: {"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"STOP"}]}\r\n\r\n'
    calling = {"functionCallingConfig": {"mode": "ANY"}, "includeServerSideToolInvocations": True}
    asked = body(tools=[TOOL, {"googleSearch": {}}], toolConfig=calling, cachedContent=None)
    async with behind(Recording("test", answer, "gemini"), adapter="gemini") as client:
        assert (await client.post(WHOLE, json=asked)).status_code == 200
        functions, search = sent(client)["tools"]
        assert [function["name"] for function in functions["functionDeclarations"]] == ["f"]
        assert search == {"googleSearch": {}}
        assert sent(client)["toolConfig"] == calling
    async with behind(HELLO) as client:
        refused = await client.post(WHOLE, json=asked)
    assert refused.status_code == 400
    assert refused.json()["error"]["message"].startswith("tools[1].googleSearch is a hosted tool of Google")


# --- models and counts ------------------------------------------------------------------------------------------------


async def test_models() -> None:
    """The list and each one in Google's form, which its client reads."""
    app = gateway({"main": ScriptedProvider(then="Hi")}, aliases={"gemini-2.5-flash": "main"})
    async with client_of(app) as client:
        listed = (await client.get(MODELS)).json()["models"]
        one = await client.get(f"{MODELS}/gemini-2.5-flash")
        missing = await client.get(f"{MODELS}/other")
        posted = await client.post(f"{MODELS}/main:main-2:generateContent", json=body())
    assert [model["name"] for model in listed] == ["models/main", "models/gemini-2.5-flash"]
    methods = ["generateContent", "streamGenerateContent", "countTokens"]
    name = "gemini-2.5-flash"
    assert one.json() == {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": methods}
    assert (missing.status_code, missing.json()["error"]["status"]) == (404, "NOT_FOUND")
    assert posted.json()["modelVersion"] == "main:main-2"  # PROVIDER:MODEL


@each_row(
    ("place", "name"),
    [
        ("v1beta/models/", "main:org/models/other"),
        ("v1beta/", "main:org/models/other"),
        ("v1/models/", "main"),
        ("v1beta1/projects/p/locations/us-east1/publishers/google/models/", "main"),
    ],
)
async def test_where_the_model_stands(place: str, name: str) -> None:
    """The paths of AI Studio and of Vertex AI, and that of the AI SDK for names with a slash."""
    async with client_of(gateway({"main": ScriptedProvider(then="Hi")})) as client:
        answer = await client.post(f"/{place}{name}:generateContent", json=body())
    assert answer.json()["modelVersion"] == name


async def test_counts() -> None:
    """They are estimated, in both forms of the request, and say so."""
    async with behind(HELLO) as client:
        plain = await client.post(COUNT, json=body())
        request = {"model": "models/main", **body()}
        wrapped = await client.post(COUNT, json={"generateContentRequest": request})
        assert list(client.upstream.requests) == []  # type: ignore[attr-defined]
    assert plain.json() == wrapped.json() == {"totalTokens": 5}
    assert "estimated" in plain.headers["x-streamfold-warnings"]


# --- errors and keys --------------------------------------------------------------------------------------------------


@each_row(
    ("status", "error", "word"),
    [
        (429, {"message": "slow down", "type": "rate_limit_error"}, "RESOURCE_EXHAUSTED"),
        (400, {"message": "no", "type": "invalid_request_error"}, "INVALID_ARGUMENT"),
        (503, {"message": "no"}, "UNAVAILABLE"),
    ],
)
async def test_an_error_of_the_provider(status: int, error: Any, word: str) -> None:
    """Its status, message and wait are told in Google's form."""
    refusal = json.dumps({"error": error}).encode()
    async with behind(refusal, status=status, headers={"retry-after": "7"}) as client:
        answer = await client.post(STREAM, json=body(), params=EVENTS)
    told = answer.json()["error"]
    assert (answer.status_code, told["code"], told["message"], told["status"]) == (
        status,
        status,
        error["message"],
        word,
    )
    waits = [detail["retryDelay"] for detail in told["details"] if "retryDelay" in detail]
    assert waits == ["7s"]


async def test_mistakes_are_told_in_googles_form() -> None:
    """Bodies that can't be read, unknown methods and models."""
    async with behind(HELLO) as client:
        for path, given, status, message in [
            (WHOLE, {}, 400, "contents is missing"),
            (WHOLE, [], 400, "the body must be an object"),
            (f"{MODELS}/other:generateContent", body(), 404, "unknown model 'other'"),
            (f"{MODELS}/main:embedContent", body(), 405, "POST /v1beta/models/{model}:streamGenerateContent"),
            ("/v1beta/nothing", body(), 404, "Served here"),
        ]:
            answer = await client.post(path, json=given)
            assert (answer.status_code, answer.json()["error"]["code"]) == (status, status)
            assert message in answer.json()["error"]["message"]


async def test_keys() -> None:
    """The key is taken from Google's header, from the query, and as a bearer token."""
    app = gateway({"main": ScriptedProvider(then="Hi")}, keys=["s3cret-é"])
    async with client_of(app) as client:
        for given in (
            {"headers": {"x-goog-api-key": "s3cret-é".encode()}},
            {"params": {"key": "s3cret-é"}},
            {"headers": {"authorization": "Bearer s3cret-é".encode()}},
        ):
            assert (await client.post(WHOLE, json=body(), **given)).status_code == 200  # type: ignore[arg-type]
        for wrong in ({}, {"params": {"key": "s3cret-\u20ac"}}, {"headers": {"x-goog-api-key": "no"}}):
            answer = await client.post(WHOLE, json=body(), **wrong)  # type: ignore[arg-type]
            assert (answer.status_code, answer.json()["error"]["status"]) == (401, "UNAUTHENTICATED")
        assert (await client.post(CHAT, json=asking(CHAT), headers={"x-goog-api-key": "no"})).status_code == 401


async def test_keys_in_the_query_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Neither that of a request to a model nor that of any other."""
    caplog.set_level(logging.DEBUG, "streamfold")
    app = gateway({"main": ScriptedProvider(then="Hi")}, keys=["s3cret"])
    async with client_of(app) as client:
        await client.post(WHOLE, json=body(), params={"key": "s3cret"})
        await client.post(WHOLE, json=body(), params={"key": "s3cret-too"})
        await client.post(f"{MODELS}/x", json=body(), params={"key": "s3cret-too"})
        await client.get("/v1/models", params={"key": "s3cret-too"})
    said = [record.getMessage() for record in caplog.records if record.name.startswith("streamfold")]
    assert "s3cret" not in "".join(said)
    assert said[-1] == "GET /v1/models: refused (HTTP 401): unknown API key"


# --- Google's own client ----------------------------------------------------------------------------------------------


async def test_googles_client(anyio_backend_name: str) -> None:
    """A chat of Google's client for Python runs its own function on a call, and signatures and thoughts go back."""
    if anyio_backend_name != "asyncio":
        pytest.skip("Google's client runs on asyncio")
    model = ScriptedProvider([think("Hm."), say("I look. "), calls("weather", city="Oslo")], "Sunny.", provider="kimi")
    app = gateway({"main": model}, keys=["k"])

    def weather(city: str) -> dict[str, str]:
        """The weather in a city."""
        return {"sky": f"blue in {city}"}

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as inner:

        async def passed(request: httpx2.Request) -> httpx2.Response:
            answer = await inner.request(
                request.method, str(request.url), content=await request.aread(), headers=dict(request.headers)
            )
            return httpx2.Response(answer.status_code, headers=dict(answer.headers), content=answer.content)

        options = genai.types.HttpOptions(
            base_url="http://test", async_client_args={"transport": httpx2.MockTransport(passed)}
        )
        client = genai.Client(api_key="k", http_options=options)
        thoughts = genai.types.GenerateContentConfig(
            tools=[weather], thinking_config=genai.types.ThinkingConfig(include_thoughts=True)
        )
        chat = client.aio.chats.create(model="main", config=thoughts)
        said = "".join([chunk.text or "" async for chunk in await chat.send_message_stream("How is it in Oslo?")])
        await client.aio.aclose()
    assert said == "I look. Sunny."
    assistant, result = model.requests[1].body["messages"][-2:]
    assert assistant["reasoning_content"] == "Hm."
    assert (result["tool_call_id"], json.loads(result["content"])) == (
        assistant["tool_calls"][0]["id"], {"result": {"sky": "blue in Oslo"}},
    )  # fmt: skip
