"""Every fixture, as the AI SDK (5, 6 and 7) and `@ag-ui/client` show it, and as they send it back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corpus import folder
from streamfold import APIError, Reply, user
from streamfold.jsontext import parse_object
from streamfold.recording import Recording
from streamfold.testing import ReplayProvider
from streamfold_integrations import agui, aisdk
from tables import each_row

FIXTURES = Path(__file__).parents[4] / "fixtures"
NAMES = sorted(f"{file.parent.name}/{file.stem}" for file in FIXTURES.glob("*/*.sse"))

pytestmark = pytest.mark.one_loop


async def answered(recording: Recording) -> Reply | APIError:
    """What the library itself makes of a recording."""
    try:
        return await model(recording).chat([user("?")], **asked(recording))
    except APIError as error:
        return error


def model(recording: Recording) -> ReplayProvider:
    return ReplayProvider(recording, match="order")


def asked(recording: Recording) -> dict[str, Any]:
    options = recording.options()
    return {"tools": options.get("tools") or None, "tool_choice": options.get("tool_choice", "auto")}


async def body_of(protocol: Any, recording: Recording, *, fragments: bool) -> bytes:
    source = model(recording).chat_stream([user("?")], **asked(recording), partial_tool_calls=fragments)
    if protocol is aisdk:
        return b"".join([piece async for piece in aisdk.stream(source)])
    request = agui.read_request({"threadId": "thread", "runId": "run", "messages": []})
    return b"".join([piece async for piece in agui.stream(source, request)])


def shown_by_aisdk(heard: dict[str, Any]) -> dict[str, Any]:
    """Texts and calls of the parts of a message, and the message as it comes back."""
    parts = [part for message in heard["messages"] for part in message["parts"]]
    calls = [part for part in parts if part["type"].startswith("tool-")]
    return {
        "text": "".join(part["text"] for part in parts if part["type"] == "text"),
        "reasoning": "".join(part["text"] for part in parts if part["type"] == "reasoning"),
        "calls": [
            (part["toolCallId"], part["type"].removeprefix("tool-"), part.get("input"))
            for part in calls
            if part["state"] != "input-streaming"
        ],
        "back": aisdk.read_messages(heard["messages"]),
    }


def shown_by_agui(heard: dict[str, Any]) -> dict[str, Any]:
    calls = [call for message in heard["messages"] for call in message.get("toolCalls", ())]
    return {
        "text": "".join(message.get("content", "") for message in heard["messages"] if message["role"] == "assistant"),
        "reasoning": "".join(message["content"] for message in heard["messages"] if message["role"] == "reasoning"),
        "calls": [(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in calls],
        "back": agui.read_messages(heard["messages"]),
    }


@each_row("fragments", [True, False], ids=["fragments", "whole"])
async def test_every_fixture(reader: Any, fragments: bool) -> None:
    """Texts, reasoning and calls are what the library hands out; errors are errors, without a call that looks whole."""
    await check(reader, [Recording.load(FIXTURES / name) for name in NAMES], fragments=fragments)


async def test_every_stream_of_the_corpus(reader: Any) -> None:
    """The same is true of real providers' streams."""
    paths = sorted(path for path in (folder() / "corpus").glob("*/*.sse"))
    recordings = [Recording(f"{path.parent.name}/{path.stem}", path.read_bytes(), path.parent.name) for path in paths]
    await check(reader, recordings, partial_tool_calls=True)


async def check(reader: Any, recordings: list[Recording], *, fragments: bool) -> None:
    """Compares what a client shows of each recording with what the library makes of it."""
    protocol = agui if reader.name == "agui" else aisdk
    seen = {"answers": 0, "errors": 0, "calls": 0}
    wrong: dict[str, Any] = {}
    for recording in recordings:
        name = recording.name
        expected = await answered(recording)
        heard = reader.read(await body_of(protocol, recording, fragments=fragments), protocol.HEADERS)
        shown = shown_by_agui(heard) if protocol is agui else shown_by_aisdk(heard)
        seen["errors" if isinstance(expected, APIError) else "answers"] += 1
        try:
            if isinstance(expected, APIError):
                check_error(protocol, heard, shown, expected)
            elif heard["error"]:  # AG-UI has no other way to leave a call that was begun and cut off by its length
                assert protocol is agui
                assert fragments
                assert expected.finish_reason in ("length", "content_filter")
                check_text(shown, expected)
            else:
                seen["calls"] += len(expected.tool_calls)
                check_answer(protocol, shown, expected)
        except AssertionError as error:
            wrong[name] = error
    assert wrong == {}
    assert min(seen.values()) > 5


def check_text(shown: dict[str, Any], expected: Reply) -> None:
    assert shown["text"] == expected.text + (expected.refusal or "")
    assert shown["reasoning"] == expected.reasoning


def check_error(protocol: Any, heard: dict[str, Any], shown: dict[str, Any], expected: APIError) -> None:
    assert heard["error"] == protocol.error_text(expected)
    if expected.partial is not None:
        check_text(shown, expected.partial)
    for message in shown["back"]:
        assert all(call.error for call in message.tool_calls)


def check_answer(protocol: Any, shown: dict[str, Any], expected: Reply) -> None:
    """Calls that are shown while they are written come in the order in which they began."""
    check_text(shown, expected)
    told = {call.id: (call.name, None if call.error else call.arguments) for call in expected.tool_calls}
    if protocol is agui:
        found = {call_id: (name, read_object(text)) for call_id, name, text in shown["calls"]}
    else:
        found = {call_id: (name, value if isinstance(value, dict) else None) for call_id, name, value in shown["calls"]}
    assert found == told
    if expected.text or expected.tool_calls:
        (back,) = (message for message in shown["back"] if message.role == "assistant")
        kept = {call.id: (call.raw_arguments or "{}", call.extra) for call in back.tool_calls}
        assert kept == {call.id: (call.raw_arguments or "{}", call.extra) for call in expected.tool_calls}
        assert back.extras == expected.extras
        assert (back.reasoning or "") == expected.reasoning


def read_object(text: str) -> dict[str, Any] | None:
    """Arguments as a page would read them; None if they are not a JSON object."""
    try:
        found = parse_object(text or "{}")
    except ValueError:
        return None
    return {} if found is None else found if isinstance(found, dict) else None


@pytest.mark.parametrize("answer", ["allow", "deny"])  # each with an application of its own
@pytest.mark.parametrize("client", ["ai6", "ai7", "agui"])
def test_an_approval_by_the_client_itself(client: str, answer: str, node: Any, web_chat: Any) -> None:
    """The AI SDK's chat and AG-UI's agent ask the person, send the answer, and get the rest of the run."""
    address, notes = web_chat
    heard = node("approving.mjs", client, address, answer)
    assert heard["error"] is None
    assert ("Shopping list" in notes) == (answer == "deny")
    if answer == "allow":
        assert (heard["result"], heard["text"].strip()) == ("deleted", "Done: here is what I found.")
    else:
        assert heard["result"] in ("output-denied", "Error: not run: the call was denied: not today")
        assert heard["text"].strip() == "Then I leave it."
