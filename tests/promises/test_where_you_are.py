"""Use any of these models from LangChain, pydantic-ai, web pages and synchronous code.

Keep the SDK of OpenAI, Anthropic or Google: RepairTransport corrects its streams.

Serve your models over five APIs with the gateway, which has API keys, rate limits and budgets. It also serves Claude
Code and other coding agents.

Process many prompts with streamfold batch. After a crash, streamfold sends only the rows in flight again. A job can use
the provider's batch API, or run on Ray.

Set rate limits and budgets, read the cost of each answer, and export traces and metrics to OpenTelemetry.

Find out which features a server really supports with streamfold doctor URL.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest

from answers_by_api import APIS, Answer, told
from every_api import PAIRS, scripted, through
from folding import DONE, call, entry, fin, text
from scale import pick
from sdks import openai
from servers import END, STREAM, Connection, framed, sends_each, serving
from streamfold import sync
from streamfold.testing import call as scripted_call
from tables import each_row

BOUND_BY = [
    "../packages/repair/tests/test_repair.py::test_a_client_sees_what_the_answer_means",
    "../packages/integrations/tests/test_langchain.py::test_each_kind_of_stream_is_right",
    "../packages/integrations/tests/test_pydantic_ai.py::test_each_kind_of_stream_is_right",
    "client/test_sync.py::test_streaming_and_whole_answers",
    "../packages/gateway/tests/test_matrix.py::test_answers",
    "../packages/gateway/tests/agents/test_claude_code.py::test_a_loop_of_tools_edits_files",
    "../packages/gateway/tests/agents/test_codex.py::test_a_patch_a_command_and_an_answer",
    "../packages/gateway/tests/agents/test_gemini_cli.py::test_a_loop_of_tools_edits_files",
    "browser/test_web_chat.py",
    "../packages/lab/tests/test_doctor.py::test_a_planted_quirk_is_found",
    "../packages/lab/tests/test_doctor.py::test_a_planted_fault_is_named",
    "../packages/jobs/tests/test_batch_command.py::test_a_job_that_is_killed_again_and_again",
    "../packages/jobs/tests/test_provider_batches.py::test_a_batch_is_created_once_whatever_call_the_job_dies_in",
    "../packages/jobs/tests/engines/test_ray.py::test_workers_and_the_driver_are_killed",
    "limits/test_rates_in_time.py::test_tokens_are_used_up_and_no_more",
    "limits/test_limits.py::test_a_budget_survives_a_restart",
    "../packages/gateway/tests/test_workers.py::test_limits_hold_for_all_workers",
    "real/test_shared_limits.py::test_four_processes_and_six_kills",
    "real/test_replicas.py::test_limits_hold_for_both",
]
SDK = "ignore:Async generator:ResourceWarning"  # on trio it leaves the generators of its streams behind
ANSWER = Answer(("It ", "is."), (("id-0", "f", {"x": "日本"}), ("id-1", "g", {"y": [1, {"z": "\\"}]})))


def streaming(*events: bytes) -> Any:
    return sends_each(STREAM + framed(*events) + END)


WRONG = [  # both calls under one index, and a head that is repeated with an empty name
    call(entry(0, "a", "f", "")), call(entry(0, None, None, '{"x":1}')),
    call(entry(0, "b", "g", "")), call(entry(0, None, "", '{"y":2}')), fin("tool_calls"), DONE,
]  # fmt: skip


@pytest.mark.filterwarnings(SDK)
async def test_the_line_of_the_readme() -> None:
    """The SDK alone reads one call where there are two; with the transport it reads both."""
    repairing = pytest.importorskip("streamfold_repair.httpx").RepairTransport()
    read: dict[str, list[tuple[str, str]]] = {}
    async with serving(streaming(*WRONG)) as server:
        for name, transport in (("alone", httpx.AsyncHTTPTransport()), ("repaired", repairing)):
            client = openai.AsyncOpenAI(
                api_key="none",
                base_url=server.base_url,
                http_client=httpx.AsyncClient(transport=transport),  # type: ignore[arg-type]
            )
            messages: Any = [{"role": "user", "content": "Hi"}]
            async with client, client.chat.completions.stream(model="m", messages=messages) as stream:
                whole = await stream.get_final_completion()
            calls: Any = whole.choices[0].message.tool_calls
            read[name] = [(made.function.name, made.function.arguments) for made in calls]
    assert read["repaired"] == [("f", '{"x":1}'), ("g", '{"y":2}')]
    assert read["alone"] != read["repaired"]


@pytest.mark.filterwarnings(SDK)
async def test_an_sdk_runs_no_call_of_a_stream_that_broke_off() -> None:
    """It raises its own error instead, wherever the stream breaks off."""
    transport = pytest.importorskip("streamfold_repair.httpx").RepairTransport
    for at in range(1, len(WRONG) - 1):
        async with serving(streaming(*WRONG[:at])) as server:
            http = httpx.AsyncClient(transport=transport())
            client = openai.AsyncOpenAI(api_key="none", base_url=server.base_url, http_client=http, max_retries=0)  # type: ignore[arg-type]
            messages: Any = [{"role": "user", "content": "Hi"}]
            async with client:
                with pytest.raises(Exception, match="ended"):
                    async with client.chat.completions.stream(model="m", messages=messages) as stream:
                        await stream.get_final_completion()


async def test_sync_code() -> None:
    """The same answer with plain `for`, in a thread of this program, on every API."""
    for api in APIS:
        stream = told(api, ANSWER, random.Random(1))

        def read(config: dict[str, Any]) -> tuple[str, Any]:
            with sync.Provider.from_config(config) as provider:
                chunks = list(provider.chat_stream("Hi"))
                return "".join(chunk.delta for chunk in chunks), chunks[-1].tool_calls

        async with serving(streaming(*stream.events)) as server:
            config = {"base_url": server.base_url, "adapter": api, "model": "m", "max_retries": 0}
            shown, calls = await anyio.to_thread.run_sync(read, config)
        assert shown == "It is."
        assert sorted((made.id, made.name, made.arguments) for made in calls) == list(ANSWER.calls)


@each_row(("client", "provider"), PAIRS)
async def test_the_gateway_before_any_model(client: str, provider: str) -> None:
    """Text and calls are the same for a client of every API, whatever the provider speaks."""
    turn = ["It is.", scripted_call("f", x="日本"), scripted_call("g", y=[1, {"z": "\\"}])]
    async with through(client, scripted(provider, turn)) as (model, _):
        reply = await model.chat("Hi")
    assert reply.text == "It is."
    assert [(made.name, made.arguments) for made in reply.tool_calls] == [
        (name, given) for _, name, given in ANSWER.calls
    ]


PROCESS = """
import asyncio, sys
from streamfold import Provider

async def main():
    async with Provider.from_config({
        "base_url": sys.argv[1], "model": "m", "max_concurrent": 2, "rate_limits": {"store": sys.argv[2]},
    }) as provider:
        await asyncio.gather(*(provider.chat(f"{sys.argv[3]} {at}") for at in range(4)))

asyncio.run(main())
"""


@pytest.mark.slow
def test_limits_are_shared_by_processes(tmp_path: Path) -> None:
    """Processes that begin at the same time, with a new file: together they never ask more than two at once."""
    running = most = 0
    asked: Counter[str] = Counter()
    count = pick(6, 2)

    async def script(peer: Connection) -> None:
        nonlocal running, most
        while True:
            asked[json.loads(await peer.request())["messages"][-1]["content"]] += 1
            running += 1
            most = max(most, running)
            await anyio.sleep(0.02)
            running -= 1
            await peer.send(STREAM + framed(text("Hi"), fin("stop"), DONE) + END)

    async def main() -> list[str]:
        store = f"sqlite:///{tmp_path / 'limits.db'}"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "NO_PROXY": "*"}
        async with serving(script) as server:
            with ExitStack() as stack:
                processes = []
                for number in range(count):
                    command = [sys.executable, "-W", "error", "-c", PROCESS, server.base_url, store, str(number)]
                    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
                    processes.append(stack.enter_context(process))
                return [(await anyio.to_thread.run_sync(process.communicate))[1] for process in processes]

    assert anyio.run(main) == [""] * count
    assert asked == Counter({f"{number} {at}": 1 for number in range(count) for at in range(4)})
    assert most <= 2
