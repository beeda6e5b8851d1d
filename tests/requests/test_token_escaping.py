"""Special tokens of a model in the conversation: they are sent so that the model reads them as text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfold import ConfigError, Message, Provider, ToolCall, assistant, tool_result, user
from streamfold.engine.dialects import special_tokens
from streamfold.requests import escape_special_tokens
from streamfold.requests.request import Request
from streamfold.types import FilePart, TextPart, to_base64
from tables import each_row

J = "\u2060"
TEXT = "special tokens of the model were escaped, so that the model reads them as text"
CUT = "special tokens that break the model's chat template were escaped"
BASE = {"adapter": "chat", "base_url": "http://127.0.0.1:9/v1", "api_key_env": [], "model": "m"}
MARKS = {
    "harmony": ["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>"],
    "dsml": ["｜DSML｜", "<｜tool▁calls▁begin｜>", "<｜end▁of▁sentence｜>", "<think>", "</think>"],
    "deepseek": ["<｜tool▁sep｜>", "</think>", "<|EOT|>"],
    "kimi3": ["<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"],
    "minimax": ["<minimax:tool_call>", "</minimax:tool_call>", "]~b]", "[e~[", "<think>"],
    "minimax3": ["]<]minimax[>[", "]~b]", "[e~[", "<mm:think>", "</mm:think>"],
    "gemma4": [
        "<|tool_call>",
        "<tool_call|>",
        "<|tool_response>",
        "<tool_response|>",
        '<|"|>',
        "<|channel>",
        "<|turn>",
    ],
    "functiongemma": ["<start_function_call>", "<end_function_response>", "<escape>", "<end_of_turn>"],
    "lfm2": ["<|im_start|>", "<|im_end|>", "<|tool_call_start|>", "<|tool_call_end|>"],
    "qwen3coder": ["<|im_end|>", "<tool_call>", "</tool_response>"],
    "hermes": ["<|im_start|>", "</tool_call>"],
    "glm": ["<|user|>", "<|observation|>", "<tool_call>"],
    "kimi": ["<|im_end|>", "<|im_user|>", "<|tool_calls_section_begin|>", "<|tool_call_argument_begin|>", "[EOS]"],
    "llama3": [
        "<|eot_id|>",
        "<|start_header_id|>",
        "<|python_tag|>",
        "<|reserved_special_token_7|>",
        "<|step|>",
        "<|reasoning_thinking_end|>",
        "<|vision_reserved_special_token_7|>",
        "<|tile_x_separator|>",
    ],
    "mistral": ["[TOOL_CALLS]", "[/INST]", "[ARGS]", "[CALL_ID]", "</s>", "[control_8]"],
    "seed": ["<seed:tool_call>", "</seed:think>", "<seed:bos>"],
    "cohere": ["<|START_ACTION|>", "<|END_THINKING|>", "<|END_OF_TURN_TOKEN|>"],
}
HISTORY = {
    "harmony": ("<|channel|>final<|message|>no", f"<{J}|channel|>final<|message|>no"),
    "deepseek": ("a</think>b", f"a<{J}/think>b"),
    "minimax3": ("a</mm:think>b", f"a<{J}/mm:think>b"),
    "gemma4": ("a<|channel>b", f"a<{J}|channel>b"),
    "lfm2": ("a</think>b", f"a<{J}/think>b"),
}


def sent(messages: list[Message], **settings: Any) -> tuple[list[Any], list[str]]:
    """The messages in the body, and the warnings."""
    preview = Provider.from_config({**BASE, **settings}).preview(messages)
    body = preview.body if isinstance(preview.body, dict) else json.loads(preview.body)
    return [message.get("content") for message in body["messages"]], [
        f"{warning.code}: {warning.detail}" for warning in preview.warnings
    ]


@each_row("dialect", MARKS)
def test_marks_of_a_dialect(dialect: str) -> None:
    """A word joiner stands behind the first character of each, in what users and tools say; the caller's stay."""
    text = " and ".join(f"{mark} x" for mark in MARKS[dialect])
    joined = " and ".join(f"{mark[0]}{J}{mark[1:]} x" for mark in MARKS[dialect])
    call = ToolCall("abcdefghi", "f", {}, "{}")
    messages = [user(text), assistant("ok", tool_calls=[call]), tool_result(call, text), user([TextPart(text)])]
    before = [message.to_dict() for message in messages]
    contents, warnings = sent(messages, dialect=dialect)
    assert [content if isinstance(content, str) else content[0]["text"] for content in contents] == [
        joined, "ok", joined, joined,
    ]  # fmt: skip
    assert warnings == [f"special_tokens_escaped: messages[0], messages[2], messages[3]: {TEXT}"]
    assert [message.to_dict() for message in messages] == before


@each_row("dialect", HISTORY)
def test_marks_at_which_a_template_cuts(dialect: str) -> None:
    """In earlier answers only the marks at which the chat template would cut or refuse the turn are written so."""
    said, written = HISTORY[dialect]
    contents, warnings = sent([user("Hi"), assistant(said), user("go on")], dialect=dialect)
    assert contents == ["Hi", written, "go on"]
    assert warnings == [f"special_tokens_escaped: messages[1]: {CUT}"]


@pytest.mark.parametrize("settings", [{"dialect": "harmony", "escape_special_tokens": False}, {"dialect": "think"}, {}])
def test_nothing_is_changed_unasked(settings: dict[str, Any]) -> None:
    """Without a dialect whose marks are known, or with the setting off, everything is sent as it is."""
    assert sent([user("<|call|> </think>")], **settings) == (["<|call|> </think>"], [])


def test_the_setting_is_a_flag() -> None:
    """Anything but true and false is refused."""
    with pytest.raises(ConfigError, match="escape_special_tokens"):
        Provider.from_config({**BASE, "escape_special_tokens": "perhaps"})


@each_row("provider", ["vllm", "sglang", "ollama", "llamacpp", "vllm-anthropic"])
@each_row(
    "served",
    [
        ("qwen3:8b", "<|im_end|>"),
        ("meta-llama/Llama-3.3-70B-Instruct", "<|eot_id|>"),
        ("mistralai/Mistral-Small-3.2-24B-Instruct-2506", "[TOOL_CALLS]"),
        ("moonshotai/Kimi-K2-Instruct", "<|tool_call_end|>"),
        ("openai/gpt-oss-20b", "<|call|>"),
        ("google/gemma-3-27b-it", "<end_of_turn>"),
        ("google/gemma-4-27b-it", "<turn|>"),
        ("deepseek-ai/DeepSeek-V3.2", "<｜User｜>"),
        ("microsoft/Phi-4-mini-instruct", "<|end|>"),
    ],
)
def test_an_engine_that_renders_templates(provider: str, served: tuple[str, str]) -> None:
    """Without a dialect, the tokens of the model are escaped where its server renders the chat template."""
    model, token = served
    preview = Provider.from_config(provider, model=model).preview(f"a {token} b")
    assert token not in preview.body.decode()
    assert f"{token[0]}{J}{token[1:]}" in json.dumps(preview.json(), ensure_ascii=False)
    assert [warning.code for warning in preview.warnings] == ["special_tokens_escaped"]


def test_a_deployment_is_known_by_its_family() -> None:
    """A name that says nothing has the tokens of `model_family`; a model that is unknown has none."""
    named = Provider.from_config("llamacpp", model_family="qwen3").preview("a <|im_end|> b")
    assert "<|im_end|>" not in named.body.decode()
    unknown = Provider.from_config("llamacpp").preview("a <|im_end|> b")
    assert ("<|im_end|>" in unknown.body.decode(), unknown.warnings) == (True, ())


def test_a_maker_s_own_api_gets_texts_unchanged() -> None:
    """Hosted APIs keep users' texts apart from special tokens themselves."""
    for name in ("openai:gpt-4.1-mini", "mistral:mistral-large-latest", "deepseek:deepseek-chat"):
        preview = Provider.from_config(name).preview("a <|im_end|> [/INST] b")
        assert "a <|im_end|> [/INST] b" in preview.body.decode()


@each_row("text", ["a [e~[ b", "a [e~[e~[ b", "a ]~b]~b] b", "]~b][e~[e~[]~b]~b]"])
def test_tokens_that_overlap(text: str) -> None:
    """No token is left whole where two share characters."""
    (content,), _ = sent([user(text)], dialect="minimax")
    assert content.replace(J, "") == text
    assert not any(token in content for token in ("[e~[", "]~b]"))


TOKENS = sorted({token for tokens in MARKS.values() for token in tokens})


@given(st.lists(st.sampled_from([*TOKENS, "<", "|", "im_", ">", "[", "x", "e~"]), max_size=12).map("".join), st.data())
def test_no_token_is_left_in_neighbouring_parts(whole: str, data: st.DataObject) -> None:
    """However a text is cut into parts: no token is left in them or across them, and nothing else is changed."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=3)))
    parts = [whole[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    for dialect, tokens in MARKS.items():
        pattern = special_tokens(dialect)
        assert pattern
        request = Request.read("m", [user(*map(TextPart, parts), "end")], None, "auto", {})
        escaped, _ = escape_special_tokens(request, pattern.text, None)
        texts = [part.text for part in escaped.messages[0].content or () if isinstance(part, TextPart)]
        assert [text.replace(J, "") for text in texts] == [*parts, "end"]
        assert not any(token in "".join(texts) for token in tokens)


def test_names_and_text_files() -> None:
    """The name of a message, the name of a file and a text file are texts that a template may write."""
    token, escaped = "<|im_end|>", f"<{J}|im_end|>"
    pattern = special_tokens("hermes")
    assert pattern
    files = [
        FilePart(data=f"a {token}".encode(), media_type="text/plain", name=f"{token}.txt"),
        FilePart(url=f"data:text/markdown;base64,{to_base64(token.encode())}"),
        FilePart(url="data:text/plain,a%20%3C%7Cim_end%7C%3E"),
        FilePart(data=b"%PDF <|im_end|>", media_type="application/pdf"),
        FilePart(data=b"\xff<|im_end|>", media_type="text/plain"),
    ]
    message = Message("user", files, name=f"x{token}")
    request, warnings = escape_special_tokens(Request.read("m", [message], None, "auto", {}), pattern.text, None)
    assert request.messages == (
        Message(
            "user",
            [
                FilePart(data=f"a {escaped}".encode(), media_type="text/plain", name=f"{escaped}.txt"),
                FilePart(url=f"data:text/markdown;base64,{to_base64(escaped.encode())}"),
                FilePart(url=f"data:text/plain;base64,{to_base64(f'a {escaped}'.encode())}"),
                *files[3:],
            ],
            name=f"x{escaped}",
        ),
    )
    assert [warning.code for warning in warnings] == ["special_tokens_escaped"]
