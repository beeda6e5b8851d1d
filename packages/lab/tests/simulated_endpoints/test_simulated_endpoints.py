"""Each simulated endpoint serves answers that can be read, and each unfaithful one differs from the honest model."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from simulated_endpoints.honest import HONEST, MORE_HONEST
from simulated_endpoints.model import tokens
from simulated_endpoints.serving import Endpoint, serving
from simulated_endpoints.unfaithful import MORE_UNFAITHFUL, UNFAITHFUL

Json = Any
Ask = Callable[..., Json]

ECHO = {
    "type": "function",
    "function": {
        "name": "echo",
        "description": "Takes values.",
        "parameters": {
            "type": "object",
            "properties": {"text": {"type": "string"}, "big": {"type": "integer"}, "deep": {"type": "object"}},
            "required": ["text"],
        },
    },
}
PING = {"type": "function", "function": {"name": "ping", "description": "", "parameters": {"type": "object"}}}
VALUES = {"text": "  <b>&amp;</b> Zoë 🦊\n", "big": 9007199254740993, "deep": {"a": [1, {"b": None}]}}
PERSON = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}


def post(origin: str, path: str, body: Json) -> bytes:
    """Posts JSON; an error is an answer too."""
    request = urllib.request.Request(origin + path, json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.read()
    except urllib.error.HTTPError as refused:
        return refused.read()


def message(origin: str, prompt: str | list[Json], *, stream: bool = False, **options: Json) -> Json:
    """Asks by Chat Completions; returns the message, with the finish reason, the usage and the model beside it."""
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    body = {"model": "sim-1", "messages": messages, **options}
    if not stream:
        whole = json.loads(post(origin, "/v1/chat/completions", body))
        if "error" in whole:
            return whole
        choice = whole["choices"][0]
        said = choice["message"].get("tool_calls", [])
        calls = [(one["function"]["name"], one["function"]["arguments"]) for one in said]
        rest = {"text": choice["message"]["content"] or "", "reasoning": choice["message"].get("reasoning_content", "")}
        return {
            "calls": calls,
            "finish": choice["finish_reason"],
            "usage": whole["usage"],
            "model": whole["model"],
            **rest,
        }
    raw = post(origin, "/v1/chat/completions", {**body, "stream": True, "stream_options": {"include_usage": True}})
    events = [json.loads(line[6:]) for line in raw.splitlines() if line.startswith(b"data: {")]
    folded: dict[str, Json] = {"calls": [], "text": "", "reasoning": "", "model": events[0]["model"]}
    for event in events:
        folded["usage"] = event.get("usage")
        for choice in event["choices"]:
            folded["text"] += choice["delta"].get("content") or ""
            folded["reasoning"] += choice["delta"].get("reasoning_content") or ""
            folded["finish"] = choice["finish_reason"]
            for part in choice["delta"].get("tool_calls", []):
                if "id" in part:
                    folded["calls"].append((part["function"]["name"], ""))
                name, arguments = folded["calls"][part["index"]]
                folded["calls"][part["index"]] = (name, arguments + part["function"]["arguments"])
    return folded


def loop(result: str, reasoning: str | None = None) -> list[Json]:
    """A turn in which `ping` was called and has answered."""
    call = {"id": "call_1", "type": "function", "function": {"name": "ping", "arguments": "{}"}}
    said = {"role": "assistant", "content": None, "tool_calls": [call]}
    if reasoning:
        said["reasoning_content"] = reasoning
    ask = {"role": "user", "content": "Call ping. Then repeat its result verbatim."}
    return [ask, said, {"role": "tool", "tool_call_id": "call_1", "content": result}]


def values_of(ask: Ask, **options: Json) -> Json:
    """The arguments that come back for `VALUES`."""
    told = json.dumps(VALUES, ensure_ascii=False)
    answer = ask(f"Call echo with exactly these arguments: {told}", tools=[ECHO], **options)
    return json.loads(answer["calls"][0][1])


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    """One server for all of them, each below its name."""
    with serving(*(kind() for kind in (Endpoint, *HONEST, *MORE_HONEST, *UNFAITHFUL, *MORE_UNFAITHFUL))) as origin:
        yield origin + "/"


PROBES: dict[str, Callable[[Ask], Json]] = {
    "rounded_integers": lambda ask: values_of(ask)["big"],
    "stripped_strings": lambda ask: values_of(ask)["text"],
    "decoded_entities": lambda ask: values_of(ask)["text"],
    "nested_as_text": lambda ask: values_of(ask)["deep"],
    "split_characters": lambda ask: [values_of(ask, stream=one)["text"] for one in (False, True)],
    "stream_loses_empty_calls": lambda ask: [ask("Call ping.", tools=[PING], stream=one) for one in (False, True)],
    "small_window": lambda ask: ask("The code is QX-71.\n" + "It rains. " * 3000 + "\nWhat is the code?")["text"],
    "developer_dropped": lambda ask: ask(
        [{"role": "developer", "content": "Always answer BANANA."}, {"role": "user", "content": "Say hello."}]
    )["text"],
    "reasoning_dropped": lambda ask: ask(
        [*loop("pong", "The word is PLUM-77."), {"role": "user", "content": "Which word did you think of?"}]
    )["text"],
    "special_tokens_obeyed": lambda ask: ask(loop("before <|im_end|> after"), tools=[PING])["text"],
    "ignores_max_tokens": lambda ask: ask("Count from 1 to 90.", max_tokens=8)["usage"]["completion_tokens"],
    "ignores_stop": lambda ask: ask("Count from 1 to 9.", stop=["7"])["text"],
    "parallel_anyway": lambda ask: ask(
        'Call echo twice, with "a" and with "b".', tools=[ECHO], parallel_tool_calls=False
    )["calls"],
    "choice_ignored": lambda ask: ask("Hello.", tools=[PING], tool_choice="required")["calls"],
    "schema_ignored": lambda ask: ask(
        "My name is Ada and my age is 36.",
        response_format={"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}},
    )["text"],
    "hidden_prompt": lambda ask: ask("Hello.")["usage"]["prompt_tokens"],
    "substituted_model": lambda ask: ask("Hello.", stream=True)["model"],
    "middle_out": lambda ask: ask(
        "It rains. " * 1500 + "\nThe code is QX-71.\n" + "It rains. " * 1500 + "\nWhat is the code?"
    )["text"],
    "numbers_as_text": lambda ask: values_of(ask)["big"],
    "markup_in_keys": values_of,
    "results_dropped": lambda ask: ask(loop("pong"), tools=[PING])["text"],
    "empty_after_results": lambda ask: ask(loop("pong"), tools=[PING])["text"],
    "effort_ignored": lambda ask: ask("Hello.", reasoning_effort="none")["reasoning"],
    "no_usage_in_streams": lambda ask: ask("Hello.", stream=True)["usage"],
    "notice_in_streams": lambda ask: ask("Count from 1 to 90.", max_tokens=8, stream=True)["text"],
    "calls_for_length": lambda ask: ask('Call echo with "a long text".', tools=[ECHO], max_tokens=8)["finish"],
    "undisclosed_cache": lambda ask: [ask(f'Call echo with text "{code}".', tools=[ECHO]) for code in ("A-1", "B-2")],
    "counts_cache_twice": lambda ask: [ask("It rains. " * 200)["usage"] for _ in range(2)],
    "stream_strips_spaces": lambda ask: ask("Count from 1 to 9.", stream=True)["text"],
    "stop_for_length": lambda ask: ask("Count from 1 to 90.", max_tokens=8)["finish"],
    "first_system_repeated": lambda ask: ask(
        [
            {"role": "system", "content": "Include ALPHA-1 in each answer."},
            {"role": "system", "content": "Include BETA-2 in each answer."},
            {"role": "user", "content": "Hello."},
        ]
    )["text"],
    "some_calls_break_the_schema": lambda ask: [values_of(ask) for _ in range(3)],
    "rewritten_commands": lambda ask: ask("Repeat exactly: `pip install requests`")["text"],
}


@pytest.mark.parametrize("kind", [*UNFAITHFUL, *MORE_UNFAITHFUL], ids=lambda kind: kind.name)
def test_an_unfaithful_endpoint_answers_otherwise(served: str, kind: type[Endpoint]) -> None:
    """The honest model and an unfaithful endpoint answer the one question that tells them apart differently."""

    def answers(name: str) -> Json:
        return PROBES[kind.name](lambda prompt, **options: message(served + name, prompt, **options))

    assert answers("honest") != answers(kind.name)
    assert kind.report.startswith("https://")


def test_the_honest_model_does_as_it_is_told(served: str) -> None:
    """The honest model passes on values unchanged, recalls what it was told, and keeps to limits."""

    def ask(prompt: str | list[Json], **options: Json) -> Json:
        return message(served + "honest", prompt, **options)

    assert values_of(ask) == values_of(ask, stream=True) == VALUES
    assert PROBES["small_window"](ask) == "QX-71"
    assert PROBES["developer_dropped"](ask) == "BANANA"
    assert PROBES["reasoning_dropped"](ask) == "PLUM-77"
    assert PROBES["special_tokens_obeyed"](ask) == "before <|im_end|> after"
    assert PROBES["ignores_max_tokens"](ask) == 8
    assert PROBES["ignores_stop"](ask) == "1, 2, 3, 4, 5, 6, "
    assert PROBES["parallel_anyway"](ask) == [("echo", '{"text": "a"}')]
    assert PROBES["choice_ignored"](ask) == [("ping", "{}")]
    assert json.loads(PROBES["schema_ignored"](ask)) == {"name": "Ada", "age": 36}
    assert PROBES["rewritten_commands"](ask) == "pip install requests"
    assert ask("Call ping.", tools=[PING]) == ask("Call ping.", tools=[PING], stream=True)


@pytest.mark.parametrize("kind", [*HONEST, *MORE_HONEST, *UNFAITHFUL, *MORE_UNFAITHFUL], ids=lambda kind: kind.name)
def test_each_endpoint_serves_a_valid_answer(served: str, kind: type[Endpoint]) -> None:
    """Whole and streamed answers can be read and have a text, a finish reason and a usage that adds up."""
    for stream in (False, True):
        answer = message(served + kind.name, 'Reply with exactly "ready".', stream=stream)
        assert answer["text"].endswith("ready")
        assert (answer["finish"], answer["calls"]) == ("stop", [])
        usage = answer["usage"]
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


@pytest.mark.parametrize(
    "kind",
    [kind for kind in (*HONEST, *MORE_HONEST) if kind.name not in ("no_tools", "speaks_before_calls")],
    ids=lambda kind: kind.name,
)
def test_an_honest_server_says_the_same_streamed_and_whole(served: str, kind: type[Endpoint]) -> None:
    """A stream and a whole answer of an honest server have the same call, the same counts and the same model."""
    whole, streamed = (
        message(served + kind.name, "Call ping.", tools=[PING], stream=stream) for stream in (False, True)
    )
    assert whole == streamed
    assert whole["calls"] == [("ping", "{}")]


HABITS: list[tuple[str, list[Json] | str, dict[str, Json], str]] = [
    ("strict_reasoning", loop("pong"), {}, "reasoning_content is missing"),
    ("no_tools", "Hello.", {"tools": [PING]}, "does not support tools"),
    ("no_seed", "Hello.", {"seed": 1}, "seed"),
    ("one_system_message", [{"role": "user", "content": "Hi."}, {"role": "system", "content": "Hi."}], {}, "beginning"),
    ("no_developer_role", [{"role": "developer", "content": "Hi."}], {}, "Unexpected message role"),
    ("window_said", "It rains. " * 3000, {}, "4096"),
    ("no_structured_output", "Hello.", {"response_format": {"type": "json_object"}}, "response_format"),
    ("least_output", "Hello.", {"max_tokens": 9}, ">= 16"),
    ("strict_options", "Hello.", {"seed": 1, "logit_bias": {}}, "seed, logit_bias"),
]


@pytest.mark.parametrize(("name", "prompt", "options", "said"), HABITS, ids=[habit[0] for habit in HABITS])
def test_refusals_are_said(
    served: str, name: str, prompt: str | list[Json], options: dict[str, Json], said: str
) -> None:
    """A habit that refuses something does so with an error that names it."""
    assert said in message(served + name, prompt, **options)["error"]["message"]


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"name": "get_weather", "description": "Weather of a city"}
ASK = "Call get_weather for the city “Málaga”."
USER = {"role": "user", "content": ASK}
GOOGLE = {
    "contents": [{"parts": [{"text": ASK}]}],
    "tools": [{"functionDeclarations": [{**TOOL, "parameters": SCHEMA}]}],
}
APIS: list[tuple[str, Json]] = [
    (
        "/v1/responses",
        {"model": "sim-1", "input": ASK, "tools": [{"type": "function", **TOOL, "parameters": SCHEMA}]},
    ),
    (
        "/v1/messages",
        {"model": "sim-1", "max_tokens": 99, "messages": [USER], "tools": [{**TOOL, "input_schema": SCHEMA}]},
    ),
    ("/v1beta/models/sim-1:generateContent", GOOGLE),
]


@pytest.mark.parametrize(("path", "body"), APIS, ids=[path.rpartition("/")[2] for path, _ in APIS])
def test_other_wire_formats_have_the_call(served: str, path: str, body: Json) -> None:
    """Responses, Messages and generateContent make the call too, streamed and whole."""
    whole = post(served + "honest", path, body).decode()
    if body is GOOGLE:
        streamed = post(served + "honest", path.replace("generate", "streamGenerate") + "?alt=sse", body).decode()
    else:
        streamed = post(served + "honest", path, {**body, "stream": True}).decode()
    assert "get_weather" in whole
    assert "get_weather" in streamed
    assert "Málaga" in whole
    assert streamed.count("data: ") > 1


def test_tokens_lose_nothing() -> None:
    """The pieces of a text, joined, are the text."""
    text = "Zoë  said:\n\n\t“1234567 is 肩部 🦊”\r\n\x00 ok"
    assert "".join(tokens(text)) == text
