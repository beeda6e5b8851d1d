"""The gateway under uvicorn on loopback: what only shows over a socket. uvicorn runs on asyncio alone."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from folding import DONE, call, entry, fin, text
from gateways import CHAT, PATHS, asking, is_listening, serve_command, served, served_before
from mirror import APIS, payloads, read
from sdks import openai
from servers import END, STREAM, Connection, Script, framed, sends, serving
from streamfold import Provider
from streamfold.recording import Recording
from streamfold.testing.replay_server import serve_replay
from streamfold_gateway import gateway
from tables import each_row

pytestmark = pytest.mark.one_loop  # uvicorn knows no other
FOLDER = Path(__file__).parents[3] / "fixtures"
BOTH = pytest.mark.parametrize("api", APIS)
SOON = 5.0  # seconds; a client that is gone is noticed in milliseconds, and the provider would go on for ever


def stream(client: httpx.AsyncClient, api: str, **members: Any) -> Any:
    return client.stream("POST", PATHS[api], json=asking(PATHS[api], stream=True, **members))


def in_two(go_on: anyio.Event) -> Script:
    """A provider that says "Hel", and "lo" when it may."""

    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(STREAM, framed(text("Hel")))
        await go_on.wait()
        await connection.send(framed(text("lo"), fin("stop"), DONE), END)

    return script


@BOTH
async def test_chunks_pass_as_they_come(api: str) -> None:
    """A client has the first text while the provider still holds back the second."""
    go_on = anyio.Event()
    script = in_two(go_on)

    async with served_before(script) as (client, _, app):
        received = b""
        async with stream(client, api, model="main") as answer:
            assert "content-encoding" not in answer.headers  # although httpx would take gzip
            async for data in answer.aiter_raw():
                received += data
                if b'"Hel"' in received and not go_on.is_set():
                    assert app.running == 1
                    go_on.set()
    assert read(api, received).text == "Hello"


@BOTH
@each_row("begun", [True, False])
@each_row("streamed", [True, False])
async def test_a_client_that_leaves(api: str, begun: bool, streamed: bool) -> None:
    """The provider's connection is closed at once, also before the first token, and when nothing was to be streamed."""
    asked = anyio.Event()

    async def script(connection: Connection) -> None:
        await connection.request()
        if begun:
            await connection.send(STREAM, framed(text("Hel")))
        asked.set()
        await connection.gone()

    async with served_before(script) as (client, upstream, app):

        async def ask() -> None:
            async with client.stream("POST", PATHS[api], json=asking(PATHS[api], stream=streamed)) as answer:
                await answer.aread()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await asked.wait()
            assert (upstream.open, app.running) == (1, 1)
            tasks.cancel_scope.cancel()
        with anyio.fail_after(SOON):
            while upstream.open or app.running:
                await anyio.sleep(0.005)


@BOTH
async def test_a_silent_provider(api: str) -> None:
    """The client gets comments meanwhile, and then the answer, or an error in its own API: the status is out."""
    go_on = [anyio.Event(), anyio.Event()]

    async def script(connection: Connection) -> None:
        await connection.request()
        await go_on[connection.server.connections - 1].wait()
        if connection.server.connections == 1:
            await connection.send(STREAM, framed(text("Hello"), fin("stop"), DONE), END)
        else:
            await connection.send(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")

    async with served_before(script, keepalive=0.01) as (client, _, _):
        for number in range(2):
            received = b""
            async with stream(client, api) as answer:
                async for data in answer.aiter_raw():
                    received += data
                    if received.count(b": keepalive\n\n") >= 2:
                        go_on[number].set()
            assert answer.status_code == 200
            if number == 0:
                assert read(api, received).text == "Hello"
        last = payloads(received)[-1]
        assert (last["error"] if api == "chat" else last["response"]["error"])["status"] == 503


@BOTH
async def test_a_connection_that_breaks(api: str) -> None:
    """A provider that dies in the middle of an answer is an error to the client, and no end."""
    async with served_before(sends(STREAM, framed(text("Hel"), call(entry(0, "a", "f", "{}"))))) as (client, _, _):
        answer = await client.post(PATHS[api], json=asking(PATHS[api], stream=True))
    last = payloads(answer.content)[-1]
    error = last["error"] if api == "chat" else last["response"]["error"]
    assert "before the response was complete" in error["message"]
    assert b'"name":"f"' not in answer.content


async def test_too_much_at_once() -> None:
    """What is over the limit is refused at once, and may come again."""
    go_on = anyio.Event()

    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(STREAM, framed(text("Hi")))
        await go_on.wait()
        await connection.send(framed(fin("stop"), DONE), END)

    async with served_before(script, max_requests=1) as (client, _, app):
        async with stream(client, "chat") as answer:
            async for _ in answer.aiter_raw():
                break
            refused = await client.post(CHAT, json=asking(CHAT))
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            assert refused.json()["error"]["code"] == "overloaded"
            assert (await client.get("/healthz")).status_code == 200
            go_on.set()
        with anyio.fail_after(5):
            while app.running:
                await anyio.sleep(0.005)
        assert (await client.post(CHAT, json=asking(CHAT))).status_code == 200


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("in_time", [True, False])
async def test_the_server_is_stopped(api: str, in_time: bool) -> None:
    """Running answers are finished up to a deadline; after it they end in an error, and the provider is let go."""
    go_on = anyio.Event()

    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(STREAM, framed(text("Hel")))
        if not in_time:
            await connection.gone()
        await go_on.wait()
        await connection.send(framed(text("lo"), fin("stop"), DONE), END)

    async with serving(script) as upstream, upstream.provider() as main:
        async with served(gateway({"main": main}), timeout_graceful_shutdown=5 if in_time else 1) as (client, server):
            received = b""
            async with stream(client, api) as answer:
                async for data in answer.aiter_raw():
                    received += data
                    server.should_exit = True
                    if b"Hel" in received and in_time:
                        go_on.set()
        await upstream.all_closed()
    if in_time:
        assert read(api, received).text == "Hello"
    else:
        last = payloads(received)[-1]
        error = last["error"] if api == "chat" else last["response"]["error"]
        assert error["message"] == "service unavailable: the server is shutting down"


@pytest.mark.slow
async def test_recordings_through_the_gateway() -> None:
    """The replay server behind it, OpenAI's own client before it, on both APIs."""
    recordings = [Recording.load(FOLDER / name) for name in ("kimi/parallel_calls", "deepseek/reasoner")]
    async with (
        serve_replay(recordings) as base_url,
        Provider.from_config({"base_url": base_url, "name": "replay"}) as provider,
        served(gateway({"replay": provider}, keys=["k"])) as (client, _),
        openai.AsyncOpenAI(base_url=str(client.base_url.join("/v1")), api_key="k", max_retries=0) as sdk,
    ):
        for recording in recordings:
            name = f"replay:{recording.name}"
            wanted = [(made["id"], made["name"], made["arguments"]) for made in recording.expect.get("calls", [])]
            chat: Any = sdk.chat.completions.stream(model=name, messages=[{"role": "user", "content": "?"}])
            async with chat as events:
                completion = await events.get_final_completion()
            message = completion.choices[0].message
            made = [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()]
            assert (message.content or "", made) == (recording.expect.get("text", ""), wanted)
            async with sdk.responses.stream(model=name, input="?") as events:
                response = await events.get_final_response()
            items = [item for item in response.output if item.type == "function_call"]
            assert response.output_text == recording.expect.get("text", "")
            assert [(item.call_id, item.name, item.arguments) for item in items] == wanted
            shown = "".join(part.text for item in response.output if item.type == "reasoning" for part in item.summary)
            assert shown == recording.expect.get("reasoning", "")
        models = [model.id async for model in sdk.models.list()]
        assert models == ["replay"]
        with pytest.raises(openai.NotFoundError, match="unknown model 'other'"):
            await sdk.responses.create(model="other", input="?")


@pytest.mark.slow
async def test_many_at_once() -> None:
    """Streams do not get into each other's way."""

    async def script(connection: Connection) -> None:
        asked = json.loads(await connection.request())["messages"][0]["content"]
        await connection.send(STREAM)
        for piece in asked:
            await connection.send(framed(text(piece)))
            await anyio.sleep(0)
        await connection.send(framed(fin("stop"), DONE), END)

    found: dict[str, str] = {}
    async with served_before(script) as (client, upstream, app):

        async def ask(question: str) -> None:
            api = APIS[len(question) % 2]
            answer = await client.post(PATHS[api], json=asking(PATHS[api], question, stream=True))
            found[question] = read(api, answer.content).text

        async with anyio.create_task_group() as tasks:
            questions = [chr(97 + number % 26) + "bcdefgh"[: number % 7] + str(number) for number in range(40)]
            for question in questions:
                tasks.start_soon(ask, question)
        assert found == {question: question for question in questions}
        await upstream.all_closed()
        assert app.running == 0


@pytest.mark.slow
@BOTH
async def test_a_client_that_does_not_read_holds_the_provider_back(api: str) -> None:
    """What it does not take is not fetched: an answer is never kept whole in memory on the way."""
    held_back = anyio.Event()
    piece, most = framed(text("a" * 2**16)), 2**10  # 64 MiB, many times what sockets and servers take by themselves
    sent = 0

    async def script(connection: Connection) -> None:
        nonlocal sent
        await connection.request()
        await connection.send(STREAM)
        for sent in range(most):  # noqa: B007 - it is looked at from outside
            with anyio.move_on_after(1) as patience:
                await connection.send(piece)
            if patience.cancelled_caught:
                break
        held_back.set()
        await connection.gone()

    async with served_before(script) as (client, upstream, _):
        async with stream(client, api) as answer:
            assert answer.status_code == 200
            with anyio.fail_after(60):
                await held_back.wait()
        await upstream.all_closed()
        assert sent < most - 1


@pytest.fixture
def many_sockets() -> Iterator[None]:
    """Both ends of both connections of every client are in this process."""
    resource = pytest.importorskip("resource", reason="Windows counts sockets in another way")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2048 if hard == resource.RLIM_INFINITY else min(2048, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
async def test_200_clients_of_which_50_leave(many_sockets: None, caplog: pytest.LogCaptureFixture) -> None:
    """No connection to the provider stays open, the others get their whole answers, and the log complains of nobody."""
    caplog.set_level("INFO")
    go_on = anyio.Event()
    begun, found = 0, dict[str, str]()

    async def script(connection: Connection) -> None:
        asked = json.loads(await connection.request())["messages"][0]["content"]
        await connection.send(STREAM, framed(text(f"{asked} ")))
        async with anyio.create_task_group() as waiting:

            async def leave() -> None:
                with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                    await connection.gone()
                waiting.cancel_scope.cancel()

            waiting.start_soon(leave)
            await go_on.wait()
            await connection.send(framed(text("and goodbye"), fin("stop"), DONE), END)
            waiting.cancel_scope.cancel()

    async with served_before(script) as (client, upstream, app):
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        async with httpx.AsyncClient(base_url=client.base_url, timeout=60, limits=limits, trust_env=False) as many:

            async def ask(number: int) -> None:
                nonlocal begun
                api, question = APIS[number % 2], f"hello {number}"
                received = b""
                body = asking(PATHS[api], question, stream=True)
                async with many.stream("POST", PATHS[api], json=body) as answer:
                    async for data in answer.aiter_raw():
                        begun += not received
                        received += data
                        if number % 8 in (0, 3) and question.encode() in received:
                            return  # and the connection is closed
                found[question] = read(api, received).text

            with anyio.fail_after(60):
                async with anyio.create_task_group() as tasks:
                    for number in range(200):
                        tasks.start_soon(ask, number)
                    while begun < 200 or upstream.open > 150 or app.running > 150:
                        await anyio.sleep(0.005)
                    assert (upstream.connections, upstream.open, app.running) == (200, 150, 150)
                    go_on.set()
        await upstream.all_closed()
        assert app.running == 0
    assert found == {
        f"hello {number}": f"hello {number} and goodbye" for number in range(200) if number % 8 not in (0, 3)
    }
    ended = Counter(
        record.getMessage().split(": ")[1].split(" after")[0].split(" by ")[0] for record in gateway_log(caplog)
    )
    assert ended == {"completed": 150, "client disconnected": 50}
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def gateway_log(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "streamfold.gateway"]


@pytest.mark.slow
async def test_the_command(tmp_path: Path) -> None:
    """`streamfold serve` serves the file's providers on loopback until it is told to stop."""
    recording = Recording.load(FOLDER / "deepseek/reasoner")
    async with serve_replay(recording) as base_url:
        file = tmp_path / "streamfold.toml"
        file.write_text(
            f'[providers.main]\nbase_url = "{base_url}"\nmodel = "reasoner"\n[gateway]\napi_key_env = "GATEWAY_KEY"\n'
        )
        async with serve_command(file, GATEWAY_KEY="k1") as (address, said, _):
            async with httpx.AsyncClient(base_url=address) as client:
                assert (await client.post(CHAT, json=asking(CHAT))).status_code == 401
                answer = await client.post(CHAT, json=asking(CHAT, stream=True), headers={"authorization": "Bearer k1"})
            assert read("chat", answer.content).text == recording.expect["text"]
    assert b"k1" not in said
    assert b"main: completed by" in said
    assert b"main: requests are sent with aiohttp\n" in said


@pytest.mark.slow
async def test_the_start_says_what_is_served_and_what_is_missing(tmp_path: Path) -> None:
    """The address for clients, the models, and each provider that has no key yet, with the variable to set."""
    file = tmp_path / "streamfold.toml"
    file.write_text(
        '[providers.main]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n[providers.other]\nprofile = "openai"\n'
        '[gateway]\naliases = { small = "main:tiny" }\n'
    )
    async with serve_command(file, OPENAI_API_KEY="") as (address, said, stop):
        async with httpx.AsyncClient(base_url=address) as client:
            answer = await client.post(CHAT, json=asking(CHAT, model="other:gpt-5"))
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, None)
        assert "OPENAI_API_KEY" not in answer.text
        stop()
    lines = said.decode().splitlines()
    assert f"Base URL for clients: {address}/v1 (/chat/completions, /responses, /messages, /models)" in "\n".join(lines)
    assert any(line.endswith("Models: main (m), other (no model), small (main:tiny)") for line in lines)
    (warning,) = [line for line in lines if 'no API key for "other": set OPENAI_API_KEY' in line and "WARNING" in line]
    assert "HTTP 500" in warning


@pytest.mark.slow
async def test_a_signal_to_stop_lets_running_answers_finish(tmp_path: Path) -> None:
    """The command takes no new request after it, and ends when the last answer has."""
    go_on = anyio.Event()
    script = in_two(go_on)

    async with serving(script) as upstream:
        file = tmp_path / "streamfold.toml"
        file.write_text(f'[providers.main]\nbase_url = "{upstream.base_url}"\nmodel = "m"\n[gateway]\nshutdown = 20\n')
        async with serve_command(file) as (address, said, stop), httpx.AsyncClient(base_url=address) as client:
            received = b""
            async with stream(client, "chat") as answer:
                async for data in answer.aiter_raw():
                    received += data
                    if b'"Hel"' in received and not go_on.is_set():
                        stop()
                        with anyio.fail_after(10):
                            while await is_listening(address):
                                await anyio.sleep(0.01)
                        go_on.set()
    assert read("chat", received).text == "Hello"
    assert b"main: completed by" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    "provider",
    ['profile = "kimi-vllm"\nmodel = "moonshotai/Kimi-K2-Instruct"', 'model = "kimi"\ndialect = "kimi"'],
    ids=["profile", "dialect"],
)
async def test_kimi_k2_without_a_tool_parser_gets_tool_calls_by_configuration_alone(
    tmp_path: Path, provider: str
) -> None:
    """The server leaves the markup in the text; a chat client before `streamfold serve` gets text and `tool_calls`."""
    recording = Recording.load(FOLDER / "dialects/kimi")
    assert b"<|tool_call_begin|>" in recording.body
    assert b'"tool_calls"' not in recording.body
    made = [(call["id"], call["name"], call["arguments"]) for call in recording.expect["calls"]]
    tools: Any = [{"type": "function", "function": {"name": name}} for name in ("get_weather", "get_time")]
    asked: dict[str, Any] = {"model": "k2", "messages": [{"role": "user", "content": "?"}], "tools": tools}
    async with serve_replay([recording] * 2, match="any") as base_url:
        file = tmp_path / "streamfold.toml"
        file.write_text(f'[providers.k2]\nbase_url = "{base_url}"\n{provider}\n')
        async with (
            serve_command(file) as (address, _, _),
            openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as sdk,
        ):
            streaming: Any = sdk.chat.completions.stream(**asked)
            async with streaming as events:
                streamed = (await events.get_final_completion()).choices[0]
            whole = (await sdk.chat.completions.create(**asked)).choices[0]
    for choice in (streamed, whole):
        calls = choice.message.tool_calls or []
        assert [(call.id, call.function.name, call.function.arguments) for call in calls] == made
        assert (choice.message.content, choice.finish_reason) == ("Let me see.", "tool_calls")


@BOTH
async def test_a_loop_of_tools_with_openais_client(api: str) -> None:
    """What the client got goes back with the result as it is, and reaches the provider as one conversation."""
    made = Recording.load(FOLDER / "kimi/parallel_calls")
    answers = [made, Recording("end", text("Done.") + fin("stop") + DONE)]
    ids = [call["id"] for call in made.expect["calls"]]
    seen: list[dict[str, Any]] = []

    async def script(connection: Connection) -> None:
        seen.append(json.loads(await connection.request()))
        await connection.send(STREAM, framed(answers[len(seen) - 1].body), END)

    async with (
        served_before(script) as (client, _, _),
        openai.AsyncOpenAI(base_url=str(client.base_url.join("/v1")), api_key="none", max_retries=0) as sdk,
    ):
        if api == "chat":
            history: list[Any] = [{"role": "user", "content": "?"}]
            completion = await sdk.chat.completions.create(model="main", messages=history)
            history.append(completion.choices[0].message.model_dump())
            calls = completion.choices[0].message.tool_calls or []
            history += [{"role": "tool", "tool_call_id": call.id, "content": "18"} for call in calls]
            completion = await sdk.chat.completions.create(model="main", messages=history)
            assert completion.choices[0].message.content == "Done."
        else:
            items: list[Any] = [{"role": "user", "content": "?"}]
            response = await sdk.responses.create(model="main", input=items)
            items += [item.model_dump() for item in response.output]
            items += [
                {"type": "function_call_output", "call_id": item.call_id, "output": "18"}
                for item in response.output
                if item.type == "function_call"
            ]
            response = await sdk.responses.create(model="main", input=items)
            assert response.output_text == "Done."
    messages = seen[1]["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", *["tool"] * len(ids)]
    assert [call["id"] for call in messages[1]["tool_calls"]] == ids
    assert [message["tool_call_id"] for message in messages[2:]] == ids
