"""A scripted provider: what a script says is what an application gets, on every API and by the real path."""

from __future__ import annotations

import asyncio
import math
import traceback
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from folding import codes
from streamfold import (
    APIConnectionError,
    APIError,
    APIStatusError,
    APITimeoutError,
    AuthenticationError,
    BadRequestError,
    ChatModel,
    ConfigError,
    ContentFilterError,
    ContextLengthError,
    EmptyResponseError,
    Fallback,
    Hooks,
    IncompleteStreamError,
    ModelNotFoundError,
    NamedTool,
    NotFoundError,
    PermissionDeniedError,
    ProtocolError,
    Provider,
    QuotaExceededError,
    RateLimitError,
    ServerError,
    StreamChunk,
    StreamfoldError,
    ToolCall,
    UnsupportedOptionError,
    UpstreamError,
    Usage,
    run_tools,
    system,
    tool,
    tool_result,
    user,
)
from streamfold.adapters import base
from streamfold.testing import (
    ScriptedProvider,
    ScriptError,
    SentRequest,
    call,
    fail,
    finish,
    pause,
    refuse,
    say,
    think,
    usage,
)
from tables import each_row

REFUSING = ["openai:gpt-5", "kimi:kimi-k2.6", "openai-responses:gpt-5"]  # APIs that keep refusals apart
APIS = [*REFUSING, "anthropic:claude-sonnet-4-5", "gemini:gemini-3-pro-preview"]


@tool
def get_weather(city: str) -> dict[str, Any]:
    """The weather in a city."""
    return {"city": city, "celsius": 18}


async def chunks_of(provider: Provider, *args: Any, **options: Any) -> list[StreamChunk]:
    async with provider.chat_stream(*args, **options) as stream:
        return [chunk async for chunk in stream]


# --- What is said ----------------------------------------------------------------------------------------------------


@pytest.mark.one_loop
async def test_a_script_error_has_a_short_traceback() -> None:
    """It shows where the program asked, and not the code between the model and its network."""
    with pytest.raises(ScriptError, match="request 1 has no turn") as raised:
        await ScriptedProvider().chat("Hi")
    files = [Path(frame.filename) for frame in traceback.extract_tb(raised.tb)]
    assert {file.parent.name for file in files[1:]} <= {"answers", "net", "testing"}
    assert len(files) < 9


async def test_text_comes_word_by_word() -> None:
    """Each word is a chunk of its own, and together they are the text, spaces and all."""
    chunks = await chunks_of(ScriptedProvider("  One two\nthree. "), "Hi")
    assert [chunk.delta for chunk in chunks] == ["  One", " two", "\nthree.", " ", ""]
    assert chunks[-1] == StreamChunk(finished=True, finish_reason="stop")


async def test_pieces_are_streamed_as_they_are_written() -> None:
    """Several strings are the pieces."""
    chunks = await chunks_of(ScriptedProvider(say("Hel", "lo, wor", "ld")), "Hi")
    assert [chunk.delta for chunk in chunks] == ["Hel", "lo, wor", "ld", ""]


def written(api: str, arguments: str) -> str:
    """The text of arguments on an API: Gemini sends an object, whose text is ours."""
    return arguments.replace(": ", ":") if api.startswith("gemini") else arguments


@each_row("api", APIS)
async def test_everything_at_once(api: str) -> None:
    """Reasoning, text, two calls and token counts of one turn arrive as such on every API, without a warning."""
    provider = ScriptedProvider(
        [
            think("Two cities."),
            say("I look."),
            call("get_weather", city="Zürich"),
            call("get_weather", {"city": "東京"}, call_id="mine"),
            usage(12, 34, cached_tokens=5, reasoning_tokens=6),
        ],
        provider=api,
    )
    reply = await provider.chat("Hi", [get_weather])
    first = "functions.get_weather:0" if api.startswith("kimi") else "call_1"
    assert (reply.reasoning, reply.text, reply.refusal) == ("Two cities.", "I look.", None)
    assert reply.tool_calls == [
        ToolCall(first, "get_weather", {"city": "Zürich"}, written(api, '{"city": "Zürich"}')),
        ToolCall("mine", "get_weather", {"city": "東京"}, written(api, '{"city": "東京"}')),
    ]
    assert reply.finish_reason == "tool_calls"
    assert reply.usage
    assert reply.usage == Usage(12, 34, 46, 5, 6, reply.usage.cache_write_tokens, raw=reply.usage.raw)
    assert reply.warnings == []
    assert (reply.model, reply.request_id) == (api.partition(":")[2], "scripted-1")


@each_row("api", REFUSING)
async def test_a_refusal(api: str) -> None:
    """A refusal is apart from the text."""
    reply = await ScriptedProvider(refuse("I would rather not."), provider=api).chat("Hi")
    assert (reply.text, reply.refusal, reply.finish_reason) == ("", "I would rather not.", "stop")


@pytest.mark.parametrize("api", APIS[-2:])
async def test_a_refusal_without_a_place(api: str) -> None:
    """Where a refusal is text like any other, the script says so instead of writing another thing."""
    with pytest.raises(ScriptError, match=r"a refusal isn't a separate field in the format '(anthropic|gemini)'"):
        await ScriptedProvider(refuse("I would rather not."), provider=api).chat("Hi")


@each_row("api", APIS)
@each_row("reason", ["length", "content_filter"])
async def test_an_answer_that_is_cut_off(api: str, reason: str) -> None:
    """After these reasons no call is handed out, as with any provider."""
    reply = await ScriptedProvider(["Wait", call("f", a=1), finish(reason)], provider=api).chat("Hi")
    assert (reply.text, reply.tool_calls, reply.finish_reason) == ("Wait", [], reason)
    assert codes(reply) == ["calls_dropped"]


async def test_an_answer_that_never_says_why_it_ends() -> None:
    """The stream is done without a finish reason."""
    reply = await ScriptedProvider(["Hi", finish("unknown")]).chat("Hi")
    assert (reply.finish_reason, codes(reply)) == ("unknown", ["missing_finish_reason"])


async def test_broken_arguments() -> None:
    """A text that is no JSON object arrives as the model wrote it."""
    reply = await ScriptedProvider(call("f", '{"city": "Par')).chat("Hi")
    assert reply.tool_calls[0].error == "invalid_json"
    assert reply.tool_calls[0].raw_arguments == '{"city": "Par'


async def test_ids_are_unique_in_the_whole_script() -> None:
    """A history of several turns can be sent again."""
    provider = ScriptedProvider(call("f"), [call("f"), call("g")], "Done.")
    replies = [await provider.chat("Hi") for _ in range(3)]
    assert [made.id for reply in replies for made in reply.tool_calls] == ["call_1", "call_2", "call_3"]


async def test_markup_in_the_text_is_read_by_the_dialect() -> None:
    """A model that writes calls into its text is scripted so, and the configured dialect reads them."""
    markup = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
    provider = ScriptedProvider(markup, provider="vllm:qwen3", dialect="hermes")
    reply = await provider.chat("Hi", [get_weather])
    assert (reply.text, [(made.name, made.arguments) for made in reply.tool_calls]) == (
        "", [("get_weather", {"city": "Oslo"})],
    )  # fmt: skip


class Recipe(BaseModel):
    title: str
    steps: list[str]


@each_row("api", APIS)
async def test_an_answer_in_a_form(api: str) -> None:
    """A model is said as JSON, grows while it comes, and is read at the end."""
    cake = Recipe(title="Cake", steps=["mix", "bake"])
    provider = ScriptedProvider(say(cake), provider=api)
    seen: list[str | None] = []
    async with provider.chat_stream("A cake", response_format=Recipe) as stream:
        async for _ in stream:
            if so_far := stream.partial(Recipe):
                seen.append(so_far.title)
    assert seen[-1] == "Cake"
    assert stream.reply.parse_as(Recipe) == cake
    assert (await ScriptedProvider(say({"a": [1]})).chat("Hi", response_format="json")).text == '{"a": [1]}'


@pytest.mark.parametrize(
    "data", [Recipe(title="Cake", steps=[]), {"title": "Cake", "steps": []}], ids=["model", "dict"]
)
async def test_an_answer_in_a_form_that_is_a_tool_of_the_provider(data: Any) -> None:
    """Where a provider takes `response_format` as a tool that must be called, data that is said is that call."""
    provider = ScriptedProvider(say(data), "No.", provider="openai:gpt-5", quirks={"response_format": "tool"})
    reply = await provider.chat("A cake", response_format=Recipe)
    assert reply.parse_as(Recipe) == Recipe(title="Cake", steps=[])
    assert (reply.tool_calls, "tool_choice_unmet" in codes(reply)) == ([], False)
    assert "tool_choice_unmet" in codes(await provider.chat("A cake", response_format=Recipe))  # a text is a text


def test_one_script_in_two_event_loops() -> None:
    """A double has no connections, so that a test may call `asyncio.run` as often as it likes."""
    provider = ScriptedProvider("One.", "Two.")
    assert [asyncio.run(provider.chat("Hi")).text for _ in range(2)] == ["One.", "Two."]


async def test_doubles_are_models_and_have_a_provider() -> None:
    """A double is no Provider: it has one, that differs from any other in the transport of its client alone."""
    provider = ScriptedProvider("Hi.", provider="kimi:kimi-k2.6")
    model: ChatModel = provider
    assert (model.name, type(provider.provider), isinstance(model, Provider)) == ("kimi", Provider, False)
    assert provider.capabilities().tools == "yes"
    async with provider, model.chat_stream("Hello", temperature=0.5) as stream:
        assert "".join([chunk.delta async for chunk in stream]) == "Hi."
    sent = provider.preview("Hello", temperature=0.5)
    assert (sent.json(), provider.requests[0].options.temperature) == (provider.requests[0].body, 0.5)


async def test_tool_choice_is_checked() -> None:
    """A demanded call that the script does not make is the warning that it always is."""
    reply = await ScriptedProvider("No.").chat("Hi", [get_weather], tool_choice=NamedTool("get_weather"))
    assert codes(reply) == ["tool_choice_unmet"]
    reply = await ScriptedProvider(call("get_weather", city="Oslo")).chat("Hi", [get_weather], tool_choice="none")
    assert (reply.tool_calls, codes(reply)) == ([], ["calls_dropped", "empty_answer"])


async def test_the_history_is_checked() -> None:
    """A conversation that providers refuse is refused before it takes a turn."""
    provider = ScriptedProvider("Hello.")
    with pytest.raises(ConfigError, match=r"messages\[1\]"):
        provider.chat_stream([user("Hi"), tool_result(ToolCall("x", "f", {}, "{}"), "18")])
    assert provider.requests == []


async def test_a_character_that_is_cut_in_two() -> None:
    """Halves of a surrogate pair in two pieces are one character."""
    chunks = await chunks_of(ScriptedProvider(say("Hi \ud83d", "\udc4b!")), "Hi")
    assert [chunk.delta for chunk in chunks] == ["Hi ", "👋!", ""]


# --- Turns -----------------------------------------------------------------------------------------------------------


@each_row("api", APIS)
async def test_the_loop_over_tools(api: str) -> None:
    """A conversation with a tool takes two turns, and its requests can be looked at."""
    provider = ScriptedProvider(
        [think("I look."), call("get_weather", city="Paris")], "It is 18 degrees.", provider=api
    )
    async with run_tools(provider, "Weather in Paris?", [get_weather]) as run:
        text = "".join([chunk.delta async for chunk in run])
    assert text == "It is 18 degrees."
    first, second = provider.requests
    assert (first.messages, first.text) == ((user("Weather in Paris?"),), "Weather in Paris?")
    assert [made.name for made in first.tools] == ["get_weather"]
    assert [getattr(message, "role", None) for message in second.messages] == ["user", "assistant", "tool"]
    assert second.text == '{"city": "Paris", "celsius": 18}'
    # What is true of this API is true of the script on it: OpenAI's takes no reasoning back.
    assert [code for reply in run.replies for code in codes(reply)] == ["reasoning_dropped"] * (api == "openai:gpt-5")
    provider.assert_done()


async def test_a_turn_may_be_a_function_of_the_request() -> None:
    """It answers to what it is asked, and may give all that a turn is."""

    def parrot(request: SentRequest) -> Any:
        return [say("You said: "), say(request.text.upper()), usage(len(request.messages), 1)]

    provider = ScriptedProvider(parrot, then=lambda request: request.model)
    reply = await provider.chat([system("Be short."), user("hello", "you")])
    assert (reply.text, reply.usage and reply.usage.input_tokens) == ("You said: HELLOYOU", 2)
    assert [(await provider.chat("Hi", model=name)).text for name in ("a", "b")] == ["a", "b"]
    provider.assert_done()


async def test_a_request_too_many() -> None:
    """It is an error that no application takes for one of its provider, and is told again in the end."""
    provider = ScriptedProvider("One.")
    await provider.chat("first")
    with pytest.raises(ScriptError, match=r"request 2 has no turn: the script has 1 turn, .* after 'second'") as caught:
        await provider.chat("second")
    assert not isinstance(caught.value, StreamfoldError)
    with pytest.raises(AssertionError, match="request 2 has no turn"):
        provider.assert_done()


async def test_a_turn_too_many() -> None:
    """What nobody asked for is named."""
    provider = ScriptedProvider("One.", [think("Hm."), call("f", a=1)], lambda request: "x")
    await provider.chat("Hi")
    with pytest.raises(ScriptError) as caught:
        provider.assert_done()
    assert str(caught.value) == (
        """turn 2 was not used: [think('Hm.'), call('f', '{"a": 1}')]; turn 3 was not used: <lambda>"""
    )


async def test_nothing_is_asked_before_the_first_chunk() -> None:
    """A stream that nobody reads takes no turn."""
    provider = ScriptedProvider("One.")
    provider.chat_stream("Hi")
    assert provider.requests == []


async def test_a_turn_that_fails_is_told_in_the_end() -> None:
    """An exception in a function, or a step that is none, is not lost where an application swallows it."""

    def broken(request: SentRequest) -> Any:
        raise KeyError("city")

    provider = ScriptedProvider(broken, lambda request: [5])
    with pytest.raises(KeyError):
        await provider.chat("Hi")
    with pytest.raises(ScriptError, match="turn 2 can't be played: 5 is not a turn"):
        await provider.chat("Hi")
    with pytest.raises(ScriptError, match=r"turn 1, broken, failed: KeyError: 'city'; turn 2 can't"):
        provider.assert_done()


async def test_several_tasks_share_a_script() -> None:
    """Turns are handed out in the order of the requests, each whole."""
    provider = ScriptedProvider(*[f"Answer {number} of three." for number in (1, 2, 3)])
    texts: list[str] = []

    async def ask() -> None:
        texts.append((await provider.chat("Hi")).text)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(ask)
    assert sorted(texts) == ["Answer 1 of three.", "Answer 2 of three.", "Answer 3 of three."]


async def test_what_went_over_the_wire() -> None:
    """The body that was sent is there too, in the words of the API; the key is not needed."""
    provider = ScriptedProvider("Hi.", provider="openai-responses:gpt-5")
    await provider.chat([{"role": "user", "content": "Hi"}], max_output_tokens=70)
    (request,) = provider.requests
    assert request.messages == (user("Hi"),)
    assert (request.text, request.model, request.options.max_output_tokens) == ("Hi", "gpt-5", 70)
    assert (request.body["model"], request.body["max_output_tokens"]) == ("gpt-5", 70)


async def test_the_text_of_a_request() -> None:
    """It is that of the last message, also where that is a list of parts, a dict, or an item of the Responses API."""
    provider = ScriptedProvider(then="Hi.", provider="openai-responses:gpt-5")
    call_of_f = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    for messages in (
        [user("a", "b")],
        [{"role": "user", "content": [{"type": "text", "text": "ab"}]}],
        [user("x"), call_of_f, {"type": "function_call_output", "call_id": "c", "output": "ab"}],
    ):
        await provider.chat(messages)
        assert provider.requests[-1].text == "ab"


async def test_providers_that_stand_in_for_each_other() -> None:
    """A script is a provider among others, for a `Fallback` too."""
    first, second = ScriptedProvider(fail(503)), ScriptedProvider("From the second.")
    reply = await Fallback(first, second).chat("Hi")
    assert (reply.text, len(first.requests), len(second.requests)) == ("From the second.", 1, 1)


async def test_hooks_are_called() -> None:
    """Who watches providers watches this one too."""
    seen: list[str] = []
    hooks = Hooks(on_request=lambda asked: seen.append(asked.model), on_finish=lambda _, reply: seen.append(reply.text))
    await ScriptedProvider("Hi.", hooks=[hooks]).chat("Hello")
    assert seen == ["scripted", "Hi."]


async def test_an_application_that_makes_its_provider_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given a script by replacing what makes one."""
    provider = ScriptedProvider("Hello.")
    monkeypatch.setattr(Provider, "from_config", lambda *_, **__: provider)
    async with Provider.from_config("kimi:kimi-k2.6") as made:
        assert (await made.chat("Hi")).text == "Hello."


# --- What goes wrong -------------------------------------------------------------------------------------------------

FAILURES: list[tuple[Any, type[APIError], str]] = [
    (fail(429), RateLimitError, "status 429 (HTTP 429)"),
    (fail(RateLimitError, "slow down"), RateLimitError, "slow down (HTTP 429)"),
    (fail(RateLimitError("slow down (HTTP 429)", status_code=429)), RateLimitError, "slow down (HTTP 429)"),
    (fail(QuotaExceededError), QuotaExceededError, "the quota is used up (HTTP 429)"),
    (fail(429, code="insufficient_quota"), QuotaExceededError, "status 429 (HTTP 429)"),
    (fail(AuthenticationError), AuthenticationError, "the key is wrong (HTTP 401)"),
    (fail(PermissionDeniedError), PermissionDeniedError, "the key has no permission for this (HTTP 403)"),
    (fail(NotFoundError), NotFoundError, "there is no such path (HTTP 404)"),
    (fail(ModelNotFoundError), ModelNotFoundError, "the model does not exist (HTTP 404)"),
    (fail(ContextLengthError), ContextLengthError, "the prompt is too long (HTTP 400)"),
    (fail(ContentFilterError), ContentFilterError, "blocked by content filtering policy (HTTP 400)"),
    (fail(UnsupportedOptionError), UnsupportedOptionError, "unsupported parameter: 'seed' (HTTP 400)"),
    (fail(BadRequestError), BadRequestError, "the request is invalid (HTTP 400)"),
    (fail(ServerError), ServerError, "the server failed (HTTP 500)"),
    (fail(APIStatusError("teapot", status_code=418)), BadRequestError, "teapot (HTTP 418)"),
    (fail("overloaded"), UpstreamError, "overloaded"),
    (fail(UpstreamError("overloaded", type="overloaded_error")), UpstreamError, "overloaded"),
    (fail(IncompleteStreamError), IncompleteStreamError, "the stream ended before the response was complete"),
    (fail(EmptyResponseError), EmptyResponseError, "the response is empty: it ended without any SSE event"),
    (fail(APIConnectionError, "no route"), APIConnectionError, "no connection: no route"),
    (fail(APITimeoutError), APITimeoutError, "no connection within 10 seconds (timeouts.connect)"),
]  # fmt: skip


@each_row("api", APIS)
@each_row(("step", "kind", "message"), FAILURES, ids=[repr(step) for step, _, _ in FAILURES])
async def test_an_answer_that_fails(api: str, step: Any, kind: type[APIError], message: str) -> None:
    """Each failure becomes the error that it is named after, with its message, at once and without a second try."""
    provider = ScriptedProvider(step, provider=api)
    with pytest.raises(kind) as caught:
        await provider.chat("Hi")
    assert type(caught.value).__name__ == kind.__name__
    assert caught.value.message == message
    assert len(provider.requests) == 1


@each_row("api", APIS)
@each_row(
    ("step", "kind"),
    [
        (fail("overloaded"), UpstreamError),
        (fail(IncompleteStreamError), IncompleteStreamError),
        (fail(APIConnectionError), IncompleteStreamError),
        (fail(ProtocolError), ProtocolError),
    ],
    ids=repr,
)
async def test_an_answer_that_fails_in_the_middle(api: str, step: Any, kind: type[APIError]) -> None:
    """What was said before is the partial answer, and no call of it is handed out."""
    provider = ScriptedProvider(["Half of", call("f", a=1), step], provider=api)
    with pytest.raises(kind) as caught:
        await provider.chat("Hi")
    assert type(caught.value) is kind
    assert caught.value.partial is not None
    assert (caught.value.partial.text, caught.value.partial.tool_calls) == ("Half of", [])


async def test_words_and_waits_of_a_failure() -> None:
    """Code, type and `retry_after` are those of the script."""
    with pytest.raises(RateLimitError) as limited:
        await ScriptedProvider(fail(429, "later", code="too_fast", retry_after=1.5)).chat("Hi")
    assert (limited.value.code, limited.value.retry_after, limited.value.retryable) == ("too_fast", 1.5, True)
    error = UpstreamError("no", type="server_error", code="e1", status_code=503)
    with pytest.raises(UpstreamError) as upstream:
        await ScriptedProvider(["Hi", fail(error)]).chat("Hi")
    assert (upstream.value.type, upstream.value.code, upstream.value.retryable) == ("server_error", "e1", True)


async def test_retries_take_turns() -> None:
    """With retries, the next turn is what the second attempt gets."""
    provider = ScriptedProvider(fail(429, retry_after=0), fail(503, retry_after=0), "At last.", max_retries=2)
    assert (await provider.chat("Hi")).text == "At last."
    assert len(provider.requests) == 3
    provider.assert_done()


async def test_a_server_that_hangs() -> None:
    """The provider's own clocks run, and closing the stream ends the wait."""
    hanging = ["Well", pause(math.inf)]
    with pytest.raises(APITimeoutError) as caught:
        await ScriptedProvider(hanging, timeouts={"read": 0.01}).chat("Hi")
    assert (caught.value.phase, caught.value.partial and caught.value.partial.text) == ("read", "Well")
    async with ScriptedProvider(hanging).chat_stream("Hi") as stream:
        assert (await anext(stream)).delta == "Well"


async def test_a_pause_passes() -> None:
    """After it the answer goes on, also before a status."""
    assert (await ScriptedProvider([pause(0.001), "Hi", pause(0.001)]).chat("Hi")).text == "Hi"
    with pytest.raises(ServerError):
        await ScriptedProvider([pause(0.001), fail(500)]).chat("Hi")


# --- Mistakes in a script --------------------------------------------------------------------------------------------

MISTAKES: list[tuple[Any, str]] = [
    (lambda: ScriptedProvider(5), "turn 1: 5 is not a turn. Allowed: a text, a step, or a list"),
    (lambda: ScriptedProvider("a", ["b", None]), "turn 2: None is not a turn"),
    (lambda: ScriptedProvider([fail("x"), "y"]), "turn 1: fail.'x'. ends the response, so say.'y'. can't follow it"),
    (lambda: ScriptedProvider(["y", fail(429)]), "turn 1: fail.429. replaces the complete response, so"),
    (lambda: ScriptedProvider("a", then=[7]), "then: 7 is not a turn"),
    (lambda: ScriptedProvider("a", modle="x"), "modle: unknown key .did you mean 'model'"),
    (lambda: ScriptedProvider("a", provider="kimii"), "unknown provider 'kimii'.*did you mean 'kimi'"),
    (lambda: call("f", {"a": 1}, b=2), "either as a dict, as a text, or as keywords"),
    (lambda: call("f", a=object()), "the arguments can't be written as JSON"),
    (lambda: say(), "needs a text"),
    (lambda: think({"a": 1}), "takes text, not dict"),
    (lambda: pause(-1), "takes seconds, not -1"),
    (lambda: fail(200), "a number from 400 to 599"),
    (lambda: fail(ConfigError), "or one of APIConnectionError, APITimeoutError, AuthenticationError"),
    (lambda: fail("x", retry_after=1), "retry_after is only allowed with a status"),
    (lambda: fail(APITimeoutError("x", phase="read")), "pause.math.inf."),
]  # fmt: skip


@each_row(("make", "message"), MISTAKES, ids=[message[:30] for _, message in MISTAKES])
def test_a_mistake_is_told_where_it_is_written(make: Any, message: str) -> None:
    """What can't be played is an error when it is written down, not when it is played."""
    with pytest.raises(ConfigError, match=message):
        make()


async def test_an_end_that_an_api_does_not_know() -> None:
    """These APIs always say how an answer ends, each in its own words beside the four of all."""
    for api in ("openai-responses:gpt-5", *APIS[-2:]):
        provider = ScriptedProvider(["Hi", finish("unknown")], provider=api)
        with pytest.raises(
            ScriptError, match=r"finish\('unknown'\): unknown in the format .*\. Allowed: stop, tool_calls"
        ):
            await provider.chat("Hi")
    for api, word in zip(APIS[-2:], ("pause_turn", "OTHER"), strict=True):
        reply = await ScriptedProvider(["Hi", finish(word)], provider=api).chat("Hi", max_continuations=0)
        assert (reply.finish_reason, reply.raw_finish_reason) == ("unknown", word)


def test_an_api_that_nobody_can_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """An adapter of another package has no writer, which is told when the script is made."""
    monkeypatch.setitem(base._BUILT_IN, "acme", "streamfold.adapters.chat:ChatAdapter")
    with pytest.raises(
        ConfigError, match=r"unknown adapter 'acme' for a script\. Allowed: anthropic, chat, gemini, interactions, kimi"
    ):
        ScriptedProvider("Hi", provider={"adapter": "acme"})


@each_row("api", APIS)
async def test_a_whole_answer_is_the_same_reply(api: str) -> None:
    """`stream=False` allows one to be fetched in one piece; what comes of it does not depend on it."""
    turn = [think("Hm."), say("Sunny."), call("get_weather", {"city": "Oslo"})]
    model = ScriptedProvider(turn, turn, provider=api)
    streamed = await model.chat("Hi", [get_weather])
    whole = await model.chat("Hi", [get_weather], stream=False)
    assert (whole.text, whole.reasoning, whole.finish_reason) == (streamed.text, streamed.reasoning, "tool_calls")
    assert (whole.message.content, whole.usage, whole.warnings) == (streamed.text, streamed.usage, streamed.warnings)
    assert [(made.name, made.arguments) for made in whole.tool_calls] == [("get_weather", {"city": "Oslo"})]
    with pytest.raises(ConfigError, match="stream must be True or False, not 'no'"):
        await model.chat("Hi", stream="no")  # type: ignore[arg-type]
