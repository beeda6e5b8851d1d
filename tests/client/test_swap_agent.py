"""The example `swap_agent`: one script, three APIs, and the swap is one line of its `streamfold.toml`."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from playing_recordings import play, seen, wanted
from sdks import openai
from streamfold.recording import Recording
from tables import each_row

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "swap_agent"
RECORDINGS = sorted(EXAMPLE.glob("recordings/*/*.sse"))
PROVIDERS = ("chat", "responses", "kimi")
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("STREAMFOLD_")},
    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    "PYTHONIOENCODING": "utf-8",
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not EXAMPLE.is_dir(), reason="the examples are not part of what is installed"),
]


class Runs:
    """What the script printed, and what the server was asked, by the provider in the changed line."""

    def __init__(self) -> None:
        self.output: dict[str, str] = {}
        self.requests: dict[str, list[dict[str, Any]]] = {}
        self.configuration: dict[str, list[str]] = {}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The script three times, against its server, with just that line changed between them."""
    folder = tmp_path_factory.mktemp("example") / "swap_agent"
    shutil.copytree(EXAMPLE, folder)
    file, written = folder / "streamfold.toml", folder / "requests.jsonl"
    serve = [sys.executable, str(folder / "serve.py"), "--port", "0", "--write", str(written)]
    server = subprocess.Popen(serve, stdout=subprocess.PIPE, encoding="utf-8", env=ENVIRONMENT)
    made = Runs()
    try:
        assert server.stdout is not None
        address = server.stdout.readline().removeprefix("serving on ").strip()
        file.write_text(file.read_text("utf-8").replace("http://127.0.0.1:8765", address), "utf-8")
        for name in PROVIDERS:
            lines = file.read_text("utf-8").splitlines(keepends=True)
            lines[0] = f'default = "{name}"\n'
            file.write_text("".join(lines), "utf-8")
            written.write_text("", "utf-8")
            agent = [sys.executable, str(folder / "agent.py")]
            done = subprocess.run(
                agent, capture_output=True, encoding="utf-8", env=ENVIRONMENT, timeout=60, check=False
            )
            assert done.returncode == 0, done.stderr
            made.output[name] = done.stdout
            made.requests[name] = [json.loads(line) for line in written.read_text("utf-8").splitlines()]
            made.configuration[name] = lines
        yield made
    finally:
        server.terminate()
        server.communicate(timeout=10)


def bodies(runs: Runs, name: str) -> list[dict[str, Any]]:
    return [request["body"] for request in runs.requests[name]]


def test_one_line_is_the_swap(runs: Runs) -> None:
    """The files differ in their first line, the addresses asked differ, and the output does not."""
    assert len({tuple(lines[1:]) for lines in runs.configuration.values()}) == 1
    assert [lines[0] for lines in runs.configuration.values()] == [f'default = "{name}"\n' for name in PROVIDERS]
    assert {name: [request["path"] for request in made] for name, made in runs.requests.items()} == {
        "chat": ["/chat/v1/chat/completions"] * 3,
        "responses": ["/responses/v1/responses"] * 3,
        "kimi": ["/kimi/v1/chat/completions"] * 3,
    }
    assert len(set(runs.output.values())) == 1


def test_the_answer(runs: Runs) -> None:
    """What every provider's run prints is what the README shows."""
    shown = re.search(r"```\n(calls .*?)```", (EXAMPLE / "README.md").read_text("utf-8"), re.DOTALL)
    assert shown
    assert runs.output["chat"] == shown[1]
    assert json.loads(shown[1][shown[1].index("\n{") :]) == {
        "items": [
            {"product": "apples", "quantity": 3, "unit_price": 0.4},
            {"product": "bread", "quantity": 1, "unit_price": 2.5},
        ],
        "total": 3.7,
        "available": True,
    }


def test_the_image_arrives(runs: Runs) -> None:
    """In each request of each API, in its own shape, with every byte."""
    url = "data:image/png;base64," + base64.b64encode((EXAMPLE / "shopping_list.png").read_bytes()).decode()
    for body in (*bodies(runs, "chat"), *bodies(runs, "kimi")):
        assert body["messages"][0]["role"] == "user"
        assert body["messages"][0]["content"][1] == {"type": "image_url", "image_url": {"url": url}}
    for body in bodies(runs, "responses"):
        assert body["input"][0]["content"][1] == {"type": "input_image", "image_url": url, "detail": "auto"}


def test_the_tools_arrive(runs: Runs) -> None:
    """Nested in a chat, flat in the Responses API, with the schema of the function's arguments."""
    for name in PROVIDERS:
        for body in bodies(runs, name):
            inner = [tool if name == "responses" else tool["function"] for tool in body["tools"]]
            assert [(tool["name"], sorted(tool["parameters"]["properties"])) for tool in inner] == [
                ("get_price", ["product"]),
                ("in_stock", ["product", "quantity"]),
            ]
            assert [tool["type"] for tool in body["tools"]] == ["function", "function"]
            assert body["tool_choice"] == "auto"


def test_calls_and_results_arrive_in_a_chat(runs: Runs) -> None:
    """OpenAI's ids, and arguments as the model wrote them."""
    assert bodies(runs, "chat")[2]["messages"][1:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_A0mQ0XvT1yLk8cWbN2sHd", "type": "function",
                    "function": {"name": "get_price", "arguments": '{"product":"apples"}'},
                },
                {
                    "id": "call_A1mQ0XvT1yLk8cWbN2sHd", "type": "function",
                    "function": {"name": "get_price", "arguments": '{"product":"bread"}'},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "call_A0mQ0XvT1yLk8cWbN2sHd", "content": "0.4"},
        {"role": "tool", "tool_call_id": "call_A1mQ0XvT1yLk8cWbN2sHd", "content": "2.5"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_b0mQ0XvT1yLk8cWbN2sHd", "type": "function",
                    "function": {"name": "in_stock", "arguments": '{"product":"apples","quantity":3}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_b0mQ0XvT1yLk8cWbN2sHd", "content": "true"},
    ]  # fmt: skip


def test_calls_and_results_arrive_as_items(runs: Runs) -> None:
    """Each turn goes back as the items that it came as, its encrypted reasoning first."""
    items = bodies(runs, "responses")[2]["input"][1:]
    assert [item["type"] for item in items] == [
        "reasoning", "function_call", "function_call", "function_call_output", "function_call_output",
        "reasoning", "function_call", "function_call_output",
    ]  # fmt: skip
    assert items[0]["encrypted_content"] == "gAAAAABmadeUpForThisExample-turn-1"
    assert items[2] == {
        "type": "function_call", "id": "fc_5wap11", "status": "completed", "call_id": "call_G1vT7nXb0LmYs5RwZ8eJ",
        "name": "get_price", "arguments": '{"product":"bread"}',
    }  # fmt: skip
    assert items[4] == {"type": "function_call_output", "call_id": "call_G1vT7nXb0LmYs5RwZ8eJ", "output": "2.5"}
    assert items[7]["output"] == "true"


def test_calls_and_results_arrive_at_kimi(runs: Runs) -> None:
    """Its own numbering of the calls, and its reasoning back in every turn."""
    messages = bodies(runs, "kimi")[2]["messages"][1:]
    assert [message.get("tool_call_id") for message in messages] == [
        None, "functions.get_price:0", "functions.get_price:1", None, "functions.in_stock:2",
    ]  # fmt: skip
    assert [message.get("reasoning_content") for message in messages if message["role"] == "assistant"] == [
        "The list says three apples and one bread. I need both prices.",
        "Three apples: are there as many?",
    ]
    assert messages[3]["tool_calls"] == [
        {
            "id": "functions.in_stock:2", "type": "function",
            "function": {"name": "in_stock", "arguments": '{"product": "apples", "quantity": 3}'},
        }
    ]  # fmt: skip
    assert [message["content"] for message in messages if message["role"] == "tool"] == ["0.4", "2.5", "true"]


def test_the_schema_of_the_answer_arrives(runs: Runs) -> None:
    """In OpenAI's strict mode on its two APIs; at Kimi, which has no such mode, in its own flavour."""
    (chat,) = {json.dumps(body["response_format"]) for body in bodies(runs, "chat")}
    (items,) = {json.dumps(body["text"]["format"]) for body in bodies(runs, "responses")}
    (kimi,) = {json.dumps(body["response_format"]) for body in bodies(runs, "kimi")}
    strict, flat, other = json.loads(chat)["json_schema"], json.loads(items), json.loads(kimi)["json_schema"]
    assert (strict["name"], strict["strict"], strict["schema"]["additionalProperties"]) == ("Order", True, False)
    assert flat == {"type": "json_schema", **strict}
    assert (other["name"], "additionalProperties" in other["schema"]) == ("Order", False)
    assert sorted(other["schema"]["properties"]) == ["available", "items", "total"]


def test_the_bodies_are_openais(runs: Runs) -> None:
    """By OpenAI's own types."""
    for body in bodies(runs, "chat"):
        TypeAdapter(openai.types.chat.completion_create_params.CompletionCreateParamsStreaming).validate_python(body)
    for body in bodies(runs, "responses"):
        TypeAdapter(openai.types.responses.response_create_params.ResponseCreateParamsStreaming).validate_python(body)


@each_row("path", RECORDINGS, ids=[f"{path.parent.name}/{path.stem}" for path in RECORDINGS])
def test_recordings_fold_to_what_is_expected(path: Path) -> None:
    """Each says that it was written from a documented format, with link and date, and what it folds to."""
    recording = Recording.load(path)
    assert (recording.source, bool(recording.link), bool(recording.date)) == ("documented", True, True)
    outcome = seen(play(recording, [recording.body]))
    assert outcome == wanted(recording, outcome)


def test_there_are_three_turns_of_each() -> None:
    """An empty folder would make the test above pass."""
    assert len(RECORDINGS) == 9
