"""Every client reads the same of an answer through the gateway, and none takes a broken answer for a whole one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streamfold.recording import Recording
from streamfold.serving.anthropic.opaque_data import unpack_call_id  # ids that the Messages API has no letters for
from tables import each_row

FIXTURES = Path(__file__).parents[4] / "fixtures"
TEXT = "demo/reasoning_text"
CALLS = "demo/parallel_calls"
BROKEN = ["broken", "cut", "garbled"]


def tool(name: str, **properties: Any) -> dict[str, Any]:
    """A function as Chat Completions has it."""
    parameters = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": "A tool.", "parameters": parameters}}


STRING = {"type": "string"}
TIME = tool("get_time", zone=STRING)
TOOLS = [
    tool("get_weather", city=STRING, unit=STRING),
    tool("search_flights", **{"from": STRING, "to": STRING, "date": STRING, "passengers": {"type": "integer"}}),
]


def expected(name: str) -> dict[str, Any]:
    """What a recording says."""
    return dict(Recording.load(FIXTURES / name).expect)


def calls(heard: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """The calls, with the values of their arguments: some clients have parsed them."""
    return [(unpack_call_id(call_id), name, json.loads(arguments)) for call_id, name, arguments in heard["calls"]]


def test_text(client: Any, api: str, base_url: str) -> None:
    """It comes in pieces and is all there, and so is the reasoning where the client knows of it."""
    heard = client.ask(base_url, api, f"replay:{TEXT}")
    told = expected(TEXT)
    assert heard["error"] is None
    assert heard["text"] == told["text"]
    assert heard["pieces"] > 3
    assert heard["reasoning"] in (told["reasoning"], *client.blind_to_reasoning)
    assert heard["calls"] == []
    assert heard["finish"] in ("stop", "completed", "end_turn", "STOP")


def test_parallel_calls(client: Any, api: str, base_url: str) -> None:
    """Calls whose fragments the provider mixes come whole, with the ids and arguments that the model gave them."""
    heard = client.ask(base_url, api, f"replay:{CALLS}", tools=TOOLS)
    told = expected(CALLS)
    assert heard["error"] is None
    assert heard["text"] == told["text"]
    assert calls(heard) == [(call["id"], call["name"], json.loads(call["arguments"])) for call in told["calls"]]
    assert heard["finish"] in (
        "tool_calls",
        "tool-calls",
        "tool_call",
        "tool_use",
        "completed",
        "STOP",
        "requires_action",
    )


def test_a_loop_over_tools(client: Any, api: str, before_a_conversation: str) -> None:
    """What a client makes of the calls, with their results, is a conversation that the provider can be sent."""
    if api in ("chat", "responses") and client.name not in (
        "langchain-openai",
        "litellm",
        "ai-sdk-openai",
        "ai-sdk-compatible",
    ):
        pytest.skip("it keeps no conversation by itself")
    heard = client.ask(before_a_conversation, api, "main", tools=TOOLS, loop=True)
    assert heard["error"] is None
    assert heard["text"] == expected(CALLS)["text"] + expected(TEXT)["text"]
    assert [call_id for call_id, *_ in calls(heard)] == [call["id"] for call in expected(CALLS)["calls"]]


def test_a_key_that_is_not_known(client: Any, api: str, base_url: str) -> None:
    """It is a 401 with our words."""
    heard = client.ask(base_url, api, f"replay:{TEXT}", key="another")
    assert "unknown API key" in heard["error"]["message"]
    assert heard["error"]["status"] == 401
    assert heard["text"] == ""


def test_too_many_requests(client: Any, api: str, base_url: str) -> None:
    """A refusal of the provider's keeps its status."""
    heard = client.ask(base_url, api, f"limited:{TEXT}")
    assert heard["error"]["status"] == 429
    assert heard["text"] == ""


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_text(client: Any, api: str, base_url: str, how: str) -> None:
    """It is an error in the client, behind what had come, and no end."""
    heard = client.ask(base_url, api, f"{how}:{TEXT}")
    assert heard["error"] is not None
    assert heard["text"]
    assert expected(TEXT)["text"].startswith(heard["text"])
    assert heard["finish"] is None


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_call(client: Any, api: str, base_url: str, how: str) -> None:
    """No client is handed a call of it."""
    heard = client.ask(base_url, api, f"{how}:{CALLS}", tools=TOOLS)
    assert heard["error"] is not None
    assert heard["calls"] == []


@pytest.mark.parametrize("name", ["errors/object", "litellm/error_after_text"])
def test_an_error_in_the_stream(client: Any, api: str, base_url: str, name: str) -> None:
    """The client has the provider's own words for it."""
    heard = client.ask(base_url, api, f"replay:{name}")
    assert expected(name)["message"] in heard["error"]["message"]
    assert heard["calls"] == []


@pytest.mark.parametrize("name", ["ends/eof_in_text", "ends/eof_after_arguments", "ends/nothing"])
def test_an_answer_that_just_stops(client: Any, api: str, base_url: str, name: str) -> None:
    """A body that ends in order before the answer does is no answer, whatever a client would make of it by itself."""
    heard = client.ask(base_url, api, f"replay:{name}")
    assert heard["error"] is not None
    assert heard["calls"] == []


@each_row("name", ["ends/done_without_reason", "ends/no_done", "ends/stop_with_calls", "ends/unknown_reason"])
def test_an_end_that_is_odd(client: Any, api: str, base_url: str, name: str) -> None:
    """An end that is one is no error."""
    heard, told = client.ask(base_url, api, f"replay:{name}", tools=TOOLS), expected(name)
    assert heard["error"] is None
    assert heard["text"] == told.get("text", "")
    assert [call_id for call_id, *_ in calls(heard)] == [call["id"] for call in told.get("calls", [])]


def test_llamacpp(client: Any, api: str, before_llamacpp: str) -> None:
    """Text of a server that nobody here wrote."""
    heard = client.ask(before_llamacpp, api, "main", "hello", options=client.at_most(40, api))
    assert heard["error"] is None
    assert heard["text"]


def test_a_call_of_llamacpp(client: Any, api: str, before_llamacpp: str) -> None:
    """A demanded call."""
    options = {"tool_choice": "required", **client.at_most(1500, api)}
    heard = client.ask(before_llamacpp, api, "main", "what time is it?", tools=[TIME], options=options)
    assert heard["error"] is None
    assert [(name, [*arguments]) for _, name, arguments in calls(heard)] == [("get_time", ["zone"])]


def test_aimock(client: Any, api: str, before_aimock: str) -> None:
    """Characters that the server cuts in two, and calls."""
    assert client.ask(before_aimock, api, "main", "unicode")["text"] == "Grüße, 世界! 👋🏽 ½ π, 日本語 🇫🇷"
    heard = client.ask(before_aimock, api, "main", "two calls", tools=[TIME])
    assert [arguments for *_, arguments in calls(heard)] == [{"zone": "utc"}, {"zone": "local — 現地"}]


@pytest.mark.parametrize(("prompt", "status"), [("no money", 429), ("hang up", None), ("cut off", None)])
def test_failures_of_aimock(client: Any, api: str, before_aimock: str, prompt: str, status: int | None) -> None:
    """Each is an error."""
    heard = client.ask(before_aimock, api, "main", prompt, tools=[TIME] if prompt == "cut off" else [])
    assert heard["error"] is not None
    assert heard["calls"] == []
    if status == 429 and api == "messages":
        status = 402  # an empty account, which clients of this API do not take for a limit that passes
    assert status is None or heard["error"]["status"] == status
