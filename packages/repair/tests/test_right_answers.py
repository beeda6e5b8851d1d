"""Right answers pass through `RepairTransport` byte for byte, as far as they came."""

from __future__ import annotations

import json
import random

import pytest

from right_answers import APIS, Made
from streamfold_repair.stream_repair import RepairSettings, UnreadError

CASES = 300
CALLS = (b"function_call", b"tool_use", b"functionCall", b"tool_calls")


def stream(api: str, seed: int) -> Made:
    return APIS[api](random.Random(seed), stream=True)


def events(body: bytes) -> list[bytes]:
    blank = b"\r\n\r\n" if b"\r\n\r\n" in body else b"\n\n"
    return [event + blank for event in body.split(blank) if event]


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
def test_a_right_stream_passes_unchanged_however_it_is_cut(api: str) -> None:
    """A stream with nothing to fix goes through byte for byte."""
    for seed in range(CASES):
        request, body = stream(api, seed)
        repair = RepairSettings().stream(api, request)
        given = [body[at : at + 7] for at in range(0, len(body), 7)] if seed % 3 == 0 else [body]
        out = b"".join(map(repair.feed, given)) + repair.close()
        assert out == body, (seed, repair.repaired)


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
def test_a_right_whole_answer_passes_unchanged(api: str) -> None:
    """An answer that is not streamed, with nothing to fix, is the very bytes of the server."""
    for seed in range(CASES):
        request, body = APIS[api](random.Random(seed), stream=False)
        repair = RepairSettings().whole(api, request)
        try:
            out = repair.repair(body)
        except UnreadError:
            out = body
        assert out == body, (seed, repair.repaired)


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
def test_texts_and_refusals_wait_for_nothing(api: str) -> None:
    """Each event of an answer without calls goes through at once; only the finish reason waits for the end."""
    for seed in range(CASES):
        request, body = stream(api, seed)
        if any(word in body for word in (*CALLS, b"custom_tool")):
            continue
        repair = RepairSettings().stream(api, request)
        for event in events(body):
            out = repair.feed(event)
            is_end = any(word in event for word in (b'_reason": "', b'_reason":"', b"finishReason", b"usage", b"DONE"))
            assert out.endswith(event) or is_end, (seed, event, out)


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
def test_whole_events_go_on_before_a_broken_connection(api: str) -> None:
    """What came before the event that broke off is written; in Chat Completions but for the end of a call."""
    checked = 0
    for seed in range(CASES):
        request, body = stream(api, seed)
        pick = random.Random(seed)
        for cut in pick.sample(range(1, len(body)), 5):
            whole = b"".join(event for event in events(body[:cut]) if body[:cut].count(event))
            repair = RepairSettings().stream(api, request)
            out = repair.feed(body[:cut])
            end = repair.close(interrupted="the connection broke")
            if repair.repaired.reply is not None:  # it had ended before
                assert out + end
                continue
            out += repair.left
            if api == "chat" and any(word in whole for word in (*CALLS, b"custom")):
                assert set(events(out)) <= set(events(whole)), (seed, cut)
            elif not out.startswith(whole):  # a finish reason alone is no answer: the error takes its place
                ends = (b'finish_reason":"', b'finish_reason": "', b"finishReason", b"stop_reason")
                assert out == b"".join(event for event in events(whole) if not any(word in event for word in ends)), (
                    seed,
                    cut,
                )
            checked += 1
    assert checked > CASES


WEATHER = {"name": "f", "arguments": '{"city": "Oslo"}'}


def legacy(*deltas: object, reason: str | None = None) -> bytes:
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices += [{"index": 0, "delta": {}, "finish_reason": reason}] if reason else []
    chunks = [
        {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [one]} for one in choices
    ]
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)


def test_a_function_call_that_is_repaired_stays_one() -> None:
    """A request with `functions` gets `function_call` also where the answer is rewritten; others get `tool_calls`."""
    begun = legacy({"role": "assistant", "function_call": {"name": "f", "arguments": '{"city": '}})
    body = begun + legacy({"function_call": {"arguments": '"Oslo"}'}}, reason="function_call").replace(
        b'"index": 0, ', b""
    )
    request = {"stream": True, "functions": [{"name": "f"}]}
    repair = RepairSettings().stream("chat", request)
    out = repair.feed(body + b"data: [DONE]\n\n") + repair.close()
    choices = [json.loads(line[6:])["choices"][0] for line in out.splitlines() if line.startswith(b"data: {")]
    calls = [one["delta"]["function_call"] for one in choices if "function_call" in one["delta"]]
    assert {name: "".join(call.get(name, "") for call in calls) for name in ("name", "arguments")} == WEATHER
    assert [one["finish_reason"] for one in choices if one["finish_reason"]] == ["function_call"]
    assert b"tool_calls" not in out
    others = RepairSettings().stream(
        "chat", {"stream": True, "tools": [{"type": "function", "function": {"name": "f"}}]}
    )
    assert b"tool_calls" in others.feed(body + b"data: [DONE]\n\n") + others.close()


@pytest.mark.parametrize("given", ["auto", {"name": "f"}])
@pytest.mark.parametrize("reason", ["function_call", "stop"])
def test_a_function_call_that_was_named_may_end_with_stop(given: object, reason: str) -> None:
    """OpenAI ends a call that the request named with `stop`; another call that ends so gets its own reason."""
    message = {"role": "assistant", "content": None, "function_call": WEATHER}
    body = {
        "id": "c",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
    }
    request = {"functions": [{"name": "f"}], "function_call": given}
    made = json.loads(RepairSettings().whole("chat", request).repair(json.dumps(body).encode()))
    assert made["choices"][0]["message"] == message
    assert made["choices"][0]["finish_reason"] == ("function_call" if given == "auto" else reason)


def test_reasoning_in_a_list_of_parts_is_not_copied() -> None:
    """Mistral's own form of an answer has the reasoning among its parts: its clients read it there."""
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "text", "text": "Hi"}]
    choice = {"index": 0, "message": {"role": "assistant", "content": parts}, "finish_reason": "stop"}
    body = json.dumps({"id": "c", "object": "chat.completion", "choices": [choice]}).encode()
    assert RepairSettings().whole("chat", {}).repair(body) == body
