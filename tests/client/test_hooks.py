"""Who watches an answer is told what happens to it, in order and once; the log has numbers and no content."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any

import httpx
import pytest

from answering_provider import CANARY, GOOD, USAGE, client, provider
from folding import DONE, call, entry, fin, text
from streamfold import ConfigError, Fallback, Hooks, Provider, ServerError, user
from streamfold.types import RequestInfo
from tables import each_row


def noting() -> tuple[Hooks, list[tuple[Any, ...]]]:
    """Hooks that write down what they are told."""
    told: list[tuple[Any, ...]] = []
    names = ("on_request", "on_first_chunk", "on_retry", "on_finish", "on_error", "on_close")
    return Hooks(**{name: lambda *said, name=name: told.append((name, *said)) for name in names}), told


async def test_the_way_of_an_answer() -> None:
    """Each step once, in order, about the same object, with what was asked and what came."""
    hooks, told = noting()
    async with client(503, GOOD) as http_client:
        reply = await provider(http_client, hooks).chat([user("Hello")], temperature=0)
    assert [step for step, *_ in told] == [
        "on_request", "on_retry", "on_request", "on_first_chunk", "on_finish", "on_close",
    ]  # fmt: skip
    asked = told[0][1]
    assert all(said[1] is asked for said in told)
    assert isinstance(asked, RequestInfo)
    assert (asked.provider, asked.adapter, asked.url, asked.model) == (
        "main", "chat", "http://test/v1/chat/completions", "m",
    )  # fmt: skip
    assert (asked.request.messages, asked.request.options.temperature) == ((user("Hello"),), 0)
    assert told[1][2] == reply.attempts[0]
    assert told[3][2] >= 0
    assert told[4][2] == reply


async def test_the_bytes_of_an_answer() -> None:
    """`on_bytes` gets the body as it comes, before it is read; one that raises changes nothing."""
    pieces: list[bytes] = []
    redacted: list[str] = []

    def keep(info: RequestInfo, data: bytes) -> None:
        pieces.append(data)
        redacted.append(info.redactor.text(f"the key {CANARY}"))
        raise LookupError

    told: list[str] = []
    hooks = Hooks(on_bytes=keep, on_finish=lambda info, reply: told.append(b"".join(pieces).decode()))
    async with client(503, GOOD) as http_client:
        reply = await provider(http_client, hooks).chat("Hello")
    assert told == [b"".join(pieces).decode()]
    assert reply.text in told[0]
    assert CANARY not in str(redacted)


async def test_an_error_is_the_callers_error() -> None:
    """`on_error` gets the error that is raised, signed and without secrets; then it is over."""
    hooks, told = noting()
    async with client(500) as http_client:
        with pytest.raises(ServerError) as caught:
            await provider(http_client, hooks, max_retries=0).chat("Hello")
    assert [step for step, *_ in told] == ["on_request", "on_error", "on_close"]
    assert told[1][2] is caught.value
    assert CANARY not in repr(vars(told[1][2]))


async def test_an_answer_that_is_left() -> None:
    """Who leaves in the middle gets neither reply nor error; the hooks are told that it is over."""
    hooks, told = noting()
    async with client(text("Hi") * 3) as http_client, provider(http_client, hooks).chat_stream("Hello") as stream:
        await anext(stream)
    assert [step for step, *_ in told] == ["on_request", "on_first_chunk", "on_close"]


@pytest.mark.parametrize("name", ["on_request", "on_first_chunk", "on_finish", "on_close"])
async def test_a_hook_that_raises_changes_nothing(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """The answer arrives, the other hooks are called, and the log has the traceback of the failure."""

    def fail(*_: object) -> None:
        raise LookupError("mine")

    hooks, told = noting()
    async with client(GOOD) as http_client:
        reply = await provider(http_client, Hooks(**{name: fail}), hooks).chat("Hello")
    assert reply.text == "Hi"
    assert name in [step for step, *_ in told]
    logged = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.getMessage() for record in logged] == [f"main: the hook {name} failed"]
    assert "LookupError: mine" in caplog.text


async def test_a_hook_that_raises_does_not_hide_the_error() -> None:
    """The caller gets the provider's error, not the hook's."""

    def fail(*_: object) -> None:
        raise LookupError("mine")

    async with client(500) as http_client:
        with pytest.raises(ServerError):
            await provider(http_client, Hooks(on_error=fail, on_retry=fail), max_retries=1).chat("Hello")


async def coroutine(*_: object) -> None: ...


class AsyncHook:
    async def __call__(self, *_: object) -> None: ...


@each_row(
    ("make", "message"),
    [
        (lambda: Hooks(on_finish=coroutine), "Hooks.on_finish must be a synchronous function: an async function"),
        (lambda: Hooks(on_close=AsyncHook()), "Hooks.on_close must be a synchronous function: an async function"),
        (lambda: Hooks(on_finish="print"), "Hooks.on_finish must be a function, not str"),
        (
            lambda: Provider.from_config("ollama:m", hooks=[print]),
            "hooks must be Hooks or a list of Hooks, not",
        ),
        (lambda: Provider.from_config("ollama:m", hooks=print), "hooks must be Hooks or a list of Hooks, not"),
    ],
)
def test_hooks_that_can_not_be_called_are_refused_where_they_are_given(make: Any, message: str) -> None:
    """Not in the middle of an answer."""
    with pytest.raises(ConfigError, match=message):
        make()


async def test_a_single_hooks_needs_no_list() -> None:
    """`hooks=Hooks(...)` is enough."""
    replies: list[Any] = []
    async with client(GOOD) as http_client:
        model = Provider.from_config(
            {"name": "main", "base_url": "http://test/v1", "model": "m"},
            http_client=http_client,
            hooks=Hooks(on_finish=lambda _, reply: replies.append(reply.text)),
        )
        await model.chat("Hello")
    assert replies == ["Hi"]


@pytest.mark.slow
def test_an_application_without_logging_sees_no_log_lines() -> None:
    """Python prints warnings of a logger that nobody configured; ours has a handler that does nothing."""
    code = "import logging, streamfold.client; logging.getLogger('streamfold').warning('retry')"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (out.stdout, out.stderr) == ("", "")


async def test_hooks_belong_to_a_provider() -> None:
    """Another provider's answers are not told; those of a Fallback's providers are, each to its own."""
    (first, of_first), (second, of_second) = noting(), noting()
    async with client(500) as busy, client(GOOD) as good:
        both = Fallback(provider(busy, first, name="a", max_retries=0), provider(good, second, name="b"))
        await both.chat("Hello")
    assert [step for step, *_ in of_first] == ["on_request", "on_error", "on_close"]
    assert [step for step, *_ in of_second] == ["on_request", "on_first_chunk", "on_finish", "on_close"]


async def test_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Retries are warnings, oddities are info, the rest is debug; no text and no key is in any line."""
    caplog.set_level(logging.DEBUG, "streamfold")
    body = text("the secret plan") + call(entry(0, "", "f", "{}")) + fin("tool_calls") + USAGE + DONE
    async with client(503, body) as http_client:
        await provider(http_client).chat("the secret question")
    lines = [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "streamfold"]
    assert [level for level, _ in lines] == ["DEBUG", "WARNING", "DEBUG", "DEBUG", "INFO", "DEBUG"]
    assert lines[0][1] == "main: POST http://test/v1/chat/completions model=m messages=1 tools=0"
    assert lines[1][1] == "main: ServerError: busy with *** (HTTP 503); next try in 0 s"
    assert lines[4][1] == "main: warning missing_id"  # the detail may quote the answer
    assert lines[5][1].startswith("main: finished reason=tool_calls calls=1 seconds=0.0")
    assert lines[5][1].endswith("input_tokens=7 output_tokens=2 request_id=None")
    assert "secret" not in caplog.text
    assert "canary" not in caplog.text


async def test_a_log_line_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """Control characters of a model's name or a server's message are escaped, so that they can't forge lines."""
    caplog.set_level(logging.DEBUG, "streamfold")
    answer = httpx.Response(
        503, json={"error": {"message": "busy\nmain: \x1b[31mforged"}}, headers={"retry-after": "0"}
    )
    transport = httpx.MockTransport(lambda _: answer)
    async with httpx.AsyncClient(transport=transport) as http_client:
        with pytest.raises(ServerError):
            await provider(http_client, max_retries=1).chat("Hello", model="a\nforged\x1b")
    lines = [record.getMessage() for record in caplog.records if record.name == "streamfold"]
    assert len(lines) == 4
    assert [line for line in lines if not line.isprintable()] == []
    assert "busy\\nmain: \\x1b[31mforged" in lines[1]
