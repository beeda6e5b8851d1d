"""Simple prompts, tools and pictures that any model should be able to handle."""

from __future__ import annotations

import re
from base64 import b64encode
from json import dumps
from struct import pack
from typing import Any
from zlib import compress, crc32

from streamfold import Tool

HELLO = "Say hello in one short sentence."
LINE_WORDS = "alpha bravo charlie delta echo foxtrot golf hotel india juliet"
LINE = f"Repeat this line exactly, and write nothing else: {LINE_WORDS}"
UNICODE_TEXT = "Grüße, 世界 👋🏽 π ½"
UNICODE = f"Repeat this line exactly, and write nothing else: {UNICODE_TEXT}"
COUNT = "Count from 1 to 100 in digits, with a space after each number, and write nothing else."
DAYS = "Write the seven days of the week from monday on, in lower case, with a space between them, and nothing else."
CAPITAL = 'What is the capital of France? Answer as a JSON object with the one key "capital".'
REASON = "How much is 17 times 23? Answer with the number alone."
ONE_CALL = "What is the weather in Paris? Use the tool get_weather."
TWO_CALLS = "What is the weather in Paris and in London? Call get_weather twice in this turn, once for each city."
SAY_AND_CALL = "Write one short sentence about what you will do, then get the weather in Paris with get_weather."
NOTE_TEXT = (
    'a "quoted" word, a \\ backslash, {braces}, [brackets], </tags>, ünï¢ödé 👋 and\na second line'
    " that is a little longer than the first one"
)
SAVE = (
    "Save a note with the tool save_note. Its arguments must be exactly this JSON object:\n"
    f"{dumps({'text': NOTE_TEXT}, ensure_ascii=False)}"
)


def object_schema(**properties: Any) -> dict[str, Any]:
    """Returns the JSON schema of an object that requires these properties and allows no others."""
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


WEATHER = Tool("get_weather", "Gets the weather of a city.", object_schema(city={"type": "string"}))
TIME = Tool("get_time", "Gets the current time.", object_schema())
NOTE = Tool("save_note", "Saves a note.", object_schema(text={"type": "string"}))


def capped(tokens: int = 256, **others: Any) -> dict[str, Any]:
    """Returns the options of a probe's request: a low token limit, and temperature 0."""
    return {"max_output_tokens": tokens, "temperature": 0.0, **others}


def prompt_words(text: str) -> list[str]:
    """Returns the words of a text in lower case, without punctuation."""
    return re.findall(r"[^\W_]+", text.lower())


def _png(size: int, colour: bytes) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return pack(">I", len(data)) + kind + data + pack(">I", crc32(kind + data))

    rows = (b"\x00" + colour * size) * size
    head = pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", compress(rows)) + chunk(b"IEND", b"")


PICTURE = f"data:image/png;base64,{b64encode(_png(32, bytes((220, 20, 20)))).decode()}"
