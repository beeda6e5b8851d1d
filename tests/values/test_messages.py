"""Messages: builders that read well, media types found from the bytes, JSON there and back, and mistakes by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scale import examples
from streamfold import ConfigError, Message, ToolCall, assistant, audio, file, image, system, tool_result, user
from streamfold.requests.request import Request
from streamfold.types import AudioPart, FilePart, ImagePart, TextPart
from streamfold.types.media_types import media_type_of, read_data_url
from streamfold.types.messages import tool_result_content
from tables import each_row

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 8
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt "
PDF = b"%PDF-1.7\n"
CALL = ToolCall("call_1", "plot", {"x": 1}, '{"x": 1}')


# --- builders ---------------------------------------------------------------------------------------------------------


def test_text_and_image() -> None:
    """A message reads as it is meant."""
    assert user("What is this?", image("https://x.test/a.png")) == Message(
        "user", (TextPart("What is this?"), ImagePart(url="https://x.test/a.png"))
    )


def test_text_alone_stays_text() -> None:
    """Nobody is made to handle parts who has none."""
    assert (user("Hi").content, system("Hi").content, assistant("Hi").content) == ("Hi", "Hi", "Hi")
    assert user("Hi", "there").content == (TextPart("Hi"), TextPart("there"))


def test_dicts_of_chat_completions_are_parts() -> None:
    """A list of them, as before, or one by one."""
    part = {"type": "text", "text": "Hi"}
    assert user([part]).content == (part,)
    assert user(part, image(PNG)).content == (part, ImagePart(PNG, media_type="image/png"))
    assert Message("tool", [part], tool_call_id="a").content == (part,)


def test_image_by_path_and_by_bytes(tmp_path: Path) -> None:
    """A path is read at once; a wrong suffix does not matter."""
    path = tmp_path / "photo.jpg"
    path.write_bytes(PNG)
    wanted = ImagePart(PNG, media_type="image/png")
    assert image(path) == image(str(path)) == image(PNG) == image(bytearray(PNG)) == wanted
    assert image(path, detail="low").detail == "low"
    assert image(b"anything", media_type="image/x-own").media_type == "image/x-own"


def test_a_data_url_is_its_bytes() -> None:
    """So that it is the same part, however it was written."""
    assert image(image(PNG).data_url) == image(PNG)


def test_files_keep_their_names(tmp_path: Path) -> None:
    """A name that is given wins; bytes have none."""
    path = tmp_path / "report.pdf"
    path.write_bytes(PDF)
    assert file(path) == file(str(path)) == FilePart(PDF, media_type="application/pdf", name="report.pdf")
    assert file(path, name="q3.pdf").name == "q3.pdf"
    assert file(PDF).name is None
    assert file("https://x.test/a.pdf") == FilePart(url="https://x.test/a.pdf")


def test_audio() -> None:
    """Its bytes."""
    assert audio(WAV) == AudioPart(WAV, media_type="audio/wav")


@each_row(
    ("data", "name", "wanted"),
    [
        (PNG, None, "image/png"),
        (b"\xff\xd8\xff\xe0", "a.png", "image/jpeg"),
        (b"GIF89a", None, "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", None, "image/webp"),
        (b"\x00\x00\x00\x20ftypavif", None, "image/avif"),
        (b"\x00\x00\x00\x20ftypM4A ", None, "audio/mp4"),
        (b"\x00\x00\x00\x20ftypisom", None, "video/mp4"),
        (WAV, None, "audio/wav"),
        (b"ID3\x04", None, "audio/mpeg"),
        (b"\xff\xfb\x90\x00", None, "audio/mpeg"),
        (b"fLaC", None, "audio/flac"),
        (PDF, "a.txt", "application/pdf"),
        (b"a,b\n", "a.CSV", "text/csv"),
        (b"# Hi", "a.md", "text/markdown"),
        (b"PK\x03\x04", "a.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ("Grüße".encode(), None, "text/plain"),
        (b"\xfe\xff\x00", None, "application/octet-stream"),
        (b"a\x00b", None, "application/octet-stream"),
        (b"", None, "text/plain"),
    ],
)
def test_media_types(data: bytes, name: str | None, wanted: str) -> None:
    """The first bytes tell, and the name only what they can't."""
    assert media_type_of(data, name) == wanted


def test_data_urls() -> None:
    """With base64 and without."""
    assert read_data_url("data:text/plain;charset=utf-8,a%20b") == (b"a b", "text/plain")
    assert read_data_url("data:;base64,AA==") == (b"\x00", "text/plain")


# --- results of tools -------------------------------------------------------------------------------------------------


@each_row(
    ("content", "wanted"),
    [
        ("18 °C", "18 °C"),
        ({"celsius": 18}, '{"celsius": 18}'),
        ([1, 2], "[1, 2]"),
        (["a", "b"], '["a", "b"]'),
        ([], "[]"),
        (None, "null"),
        ([{"type": "text", "text": "a"}], '[{"type": "text", "text": "a"}]'),
        (ImagePart(url="https://x.test/a.png"), (ImagePart(url="https://x.test/a.png"),)),
        (
            ["Here:", ImagePart(PNG, media_type="image/png")],
            (TextPart("Here:"), ImagePart(PNG, media_type="image/png")),
        ),
    ],
)
def test_tool_results(content: Any, wanted: Any) -> None:
    """Text as it is, parts as parts, anything else as JSON."""
    assert tool_result(CALL, content) == Message("tool", wanted, tool_call_id="call_1")


@each_row(
    ("content", "told"),
    [
        ("no such city", "Error: no such city"),
        ("Error: no such city", "Error: no such city"),
        ("", "Error:"),
        ({"code": 5}, 'Error: {"code": 5}'),
        ([TextPart("See."), ImagePart(url="https://x.test/a.png")],
         (TextPart("Error:"), TextPart("See."), ImagePart(url="https://x.test/a.png"))),
    ],
)  # fmt: skip
def test_errors_are_told_in_words(content: Any, told: Any) -> None:
    """No API has a flag for it; the message has, and its content stays as it was."""
    message = tool_result(CALL, content, error=True)
    assert message.error
    assert tool_result_content(message) == told
    assert tool_result_content(tool_result(CALL, "fine")) == "fine"


# --- wrong inputs -----------------------------------------------------------------------------------------------------


@each_row(
    ("make", "wanted"),
    [
        (lambda: Message("human", "Hi"),  # type: ignore[arg-type]
         "the role of a message must be one of system, developer, user, assistant, tool, function, not 'human'"),
        (lambda: Message("user", 5),  # type: ignore[arg-type]
         "the content of a message must be text or a list of parts, not int: 5"),
        (lambda: user(),
         "user() needs text or parts"),
        (lambda: user("Look:", PNG),  # type: ignore[arg-type]
         ("user(): part 1 must be text, a part or a dict, not bytes; for a path or bytes, call image(), file()"
         " or audio()")),
        (lambda: image("nowhere.png"),
         "image: 'nowhere.png' can't be read (No such file or directory); a URL begins with https://"),
        (lambda: image(PDF),
         ("image: the data looks like application/pdf (it begins with b'%PDF-1.7'); if it is an image, pass "
         "media_type=")),
        (lambda: audio(b"GIF89a"),
         "audio: the data looks like image/gif (it begins with b'GIF89a'); if it is audio, pass media_type="),
        (lambda: image(5),  # type: ignore[arg-type]
         "image() accepts a URL, bytes or a file path, not int"),
        (lambda: image("data:image/png;base64,?"),
         "image: not base64: Only base64 data is allowed"),
        (lambda: image("data:image/png"),
         "image: a data URL has the form data:TYPE;base64,DATA"),
        (lambda: ImagePart(),
         "an image needs exactly one of data, url and file_id, not none of them"),
        (lambda: FilePart(PDF, "https://x.test", media_type="application/pdf"),
         "a file needs exactly one of data, url and file_id, not data and url"),
        (lambda: AudioPart(WAV),
         "audio with data needs media_type; image(), file() and audio() detect the media type"),
        (lambda: ImagePart(url=b"https://x.test"),  # type: ignore[arg-type]
         "the url of an image must be a string, not bytes"),
        (lambda: tool_result(CALL, {1, 2}),
         "the result of 'plot' is neither text, nor parts, nor JSON data: Object of type set is not JSON serializable"),
    ],
)  # fmt: skip
def test_what_is_no_message(make: Any, wanted: str) -> None:
    """Each mistake says what it is and what is allowed."""
    with pytest.raises(ConfigError) as caught:
        make()
    assert str(caught.value) == wanted


@each_row(
    ("message", "wanted"),
    [
        ({"role": "human", "content": "Hi"},
         "messages[1].role: unknown role 'human'. Allowed: system, developer, user, assistant, tool, function"),
        ({"role": "assitant", "content": "Hi"},
         ("messages[1].role: unknown role 'assitant' (did you mean 'assistant'?). Allowed: system, developer,"
         " user, assistant, tool, function")),
        ({"role": "user", "content": 5},
         "messages[1].content must be a string, a list of parts or null, not a number"),
        ({"role": "user", "content": {"type": "text", "text": "Hi"}},
         "messages[1].content must be a string, a list of parts or null, not an object"),
        ({"role": "user", "content": ["Hi"]},
         "messages[1].content[0] must be a content part (an object with a type), not a string: 'Hi'"),
        ({"role": "user", "content": [{"text": "Hi"}]},
         "messages[1].content[0].type is missing. Allowed: text, image_url, input_audio, file, refusal, video_url"),
        ({"role": "user", "content": [{"type": 1}]},
         ("messages[1].content[0].type must be a string, not a number. Allowed: text, image_url, input_audio, file,"
         " refusal, video_url")),
        ({"role": "user", "content": [{"type": "text"}]},
         "messages[1].content[0].text is missing: it must be a string"),
        ({"role": "user", "content": [{"type": "text", "text": None}]},
         "messages[1].content[0].text is missing: it must be a string"),
        ({"role": "user", "content": [{"type": "text", "text": ["a"]}]},
         "messages[1].content[0].text is a list: it must be a string"),
        ({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image", "source": {}}]},
         "messages[1].content[1].type is 'image', which belongs to another API: in Chat Completions it is image_url"),
        ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]},
         ("messages[1].content[0].type is 'tool_result', which belongs to another API: in Chat Completions it is a"
         ' message with the role "tool"')),
        ({"role": "user", "content": [{"type": "image-url", "image_url": {"url": "x"}}]},
         "messages[1].content[0].type is 'image-url'; did you mean 'image_url'?"),
        ({"role": "user", "content": [{"type": "image_url", "url": "x"}]},
         "messages[1].content[0].image_url is missing: it must be an object"),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {"uri": "x"}}]},
         "messages[1].content[0].image_url.url is missing: it must be a string"),
        ({"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AA"}}]},
         "messages[1].content[0].input_audio.format is missing: it must be a string"),
        ({"role": "user", "content": [{"type": "file", "file": {"filename": "a.pdf"}}]},
         "messages[1].content[0].file needs a file_id or file_data"),
        ({"role": "user", "name": 5, "content": "Hi"},
         "messages[1].name must be a string, not a number"),
        ({"role": "tool", "content": "18"},
         "messages[1] has no tool_call_id: add the id of the tool call"),
        ({"role": "user", "content": "Hi", "tool_calls": [{"id": "a", "function": {"name": "f"}}]},
         "messages[1].tool_calls is only allowed for the role 'assistant', not for 'user'"),
        ({"role": "assistant", "tool_calls": {"id": "a"}},
         "messages[1].tool_calls must be a list of tool calls, not an object"),
        ({"role": "assistant", "tool_calls": ["a"]},
         "messages[1].tool_calls[0] is a tool call and must be an object, not a string"),
        ({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
         "messages[1].tool_calls[0].id is missing: it must be a string"),
        ({"role": "assistant", "tool_calls": [{"id": "a", "name": "f"}]},
         "messages[1].tool_calls[0] is a tool call without a function: {'id': 'a', 'name': 'f'}"),
        ({"role": "assistant", "tool_calls": [{"id": "a", "function": {"arguments": "{}"}}]},
         "messages[1].tool_calls[0].function.name is missing: it must be a string"),
        ({"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": [1]}}]},
         "messages[1].tool_calls[0].function.arguments must be a JSON string, not a list"),
        ({"content": "Hi"},
         "messages[1].role is missing. Allowed: system, developer, user, assistant, tool, function"),
    ],
)  # fmt: skip
def test_dicts_that_are_no_messages(message: Any, wanted: str) -> None:
    """The path to the member, and what is allowed there."""
    with pytest.raises(ConfigError) as caught:
        Request.read("m", [user("Hi"), message], None, "auto", {})
    assert str(caught.value) == wanted


VIDEO: Any = [{"type": "video_url", "video_url": {"url": "x"}}, {"type": "image_embeds"}]
CUSTOM = ToolCall("a", "f", {"input": "x"}, "x", kind="custom")


@each_row(
    ("message", "wanted"),
    [
        ({"role": "user", "content": VIDEO}, Message("user", VIDEO)),
        ({"role": "user", "content": [{"type": "image_url", "image_url": "https://x.test/a.png"}]},
         user(ImagePart(url="https://x.test/a.png"))),
        ({"role": "assistant", "content": None, "tool_calls": None, "refusal": None, "prefix": True},
         Message("assistant", extras={"prefix": True})),
        ({"role": "assistant", "tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "f", "input": "x"}}]},
         assistant(tool_calls=[CUSTOM])),
        ({"role": "function", "name": "f", "content": "18"}, Message("function", "18", name="f")),
        ({"type": "function_call_output", "call_id": "a", "output": "18"}, Message("tool", "18", tool_call_id="a")),
    ],
)  # fmt: skip
def test_dicts_become_messages(message: Any, wanted: Message) -> None:
    """A dict is read into a Message; members and parts that ours have no place for are kept as they are."""
    (read,) = Request.read("m", [message], None, "auto", {}).messages
    assert read == wanted
    assert [call.extra for call in read.tool_calls] == [call.extra for call in wanted.tool_calls]


# --- JSON -------------------------------------------------------------------------------------------------------------

WORDS = st.text(max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(WORDS, values, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(WORDS, JSON, max_size=3)
BYTES, MAYBE = st.binary(max_size=20), st.none() | WORDS
PARTS = st.one_of(
    st.builds(TextPart, WORDS),
    st.builds(lambda data, detail: ImagePart(data, media_type="image/png", detail=detail), BYTES,
              st.sampled_from([None, "auto", "high"])),
    st.builds(lambda url: ImagePart(url=url), WORDS),
    st.builds(lambda data, name: FilePart(data, media_type="application/pdf", name=name), BYTES, MAYBE),
    st.builds(lambda file_id: FilePart(file_id=file_id), WORDS),
    st.builds(lambda data: AudioPart(data, media_type="audio/wav"), BYTES),
    OBJECTS,
    OBJECTS.map(lambda members: {**members, "part": "text"}),
)  # fmt: skip
CALLS = st.builds(ToolCall, WORDS, WORDS, OBJECTS, WORDS, st.none() | OBJECTS)
MESSAGES = st.builds(
    Message, st.sampled_from(["system", "developer", "user", "assistant", "tool"]),
    MAYBE | st.lists(PARTS, max_size=4), st.lists(CALLS, max_size=3).map(tuple), MAYBE, MAYBE, MAYBE, MAYBE, OBJECTS,
    st.booleans(), st.booleans(), MAYBE,
)  # fmt: skip


@settings(max_examples=examples(200))
@given(st.lists(MESSAGES, max_size=5))
def test_conversations_survive_json(messages: list[Message]) -> None:
    """Two hundred of them, with parts, calls, reasoning, extras and origins: equal, and the same text again."""
    text = json.dumps([message.to_dict() for message in messages])
    back = [Message.from_dict(data) for data in json.loads(text)]
    assert back == messages
    # What does not count for equality is there too.
    assert [message.origin for message in back] == [message.origin for message in messages]
    assert [[call.extra for call in message.tool_calls] for message in back] == [
        [call.extra for call in message.tool_calls] for message in messages
    ]
    assert [Message.from_json(message.to_json()).to_json() for message in messages] == [
        message.to_json() for message in messages
    ]


def test_what_json_looks_like() -> None:
    """Readable, with what says nothing left out."""
    message = Message(
        "user", (TextPart("Hi"), image(PNG), {"type": "text", "text": "a"}), origin="chat https://x.test/v1"
    )
    assert message.to_dict() == {
        "role": "user",
        "content": [
            {"part": "text", "text": "Hi"},
            {"part": "image", "media_type": "image/png", "data": "iVBORw0KGgoAAAAAAAAAAA=="},
            {"type": "text", "text": "a"},
        ],
        "origin": "chat https://x.test/v1",
    }
    assert assistant(tool_calls=[CALL], reasoning="").to_dict() == {
        "role": "assistant",
        "tool_calls": [{"id": "call_1", "name": "plot", "arguments": {"x": 1}, "raw_arguments": '{"x": 1}'}],
        "reasoning": "",
    }


@each_row(
    ("data", "wanted"),
    [
        ([], "message must be an object, not list"),
        ({}, "message.role must be one of system, developer, user, assistant, tool, function, not None"),
        ({"role": "human"}, (
            "message.role must be one of system, developer, user, assistant, tool, function, not"
            " 'human'"
        )),
        ({"role": "user", "text": "Hi"},
         ("message.text is unknown. Allowed: role, content, tool_calls, tool_call_id, name, reasoning, refusal,"
         " origin, prefix, extras, partial, error, cache, tools")),
        ({"role": "user", "content": 5}, "message.content must be a string or a list, not int"),
        ({"role": "user", "partial": "yes"}, "message.partial must be true or false, not str"),
        ({"role": "user", "content": ["Hi"]}, "message.content[0] must be an object, not str"),
        ({"role": "user", "content": [{"part": "video"}]},
         'message.content[0].part must be "text", "image", "file", "audio" or "dict", not \'video\''),
        ({"role": "user", "content": [{"part": "text"}]},
         'message.content[0].part must be "text", "image", "file", "audio" or "dict", not \'text\''),
        ({"role": "user", "content": [{"part": "image", "media": "image/png"}]},
         "message.content[0].media is unknown. Allowed: data, url, file_id, media_type, detail, cache"),
        ({"role": "user", "content": [{"part": "image", "data": "?"}]},
         "message.content[0].data is not base64: Only base64 data is allowed"),
        ({"role": "user", "content": [{"part": "image"}]},
         "message.content[0]: an image needs exactly one of data, url and file_id, not none of them"),
        ({"role": "assistant", "tool_calls": [5]}, "message.tool_calls[0] must be an object, not int"),
        ({"role": "assistant", "tool_calls": [{"id": "a"}]}, "message.tool_calls[0].name is missing"),
        ({"role": "assistant", "tool_calls": [{"id": 5}]}, "message.tool_calls[0].id must be a string, not int"),
    ],
)  # fmt: skip
def test_json_that_is_no_message(data: Any, wanted: str) -> None:
    """What somebody edited by hand says what is wrong with it."""
    with pytest.raises(ConfigError) as caught:
        Message.from_json(json.dumps(data))
    assert str(caught.value) == wanted


def test_json_that_is_none() -> None:
    """It says so."""
    with pytest.raises(ConfigError, match="the text is not a message in JSON: Expecting value"):
        Message.from_json("Hi")
