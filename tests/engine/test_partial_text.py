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
