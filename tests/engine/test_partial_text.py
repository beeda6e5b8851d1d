"""The partial answer of an error has all text that was received, and nothing else."""

from __future__ import annotations

import json
import random

import pytest

from right_answers import APIS
from streamfold import Reply, StreamDecoder, StreamError

CASES = 5


def partial(api: str, body: bytes) -> Reply | None:
    """What is known of an answer whose body ended; None if it is whole."""
    decoder = StreamDecoder(api)
    try:
        decoder.feed(body)
        decoder.close(interrupted="the connection broke")
    except StreamError as error:
        return error.partial or Reply(text="there is none")
    return None


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("api", APIS)
def test_the_text_of_an_answer_that_is_cut_at_any_byte(api: str, whole: bool) -> None:
    """It begins like the text of the answer, and grows with each byte: no half of an event or a character is lost."""
    checked = 0
    for seed in range(CASES):
        _, body = APIS[api](random.Random(seed), stream=not whole)
        decoder = StreamDecoder(api)
        decoder.feed(body)
        decoder.close()
        said = ("", "", "")
        for cut in range(1, len(body), random.Random(seed).choice([1, 5, 7])):
            if (told := partial(api, body[:cut])) is not None:
                before, said = said, (told.text, told.reasoning, told.refusal or "")
                all_of_it = (decoder.reply.text, decoder.reply.reasoning, decoder.reply.refusal or "")
                for was, now, full in zip(before, said, all_of_it, strict=True):
                    assert full.startswith(now), (seed, cut)
                    assert len(now) >= len(was) or api == "gemini", (seed, cut, body[:cut])
                checked += 1
    assert checked > 10 * CASES


HALF: dict[str, tuple[str, str]] = {
    "chat": ('data: {"choices":[{"index":0,"delta":{"content":"', "text"),
    "chat, reasoning": ('data: {"choices":[{"index":0,"delta":{"reasoning_content":"', "reasoning"),
    "chat, refusal": ('data: {"choices":[{"index":0,"delta":{"refusal":"', "refusal"),
    "responses": (
        'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","output_index":0,"delta":"',
        "text",
    ),
    "anthropic": ('data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"', "text"),
}


@pytest.mark.parametrize("name", HALF)
def test_the_text_in_half_an_event(name: str) -> None:
    """An event that broke off inside its text has that text, without half a character."""
    begun, member = HALF[name]
    api = name.partition(",")[0]
    if api == "anthropic":
        start = {"type": "message_start", "message": {"id": "m", "content": [], "usage": {}}}
        block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        begun = "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in (start, block)) + begun
    for text, known in (("Grü".encode(), "Grü"), ("Grü".encode()[:-1], "Gr"), (b"Gr\\u00", "Gr"), (b"Gr\\ud83d", "Gr")):
        told = partial(api, begun.encode() + text)
        assert told is not None
        assert getattr(told, member) == known


def test_whether_it_is_a_thought_is_not_guessed() -> None:
    """Gemini says behind a text that it is a thought: half a part may be either, and is in neither text."""
    told = partial("gemini", b'data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Hm')
    assert told is not None
    assert (told.text, told.reasoning) == ("", "")


def output_event(kind: str, **members: object) -> bytes:
    return b"data: " + json.dumps({"type": f"response.{kind}", **members}, ensure_ascii=False).encode() + b"\n\n"


def listed(said: str) -> dict[str, object]:
    return {"type": "message", "id": f"m_{len(said)}", "content": [{"type": "output_text", "text": said}]}


PLACE = {"output_index": 0, "item_id": "m_1", "content_index": 0}
COMPLETED = output_event("completed", response={"status": "completed", "output": [listed("Hé😀"), listed("Two")]})
ONLY_WHOLE: dict[str, tuple[bytes, list[str]]] = {  # the texts, each where it comes first
    "done": (output_event("output_text.done", **PLACE, text="Hé😀"), ["Hé😀"]),
    "more than its pieces": (
        output_event("output_text.delta", **PLACE, delta="Hel")
        + output_event("output_text.done", **PLACE, text="Hello"),
        ["Hel", "lo"],
    ),
    "the final list": (COMPLETED, ["Hé😀", "Two"]),
    "more than the first item": (
        output_event("output_text.delta", **PLACE, delta="Hé😀") + COMPLETED,
        ["Hé😀", "Two"],
    ),
}


@pytest.mark.parametrize("name", ONLY_WHOLE)
def test_text_that_only_a_whole_has_is_kept_as_far_as_it_came(name: str) -> None:
    """An event that was cut off inside a whole text loses none of it, and shows nothing twice."""
    body, texts = ONLY_WHOLE[name]
    known, at = {}, 0
    for said in texts:  # how much is known once a character has come
        at = body.index(said.encode(), at) if name != "more than its pieces" or said == "Hel" else body.rindex(b"lo")
        for char in said:
            at += len(char.encode())
            known[at] = known.get(max(known, default=0), "") + char
    for cut in range(len(output_event("x")), len(body) - 2):
        told = partial("responses", body[:cut])
        if told is not None:
            wanted = next((said for end, said in reversed(known.items()) if end <= cut), "")
            assert (told.text, told.tool_calls) == (wanted, []), body[:cut]
