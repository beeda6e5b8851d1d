"""The provider for synchronous code: the same answers, from plain threads, and nothing left behind."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import start_blocking_portal
from pydantic import BaseModel

import scale
from folding import DONE, fin, text
from servers import END, STREAM, Connection, Script, Server, answer, framed, sends, serving
from streamfold import (
    ConfigError,
    Fallback,
    Hooks,
    IncompleteStreamError,
    StreamfoldError,
    TurnLimitError,
    tool,
)
from streamfold.sync import Provider, run_tools
from streamfold.sync import thread as sync_thread
from streamfold.testing import ScriptedProvider, call


@contextmanager
def served(script: Script) -> Iterator[Server]:
    """A server on a thread of its own."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(serving(script)) as server:
        yield server


async def answering(connection: Connection) -> None:
    """Answers each request of a connection."""
    while True:
        await connection.request()
        await connection.send(STREAM, framed(text("Hel"), text("lo"), fin("stop"), DONE), END)


async def hanging(connection: Connection) -> None:
    """Begins an answer that never ends."""
    await connection.request()
    await connection.send(STREAM, framed(text("Hel")))
    await connection.gone()


async def cut(connection: Connection) -> None:
    """Breaks off in the middle of an answer."""
    await connection.request()
    await connection.send(STREAM, framed(text("Hel")))


def provider_of(server: Server, **config: Any) -> Provider:
    return Provider.from_config({"base_url": server.base_url, "model": "m", "max_retries": 0, **config})


def until(condition: Callable[[], bool]) -> None:
    """Waits until a condition holds."""
    ends = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.005)


def loop_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "streamfold"]


def test_streaming_and_whole_answers() -> None:
    """A plain `for` gets the chunks, and `chat` the whole answer, over one connection."""
    with served(answering) as server:
        with provider_of(server) as provider:
            stream = provider.chat_stream("Hi")
            assert "".join(chunk.delta for chunk in stream) == "Hello"
            assert stream.reply.text == stream.read().text == "Hello"
            with pytest.raises(StreamfoldError, match="read to its end"):
                list(stream)
            assert provider.chat("Hi").text == "Hello"
            assert server.connections == 1
        until(lambda: server.open == 0)
    assert loop_threads() == []


def test_nothing_starts_before_the_first_request() -> None:
    """Making a provider and a stream, and a preview, start no thread; a stream that was never read closes silently."""
    with Provider.from_config("openai:gpt-5-mini", api_key="sk-test") as provider:
        with provider.chat_stream("Hi") as stream:
            assert stream.warnings == ()
        assert b"gpt-5-mini" in provider.preview("Hi").body
        assert provider.capabilities().tools == "yes"
        assert provider.name == "openai"
        assert list(stream) == []
        assert loop_threads() == []
        assert "sync" in repr(provider)
        assert "sync" in repr(stream)


def test_streamfold_does_not_import_it() -> None:
    """`import streamfold` stays as light as it was."""
    code = "import sys, streamfold; print('streamfold.sync' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_an_answer_that_breaks_off() -> None:
    """The error is the same as in asynchronous code, with the partial answer."""
    with served(cut) as server, provider_of(server) as provider:
        with pytest.raises(IncompleteStreamError) as caught:
            provider.chat("Hi")
        assert caught.value.partial is not None
        assert caught.value.partial.text == "Hel"
        stream = provider.chat_stream("Hi")
        assert next(stream).delta == "Hel"
        with pytest.raises(IncompleteStreamError):
            next(stream)
        assert list(stream) == []
        with pytest.raises(StreamfoldError, match="closed before its end"):
            stream.read()
        with pytest.raises(ConfigError, match="temprature"):
            provider.chat("Hi", temprature=1)  # type: ignore[call-arg]


def test_leaving_a_stream_closes_its_connection() -> None:
    """`with` closes it at once, and so does `close`; a stream that is dropped is closed as well."""
    with served(hanging) as server, provider_of(server) as provider:
        with provider.chat_stream("Hi") as stream:
            assert stream.start() is stream
            assert next(stream).delta == "Hel"
        assert list(stream) == []
        with pytest.raises(StreamfoldError, match="no reply yet"):
            _ = stream.reply
        for _ in provider.chat_stream("Hi"):
            break
        gc.collect()
        until(lambda: server.connections == 2 and server.open == 0)


def test_closing_from_another_thread() -> None:
    """In the thread that waits for a chunk, the iteration ends."""
    with served(hanging) as server, provider_of(server) as provider, ThreadPoolExecutor(1) as pool:
        stream = provider.chat_stream("Hi")
        assert next(stream).delta == "Hel"
        waiting = pool.submit(list, stream)
        stream.close()
        assert waiting.result() == []
        until(lambda: server.open == 0)


@pytest.mark.parametrize("read", [list, lambda stream: stream.read()])
def test_closing_the_provider_while_a_thread_waits(read: Callable[[Any], Any]) -> None:
    """The waiting thread gets an error: it must not take what it has for the whole answer."""
    with served(hanging) as server, ThreadPoolExecutor(1) as pool:
        provider = provider_of(server)
        waiting = pool.submit(read, provider.chat_stream("Hi"))
        until(lambda: server.open == 1)
        provider.close()
        with pytest.raises(StreamfoldError, match="closed"):
            waiting.result()
        until(lambda: server.open == 0)
        with pytest.raises(StreamfoldError, match="is closed"):
            provider.chat("Hi")
        provider.close()


@pytest.mark.slow
def test_a_thousand_calls_from_sixteen_threads() -> None:
    """One provider is shared by all of them, on one thread."""
    with served(answering) as server, provider_of(server) as provider, ThreadPoolExecutor(16) as pool:
        replies = pool.map(lambda number: provider.chat(f"Call {number}").text, range(1000))
        assert set(replies) == {"Hello"}
        assert len(loop_threads()) == 1
        assert len(server.requests) == 1000


@pytest.mark.asyncio
async def test_with_an_event_loop_running() -> None:
    """It works where an event loop runs in the calling thread, as in a cell of a notebook."""
    asyncio.get_running_loop()
    with Provider(ScriptedProvider("Hello", "again")) as provider:
        assert provider.chat("Hi").text == "Hello"
        assert [chunk.delta for chunk in provider.chat_stream("Hi") if chunk.delta] == ["again"]


def test_any_model() -> None:
    """A fallback or a test double can be used as well; what it lacks is said."""
    with Provider(Fallback(ScriptedProvider("Hello"))) as provider:
        assert provider.chat("Hi").text == "Hello"
        with pytest.raises(ConfigError, match="a Fallback has no preview"):
            provider.preview("Hi")


class Person(BaseModel):
    name: str
    age: int


def test_partial_structured_answers() -> None:
    """The part of a structured answer that has arrived can be read between two chunks."""
    with Provider(ScriptedProvider(['{"name": "A', 'da", "age": 36}'])) as provider:
        stream = provider.chat_stream("Who?", response_format=Person)
        names = [part.name for chunk in stream if (part := stream.partial(Person)) and chunk.delta]
        assert names[-1] == "Ada"
        assert stream.reply.parse_as(Person) == Person(name="Ada", age=36)


def test_tools_run_in_threads_and_may_use_the_provider() -> None:
    """All calls of a turn run at the same time, each in a thread, where they may block or ask the provider."""
    both = threading.Barrier(2, timeout=10)
    name = contextvars.ContextVar("name", default="")
    name.set("of the caller")

    def look(city: str) -> str:
        both.wait()
        return f"{provider.chat(city).text} {name.get()}"

    async def wait(city: str) -> str:
        await anyio.sleep(0)
        return city

    script = ScriptedProvider(
        [call("look", city="Oslo"), call("look", city="Bergen"), call("wait", city="Rome")], "Rain.", "Sun.", "Done."
    )
    with Provider(script) as provider:
        run = run_tools(provider, "Hi", [look, tool(wait)])
        assert run.read().text == "Done."
        results = [message.content for message in run.messages if message.role == "tool"]
        assert sorted(map(str, results)) == ["Rain. of the caller", "Rome", "Sun. of the caller"]
        assert len(run.replies) == 2
        assert run.usage is None
        assert run.reply is run.replies[-1]


def test_iterating_over_a_tool_run() -> None:
    """The chunks of all turns come from one `for`; arguments that do not fit are answered, as ever."""

    def add(a: int, b: int) -> int:
        return a + b

    script = ScriptedProvider([call("add", a=1)], [call("add", a=1, b=2)], "3")
    with Provider(script) as provider, run_tools(provider, "Add.", [add]) as run:
        assert [chunk.delta for chunk in run if chunk.delta] == ["3"]
        assert "invalid arguments for add" in str(run.messages[2].content)
        assert run.messages[4].content == "3"


def test_errors_of_tools() -> None:
    """A tool that raises is told to the model; what `on_tool_error` raises, and the limit of turns, end the run."""

    def fail() -> None:
        raise LookupError("secret")

    def stop(_: Any, error: Exception) -> None:
        raise error

    with Provider(ScriptedProvider(then=call("fail"))) as provider:
        with pytest.raises(LookupError):
            run_tools(provider, "Hi", [fail], on_tool_error=stop).read()
        run = run_tools(provider, "Hi", [fail], max_turns=1)
        with pytest.raises(TurnLimitError):
            run.read()
        with pytest.raises(ConfigError, match="max_turns"):
            run_tools(provider, "Hi", [fail], max_turns=0)


@pytest.mark.parametrize("seconds", [None, 0.02])  # Windows waits in short steps
def test_closing_the_provider_while_a_tool_runs(seconds: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller gets an error, and never the reply of a turn before."""
    monkeypatch.setattr("streamfold.sync.thread._POLL_SECONDS", seconds)
    begun, finish = threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        finish.wait(10)
        return "late"

    with ThreadPoolExecutor(1) as pool:
        provider = Provider(ScriptedProvider([call("slow")], "Done."))
        waiting = pool.submit(lambda: run_tools(provider, "Hi", [slow]).read())
        begun.wait(10)
        provider.close()
        with pytest.raises(StreamfoldError, match="closed"):
            waiting.result()
        finish.set()


def test_a_hook_that_uses_the_provider() -> None:
    """A call that would wait for itself is refused; the answer is not affected."""
    errors: list[Exception] = []

    def ask(*_: Any) -> None:
        try:
            provider.chat("Hi")
        except StreamfoldError as exc:
            errors.append(exc)

    with Provider(ScriptedProvider("Hello", then="Hello", hooks=Hooks(on_request=ask))) as provider:
        assert provider.chat("Hi").text == "Hello"
    assert "would wait for itself" in str(errors[0])


@pytest.mark.slow
def test_a_dropped_provider_ends_its_thread() -> None:
    """A provider that was not closed is closed when nobody refers to it, but not while its stream is read."""
    with served(answering) as server:
        stream = provider_of(server).chat_stream("Hi")
        gc.collect()
        assert next(stream).delta.startswith("Hel")
        gc.collect()
        assert stream.read().text == "Hello"
        assert len(loop_threads()) == 1
        del stream
        gc.collect()
        until(lambda: server.open == 0 and loop_threads() == [])


def test_waiting_in_short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Ctrl-C does not interrupt a wait, the caller wakes up now and then."""
    monkeypatch.setattr(sync_thread, "_POLL_SECONDS", 0.001)
    with served(answering) as server, provider_of(server) as provider:
        assert provider.chat("Hi").text == "Hello"


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX signals")
@pytest.mark.parametrize("read", [next, lambda stream: stream.read()])
def test_an_interrupted_wait_closes_the_connection(read: Callable[[Any], Any]) -> None:
    """An exception from a signal handler, as of Ctrl-C, closes the answer at once, and the provider stays usable."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    async def script(connection: Connection) -> None:
        await (hanging if server.connections == 1 else answering)(connection)

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with served(script) as server, provider_of(server) as provider:
            stream = provider.chat_stream("Hi")
            next(stream)
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(KeyboardInterrupt):
                read(stream)
            until(lambda: server.open == 0)
            assert list(stream) == []
            assert provider.chat("Hi").text == "Hello"
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.slow
def test_interrupted_anywhere_on_the_way_to_the_event_loop() -> None:
    """Ctrl-C behind any function call of a read leaves no coroutine that was not awaited, and no connection."""
    left, moment = 0, 0
    places = {Path(str(module.__file__)).parent for module in (sync_thread, asyncio)}

    def interrupt(frame: Any, event: str, arg: Any) -> None:
        nonlocal left
        # An interruption inside of threading's own conditions can leave them locked, whoever uses them.
        left -= event in {"return", "c_return"} and Path(frame.f_code.co_filename).parent in places
        if left == 0:
            sys.setprofile(None)
            raise KeyboardInterrupt

    def interrupted_read(stream: Iterator[Any]) -> None:
        try:
            sys.setprofile(interrupt)
            next(stream)
        finally:
            sys.setprofile(None)

    with served(answering) as server, provider_of(server) as provider:
        while left <= 0:
            left = moment = moment + 1
            stream = provider.chat_stream("Hi")
            with suppress(KeyboardInterrupt):
                interrupted_read(stream)
            stream.close()
            gc.collect()
            until(lambda: server.open <= 1)  # an answer that was read leaves a connection to be used again
        assert moment > 10
        assert provider.chat("Hi").text == "Hello"


PROGRAM = """
import sys
from streamfold.sync import Provider, run_tools

def provider():
    return Provider.from_config({"base_url": sys.argv[1], "model": "m", "max_retries": 0})
"""


def program(server: Server, code: str) -> list[str]:
    """The command of a program. The server has a name, so that it has to be looked up."""
    url = server.base_url.replace("127.0.0.1", "localhost")
    return [sys.executable, "-W", "error", "-c", PROGRAM + code, url]


EXITS = [
    "made = provider(); stream = made.chat_stream('Hi'); next(stream)",
    "stream = provider().chat_stream('Hi'); next(stream)",
    "for _ in provider().chat_stream('Hi'): break",
    "for _ in provider().chat_stream('Hi'): raise SystemExit(0)",
    "streams = [provider().chat_stream('Hi') for _ in range(3)]; [next(stream) for stream in streams]",
]


@pytest.mark.slow
@pytest.mark.parametrize("code", scale.some(EXITS, 3))
def test_exit_with_an_open_stream(code: str) -> None:
    """The interpreter ends at once, without a warning, and the connection is closed."""
    with served(hanging) as server:
        done = subprocess.run(program(server, code), capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        until(lambda: server.open == 0)
        assert server.connections


@pytest.mark.slow
@pytest.mark.parametrize("made", ["look", "tool(in_thread(look))"])
def test_exit_after_tools_in_threads(made: str) -> None:
    """A provider that was not closed does not keep the interpreter alive by the threads of its tools."""
    code = f"""
from streamfold import tool
from streamfold.tools import in_thread
from streamfold.sync import Provider, run_tools
from streamfold.testing import ScriptedProvider, call

def look() -> str:
    return "rain"

provider = Provider(ScriptedProvider(call("look"), "Rain."))
print(run_tools(provider, "Hi", [{made}]).read().text)
"""
    words = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "Rain.\n", "")


@pytest.mark.slow
def test_exit_while_a_daemon_thread_waits() -> None:
    """The interpreter does not wait for the answer, and the connection is closed."""
    code = """
import threading, time
threading.Thread(target=lambda: list(provider().chat_stream("Hi")), daemon=True).start()
while not input(): pass
"""
    with served(hanging) as server, subprocess.Popen(program(server, code), stdin=-1, stderr=-1, text=True) as running:
        until(lambda: bool(server.requests))
        _, err = running.communicate("done\n", timeout=60)
        assert running.returncode == 0
        assert "Warning" not in err
        until(lambda: server.open == 0)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.parametrize("code", ["provider().chat('Hi')", "for chunk in provider().chat_stream('Hi'): pass"])
def test_ctrl_c_in_a_program(code: str) -> None:
    """Ctrl-C ends the program with the usual traceback and nothing more, and the connection is closed."""
    with served(hanging) as server:
        # A process that is started in the background ignores SIGINT, and so do those that it starts.
        words = program(server, f"import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n{code}")
        running = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until(lambda: bool(server.requests))
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
        assert running.returncode == -signal.SIGINT
        assert out == ""
        assert err.startswith("Traceback")
        assert err.endswith("KeyboardInterrupt\n")
        assert err.count("Traceback") == 1
        assert "Warning" not in err
        until(lambda: server.open == 0)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_after_a_fork() -> None:
    """In a forked process, where the thread does not exist, the provider raises an error instead of waiting forever."""
    code = """
made = provider()
made.chat("Hi")
import os
child = os.fork()
if not child:
    try:
        made.chat("Hi")
    except Exception as exc:
        os._exit(0 if "create a provider in each process" in str(exc) else 1)
    os._exit(2)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), made.chat("Hi").text)
made.close()
"""
    with served(answering) as server:
        words = [word for word in program(server, code) if word not in ("-W", "error")]  # 3.12 warns about any fork
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        assert done.stdout == "0 Hello\n", done.stderr


def test_tokens_are_counted() -> None:
    """The provider's own count, or the error that its API has none."""
    with served(sends(answer("200 OK", b'{"input_tokens": 5}'))) as server:
        with provider_of(server, adapter="anthropic", model="claude-sonnet-5") as provider:
            assert provider.count_tokens("Hi") == 5
        with provider_of(server) as provider, pytest.raises(ConfigError, match="can't count tokens"):
            provider.count_tokens("Hi")
        with Provider(Fallback(provider_of(server).model)) as both, pytest.raises(ConfigError, match="no count_tokens"):
            both.count_tokens("Hi")
    with pytest.raises(StreamfoldError, match="is closed"):
        provider.count_tokens("Hi")
