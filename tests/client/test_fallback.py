"""Providers that stand in for each other: who is asked, who is not, and what the caller is told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Unpack

import anyio
import pytest

from folding import DONE, fin, text
from servers import STREAM, Connection, Server, answer, falls_silent, framed, serving
from streamfold import (
    APITimeoutError,
    BadRequestError,
    ChatModel,
    ChatOptions,
    ChatStream,
    ConfigError,
    Fallback,
    NotConfiguredError,
    Provider,
    RateLimitError,
    ServerError,
    UpstreamError,
    run_tools,
    tool,
)
from streamfold.middleware import Middleware
from streamfold.types import Messages

pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")


def saying(words: str) -> bytes:
    return answer("200 OK", text(words) + fin("stop") + DONE)


BUSY = answer("503 Busy", b'{"error":{"message":"busy"}}')
SLOW = answer("429 Slow", b'{"error":{"message":"slow"}}', "retry-after: 90")


@asynccontextmanager
async def servers(*scripts: bytes | list[bytes]) -> AsyncIterator[list[Server]]:
    """A server for each script: what it answers always, or in turn."""

    def script(answers: list[bytes]):
        async def run(peer: Connection) -> None:
            number = peer.server.connections - 1
            await peer.request()
            await peer.send(answers[min(number, len(answers) - 1)])

        return run

    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(serving(script(given if isinstance(given, list) else [given])))
            for given in scripts
        ]


def providers(them: list[Server], **config: object) -> list[Provider]:
    return [server.provider(name=name, **config) for name, server in zip("abc", them, strict=False)]


async def test_the_first_that_can_answers() -> None:
    """An error before the first chunk: the next one is asked, and the reply says how it came to that."""
    async with servers(BUSY, saying("from b")) as them, Fallback(*providers(them)) as provider:
        reply = await provider.chat("Hello")
        assert (reply.text, reply.provider) == ("from b", "b")
        assert [(tried.provider, tried.error, tried.problem) for tried in reply.attempts] == [
            ("a", "ServerError", "busy (HTTP 503)")
        ]


async def test_retries_come_before_the_next_provider() -> None:
    """Each provider keeps its own retries, and they are all told."""
    busy = answer("503 Busy", b'{"error":{"message":"busy"}}', "retry-after: 0")
    async with servers(busy, saying("from b")) as them, Fallback(*providers(them, max_retries=2)) as provider:
        reply = await provider.chat("Hello")
        assert [(tried.provider, tried.pause) for tried in reply.attempts] == [("a", 0), ("a", 0), ("a", None)]
        assert len(them[0].requests) == 3


async def test_l2_nobody_else_is_asked_after_the_first_chunk() -> None:
    """Text that was shown is not shown again by another: the error has the partial answer."""
    broken = answer("200 OK", text("Hel") + b'data: {"error":{"message":"overloaded","code":503}}\n\n')
    async with servers(broken, saying("from b")) as them, Fallback(*providers(them)) as provider:
        with pytest.raises(UpstreamError, match="overloaded") as caught:
            await provider.chat("Hello")
        assert caught.value.partial is not None
        assert (caught.value.partial.text, caught.value.provider, caught.value.attempts) == ("Hel", "a", ())
        assert them[1].requests == []


async def test_error_inside_a_200_counts_as_before_the_first_chunk() -> None:
    """The first event is read before anybody is told that the answer has begun."""
    inside = answer("200 OK", b'data: {"error":{"message":"full"}}\n\n')
    async with servers(inside, saying("from b")) as them, Fallback(*providers(them)) as provider:
        assert (await provider.chat("Hello")).text == "from b"


async def test_a_request_that_is_wrong_everywhere_is_not_passed_on() -> None:
    """A 400 is the request's fault; `on` may say otherwise."""
    refused = answer("400 Bad", b'{"error":{"message":"too long"}}')
    async with servers(refused, saying("from b")) as them:
        async with Fallback(*providers(them)) as provider:
            with pytest.raises(BadRequestError, match="too long"):
                await provider.chat("Hello")
        async with Fallback(*providers(them), on=[BadRequestError]) as provider:
            assert (await provider.chat("Hello")).text == "from b"
    async with servers(BUSY, saying("from b")) as them, Fallback(*providers(them), on=[RateLimitError]) as provider:
        with pytest.raises(ServerError):
            await provider.chat("Hello")


async def test_all_fail() -> None:
    """The last error, with all that was tried before it."""
    async with servers(BUSY, SLOW) as them, Fallback(*providers(them)) as provider:
        with pytest.raises(RateLimitError, match=r"^b: slow") as caught:
            await provider.chat("Hello")
        assert [tried.provider for tried in caught.value.attempts] == ["a"]


async def test_l11_who_failed_rests_for_a_while() -> None:
    """A provider that failed is not asked for as long as its server named, in this Fallback and in no other."""
    async with servers([SLOW, saying("from a")], saying("from b")) as them, AsyncExitStack() as stack:
        both = providers(them)
        first, other = [await stack.enter_async_context(Fallback(*both)) for _ in range(2)]
        assert (await first.chat("Hello")).text == "from b"
        again = await first.chat("Hello")
        assert again.text == "from b"
        assert again.attempts[0].provider == "a"
        assert again.attempts[0].problem.startswith("skipped for ")
        assert again.attempts[0].problem.endswith(" s more: RateLimitError: slow (HTTP 429)")
        assert len(them[0].requests) == 1
        assert (await other.chat("Hello")).text == "from a"


async def test_who_rests_is_asked_when_nobody_else_can() -> None:
    """A rest is no refusal: after all others failed, the one whose rest ends first is asked."""
    both = servers([SLOW, saying("from a")], [saying("from b"), BUSY])
    async with both as them, Fallback(*providers(them)) as provider:
        assert (await provider.chat("Hello")).text == "from b"
        assert (await provider.chat("Hello")).text == "from a"
        assert (await provider.chat("Hello")).text == "from a"  # and its rest is over with that


async def test_l10_who_can_not_is_passed_over() -> None:
    """A provider that can't be asked this is not asked, and the reply says why."""
    async with servers(saying("from a"), saying("from b")) as them:
        a = them[0].provider(name="a", api_key_env="STREAMFOLD_TEST_NOT_SET")
        async with Fallback(a, them[1].provider(name="b")) as provider:
            reply = await provider.chat("Hello")
        assert reply.provider == "b"
        assert [(tried.provider, tried.error) for tried in reply.attempts] == [("a", None)]
        assert "set STREAMFOLD_TEST_NOT_SET" in reply.attempts[0].problem


async def test_a_wrong_argument_is_raised_once() -> None:
    """What is wrong for every provider passes over none of them."""
    async with servers(BUSY, BUSY) as them, Fallback(*providers(them)) as model:
        for wrong in ({"temprature": 1}, {"timeouts": {"raed": 1}}, {"extra_headers": {"X Y": "z"}}, {"model": 5}):
            with pytest.raises(ConfigError) as caught:
                model.chat_stream("Hello", **wrong)
            assert ";" not in str(caught.value)
    with pytest.raises(ConfigError, match="at least one model"):
        Fallback()


async def test_nobody_can() -> None:
    """A request that no provider can take raises at the call, with the reason of each."""
    async with servers(BUSY, BUSY) as them, Fallback(*providers(them, capabilities={"tools": "no"})) as model:
        with pytest.raises(ConfigError, match=r'provider "a": .*; provider "b": '):
            model.chat_stream("Hello", [{"name": "f", "parameters": {}}])


async def test_nobody_is_configured() -> None:
    """Providers without a key are an error of their own: it is not the request that is wrong."""
    async with servers(BUSY, BUSY) as them, Fallback(*providers(them, api_key_env="STREAMFOLD_TEST_NOT_SET")) as model:
        with pytest.raises(NotConfiguredError, match=r'for "a": set STREAMFOLD_TEST_NOT_SET.*; .* for "b"'):
            model.chat_stream("Hello")


async def test_configured_fallback() -> None:
    """The configuration's `fallback` is part of the provider; overrides are for the first alone."""
    written = {"name": "mine", "model": "m", "max_retries": 0, "fallback": ["ollama:qwen3"]}
    async with servers(BUSY) as them, Provider.from_config({"base_url": them[0].base_url, **written}) as provider:
        assert (provider.name, [each.name for each in provider.fallbacks]) == ("mine", ["ollama"])
        assert repr(provider).endswith(" model='m' fallbacks=ollama>")
    async with servers(BUSY, saying("from b")) as them:
        spare = them[1].provider(name="b")
        async with Provider(them[0].provider(name="a").profile, fallbacks=[spare]) as provider:
            reply = await provider.chat("Hello")
        assert (reply.text, [tried.provider for tried in reply.attempts]) == ("from b", ["a"])


async def test_the_others_are_prepared_when_they_are_asked() -> None:
    """As long as the first model answers, the request is not written for any other."""
    prepared: list[str] = []

    class Spare:
        name = "spare"

        def chat_stream(self, messages: Messages, *_: object, **options: Unpack[ChatOptions]) -> ChatStream:
            prepared.append("spare")
            raise ConfigError("the spare one can't")

        chat = aclose = None

    async with servers([saying("from a"), BUSY]) as them, them[0].provider(name="a", max_retries=0) as first:
        model = Fallback(first, Spare())
        assert (await model.chat("Hello")).text == "from a"
        assert prepared == []
        with pytest.raises(ServerError) as caught:
            await model.chat("Hello")
        assert [(tried.provider, tried.problem) for tried in caught.value.attempts] == [
            ("spare", "the spare one can't")
        ]


async def test_one_request_tests_whether_a_model_is_back() -> None:
    """After its rest one request asks a model that failed; the others go on to the next until it has answered."""
    arrived, go = anyio.Event(), anyio.Event()

    async def recovering(peer: Connection) -> None:
        await peer.request()
        if len(peer.server.requests) == 1:
            await peer.send(answer("503 Busy", b"{}", "retry-after: 0"))
            return
        arrived.set()
        await go.wait()
        await peer.send(saying("from a"))

    async with serving(recovering) as first, servers(saying("from b")) as them:
        a, b = first.provider(name="a", max_retries=0), them[0].provider(name="b")
        async with Fallback(a, b) as model:
            assert (await model.chat("Hello")).text == "from b"
            replies = []
            streams = [model.chat_stream("Hello") for _ in range(5)]  # all chose a: its rest is over

            async def read(stream: ChatStream) -> None:
                await stream.start()
                async for _ in stream:
                    pass
                replies.append(stream.reply)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read, streams[0])
                await arrived.wait()
                for stream in streams[1:]:
                    tasks.start_soon(read, stream)
                while len(replies) < 4:
                    await anyio.sleep(0.001)
                later = await model.chat("Hello")
                go.set()
            assert [reply.text for reply in [*replies, later]] == ["from b"] * 4 + ["from a", "from b"]
            assert (
                replies[0].attempts[0].problem.startswith("skipped while another request tests this model: ServerError")
            )
            assert len(first.requests) == 2
            assert (await model.chat("Hello")).text == "from a"


async def test_a_test_that_is_cancelled_is_no_answer() -> None:
    """The next request tests the model instead."""
    arrived = anyio.Event()

    async def recovering(peer: Connection) -> None:
        await peer.request()
        if len(peer.server.requests) == 1:
            await peer.send(answer("503 Busy", b"{}", "retry-after: 0"))
        elif len(peer.server.requests) == 2:
            arrived.set()
            await peer.gone()
        else:
            await peer.send(saying("from a"))

    async with serving(recovering) as first, servers(saying("from b")) as them:
        a, b = first.provider(name="a", max_retries=0), them[0].provider(name="b")
        async with Fallback(a, b) as model:
            await model.chat("Hello")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(model.chat, "Hello")
                await arrived.wait()
                tasks.cancel_scope.cancel()
            assert (await model.chat("Hello")).text == "from a"


async def test_chain_of_chains() -> None:
    """A Fallback is a provider, so that it may stand inside another."""
    async with servers(BUSY, BUSY, saying("from c")) as them:
        a, b, c = providers(them)
        async with Fallback(a, Fallback(b, c)) as provider:
            reply = await provider.chat("Hello")
        assert [tried.provider for tried in reply.attempts] == ["a", "b"]
        assert reply.provider == "c"


async def test_closing_while_the_first_is_waited_for() -> None:
    """`aclose` ends the whole route: nobody else is asked."""

    async def mute(peer: Connection) -> None:
        await peer.request()
        await peer.gone()

    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(serving(mute))
        them = await stack.enter_async_context(servers(saying("from b")))
        provider = await stack.enter_async_context(Fallback(first.provider(), them[0].provider()))
        stream = provider.chat_stream("Hello")
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:

                async def read() -> None:
                    assert [chunk async for chunk in stream] == []

                tasks.start_soon(read)
                while not first.requests:
                    await anyio.sleep(0.005)
                await stream.aclose()
        await first.all_closed()
        assert them[0].requests == []


async def test_a_timeout_moves_on() -> None:
    """A provider that says nothing in time is one that failed."""

    async def mute(peer: Connection) -> None:
        await peer.request()
        await peer.gone()

    async with serving(mute) as first, servers(saying("from b")) as them:
        slow = first.provider(name="a", timeouts={"first_event": 0.1})
        async with Fallback(slow, them[0].provider(name="b"), on=[APITimeoutError]) as provider:
            reply = await provider.chat("Hello")
        assert (reply.text, reply.attempts[0].error) == ("from b", "APITimeoutError")
        await first.all_closed()


async def test_the_loop_over_tools_takes_one() -> None:
    """`run_tools` works with a Fallback as with any provider, and each turn begins with the first that can."""
    call = (
        b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"now","arguments":"{}"}}]},'
        b'"finish_reason":"tool_calls"}]}\n\n'
    )

    @tool
    def now() -> str:
        """The time."""
        return "noon"

    async with servers(BUSY, [answer("200 OK", call + DONE), saying("It is noon.")]) as them:
        async with Fallback(*providers(them)) as provider, run_tools(provider, "What time is it?", [now]) as run:
            async for _ in run:
                pass
        assert run.reply.text == "It is noon."
        assert len(them[0].requests) == 1


async def test_chunks_come_as_they_are_made() -> None:
    """Nothing of a stream is held back by the way through a Fallback."""
    async with serving(falls_silent(STREAM, framed(text("one")))) as server, Fallback(server.provider()) as provider:
        async with provider.chat_stream("Hello") as stream:
            with anyio.fail_after(5):
                assert (await anext(stream)).delta == "one"
        await server.all_closed()


class Shown(Middleware):
    """Changes nothing."""


@pytest.mark.parametrize("wrapped", [lambda model: model, Shown, lambda model: Shown(Shown(model))])
async def test_a_limited_model_is_passed_over_through_wrappers(wrapped: Callable[[ChatModel], ChatModel]) -> None:
    """A member that has to wait for its server's limit fails at once where another one can answer, wrapped or not."""
    slow = answer("429 Slow", b'{"error":{"message":"slow"}}', "retry-after: 0.2")
    async with servers([slow, saying("from a")], saying("from b")) as them:
        first, second = providers(them, rpm=600)
        async with Fallback(wrapped(first), second) as model:
            reply = await model.chat("Hello")
    assert (reply.text, [attempt.error for attempt in reply.attempts]) == ("from b", ["RateLimitError"])


async def test_the_window_of_a_wrapped_model_is_known() -> None:
    """A prompt that was too long for one model is not sent to another whose window is no larger, wrapped or not."""
    error = b'{"error":{"message":"maximum context length is 400000 tokens","code":"context_length_exceeded"}}'
    long = answer("400 Bad", error)
    async with servers(long, saying("from b"), saying("from c")) as them:
        first, small, large = providers(them)
        small = them[1].provider(name="b", model="gpt-4o")
        large = them[2].provider(name="c", model="gpt-4.1")
        async with Fallback(first, Shown(small), Shown(large)) as model:
            reply = await model.chat("Hello")
    assert reply.text == "from c"
