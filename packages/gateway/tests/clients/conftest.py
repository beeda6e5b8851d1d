"""Clients that nobody here wrote, before our gateway; behind it recordings, llama.cpp's own server, and aimock.

Each client is a program of its own (`programs/`) in an environment of its own, since no two of them want the same
versions: `STREAMFOLD_CLIENTS` names the folder of these environments, and `nox -s clients` and `nox -s scenes` make
it. Without it, these tests are skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from scene_clients import SCENE_CLIENTS

from scripts import loaded

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
FIXTURES = ROOT / "fixtures"
LIMIT = 90.0  # seconds for one answer; importing litellm takes a while
KEY = "key-of-a-client"

# The servers of the tests beside these; there they are fixtures of another conftest.py.
sys.path.insert(0, str(ROOT / "tests" / "real"))
_real = loaded("tests/real/conftest.py")
llamacpp, aimock, started = _real.llamacpp, _real.aimock, _real.started

# Which program, in which environment, with which arguments, and the APIs that it speaks.
CLIENTS: dict[str, tuple[str, str, list[str], tuple[str, ...]]] = {
    "openai": ("with_openai.py", "openai", [], ("chat", "responses")),
    "langchain-openai": ("with_langchain.py", "langchain", [], ("chat", "responses")),
    "litellm": ("with_litellm.py", "litellm", [], ("chat", "responses", "messages")),
    "httpx-sse": ("with_httpx_sse.py", "httpx-sse", [], ("chat", "responses")),
    "curl": ("with_curl.py", "", [], ("chat", "responses")),
    "openai-node": ("with_openai.mjs", "node", [], ("chat", "responses")),
    "ai-sdk-openai": ("with_ai_sdk.mjs", "node", ["openai"], ("chat", "responses")),
    "ai-sdk-compatible": ("with_ai_sdk.mjs", "node", ["compatible"], ("chat",)),
    "anthropic-2": ("with_anthropic.py", "anthropic-2", [], ("messages",)),
    "anthropic-1": ("with_anthropic.py", "anthropic-1", [], ("messages",)),
    "langchain-anthropic": ("with_langchain_anthropic.py", "langchain-anthropic", [], ("messages",)),
    "pydantic-ai-anthropic": ("with_pydantic_ai.py", "pydantic-ai", [], ("messages",)),
    "google-genai": ("with_google_genai.py", "google-genai", [], ("gemini",)),
    "google-interactions": ("with_google_interactions.py", "google-genai", [], ("interactions",)),
    "genai-node": ("with_genai.mjs", "node", [], ("interactions",)),
    "anthropic-node": ("with_anthropic.mjs", "node", [], ("messages",)),
    "ai-sdk-google": ("with_ai_sdk.mjs", "node", ["google"], ("gemini",)),
    "ai-sdk-anthropic": ("with_ai_sdk.mjs", "node", ["anthropic"], ("messages",)),
}
_ran: dict[str, str] = {}
_scenes_played: defaultdict[str, Counter[str]] = defaultdict(Counter)


class Client:
    """A running program."""

    def __init__(self, name: str, command: list[str], environment: dict[str, str], folder: Path, log: Path) -> None:
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                cwd=folder,
                text=True,
                encoding="utf-8",
            )
        self.name = name
        self._log = log
        self.versions: dict[str, str] = self._read()

    def ask(self, base_url: str, api: str, model: str, prompt: str = "?", **rest: Any) -> dict[str, Any]:
        """What the client reads of an answer."""
        command = {"base_url": base_url, "key": KEY, "api": api, "model": model, "prompt": prompt, "tools": []}
        assert self._process.stdin
        self._process.stdin.write(json.dumps({**command, "options": {}, "loop": False, **rest}) + "\n")
        self._process.stdin.flush()
        return self._read()

    def at_most(self, tokens: int, api: str) -> dict[str, Any]:
        """The option for so many tokens, in this client's words."""
        in_words_of_the_api = api == "responses" and self.name != "langchain-openai" and "ai-sdk" not in self.name
        return {"max_output_tokens" if in_words_of_the_api else "max_tokens": tokens}

    @property
    def blind_to_reasoning(self) -> tuple[str, ...]:
        """What a client makes of reasoning that it has no place for."""
        return ("",) if self.name in ("langchain-openai", "ai-sdk-openai") else ()

    def stop(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout
        self._process.stdout.close()

    def _read(self) -> Any:
        assert self._process.stdout
        late = threading.Timer(LIMIT, self._process.kill)
        late.start()
        line = self._process.stdout.readline()
        late.cancel()
        if not line:
            pytest.fail(f"the program died, or took longer than {LIMIT:g} s:\n{self._log.read_text()[-2000:]}")
        return json.loads(line)


def _words(name: str, folder: Path) -> list[str] | None:
    """The command of a client, or None if it is not installed."""
    program, environment, arguments, _ = (CLIENTS | SCENE_CLIENTS)[name]
    if program.endswith(".mjs"):
        there = shutil.which("node") and (folder / environment / "node_modules").is_dir()
        # Node looks for packages beside the program.
        return ["node", str(folder / environment / program), *arguments] if there else None
    if not environment:
        return [sys.executable, str(HERE / "programs" / program)] if shutil.which("curl") else None
    inside = ("Scripts", "python.exe") if sys.platform == "win32" else ("bin", "python")
    interpreter = folder.joinpath(environment, *inside)
    return [str(interpreter), str(HERE / "programs" / program)] if interpreter.exists() else None


@pytest.fixture(scope="session")
def folder() -> Path:
    """The environments of the clients."""
    named = os.environ.get("STREAMFOLD_CLIENTS")
    if not named:
        pytest.skip("no clients are installed: nox -s clients, or nox -s scenes")
    found = Path(named).resolve()
    for packages in found.glob("*/node_modules"):
        for program in (HERE / "programs").glob("*.mjs"):
            shutil.copy(program, packages.parent)
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each client on each API that it speaks; without clients there is one test of each kind, to be skipped."""
    if "client" in metafunc.fixturenames:
        pairs = [(name, api) for name, (*_, apis) in CLIENTS.items() for api in apis]
        if not os.environ.get("STREAMFOLD_CLIENTS"):
            pairs = [("no client", "no API")]
        metafunc.parametrize(("client", "api"), pairs, indirect=["client"])


@pytest.fixture(scope="session")
def clients(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Client]]:
    """Starts clients, each once."""
    running: dict[str, Client] = {}
    kept = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    environment = {**kept, "PYTHONUTF8": "1", "LANGSMITH_TRACING": "false"}
    environment.pop("PYTHONPATH", None)

    def start(name: str) -> Client:
        if name not in running:
            words = _words(name, folder)
            if words is None:
                pytest.skip(f"{name} is not installed")
            where, log = tmp_path_factory.mktemp("client"), tmp_path_factory.mktemp("log") / "stderr"
            running[name] = Client(name, words, environment, where, log)
            _ran[name] = ", ".join(f"{package} {version}" for package, version in running[name].versions.items())
        return running[name]

    yield start
    for client in running.values():
        client.stop()


@pytest.fixture
def client(request: pytest.FixtureRequest, clients: Callable[[str], Client]) -> Client:
    """A client."""
    return clients(request.param)


@contextmanager
def command(*words: str, environment: dict[str, str] | None = None, log: Path) -> Iterator[str]:
    """Runs `streamfold WORDS`, and gives the address that it says."""
    run = [sys.executable, "-c", "from streamfold.cli import main; main()", *words]
    kept = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200", **(environment or {})}
    with log.open("w+") as out, subprocess.Popen(run, stdout=out, stderr=out, env=kept) as process:
        try:
            yield _address(process, log)
        finally:
            process.terminate()
            process.wait(20)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    waited = threading.Event()
    for _ in range(600):
        said = log.read_text()
        if "http://127.0.0.1:" in said and "\n" in said.partition("http://127.0.0.1:")[2]:
            return "http://127.0.0.1:" + said.partition("http://127.0.0.1:")[2].split()[0].split("/")[0].rstrip(".,")
        if process.poll() is not None:
            break
        waited.wait(0.05)
    pytest.fail(f"the server did not start:\n{log.read_text()}")


@pytest.fixture(scope="session")
def base_url(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[str]:
    """Where the gateway is: `streamfold serve` before `serve-replay`, once for each thing that goes wrong."""
    logs = tmp_path_factory.mktemp("servers")
    folders = [str(FIXTURES / name) for name in ("demo", "ends", "errors", "litellm")]
    replays = {
        "replay": [],
        "limited": ["--fault", "status(429, retry_after=1)"],
        "broken": ["--fault", "reset(after_events=60)"],
        "cut": ["--fault", "cut_after(events=60)"],
        "garbled": ["--fault", "truncate_json(60)"],
    }
    with ExitStack() as stack:
        text = '[gateway]\napi_key_env = "CLIENT_KEY"\nport = 0\n'
        for name, faults in replays.items():
            words = ["serve-replay", *folders, "--speed", "instant", *faults]
            address = stack.enter_context(command(*words, log=logs / name))
            # A chunk for each event, so that the number of pieces does not depend on what arrives together.
            text += (
                f'[providers.{name}]\nbase_url = "{address}/v1"\nmodel = "none"\nmax_retries = 0\ncoalesce = false\n'
            )
        file = logs / "streamfold.toml"
        file.write_text(text)
        words = ["serve", "-c", str(file), "--port", "0"]
        yield stack.enter_context(command(*words, environment={"CLIENT_KEY": KEY}, log=logs / "gateway")) + "/v1"


def before(server: str, log: Path) -> Any:
    """A gateway before another server."""
    file = log.with_suffix(".toml")
    file.write_text(
        f'[gateway]\napi_key_env = "CLIENT_KEY"\n[providers.main]\nbase_url = "{server}"\nmodel = "tiny"\n'
        'max_retries = 0\napi_key = "unused"\n'
    )
    return command("serve", "-c", str(file), "--port", "0", environment={"CLIENT_KEY": KEY}, log=log)


@pytest.fixture
def before_a_conversation(folder: Path, tmp_path: Path) -> Iterator[str]:
    """A gateway before a server that first answers with calls, and then with text."""
    turns = [str(FIXTURES / "demo" / f"{name}.sse") for name in ("parallel_calls", "reasoning_text")]
    with (
        command("serve-replay", *turns, "--speed", "instant", log=tmp_path / "replay") as server,
        before(f"{server}/v1", tmp_path / "gateway") as address,
    ):
        yield f"{address}/v1"


@pytest.fixture(scope="session")
def before_llamacpp(llamacpp: str, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway before llama.cpp."""
    with before(llamacpp, tmp_path_factory.mktemp("llamacpp") / "gateway") as address:
        yield f"{address}/v1"


@pytest.fixture(scope="session")
def before_aimock(aimock: str, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway before aimock."""
    with before(aimock, tmp_path_factory.mktemp("aimock") / "gateway") as address:
        yield f"{address}/v1"


@pytest.fixture(scope="session")
def scenes_played() -> defaultdict[str, Counter[str]]:
    """The number of conversations by how they compare: of each client, and in all with the reasons."""
    return _scenes_played


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Lists the clients that ran, and what the scenes counted."""
    for name, versions in _ran.items():
        terminalreporter.write_line(f"client {name}: {versions}")
    for who, counts in _scenes_played.items():
        numbers = ", ".join(f"{number} {what}" for what, number in sorted(counts.items()))
        terminalreporter.write_line(f"{who}: {numbers}")
