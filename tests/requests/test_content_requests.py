"""Parts on the wire: what is sent for an image, a file, sound, and the result of a tool, written out for each API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import scale
from folding import DONE, chunk, entry, event, fin, fold
from sdks import TypeOf, openai
from streamfold import ConfigError, Message, StreamError, ToolCall, assistant, audio, file, image, tool_result, user
from streamfold.adapters import EncodingReport
from streamfold.adapters.chat import ChatAdapter, ChatQuirks
from streamfold.adapters.kimi import KimiAdapter, KimiQuirks
from streamfold.adapters.responses import ResponsesAdapter
from streamfold.recording import Recording
from streamfold.requests import CALL_EXTRAS
from streamfold.requests.history import fit_history
from streamfold.requests.request import Request
from streamfold.types import AudioPart, FilePart, ImagePart, TextPart
from tables import each_row

APIS: dict[str, Any] = {"chat": ChatAdapter(), "responses": ResponsesAdapter(), "kimi": KimiAdapter()}
PNG, PNG_URL = b"\x89PNG\r\n\x1a\n", "data:image/png;base64,iVBORw0KGgo="
PDF, PDF_URL = b"%PDF-1.7", "data:application/pdf;base64,JVBERi0xLjc="
WAV = b"RIFF\x00\x00\x00\x00WAVE"
CALL = ToolCall("call_1", "plot", {}, "{}")
TURN = assistant(tool_calls=[CALL], reasoning="")
CHAT, ITEM = (
    TypeOf(lambda: openai.types.chat.ChatCompletionMessageParam),
    TypeOf(lambda: openai.types.responses.ResponseInputItemParam),
)


def sent(api: Any, *messages: Any, origin: str | None = None) -> tuple[list[Any], list[str]]:
    """The messages of the body, and what was said about them."""
    adapter = APIS[api] if isinstance(api, str) else api
    request = replace(Request.read("kimi-k2.6", list(messages), None, "auto", {}), origin=origin)
    rules = replace(adapter.history_rules(request), wants_reasoning=False)
    fitted = fit_history(request.messages, rules, open_calls=True)
    request, warnings = adapter.rewrite(replace(request, messages=fitted.messages, positions=fitted.positions))
    report = EncodingReport()
    body = adapter.encode(request, report)
    told = [*fitted.warnings, *warnings, *report.warnings()]
    return body.get("messages") or body["input"], [f"{warning.code}: {warning.detail}" for warning in told]


def content(api: str, message: Message) -> Any:
    (only,), said = sent(api, message)
    assert said == []
    assert only["role"] == "user"
    (ITEM if api == "responses" else CHAT).validate_python(only)  # as OpenAI's own types have it
    return only["content"]


def refused(api: Any, *messages: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        sent(api, *messages)
    return str(caught.value)


# --- what a user sends ------------------------------------------------------------------------------------------------


def test_image_by_url() -> None:
    """The URL itself; nothing is fetched."""
    message = user("What is this?", image("https://x.test/a.png", detail="low"))
    assert content("chat", message) == [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "https://x.test/a.png", "detail": "low"}},
    ]
    assert content("responses", message) == [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "image_url": "https://x.test/a.png", "detail": "low"},
    ]


def test_kimi_fetches_no_images() -> None:
    """It takes bytes and its own uploads; an engine may fetch (OpenHands/software-agent-sdk#3155)."""
    by_url = user("What is this?", image("https://x.test/a.png"))
    wanted = (
        "messages[0].content[1] is an image by URL, which Kimi does not fetch: pass the bytes, or the ms:// URL of an"
        " upload"
    )
    assert refused("kimi", by_url) == wanted
    by_dict = {"role": "user", "content": [{"type": "image_url", "image_url": "https://x.test/a.png"}]}
    assert refused("kimi", by_dict) == wanted.replace("[1]", "[0]")
    assert content("kimi", user(image("ms://f1"))) == [{"type": "image_url", "image_url": {"url": "ms://f1"}}]
    engine = KimiAdapter(KimiQuirks(hosted=False))
    assert sent(engine, by_url)[0][0]["content"][1] == {
        "type": "image_url", "image_url": {"url": "https://x.test/a.png"}
    }  # fmt: skip


@pytest.mark.parametrize("by", ["bytes", "path"])
def test_image_by_bytes_and_by_path(by: str, tmp_path: Path) -> None:
    """As a data URL with the type that the bytes have."""
    path = tmp_path / "a.jpg"
    path.write_bytes(PNG)
    message = user("What is this?", image(PNG if by == "bytes" else path))
    chat = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": PNG_URL}}]
    assert content("chat", message) == chat
    assert content("kimi", message) == chat
    assert content("responses", message) == [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "image_url": PNG_URL, "detail": "auto"},
    ]


def test_pdf() -> None:
    """Bytes with a name, or the id of an upload; by URL on the one API that has it."""
    message = user(file(PDF, name="q3.pdf"), FilePart(file_id="file_1"))
    assert content("chat", message) == [
        {"type": "file", "file": {"filename": "q3.pdf", "file_data": PDF_URL}},
        {"type": "file", "file": {"file_id": "file_1"}},
    ]
    assert content("responses", message) == [
        {"type": "input_file", "filename": "q3.pdf", "file_data": PDF_URL},
        {"type": "input_file", "file_id": "file_1"},
    ]
    assert content("chat", user(file(PDF)))[0]["file"]["filename"] == "file.pdf"
    by_url = user(file("https://x.test/a.pdf"))
    assert content("responses", by_url) == [{"type": "input_file", "file_url": "https://x.test/a.pdf"}]
    assert refused("chat", by_url) == (
        "messages[0].content[0] is a file by URL, and Chat Completions accepts only bytes or a file_id"
    )
    assert refused("kimi", message) == (
        "messages[0].content[0] is a file, which Kimi doesn't accept in a message. Allowed: text and images"
    )


def test_audio() -> None:
    """Chat has it; the other two have not."""
    message = user("What is said?", audio(WAV))
    assert content("chat", message) == [
        {"type": "text", "text": "What is said?"},
        {"type": "input_audio", "input_audio": {"data": "UklGRgAAAABXQVZF", "format": "wav"}},
    ]
    (mp3,), _ = sent("chat", user(audio(b"ID3\x04")))
    assert mp3["content"][0]["input_audio"]["format"] == "mp3"
    assert refused("responses", message) == (
        "messages[0].content[1] is audio, which the Responses API does not support: use the adapter 'chat'"
    )
    assert refused("kimi", message) == (
        "messages[0].content[1] is audio, which Kimi doesn't accept in a message. Allowed: text and images"
    )
    assert refused("chat", user(AudioPart(url="https://x.test/a.wav"))) == (
        "messages[0].content[0] is audio by URL, and Chat Completions accepts only its bytes"
    )


def test_images_by_file_id() -> None:
    """Only the Responses API knows them."""
    message = user(ImagePart(file_id="file_1"))
    assert content("responses", message) == [{"type": "input_image", "file_id": "file_1", "detail": "auto"}]
    assert refused("chat", message) == (
        "messages[0].content[0] is an image by file_id, and Chat Completions accepts only a URL or bytes"
    )


@each_row("api", ["chat", "kimi"])
@each_row("role", ["system", "assistant"])
def test_only_users_show_images_in_a_chat(api: str, role: Any) -> None:
    """Else OpenAI says "Image URLs are only allowed for messages with role 'user'"."""
    message = Message(role, (TextPart("Look:"), image(PNG)))
    assert refused(api, message, user("Hi")) == (
        f"messages[0].content[1] is an image in a message of the role '{role}': this API accepts it only from users"
    )


def test_an_assistant_says_text_alone() -> None:
    assert refused("responses", Message("assistant", (image(PNG),)), user("Hi")) == (
        "messages[0].content[0] isn't text: an assistant message can contain only text"
    )


def test_parts_of_the_other_api() -> None:
    """Parts may be in the spelling of either API; one that ours can't hold is sent only where it is known."""
    written = {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
    assert sent("chat", written)[0] == [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
    assert refused("chat", {"role": "user", "content": [{"type": "input_text", "text": "Hi", "lang": "en"}]}) == (
        "messages[0].content[0] is an 'input_text', which only the adapter 'responses' can send"
    )


# --- results of tools -------------------------------------------------------------------------------------------------


def test_result_with_an_image() -> None:
    """In its place where the API has one for it; else in a user's message after the results of the turn."""
    plot, second = tool_result(CALL, ["The plot:", image(PNG)]), ToolCall("call_2", "plot", {}, "{}")
    turn = replace(TURN, tool_calls=(CALL, second))
    messages = [user("Plot."), turn, plot, tool_result(second, "failed"), user("Thanks.")]
    items, said = sent("responses", *messages)
    assert items[3] == {
        "type": "function_call_output",
        "call_id": "call_1",
        "output": [
            {"type": "input_text", "text": "The plot:"},
            {"type": "input_image", "image_url": PNG_URL, "detail": "auto"},
        ],
    }
    assert said == []
    assert ITEM.validate_python(items[3])
    kimi, said = sent("kimi", *messages)
    assert said == [f"{RENUMBERED} 'call_1' as 'functions.plot:0', 'call_2' as 'functions.plot:1'"]
    assert kimi[2] == {
        "role": "tool",
        "tool_call_id": "functions.plot:0",
        "content": [{"type": "text", "text": "The plot:"}, {"type": "image_url", "image_url": {"url": PNG_URL}}],
    }
    chat, said = sent("chat", *messages)
    assert chat[2:] == [
        {"role": "tool", "tool_call_id": "call_1", "content": "The plot:\n(an image: see the next user message)"},
        {"role": "tool", "tool_call_id": "call_2", "content": "failed"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "an image of the result of call_1:"},
                {"type": "image_url", "image_url": {"url": PNG_URL}},
            ],
        },
        {"role": "user", "content": "Thanks."},
    ]
    assert said == ["tool_images_moved: messages[2]: an image of the result of call_1 moved to a user message"]


def test_positions_are_the_callers() -> None:
    """Also where images were moved, so that there are more messages than he wrote."""
    by_url = user(file("https://x.test/a.pdf"))
    assert refused("chat", TURN, tool_result(CALL, image(PNG)), by_url).startswith("messages[2].content[0] is a file")


def test_result_with_an_image_where_a_server_takes_it() -> None:
    """The quirk `result_images` leaves it in its place."""
    messages, said = sent(ChatAdapter(ChatQuirks(result_images=True)), TURN, tool_result(CALL, image(PNG)))
    assert messages[1]["content"] == [{"type": "image_url", "image_url": {"url": PNG_URL}}]
    assert said == []


@pytest.mark.parametrize(
    ("api", "wanted"),
    [
        ("chat", {"role": "tool", "content": "Error: no such city", "tool_call_id": "call_1"}),
        ("responses", {"type": "function_call_output", "call_id": "call_1", "output": "Error: no such city"}),
        ("kimi", {"role": "tool", "content": "Error: no such city", "tool_call_id": "functions.plot:0"}),
    ],
)
def test_tool_error(api: str, wanted: Any) -> None:
    """No API has a flag for it: the text says it."""
    assert sent(api, TURN, tool_result(CALL, "no such city", error=True))[0][-1] == wanted


# --- what goes back to where it came from -----------------------------------------------------------------------------

HERE, ELSEWHERE = "responses https://a.test/v1", "responses https://b.test/v1"
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
ITEMS = [
    REASONING,
    {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
     "content": [{"type": "output_text", "text": "Hi", "annotations": []}]},
    {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": "{ }", "status": "completed",
     "namespace": "crm"},
]  # fmt: skip


def test_items_go_back_to_their_provider_alone() -> None:
    """Encrypted reasoning is refused by any other ("could not be verified"); text and calls are everybody's."""
    body = event({"type": "response.completed", "response": {"status": "completed", "output": ITEMS}})
    message = replace(fold(body, adapter="responses").message, origin=HERE)
    assert sent("responses", message, origin=HERE)[0] == ITEMS
    assert sent("responses", message)[0] == ITEMS  # a caller who joins the pieces by hand knows what he does
    assert sent("responses", message, origin=ELSEWHERE)[0] == [
        {
            "type": "message", "id": "msg_0", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
        },
        {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{ }"},
    ]  # fmt: skip
    assert sent("responses", Message.from_json(message.to_json()), origin=HERE)[0] == ITEMS


def test_signatures_of_calls_go_back_to_their_provider_alone() -> None:
    """Gemini wants them, and strict servers refuse a member that they do not know."""
    call = ToolCall("a", "f", {}, "{}", {"extra_content": {"google": {"thought_signature": "x"}}})
    message = replace(assistant(tool_calls=[call]), origin="chat https://a.test/v1")
    for origin, there in (("chat https://a.test/v1", True), (None, True), ("chat https://b.test/v1", False)):
        (turn,), _ = sent("chat", message, origin=origin)
        assert ("extra_content" in turn["tool_calls"][0]) == there


def test_reasoning_goes_back_under_the_name_that_the_server_has() -> None:
    """DeepSeek wants it beside calls; OpenAI has no place for it, so that it stays out unless it is asked for."""
    message = replace(TURN, reasoning="Hm.")
    assert "reasoning_content" not in sent("chat", message)[0][0]
    for name in ("reasoning_content", "reasoning"):
        adapter = ChatAdapter(ChatQuirks(reasoning_field=name))  # type: ignore[arg-type]
        assert sent(adapter, message)[0][0][name] == "Hm."
        assert name not in sent(adapter, replace(message, reasoning=None))[0][0]


def test_reasoning_that_a_server_insists_on() -> None:
    """DeepSeek refuses a turn with calls and no reasoning, also where there was none: an empty one is sent."""
    adapter = ChatAdapter(ChatQuirks(reasoning_field="reasoning_content", reasoning_required=True))
    written, _ = sent(adapter, replace(TURN, reasoning=None), tool_result(CALL, "done"), assistant("Done."))
    assert [message.get("reasoning_content") for message in written] == ["", None, None]
    request = Request.read("m", [TURN], None, "auto", {})
    assert adapter.history_rules(request).wants_reasoning
    assert not ChatAdapter().history_rules(request).wants_reasoning


# --- answers of every fixture -----------------------------------------------------------------------------------------

FIXTURES = Path(__file__).parents[2] / "fixtures"


def _answers() -> dict[str, Message]:
    """The turns of all fixtures that are answers, as they are read from a history that was kept as JSON."""
    found = {}
    for path in sorted(FIXTURES.glob("*/*.sse")):
        recording = Recording.load(path.with_suffix(""))
        try:
            message = fold(recording.body, adapter=recording.adapter, **recording.options()).message
        except StreamError:
            continue
        if message.content or message.tool_calls:
            found[f"{path.parent.name}/{path.stem}"] = Message.from_json(message.to_json())
    return found


ANSWERS = _answers()


RENUMBERED = "ids_renumbered: tool call ids were changed to the provider's format:"
REASONING = "reasoning_dropped: messages[1]: the reasoning was not sent, because this provider doesn't accept it"
NO_PLACE = "not sent, because this provider doesn't support it or can't read it"
CHATS = {
    "chat": ChatAdapter(),
    "chat with reasoning": ChatAdapter(ChatQuirks(reasoning_field="reasoning_content")),
    "kimi": KimiAdapter(),
}


# Calls of custom tools have other members in a chat: tests/adapters/test_client_tools.py.
FUNCTIONS = [name for name, answer in ANSWERS.items() if all(call.kind == "function" for call in answer.tool_calls)]


@each_row("name", scale.some(FUNCTIONS, 70))
@each_row("api", CHATS)
def test_answers_go_back_in_a_chat(name: str, api: str) -> None:
    """Ids, the model's own arguments, text and reasoning, byte for byte; what is not, a warning says.

    Kimi numbers the ids in its own style; Chat Completions has a place for reasoning only where a server knows one;
    and neither has one for what the items of the Responses API hold beside texts and calls.
    """
    message = ANSWERS[name]
    written, said = sent(CHATS[api], user("Hi"), message, *(tool_result(call, "done") for call in message.tool_calls))
    turn, functions = written[1], [call[call["type"]] for call in written[1].get("tool_calls", ())]
    ids, renumbered = [call.id for call in message.tool_calls], []
    if api == "kimi":
        own = [f"functions.{call.name}:{at}" for at, call in enumerate(message.tool_calls)]
        renumbered = [f"{old!r} as {new!r}" for old, new in zip(ids, own, strict=True) if old != new]
        ids = own
    takes_reasoning = api != "chat"
    assert said == [
        *_dropped(message, reasoning=not takes_reasoning),
        *([f"{RENUMBERED} {', '.join(renumbered)}"] if renumbered else []),
    ]
    assert turn["content"] == message.content
    if message.tool_calls and api == "kimi":  # which wants the member, if there is nothing in it
        assert turn["reasoning_content"] == (message.reasoning or "")
    else:
        assert turn.get("reasoning_content") == (message.reasoning if takes_reasoning else None)
    assert [(made["name"], made.get("arguments", made.get("input"))) for made in functions] == _calls(message)
    assert [call["id"] for call in turn.get("tool_calls", ())] == ids
    assert [result["tool_call_id"] for result in written[2:]] == ids


@each_row("name", ANSWERS)
def test_answers_go_back_as_items(name: str) -> None:
    """Ids, arguments and text byte for byte, and the reasoning items of answers that came as items.

    Reasoning that came as mere text has no place there, and a warning says so.
    """
    message = ANSWERS[name]
    written, said = sent("responses", user("Hi"), message, *(tool_result(call, "done") for call in message.tool_calls))
    in_items = any(item["type"] == "reasoning" for item in message.extras.get("output", ()))
    assert said == _dropped(message, reasoning=not in_items, items=False)
    calls = [item for item in written if item["type"] in ("function_call", "custom_tool_call")]
    assert [item["call_id"] for item in calls] == [call.id for call in message.tool_calls]
    assert [(item["name"], item.get("arguments", item.get("input"))) for item in calls] == _calls(message)
    texts = [part["text"] for item in written[1:] if item["type"] == "message" for part in item["content"]]
    assert "".join(texts) == (message.content or "")
    came = [item for item in message.extras.get("output", ()) if item["type"] == "reasoning"]
    went = [item for item in written if item["type"] == "reasoning"]
    for key in ("encrypted_content", "content", "summary"):
        assert [item[key] for item in went if item.get(key)] == [item[key] for item in came if item.get(key)]


def _dropped(message: Message, *, reasoning: bool, items: bool = True) -> list[str]:
    """What is said of an answer at messages[1] that goes to another provider, or to its own by another API."""
    kept = {"output", "annotations"} if "output" in message.extras else set()  # the items have the annotations, too
    opaque = [
        name
        for name, value in message.extras.items()
        if name not in kept or (items and (name != "output" or any(_says_more(item) for item in value)))
    ]
    if not items:  # where a call's own members are those of an item
        others = [set(call.extra or ()) - set(CALL_EXTRAS) for call in message.tool_calls]
        opaque += [f"tool_calls[{at}].extra" for at, extra in enumerate(others) if extra]
    kinds = ", ".join(dict.fromkeys(part.kind for part in message.hosted))
    named = {name: f" ({kinds})" for name in ("output", "blocks", "steps") if kinds}
    places = ", ".join(f"messages[1].{name}{named.get(name, '')}" for name in opaque)
    return [
        *([REASONING] if reasoning and message.reasoning else []),
        *([f"provider_data_dropped: {places}: {NO_PLACE}"] if opaque else []),
    ]


def _says_more(item: Mapping[str, Any]) -> bool:
    """Whether an item is no text and no call, or has something beside them."""
    if item["type"] not in ("message", "function_call"):
        return True
    return any(part.get("annotations") for part in item.get("content") or ())


def _calls(message: Message) -> list[tuple[str, str]]:
    return [(call.name, call.raw_arguments or "{}") for call in message.tool_calls]


def test_interleaved_answers_survive() -> None:
    """Parallel calls keep their order, their ids and their arguments' blanks."""
    body = chunk({"reasoning_content": "Hm.", "tool_calls": [entry(0, "a", "f", '{ "x":1}'), entry(1, "b", "g", "{}")]})
    message = fold(body + fin("tool_calls") + DONE).message
    results = [tool_result(call, "done") for call in message.tool_calls]
    written, _ = sent("responses", user("Hi"), message, *results)
    assert [(item["call_id"], item["arguments"]) for item in written[1:3]] == [("a", '{ "x":1}'), ("b", "{}")]
