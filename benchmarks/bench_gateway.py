"""What a gateway costs for each event that it hands on, beside LiteLLM's proxy and a bare one that hands on bytes.

Each is a server process before the same upstream (`replay.py`), and is asked for the same answers in the same rounds,
in shuffled order, by a client in this process. What counts is CPU time of the server's process, all of its threads, for
an event of the upstream; whoever answers wrongly has no time. The bare one reads nothing and mends nothing: it is
starlette, uvicorn and httpx, without which none of these servers goes.

    python benchmarks/run.py --setup streamfold litellm-proxy     once
    python benchmarks/bench_gateway.py [ROUNDS]                   seven, if not said otherwise
"""

from __future__ import annotations

import http.client
import json
import os
import random
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

import environments
from payloads import TOOLS, Payload, digest, payload
from run import replay_server

SIZES = {"one": 2000, "live": 400}  # events that carry something
SCENARIOS = [("chat-text", "one"), ("chat-text", "live"), ("chat-calls", "one"), ("kimi-markup", "one")]
ANSWERS = {"one": 2, "live": 3}  # in one measurement
STARTING = 120.0  # seconds
KEY = f"sk-{secrets.token_hex(16)}"  # of clients; LiteLLM does not start without one
CONTESTANTS = {"bare": "streamfold", "streamfold": "streamfold", "litellm": "litellm-proxy"}


# --- the servers ------------------------------------------------------------------------------------------------------


def upstreams(base: str) -> dict[str, str]:
    """The base URLs of the answers, by the names that clients ask for."""
    return {f"{name}-{delivery}": f"{base}/{name}/{delivery}/{SIZES[delivery]}/v1" for name, delivery in SCENARIOS}


def bare_command(folder: Path, base: str, port: int) -> list[str]:
    return [
        str(environments.python("streamfold")),
        str(Path(__file__)),
        "--bare",
        json.dumps(upstreams(base)),
        str(port),
    ]


def streamfold_command(folder: Path, base: str, port: int) -> list[str]:
    tables = []
    for name, url in upstreams(base).items():
        dialect = payload(name.rpartition("-")[0], 2000).dialect
        tables.append(f'[providers.{name}]\nbase_url = "{url}"\nmodel = "m"\n')
        tables.append(f'dialect = "{dialect}"\n' if dialect else "")
    file = folder / "streamfold.toml"
    tables.append('[gateway]\napi_key_env = "BENCH_KEY"\nmax_requests = 4000\n')
    file.write_text("".join(tables), "utf-8")
    program = [str(environments.python("streamfold")), "-c", "from streamfold.cli import main; main()"]
    return [*program, "serve", "-c", str(file), "--port", str(port)]


def litellm_command(folder: Path, base: str, port: int) -> list[str]:
    models = [
        {"model_name": name, "litellm_params": {"model": "openai/m", "api_base": url, "api_key": "none"}}
        for name, url in upstreams(base).items()
    ]
    file = folder / "litellm.yaml"
    settings = {"master_key": "os.environ/BENCH_KEY"}
    file.write_text(json.dumps({"model_list": models, "general_settings": settings}), "utf-8")  # JSON is YAML
    python = environments.python("litellm-proxy")
    words = ["--host", "127.0.0.1", "--port", str(port), "--num_workers", "1", "--telemetry", "False"]
    return [str(python), str(python.with_name("litellm")), "--config", str(file), *words]


COMMANDS: dict[str, Callable[[Path, str, int], list[str]]] = {
    "bare": bare_command,
    "streamfold": streamfold_command,
    "litellm": litellm_command,
}


def bare(urls: dict[str, str], port: int) -> None:
    """Serves the bare gateway: what comes from the upstream is handed on, chunk by chunk, unread."""
    import httpx
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import StreamingResponse
    from starlette.routing import Route

    client = httpx.AsyncClient(timeout=60)

    async def handed_on(url: str, body: bytes) -> object:
        async with client.stream("POST", url, content=body, headers={"content-type": "application/json"}) as answer:
            async for data in answer.aiter_raw():
                yield data

    async def ask(request: Request) -> StreamingResponse:
        body = await request.body()
        url = urls[json.loads(body)["model"]] + "/chat/completions"
        return StreamingResponse(handed_on(url, body), media_type="text/event-stream")

    app = Starlette(routes=[Route("/v1/chat/completions", ask, methods=["POST"])])
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def serving(name: str, folder: Path, base: str) -> Iterator[tuple[int, str]]:
    """A contestant's server: its process id, and its host with the port."""
    port = free_port()
    words = COMMANDS[name](folder, base, port)
    said = (folder / f"{name}.log").open("w+")
    environment = {**environments.clean_environment(), "BENCH_KEY": KEY}
    with said, subprocess.Popen(words, stdout=said, stderr=said, env=environment) as process:
        try:
            ends = time.monotonic() + STARTING
            while True:
                with socket.socket() as trial:
                    if trial.connect_ex(("127.0.0.1", port)) == 0:
                        break
                if process.poll() is not None or time.monotonic() > ends:
                    said.seek(0)
                    sys.exit(f"{name} did not start:\n{said.read()[-3000:]}")
                time.sleep(0.1)
            yield process.pid, f"127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


# --- measuring --------------------------------------------------------------------------------------------------------


def cpu(pid: int) -> float:
    """Seconds of CPU time of a process, all of its threads. Linux alone says it of another process."""
    try:
        return sum(int(task.read_text().split()[0]) for task in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9
    except (OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ask(address: str, model: str) -> str:
    """Streams an answer; what it came to."""
    from streamfold import StreamDecoder

    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": "?"}], "tools": TOOLS}
    split = urlsplit(f"http://{address}")
    connection = http.client.HTTPConnection(split.hostname or "", split.port, timeout=60)
    try:
        headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        answer = connection.getresponse()
        data = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        return f"HTTP {answer.status}: {data[:200]!r}"
    decoder = StreamDecoder("chat")
    decoder.feed(data)
    decoder.close()
    reply = decoder.reply
    return digest(reply.text, [(call.id, call.name, call.arguments) for call in reply.tool_calls])


def judged(result: str, answer: Payload) -> str:
    if result == answer.digest_unread:
        return "markup unread"
    return "right" if result == answer.digest else f"wrong ({result})"


def measure(servers: dict[str, tuple[int, str]], rounds: int) -> dict[tuple[str, str], list[tuple[str, float]]]:
    """The verdict and the microseconds per event, by contestant and model, of each round."""
    found: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for number in range(rounds + 1):  # the first one warms up
        for name, delivery in SCENARIOS:
            answer, model = payload(name, SIZES[delivery]), f"{name}-{delivery}"
            for contestant in random.sample(list(servers), len(servers)):
                pid, address = servers[contestant]
                began = cpu(pid)
                verdicts = {judged(ask(address, model), answer) for _ in range(ANSWERS[delivery])}
                took = (cpu(pid) - began) / ANSWERS[delivery] / len(answer.events) * 1e6
                if number:
                    found.setdefault((contestant, model), []).append((" and ".join(sorted(verdicts)), took))
        print(f"round {number} of {rounds}", file=sys.stderr)
    return found


def table(found: dict[tuple[str, str], list[tuple[str, float]]]) -> Iterator[str]:
    """A line for each contestant and answer: median [least .. most] µs per event, and ratios to the bare gateway."""
    yield f"{'':36s}{'µs of CPU per event':>24s}{'to bare':>10s}{'to streamfold':>15s}"
    for name, delivery in SCENARIOS:
        model = f"{name}-{delivery}"
        yield f"{payload(name, SIZES[delivery]).title}, {delivery}"
        there = [who for who in CONTESTANTS if (who, model) in found]
        middles = {who: median(took for _, took in found[who, model]) for who in there}
        for who, middle in middles.items():
            runs = found[who, model]
            verdicts = " and ".join(sorted({verdict for verdict, _ in runs}))
            times = [took for _, took in runs]
            spread = f"{middle:8.1f} [{min(times):6.1f} .. {max(times):6.1f}]"
            if "wrong" in verdicts:
                spread, middle = "", float("nan")
            ratios = f"{middle / middles['bare']:10.1f}{middle / middles['streamfold']:15.2f}"
            yield f"  {who:12s}{verdicts:16.40s}{spread:>30s}{ratios}"


def main() -> None:
    if sys.argv[1:2] == ["--bare"]:
        bare(json.loads(sys.argv[2]), int(sys.argv[3]))
        return
    if not Path("/proc/self/stat").exists():
        print("left out: there is no /proc, which tells the CPU time of another process")
        return
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    there = [name for name, environment in CONTESTANTS.items() if environments.is_set_up(environment)]
    if "streamfold" not in there:
        sys.exit("the environment of streamfold is not set up: benchmarks/run.py --setup streamfold")
    if missing := [name for name in CONTESTANTS if name not in there]:
        print(f"not set up, and left out: {', '.join(missing)} (benchmarks/run.py --setup)", file=sys.stderr)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        base = stack.enter_context(replay_server())
        servers = {name: stack.enter_context(serving(name, folder, base)) for name in there}
        for line in table(measure(servers, rounds)):
            print(line)


if __name__ == "__main__":
    main()
