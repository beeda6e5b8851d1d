"""The pytest plugin, as users have it: pytest runs their test files in a process of its own."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import entry_points
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

# A run in this process forgets what it imported when it ends; what is here before is not imported anew by each.
import streamfold.adapters.chat
import streamfold.client.provider
import streamfold.testing.doubles
import streamfold.testing.pytest_fixtures
from folding import DONE, call, entry, fin, text

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
STRICT = ("-p", "asyncio", "-o", "asyncio_mode=strict", "-o", "asyncio_default_fixture_loop_scope=function")
AUTO = ("-p", "asyncio", "-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function")
ANYIO = ("-p", "anyio")
OTHERS = ("asyncio", "hypothesispytest", "respx", "xdist")


class Runner:
    """A folder with a user's tests."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = pytester.path
        self._pytester = pytester
        self._monkeypatch = monkeypatch
        self._python_path(Path(streamfold.__file__).parents[1])
        self.ini()  # theirs: a folder for temporary files may lie below a project, as nox's does

    def _python_path(self, *folders: Path) -> None:
        self._monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, folders)))

    def __call__(self, *arguments: str, **files: str) -> pytest.RunResult:
        """Writes these files, and runs pytest with our plugin and those that are asked for, and no others."""
        self._monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        return self._run("-p", "pytest_streamfold", *arguments, **files)

    def here(self, *arguments: str, **files: str) -> pytest.RunResult:
        """The same in this process, which is faster."""
        self._monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        return self._run("-p", "pytest_streamfold", *arguments, apart=False, **files)

    def installed(self, *arguments: str, **files: str) -> pytest.RunResult:
        """Runs pytest as it starts by itself where streamfold is installed, whether or not it is here."""
        self._monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", raising=False)
        told = self.path / "site" / "like_streamfold-1.dist-info"
        told.mkdir(parents=True)
        (told / "METADATA").write_text("Metadata-Version: 2.1\nName: like-streamfold\nVersion: 1\n", "utf-8")
        (told / "entry_points.txt").write_text(f"[pytest11]\nstreamfold = {ENTRY_POINT}\n", "utf-8")
        self._python_path(Path(streamfold.__file__).parents[1], told.parent)
        others = [word for name in OTHERS for word in ("-p", f"no:{name}")]  # that take long to import
        return self._run(*others, *arguments, **files)

    def _run(self, *arguments: str, apart: bool = True, **files: str) -> pytest.RunResult:
        for name, content in files.items():
            self._pytester.makepyfile(**{name: content})
        run = self._pytester.runpytest_subprocess if apart else self._pytester.runpytest_inprocess
        return run("-p", "no:cacheprovider", *arguments)

    def ini(self, *lines: str) -> None:
        self._pytester.makeini("\n".join(["[pytest]", *lines]))

    def recording(self, name: str, source: str = "kimi/parallel_calls", folder: str = "fixtures") -> None:
        """Puts one of our recordings among the user's."""
        target = self.path / folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        for suffix in (".sse", ".toml"):
            Path(f"{target}{suffix}").write_bytes((ROOT / "fixtures" / f"{source}{suffix}").read_bytes())


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Runner:
    """Runs pytest in a process of its own."""
    return Runner(pytester, monkeypatch)


def _entry_point() -> str:
    """What the package announces: by its metadata if it is installed, else as `pyproject.toml` will have it."""
    for announced in entry_points(group="pytest11", name="streamfold"):
        return announced.value
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return str(project["entry-points"]["pytest11"]["streamfold"])


ENTRY_POINT = _entry_point()


# --- Beside the plugins for async tests ------------------------------------------------------------------------------

BODY = """
from streamfold.testing import call


{mark}
async def test_it(scripted, replay):
    provider = scripted(call("f", a=1), "Hello")
    assert [made.name for made in (await provider.chat("Hi")).tool_calls] == ["f"]
    async with provider.chat_stream("Hi") as stream:
        assert [chunk.delta async for chunk in stream] == ["Hello", ""]
    reply = await replay("demo/parallel_calls", cuts="bytes:100").chat("Hi")
    assert len(reply.tool_calls) == 3
"""
ON_BOTH = """
import pytest


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param
"""


@pytest.mark.slow
def test_beside_strict_pytest_asyncio_and_anyio(run: Runner) -> None:
    """The fixtures are plain ones, so that they work with whichever of the two runs a test, on asyncio and on trio."""
    files = {
        name: "import pytest\n" + BODY.format(mark=f"@pytest.mark.{mark}")
        for name, mark in (("test_asyncio", "asyncio"), ("test_anyio", "anyio"))
    }
    run("-W", "error", *STRICT, *ANYIO, conftest=ON_BOTH, **files).assert_outcomes(passed=3)


def test_beside_pytest_asyncio_that_takes_every_test(run: Runner) -> None:
    """In its mode `auto`, where tests have no mark. anyio's plugin alone runs the example of the guide, below."""
    strict = "@pytest.mark.filterwarnings('error')"  # and not -W error: asyncio's plugin is imported here already
    run.here(*AUTO, test_it="import pytest\n" + BODY.format(mark=strict)).assert_outcomes(passed=1)


def test_without_a_plugin_for_async_tests(run: Runner) -> None:
    """A plain test may run the loop by itself."""
    test = """
        import anyio

        def test_it(scripted):
            assert anyio.run(scripted("Hello").chat, "Hi").text == "Hello"
    """
    run.here(test_it=test).assert_outcomes(passed=1)


# --- Who does not use it ---------------------------------------------------------------------------------------------


def test_it_costs_nothing_until_it_is_used(run: Runner) -> None:
    """pytest starts without streamfold and without all that it needs."""
    conftest = """
        import sys

        def pytest_sessionfinish():
            print("imported:", sorted({"streamfold", "httpx", "pydantic", "anyio"} & set(sys.modules)))
    """
    result = run("-s", conftest=conftest, test_it="def test_it(): pass")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*imported: []*"])


def test_its_option_and_its_marker_are_told(run: Runner) -> None:
    """By `--help` and `--markers`."""
    run.here("--help").stdout.fnmatch_lines(["*--streamfold-record*", "*streamfold_fixtures*"])
    run.here("--markers").stdout.fnmatch_lines(["@pytest.mark.streamfold_faults(*"])


@pytest.mark.slow
def test_it_can_be_switched_off(run: Runner) -> None:
    """By its name."""
    result = run.installed("-p", "no:streamfold", test_it="def test_it(scripted): pass")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*fixture 'scripted' not found*"])


# --- scripted --------------------------------------------------------------------------------------------------------


def test_a_script_must_be_played_to_its_end(run: Runner) -> None:
    """A test that passed and left turns fails; one that failed by itself shows its own failure."""
    test = """
        import anyio
        import pytest

        def test_all(scripted):
            provider = scripted("One.", "Two.")
            for _ in range(2):
                anyio.run(provider.chat, "Hi")

        def test_turns_left(scripted):
            anyio.run(scripted("One.", "Two.").chat, "Hi")
            scripted("Three.")

        def test_swallowed(scripted):
            try:
                anyio.run(scripted().chat, "Hi")
            except AssertionError:
                pass

        def test_failed(scripted):
            scripted("One.")
            assert 1 == 2
    """
    result = run.here(test_it=test)
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(
        [
            "turn 2 was not used: 'Two.'",
            "turn 1 was not used: 'Three.'",
            "request 1 has no turn: the script has 0 turns*",
            "*assert 1 == 2",
        ]
    )
    assert "One.' was not asked for" not in result.stdout.str()


# --- replay ----------------------------------------------------------------------------------------------------------


def test_recordings_are_found(run: Runner) -> None:
    """Beside the test file, in the folders above it up to pytest's root, and in the package, the nearest first."""
    run.recording("mine", "deepseek/reasoner")
    run.recording("deep/mine", folder="tests/unit/fixtures")
    run.recording("mine", folder="tests/unit/fixtures")
    run.ini()
    test = """
        import anyio
        import pytest

        def test_it(replay):
            assert anyio.run(replay("mine").chat, "Hi").finish_reason == "{reason}"
            assert anyio.run(replay("demo/reasoning_text").chat, "Hi").reasoning
            provider = replay("mine", "demo/parallel_calls", model="m")
            texts = [anyio.run(provider.chat, word).finish_reason for word in ("one", "two")]
            assert texts == ["{reason}", "tool_calls"]
            assert [(request.text, request.model) for request in provider.requests] == [("one", "m"), ("two", "m")]
    """
    tests = run.path / "tests"
    (tests / "unit").mkdir(exist_ok=True)
    for folder, name, reason in ((tests, "test_up", "stop"), (tests / "unit", "test_near", "tool_calls")):
        (folder / f"{name}.py").write_text(test.replace("\n        ", "\n").format(reason=reason), "utf-8")
    run.here().assert_outcomes(passed=2)


def test_folders_of_the_ini_option(run: Runner) -> None:
    """They take the place of the others."""
    run.recording("mine", folder="recordings/a")
    run.recording("other")
    run.ini("streamfold_fixtures = recordings/a recordings/b")
    test = """
        import anyio
        import pytest
        from streamfold import ConfigError

        def test_it(replay):
            assert anyio.run(replay("mine").chat, "Hi").tool_calls
            with pytest.raises(ConfigError, match="no recording 'other' in .*a, .*recordings.b, and none is bundled"):
                replay("other")
    """
    run.here(test_it=test).assert_outcomes(passed=1)


def test_faults(run: Runner) -> None:
    """Those of the marker and those of the call happen to what is played; a marker that does nothing is an error."""
    test = """
        import anyio
        import pytest
        from streamfold import IncompleteStreamError, RateLimitError
        from streamfold.faults import cut_after, status

        @pytest.mark.streamfold_faults(status(429, times=1))
        class TestLimited:
            def test_it(self, replay):
                provider = replay("demo/parallel_calls")
                with pytest.raises(RateLimitError):
                    anyio.run(provider.chat, "Hi")
                assert anyio.run(provider.chat, "Hi").tool_calls

            @pytest.mark.streamfold_faults(cut_after(events=5))
            def test_both(self, replay):
                provider = replay("demo/parallel_calls", "demo/parallel_calls")
                with pytest.raises(RateLimitError):
                    anyio.run(provider.chat, "Hi")
                with pytest.raises(IncompleteStreamError):
                    anyio.run(provider.chat, "Hi")

        @pytest.mark.streamfold_faults(status(429))
        def test_nothing_played(scripted):
            pass
    """
    result = run.here("--strict-markers", test_it=test)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*streamfold_faults had no effect*replay*"])


@pytest.mark.slow
def test_a_request_too_many(run: Runner) -> None:
    """It is no error of the provider that an application might take care of."""
    test = """
        import anyio

        def test_it(replay):
            provider = replay("demo/parallel_calls")
            for _ in range(2):
                anyio.run(provider.chat, "Hi")
    """
    result = run.here(test_it=test)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*ScriptError: request 2 * has no recording: the recordings are demo/parallel_calls"])


# --- Recording -------------------------------------------------------------------------------------------------------


class Model(ThreadingHTTPServer):
    """A provider on loopback: answers from a list, in its order, and counts."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[tuple[int, bytes]] = []
        self.asked = 0


class _Handler(BaseHTTPRequestHandler):
    server: Model

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        status, body = self.server.answers[self.server.asked % len(self.server.answers)]
        self.server.asked += 1
        self.send_response(status)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Model]:
    server = Model()
    thread = Thread(target=server.serve_forever, args=(0.01,))  # how soon it takes note of the end
    thread.start()
    monkeypatch.setenv("MODEL_URL", f"http://127.0.0.1:{server.server_port}/v1")
    monkeypatch.setenv("MODEL_KEY", "sk-secret-of-mine-0123456789")
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


RECORDED = """
    import os
    import anyio
    from streamfold import run_tools, tool

    PROVIDER = {"base_url": os.environ["MODEL_URL"], "model": "m", "api_key_env": "MODEL_KEY"}

    @tool
    def get_weather(city: str) -> str:
        return "warm"

    async def talk(provider):
        async with provider, run_tools(provider, "QUESTION", [get_weather]) as run:
            async for _ in run:
                pass
        return run.reply.text

    def test_it(replay):
        assert anyio.run(talk, replay("weather/paris", provider=PROVIDER)) == "It is warm."
"""
CALL = call(entry(0, "c1", "get_weather", '{"city": "Paris"}')) + fin("tool_calls") + DONE
TEXT = text("It is warm.") + fin("stop") + DONE


@pytest.mark.slow
def test_a_conversation_is_recorded_once(run: Runner, model: Model) -> None:
    """Without a recording the test says how to make one; recorded once, it is played, and the key is nowhere."""
    model.answers = [(200, CALL), (200, TEXT)]
    files = {"test_it": RECORDED}
    missing = run.here(**files)
    missing.assert_outcomes(failed=1)
    missing.stdout.fnmatch_lines(
        ["E*no recording 'weather/paris' in *fixtures*pytest --streamfold-record=once 'test_it.py::test_it'"]
    )
    assert model.asked == 0

    run.here("--streamfold-record=once", "-W", "error", **files).assert_outcomes(passed=1)
    assert model.asked == 2
    written = sorted(path.relative_to(run.path / "fixtures").as_posix() for path in run.path.glob("fixtures/**/*.*"))
    assert written == [f"weather/paris{end}" for end in ("-2.sse", "-2.toml", ".sse", ".toml")]
    assert not any(b"secret-of-mine" in path.read_bytes() for path in run.path.glob("fixtures/**/*.*"))

    for mode in ("none", "once"):
        run.here(f"--streamfold-record={mode}", "-W", "error", **files).assert_outcomes(passed=1)
    assert model.asked == 2

    changed = run.here(test_it=RECORDED.replace("QUESTION", "ANOTHER"))
    changed.assert_outcomes(failed=1)
    changed.stdout.fnmatch_lines(
        ["E*ScriptError: this request differs from the recorded request of weather/paris*", "E*+*ANOTHER*"]
    )


@pytest.mark.slow
def test_a_conversation_is_recorded_anew(run: Runner, model: Model) -> None:
    """With `all` it takes the place of the old one; an answer that is an error, or cut off, does not."""
    files = {"test_it": RECORDED}
    model.answers = [(200, CALL), (200, TEXT)]
    run.here("--streamfold-record=all", **files).assert_outcomes(passed=1)
    folder = run.path / "fixtures" / "weather"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for bad in ((401, b'{"error": {"message": "no such key"}}'), (200, TEXT[:50])):
        model.answers, model.asked = [bad], 0
        result = run.here("--streamfold-record=all", "-W", "default", **files)
        result.assert_outcomes(failed=1, warnings=1)
        result.stdout.fnmatch_lines(["*PytestWarning: weather/paris was not recorded: the response paris *"])
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    model.answers = [(200, TEXT)]
    run.here("--streamfold-record=all", **files).assert_outcomes(passed=1)
    assert sorted(path.name for path in folder.iterdir()) == ["paris.sse", "paris.toml"]
    assert not [path for path in (run.path / "fixtures").iterdir() if path != folder]


def test_what_can_not_be_recorded(run: Runner, model: Model) -> None:
    """Several names are not one conversation; what has no provider is only ever played."""
    model.answers = [(200, TEXT)]
    test = """
        import anyio
        import os
        import pytest
        from streamfold import ConfigError

        def test_it(replay):
            provider = {"base_url": os.environ["MODEL_URL"], "model": "m"}
            with pytest.raises(ConfigError, match="recorded under one name, its later responses as NAME-2"):
                replay("a", "b", provider=provider)
            with pytest.raises(ConfigError, match='name its provider .provider="kimi:kimi-k2.6"., and run pytest'):
                replay("a")
            assert anyio.run(replay("demo/parallel_calls").chat, "Hi").tool_calls
    """
    run.here("--streamfold-record=all", test_it=test).assert_outcomes(passed=1)
    assert model.asked == 0


# --- The documentation ----------------------------------------------------------------------------------------------

MARKED = """
import pytest
from streamfold.faults import status


@pytest.mark.streamfold_faults(status(429))
def test_it(replay):
    replay("demo/parallel_calls")
"""


@pytest.mark.slow
def test_the_example_of_the_guide_where_streamfold_is_installed(run: Runner) -> None:
    """The test file of the guide passes as it is printed, beside the application that it tests.

    Beside anyio's plugin, on the event loop that the file names; an entry point loads ours, and `--strict-markers`
    knows its marker.
    """
    page = (ROOT / "docs" / "guides" / "testing.md").read_text("utf-8")
    application, test = re.findall(r"^```python title=.*?\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[:2]
    assert "def test_" in test
    result = run.installed("--strict-markers", "-W", "error", app=application, test_app=test, test_marked=MARKED)
    result.assert_outcomes(passed=test.count("async def test_") + 1)
