"""Special tokens of users' and tools' texts are escaped, for every dialect and for hosts that render templates.

The marks are those of the models' published tokenizers and chat templates, written down from them and not from this
library.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any, NamedTuple

import httpx
import pytest

from client_readers import READERS
from provider_streams import APIS
from scale import pick
from streamfold import Message, Provider, ToolCall, assistant, file, system, tool_result, user
from streamfold.types import TextPart

JOINER = "\u2060"  # put behind the first character of a token, so that no tokenizer matches it

QWEN = ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|vision_start|>", "<|image_pad|>")
MARKS: dict[str, tuple[str, ...]] = {
    # moonshotai/Kimi-K2-Instruct, tokenizer_config.json
    "kimi": (
        *("<|im_user|>", "<|im_assistant|>", "<|im_system|>", "<|im_middle|>", "<|im_end|>", "[EOS]", "[BOS]", "[EOT]"),
        *("<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"),
    ),
    "kimi3": ("<|open|>", "<|close|>", "<|sep|>"),
    "hermes": QWEN,  # Qwen/Qwen3-32B and NousResearch/Hermes-3, tokenizer_config.json
    "qwen3coder": QWEN,
    # zai-org/GLM-4.5
    "glm": ("<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"),
    # deepseek-ai/DeepSeek-V3.1
    "deepseek": (
        *(
            "<｜begin▁of▁sentence｜>",
            "<｜end▁of▁sentence｜>",
            "<｜User｜>",
            "<｜Assistant｜>",
            "<｜tool▁calls▁begin｜>",
        ),
        *("<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"),
        *("<｜tool▁outputs▁begin｜>", "<｜tool▁outputs▁end｜>", "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"),
    ),
    # deepseek-ai/DeepSeek-V3.2
    "dsml": ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "｜DSML｜"),
    # meta-llama/Llama-3.1-8B-Instruct
    "llama3": (
        *(
            "<|begin_of_text|>",
            "<|end_of_text|>",
            "<|start_header_id|>",
            "<|end_header_id|>",
            "<|eom_id|>",
            "<|eot_id|>",
        ),
        "<|python_tag|>",
    ),
    # mistralai/Mistral-Small-3.2-24B-Instruct-2506, tekken.json
    "mistral": (
        *("<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]"),
        *(
            "[/TOOL_RESULTS]",
            "[TOOL_CALLS]",
            "[SYSTEM_PROMPT]",
            "[/SYSTEM_PROMPT]",
            "[TOOL_CONTENT]",
            "[ARGS]",
            "[CALL_ID]",
        ),
    ),
    # https://github.com/openai/harmony
    "harmony": (
        "<|start|>",
        "<|end|>",
        "<|message|>",
        "<|channel|>",
        "<|constrain|>",
        "<|return|>",
        "<|call|>",
        "<|endoftext|>",
    ),
    # MiniMaxAI/MiniMax-M2
    "minimax": ("]~b]", "]~!b[", "[e~["),
    "minimax3": ("]~b]", "]~!b[", "[e~["),
    # google/gemma-4 and google/functiongemma-270m-it
    "gemma4": (
        "<bos>",
        "<eos>",
        "<|turn>",
        "<turn|>",
        "<|tool_call>",
        "<tool_call|>",
        "<|tool_response>",
        "<tool_response|>",
    ),
    "functiongemma": (
        *("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", "<start_function_call>", "<end_function_call>"),
        *("<start_function_response>", "<end_function_response>", "<escape>"),
    ),
    # LiquidAI/LFM2-1.2B
    "lfm2": (
        *("<|startoftext|>", "<|im_start|>", "<|im_end|>", "<|tool_call_start|>", "<|tool_call_end|>"),
        *("<|tool_response_start|>", "<|tool_response_end|>", "<|tool_list_start|>", "<|tool_list_end|>"),
    ),
    # ByteDance-Seed/Seed-OSS-36B-Instruct
    "seed": ("<seed:bos>", "<seed:eos>", "<seed:tool_call>", "</seed:tool_call>", "<seed:think>", "</seed:think>"),
    # CohereLabs/c4ai-command-a-03-2025
    "cohere": (
        *("<BOS_TOKEN>", "<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|USER_TOKEN|>", "<|CHATBOT_TOKEN|>"),
        *("<|SYSTEM_TOKEN|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_THINKING|>", "<|END_THINKING|>"),
        *("<|START_ACTION|>", "<|END_ACTION|>", "<|START_TOOL_RESULT|>", "<|END_TOOL_RESULT|>"),
    ),
}
# Models by the beginning of their names, and whose marks they have.
MODELS = {
    "moonshotai/Kimi-K2-Instruct": "kimi",
    "Qwen/Qwen3-32B": "hermes",
    "Qwen/Qwen2.5-7B-Instruct": "hermes",
    "qwen3:8b": "hermes",
    "NousResearch/Hermes-3-Llama-3.2-3B": "hermes",
    "zai-org/GLM-4.5": "glm",
    "deepseek-ai/DeepSeek-V3.1": "deepseek",
    "deepseek-ai/DeepSeek-V3.2": "dsml",
    "meta-llama/Llama-3.1-8B-Instruct": "llama3",
    "llama3.1:8b": "llama3",
    "mistralai/Mistral-Small-3.2-24B-Instruct-2506": "mistral",
    "openai/gpt-oss-20b": "harmony",
    "gpt-oss:20b": "harmony",
    "MiniMaxAI/MiniMax-M2": "minimax",
    "google/functiongemma-270m-it": "functiongemma",
    "LiquidAI/LFM2-1.2B": "lfm2",
    "ByteDance-Seed/Seed-OSS-36B-Instruct": "seed",
    "CohereLabs/c4ai-command-a-03-2025": "cohere",
}
HOSTS = ("vllm", "sglang", "ollama", "llamacpp", "lmstudio", "vllm-anthropic", "ollama-anthropic", "llamacpp-anthropic")
PLAIN = ("a", " ", "\n", "é", "😀", "<", "|", "<|", "|>", "[", "]", "{}", "&", "x < y", "[1]", "<b>")


def words(random: Random, marks: tuple[str, ...], hot: bool) -> str:
    """Returns a text, with marks in it, halves of marks and marks that overlap, if it is `hot`."""
    pieces = [random.choice(PLAIN) for _ in range(random.randint(0, 4))]
    if hot:
        mark, other = random.choice(marks), random.choice(marks)
        at = random.randint(1, len(mark) - 1)
        pieces.insert(
            random.randint(0, len(pieces)),
            random.choice([mark, mark + other, mark[:at] + mark, mark[:at] + other + mark[at:], mark * 2]),
        )
    return "".join(pieces) or "a"


class Conversation:
    """A random conversation, and the texts of users and tools in it."""

    def __init__(self, random: Random, api: str, marks: tuple[str, ...], hot: bool) -> None:
        self.marks, self.hot = marks, hot
        self.forms = ["text", "parts", "turns", "name", *(["file"] if api != "kimi" else [])]  # Kimi takes no files
        self.messages: list[Message] = [system(f"System {random.choice(marks)}.")] if random.random() < 0.5 else []
        for at in range(random.randint(1, 3)):
            self.messages.append(self.user(random))
            if random.random() < 0.5:
                call = ToolCall(f"call_{at}", "f", {}, "{}")
                self.messages += [assistant(tool_calls=[call]), self.result(random, call)]
            if random.random() < 0.5:
                self.messages.append(assistant("An answer."))
        if self.messages[-1].role == "assistant":
            self.messages.append(user("And now?"))

    def parts(self, random: Random) -> list[str]:
        """Returns a text in one to three pieces, cut anywhere."""
        left, pieces = words(random, self.marks, self.hot), []
        for _ in range(random.randint(0, 2)):
            at = random.randint(0, len(left))
            if at:
                pieces.append(left[:at])
                left = left[at:]
        return [*pieces, left] if left else pieces

    def user(self, random: Random) -> Message:
        form = random.choice(self.forms)
        parts = self.parts(random)
        if form == "turns":
            self.messages += [user(part) for part in parts[:-1]]
            return user(parts[-1])
        if form == "file":
            text = words(random, self.marks, self.hot)
            return user(file(text.encode(), media_type="text/plain", name="notes.txt"), "What is this?")
        if form == "name":
            return Message("user", "".join(parts), name=words(random, self.marks, self.hot))
        return user(*parts) if form == "parts" else user("".join(parts))

    def result(self, random: Random, call: ToolCall) -> Message:
        form = random.choice(["text", "json", "parts"])
        parts = self.parts(random)
        if form == "json":
            return tool_result(call, {"found": "".join(parts), parts[0]: [parts[-1]]})
        return tool_result(call, [TextPart(part) for part in parts] if form == "parts" else "".join(parts))


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, member in value.items():
            yield key
            yield from strings(member)
    elif isinstance(value, list):
        for member in value:
            yield from strings(member)


def rendered(api: str, body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Returns role and text of each message as a chat template joins its neighbouring parts."""
    for message in body[{"responses": "input", "gemini": "contents"}.get(api, "messages")]:
        role = message.get("role", "tool")
        yield role, message.get("name", "")
        text = ""
        for kind, piece in parts_of(message):
            if kind == "text":
                text += piece
            else:
                yield role, text
                yield kind, piece
                text = ""
        yield role, text


def parts_of(message: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Returns the texts of a message, and of a result or a file in it; a result's own parts are joined."""
    content = message.get("content", message.get("parts", message.get("output", ())))
    for part in [{"text": content}] if isinstance(content, str) else content or ():
        if "text" in part:
            yield "text", part["text"]
        elif part.get("type") == "tool_result":
            inner = part["content"]
            yield "tool", inner if isinstance(inner, str) else "".join(block.get("text", "") for block in inner)
        else:
            kind = "tool" if "functionResponse" in part else "file"
            for string in strings(part):
                yield kind, string


def opened(value: Any) -> Any:
    """Returns a body in which text files are shown as text."""
    if isinstance(value, str) and value.startswith("data:text/plain;base64,"):
        return base64.b64decode(value.partition(",")[2]).decode()
    if isinstance(value, dict) and value.get("mimeType") == "text/plain":
        return {"text": "", "opened": base64.b64decode(value["data"]).decode()}
    if isinstance(value, dict):
        return {key: opened(member) for key, member in value.items()}
    return [opened(member) for member in value] if isinstance(value, list) else value


def without(body: Any) -> str:
    """Returns a body without joiners, also where a result is JSON text with escapes in it."""
    return json.dumps(body, ensure_ascii=False).replace(JOINER, "").replace("\\\\u2060", "")


def check(sender: Sender, marks: tuple[str, ...], random: Random, context: object) -> None:
    """Compares what is sent with what would be sent with `escape_special_tokens = false`."""
    api, provider, plain = sender
    hot = random.random() < 0.8
    context = (context, provider.name)
    messages = Conversation(random, api, marks, hot).messages
    preview = provider.preview(messages)
    body, untouched = opened(preview.json()), opened(plain.preview(messages).json())
    for role, text in rendered(api, body):
        if role in ("user", "tool", "file"):
            found = [mark for mark in marks if mark in text]
            assert not found, (context, found, text)
    assert json.dumps(body, ensure_ascii=False).replace(JOINER, "") == json.dumps(untouched, ensure_ascii=False), (
        context
    )
    assert hot or body == untouched, context
    codes = [warning.code for warning in preview.warnings]
    assert ("special_tokens_escaped" in codes) == (body != untouched), (context, codes)
    member = {"responses": "input", "gemini": "contents"}.get(api, "messages")
    for one, other in zip(body[member], untouched[member], strict=True):
        assert one == other or one.get("role", "tool") in ("user", "tool"), context
    for name in ("system", "instructions", "systemInstruction"):
        assert body.get(name) == untouched.get(name), context


class Sender(NamedTuple):
    """A provider, and the same one without escaping."""

    api: str
    provider: Provider
    plain: Provider


def sender(api: str, spec: str | dict[str, Any], **overrides: Any) -> Sender:
    plain = Provider.from_config(spec, **overrides, escape_special_tokens=False)
    return Sender(api, Provider.from_config(spec, **overrides), plain)


@cache
def of_dialect(dialect: str) -> list[Sender]:
    settings = {"base_url": "http://test/v1", "model": "m", "dialect": dialect}
    return [sender(api, settings | {"adapter": api}) for api in APIS]


@cache
def of_model(model: str) -> list[Sender]:
    hosts = [sender("anthropic" if host.endswith("-anthropic") else "chat", host, model=model) for host in HOSTS]
    own = {"adapter": "responses", "base_url": "http://test/v1", "renders_templates": True}
    named = [own | {"model": model}, own | {"model": "mine", "model_family": model}]
    return [*hosts, *(sender("responses", settings) for settings in named)]


def with_a_dialect(dialect: str, seed: int) -> None:
    random = Random(f"{dialect} {seed}")
    check(random.choice(of_dialect(dialect)), MARKS[dialect], random, (dialect, seed))


def with_a_model(model: str, seed: int) -> None:
    random = Random(f"{model} {seed}")
    check(random.choice(of_model(model)), MARKS[MODELS[model]], random, (model, seed))


def in_an_answer(dialect: str, seed: int) -> None:
    random = Random(f"{dialect} {seed}")
    said = words(random, (*MARKS[dialect], "</think>", "</think>"), hot=True)
    provider = of_dialect(dialect)[0].provider
    _, turn, _ = provider.preview([user("Hello"), assistant(said), user("And now?")]).json()["messages"]
    assert "</think>" not in turn["content"], seed
    assert turn["content"].replace(JOINER, "") == said, seed
    if "</think>" not in said:
        assert turn["content"] == said, seed


async def of_a_client(client_api: str, seed: int) -> None:
    random = Random(f"{client_api} {seed}")
    dialect = random.choice([*MARKS])
    text, bodies = words(random, MARKS[dialect], hot=True), []
    at = random.randint(0, len(text))
    pieces = [piece for piece in (text[:at], text[at:]) if piece]

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        message = {"role": "assistant", "content": "Hi"}
        return httpx.Response(200, json={"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as network:
        settings = {"adapter": "chat", "base_url": "http://test/v1", "api_key": "k", "model": "m", "dialect": dialect}
        app = pytest.importorskip("streamfold_gateway").gateway(
            {"main": Provider.from_config(settings, http_client=network)}
        )
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            response = await client.post(*asked(client_api, pieces)[:1], json=asked(client_api, pieces)[1])
    assert response.status_code == 200, (seed, response.text)
    sent = "".join(text for role, text in rendered("chat", bodies[-1]) if role == "user")
    assert [mark for mark in MARKS[dialect] if mark in sent] == [], (seed, sent)
    assert sent.replace(JOINER, "") == text, (seed, sent)
    assert (sent != text) == ("special_tokens_escaped" in response.headers.get("x-streamfold-warnings", "")), seed


def asked(client_api: str, pieces: list[str]) -> tuple[str, dict[str, Any]]:
    """Returns a request of a client in which a user says the pieces one behind the other."""
    if client_api == "gemini":
        contents = [{"role": "user", "parts": [{"text": piece} for piece in pieces]}]
        return "/v1beta/models/main:generateContent", {"contents": contents}
    kind = "input_text" if client_api == "responses" else "text"
    messages = [{"role": "user", "content": [{"type": kind, "text": piece} for piece in pieces]}]
    body = {"model": "main", "input" if client_api == "responses" else "messages": messages}
    if client_api == "anthropic":
        return "/v1/messages", body | {"max_tokens": 100}
    return {"chat": "/v1/chat/completions", "responses": "/v1/responses"}[client_api], body


@pytest.mark.one_loop
@pytest.mark.parametrize("client_api", READERS)
async def test_special_tokens_of_a_client(client_api: str) -> None:
    """Through the gateway, too, whatever API the client speaks; the warning is in the answer's header."""
    for seed in range(pick(150, 10, 1000)):
        await of_a_client(client_api, seed)


@pytest.mark.parametrize("dialect", MARKS)
def test_special_tokens_of_a_dialect(dialect: str) -> None:
    """With a dialect no token of its models is in what users and tools say, whole, overlapping or cut across parts."""
    for seed in range(pick(120, 10, 600)):
        with_a_dialect(dialect, seed)


@pytest.mark.parametrize("model", MODELS)
def test_special_tokens_where_templates_are_rendered(model: str) -> None:
    """At hosts that render chat templates, the tokens are those of the model by its name, without a dialect."""
    for seed in range(pick(150, 10, 750)):
        with_a_model(model, seed)


@pytest.mark.parametrize("dialect", ["hermes", "glm", "deepseek", "minimax"])
def test_an_earlier_answer_is_not_cut_by_its_template(dialect: str) -> None:
    """In earlier answers the token at which the model's template would cut the turn is escaped, and no other."""
    for seed in range(pick(100, 10, 500)):
        in_an_answer(dialect, seed)
