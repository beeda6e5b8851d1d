"""The gateway against Open Responses (https://www.openresponses.org): what its compliance tests ask of a server.

They send seven kinds of requests, and judge answers by the specification's types, which are a package. The prompts and
the checks here are our own.
"""

from __future__ import annotations

from typing import Any

from openresponses_types import types

from gateways import RESPONSES, behind
from mirror import check_open_responses, check_response_events
from streamfold.testing import call, say, usage
from streamfold.testing.script import read_answer
from streamfold.testing.scripted import ScriptSerializer
from tables import each_row

TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "Gets the weather of a place.",
    "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
}
DOT = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"


def message(role: str, content: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


TEXT = [say("Hello there, friend"), usage(10, 5)]
CALL = [call("get_weather", place="Lisbon"), usage(10, 5)]
# Each kind of request: its members, the answer of the provider behind the gateway, and the items that must come.
REQUESTS: dict[str, tuple[dict[str, Any], list[Any], list[str]]] = {
    "text": ({"input": [message("user", "Greet me.")]}, TEXT, ["message"]),
    "system": ({"input": [message("system", "Be brief."), message("user", "Greet me.")]}, TEXT, ["message"]),
    "tool": ({"input": [message("user", "Weather in Lisbon?")], "tools": [TOOL]}, CALL, ["function_call"]),
    "image": (
        {"input": [message("user", [{"type": "input_text", "text": "What is it?"},
                                    {"type": "input_image", "image_url": DOT}])]},
        TEXT,
        ["message"],
    ),
    "turns": (
        {"input": [message("user", "I am Ada."), message("assistant", "Hello Ada!"), message("user", "Who am I?")]},
        TEXT,
        ["message"],
    ),
}  # fmt: skip


def written(turn: list[Any]) -> bytes:
    return b"".join(event for _, event in ScriptSerializer("chat", "m").events(read_answer(turn)))


@each_row("kind", REQUESTS)
async def test_a_whole_response_is_one_of_the_specification(kind: str) -> None:
    """It has every member that the type demands, is completed, and has the items that were wanted."""
    members, turn, wanted = REQUESTS[kind]
    async with behind(written(turn)) as client:
        answer = await client.post(RESPONSES, json={"model": "main", **members})
    assert answer.status_code == 200, answer.text
    response = types.ResponseResource.model_validate(answer.json())
    assert response.status == "completed"
    assert [item["type"] for item in answer.json()["output"]] == wanted


@each_row("kind", REQUESTS)
async def test_every_streamed_event_is_one_of_the_specification(kind: str) -> None:
    """Events are of known types, numbered and in order; the response at the end is whole."""
    members, turn, wanted = REQUESTS[kind]
    async with behind(written(turn)) as client:
        answer = await client.post(RESPONSES, json={"model": "main", "stream": True, **members})
    assert answer.headers["content-type"].startswith("text/event-stream")
    check_open_responses(answer.content)
    response = types.ResponseResource.model_validate(check_response_events(answer.content))
    assert response.status == "completed"
    for event in ("added", "done"):
        assert answer.text.count(f"event: response.output_item.{event}\n") == len(wanted)
    if kind == "tool":
        assert "event: response.function_call_arguments.delta\n" in answer.text
        assert "event: response.function_call_arguments.done\n" in answer.text


@each_row("member", ["conversation", "prompt", "previous_response_id"])
async def test_what_is_kept_nowhere_is_refused(member: str) -> None:
    """A request that refers to it gets an error that names the member, instead of half of an answer."""
    async with behind(written(TEXT)) as client:
        answer = await client.post(RESPONSES, json={"model": "main", "input": "Hi", member: "one_1"})
        compact = await client.post(f"{RESPONSES}/compact", json={"model": "main", "input": "Hi"})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(member)
    assert compact.status_code in (404, 405)


@each_row(
    ("responses", "quirks", "counted"),
    [(True, {"counts_tokens": True}, True), (False, {"counts_tokens": True}, True), (True, {}, False)],
)
async def test_tokens_are_counted(responses: bool, quirks: dict[str, Any], counted: bool) -> None:
    """By the provider where it can, else by an estimate that says so; whether responses are stored or not."""
    body = {"model": "main", "input": [message("user", "a" * 400)], "tools": [TOOL]}
    reply = b'{"object": "response.input_tokens", "input_tokens": 57}'
    async with behind(reply, adapter="responses", quirks=quirks, responses=responses) as client:
        answer = await client.post(f"{RESPONSES}/input_tokens", json=body)
        paths = [request.url.path for request in client.upstream.requests]  # type: ignore[attr-defined]
    assert answer.status_code == 200, answer.text
    assert answer.json()["object"] == "response.input_tokens"
    assert paths == (["/v1/responses/input_tokens"] if counted else [])
    assert ("x-streamfold-warnings" in answer.headers) is not counted
    assert (answer.json()["input_tokens"] == 57) is counted
