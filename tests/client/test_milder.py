"""A server that refuses an option is asked again without it, once, and the model's later requests know it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import cycle, product
from typing import Any

import pytest

from folding import DONE, call, entry, fin, text
from servers import STREAM, Connection, answer, framed, sends_each, serving
from streamfold import Tool, ToolCall, UnsupportedOptionError, run_tools, user
from streamfold.client import OptionRestriction, option_restriction, with_restrictions
from streamfold.errors import ErrorClassification, error_info
from streamfold.requests import Request
from streamfold.types import Message
from tables import each_row

GOOD = answer("200 OK", text("Hi") + fin("stop") + DONE)
OPTIONS: dict[str, Any] = {
    "temperature": 0.3,
    "top_p": 0.9,
    "seed": 1,
    "parallel_tool_calls": False,
    "reasoning_effort": "high",
}
TOOL = Tool("weather", "d", {"type": "object", "properties": {}})


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.title, rest))


def openai(message: str, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


# How servers say that a member is not taken; the name of the member in, the body out.
WORDINGS: dict[str, Callable[[str], Any]] = {
    "OpenAI, by code": lambda name: openai("no", "unsupported_parameter", name),
    "OpenAI, value": lambda name: openai("no", "unsupported_value", name),
    "OpenAI, unknown": lambda name: openai(f"Unknown parameter: '{name}'.", "unknown_parameter", name),
    "OpenAI, words": lambda name: openai(f"Unsupported parameter: '{name}' is not supported with this model."),
    "OpenAI, old": lambda name: openai(f"Unrecognized request argument supplied: {name}"),
    "Anthropic": lambda name: {"type": "error", "error": {"type": "invalid_request_error", "message":
                               f"`{name}` is deprecated for this model."}},
    "Anthropic, unknown": lambda name: {"type": "error", "error": {"type": "invalid_request_error", "message":
                                        f"{name}: Extra inputs are not permitted"}},
    "Bedrock": lambda name: {"message": f"malformed input request: #: extraneous key [{name}] is not permitted"},
    "xAI": lambda name: {"code": "Client specified an invalid argument", "error":
                         f"Argument not supported on this model: {camel(name)}"},
    "xAI, parameter": lambda name: {"code": "invalid-argument", "error":
                                    f"Model m does not support parameter {camel(name)}."},
    "Mistral": lambda name: {"object": "error", "message": {"detail": [{"type": "extra_forbidden", "loc":
                             ["body", name], "msg": "Extra inputs are not permitted"}]}, "code": None},
    "FastAPI": lambda name: {"detail": [{"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs"}]},
    "vLLM": lambda name: {"object": "error", "message": f"[{{'type': 'extra_forbidden', 'loc': ('body', '{name}'),"
                          " 'msg': 'Extra inputs are not permitted'}]", "code": 400},
    "Groq": lambda name: openai(f"property '{name}' is unsupported"),
    "Gemini": lambda name: {"error": {"code": 400, "message": f'Invalid JSON payload received. Unknown name "{name}":'
                            " Cannot find field.", "status": "INVALID_ARGUMENT"}},
    "LiteLLM": lambda name: openai(f"litellm.UnsupportedParamsError: m does not support parameters: ['{name}']"),
    "OpenRouter": lambda name: {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw":
                                json.dumps(openai("no", "unsupported_parameter", name)), "provider_name": "X"}}},
    "plain": lambda name: {"error": f"parameter '{name}' is not supported"},
}  # fmt: skip


def picky(refusal: Callable[[str], Any], refused: Mapping[str, str] | None = None, status: str = "400 Bad Request"):
    """A server that refuses the first member of a request that it does not take."""

    async def script(peer: Connection) -> None:
        while True:
            body = json.loads(await peer.request())
            name = next((name for name in body if refused is None or name in refused), None)
            await peer.send(GOOD if name is None else answer(status, json.dumps(refusal(name)).encode()))

    return script


def bodies(requests: list[bytes]) -> list[dict[str, Any]]:
    return [json.loads(request.partition(b"\r\n\r\n")[2]) for request in requests]


async def refusing_by_model(peer: Connection) -> None:
    """The name of the model says how which member is refused, and with which status."""
    while True:
        body = json.loads(await peer.request())
        wording, name, status = body["model"].split("|")
        refusal = json.dumps(WORDINGS[wording](name)).encode()
        await peer.send(answer(f"{status} No", refusal) if name in body else GOOD)


PAIRS = [zip(WORDINGS, cycle(OPTIONS.items()), strict=False), product(WORDINGS, OPTIONS.items())]


@pytest.mark.parametrize("pairs", [list(PAIRS[0]), pytest.param(list(PAIRS[1]), marks=pytest.mark.slow)], ids=len)
async def test_each_option_in_each_wording(pairs: list[tuple[str, tuple[str, Any]]]) -> None:
    """Two requests, one warning; from then on one request, which is right at once and says the same."""
    async with serving(refusing_by_model) as server, server.provider() as provider:
        for at, (wording, (name, value)) in enumerate(pairs):
            tools = [TOOL] if name == "parallel_tool_calls" else None
            options: dict[str, Any] = {"model": f"{wording}|{name}|{(400, 422)[at % 2]}", name: value}
            server.requests.clear()
            reply = await provider.chat("Hello", tools, **options)
            first, second = bodies(server.requests)
            assert first == {**second, name: value}
            assert [warning.code for warning in reply.warnings] == ["option_dropped"]
            assert [attempt.error for attempt in reply.attempts] == ["UnsupportedOptionError"]
            again = await provider.chat("Hello", tools, **options)
            assert (again.warnings, again.attempts) == (reply.warnings, ())
            preview = provider.preview("Hello", tools, **options)
            assert (preview.json(), preview.warnings) == (second, tuple(reply.warnings))
            del options[name]
            assert (await provider.chat("Hello", tools, **options)).warnings == []  # it does not concern this one
            assert bodies(server.requests[2:]) == [second, second]


async def test_a_limit_is_renamed_or_lowered_and_never_left_out() -> None:
    """`max_output_tokens` bounds the bill."""
    said = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    script = picky(lambda _: openai(said, "unsupported_parameter", "max_tokens"), {"max_tokens": ""})
    async with serving(script) as server, server.provider() as provider:
        for _ in range(2):
            assert (await provider.chat("Hello", max_output_tokens=50)).warnings == []
        assert [body.get("max_completion_tokens") for body in bodies(server.requests)] == [None, 50, 50]
    script = picky(lambda name: openai("no", "unsupported_parameter", name), {"max_tokens": ""})
    async with serving(script) as server, server.provider() as provider:
        with pytest.raises(UnsupportedOptionError):
            await provider.chat("Hello", max_output_tokens=50)
        assert len(server.requests) == 1


async def bounded(server_takes: Callable[[dict[str, Any]], str | None], **options: Any) -> tuple[list[Any], list[str]]:
    """What a server got that explains its bounds, over two calls, and the codes of the second one's warnings."""

    async def script(peer: Connection) -> None:
        while True:
            said = server_takes(json.loads(await peer.request()))
            await peer.send(GOOD if said is None else answer("400 No", json.dumps(openai(said)).encode()))

    async with serving(script) as server, server.provider() as provider:
        await provider.chat("Hello", **options)
        reply = await provider.chat("Hello", **options)
        [name] = options
        sent = [body.get(name, body.get("max_tokens")) for body in bodies(server.requests)]
        return sent, [warning.code for warning in reply.warnings]


async def test_values_are_moved_into_the_bounds_that_the_server_names() -> None:
    """The nearest value that is taken, and a warning that says so."""

    def largest(body: dict[str, Any]) -> str | None:
        said = "max_tokens is too large: {0}. This model supports at most 4096 completion tokens, and you gave {0}."
        return said.format(body["max_tokens"]) if body["max_tokens"] > 4096 else None

    assert await bounded(largest, max_output_tokens=9000) == ([9000, 4096, 4096], ["option_changed"])

    def smallest(body: dict[str, Any]) -> str | None:
        said = "Invalid 'max_tokens': integer below minimum value. Expected a value >= 16, but got 5 instead."
        return said if body["max_tokens"] < 16 else None

    assert await bounded(smallest, max_output_tokens=5) == ([5, 16, 16], ["option_changed"])

    def coolest(body: dict[str, Any]) -> str | None:
        return "temperature: range: 0..1" if body["temperature"] > 1 else None

    assert await bounded(coolest, temperature=1.4) == ([1.4, 1.0, 1.0], ["option_changed"])

    def levels(body: dict[str, Any]) -> str | None:
        said = (
            "Unsupported value: 'reasoning_effort' does not support 'minimal' with this model. Supported values are:"
            " 'low', 'medium', and 'high'."
        )
        return said if body["reasoning_effort"] == "minimal" else None

    assert await bounded(levels, reasoning_effort="minimal") == (["minimal", "low", "low"], ["option_changed"])


async def test_stop_is_never_left_out() -> None:
    """Where the server takes none, the answer is cut as it is read: that of the refused request, and later ones."""
    long = answer("200 OK", text("Hi. END") + text(" no more") + fin("stop") + DONE)

    async def script(peer: Connection) -> None:
        while True:
            refused = "stop" in json.loads(await peer.request())
            said = json.dumps(WORDINGS["OpenAI, by code"]("stop")).encode()
            await peer.send(answer("400 No", said) if refused else long)

    async with serving(script) as server, server.provider() as provider:
        replies = [await provider.chat("Hello", stop="END") for _ in range(2)]
        assert [reply.text for reply in replies] == ["Hi. ", "Hi. "]
        assert [[warning.code for warning in reply.warnings] for reply in replies] == [["option_emulated"]] * 2
        assert [body.get("stop") for body in bodies(server.requests)] == ["END", None, None]


@pytest.mark.parametrize(
    ("allowed", "sent"),
    [
        (("low", "high"), {"none": "low", "medium": "high", "max": "high"}),
        (("none", "low"), {"none": "none", "minimal": "low", "max": "low"}),
    ],
)
def test_levels_that_the_server_names(allowed: tuple[Any, ...], sent: dict[str, str]) -> None:
    """Never less than was asked for, and "none" only where the server named it and it was asked for."""
    restriction = OptionRestriction("reasoning_effort", "no", allowed=allowed)
    asked = [Request.read("m", "Hello", None, "auto", {"reasoning_effort": effort}) for effort in sent]
    assert [with_restrictions(each, [restriction])[0].options.reasoning_effort for each in asked] == [*sent.values()]


def test_a_server_that_names_no_level_but_none_gets_none() -> None:
    """Thinking that was asked for is not turned off instead."""
    request = Request.read("m", "Hello", None, "auto", {"reasoning_effort": "high"})
    meaning = ErrorClassification("unsupported_option", param="reasoning_effort", allowed=("none",))
    assert option_restriction(meaning, "no", request, {"reasoning_effort": "high"}) == OptionRestriction(
        "reasoning_effort", "no"
    )


async def test_a_hostile_server_is_asked_four_times_at_most() -> None:
    """It refuses whatever is sent: each option once, three in all; and nothing is remembered of what never worked."""
    script = picky(lambda name: openai(f"no {name}", "unsupported_parameter", name), OPTIONS)
    async with serving(script) as server, server.provider() as provider:
        for _ in range(2):
            server.requests.clear()
            with pytest.raises(UnsupportedOptionError) as caught:
                await provider.chat("Hello", [TOOL], **OPTIONS)
            assert len(server.requests) == 4
            assert len(caught.value.attempts) == 3
            assert len({str(attempt) for attempt in caught.value.attempts}) == 3


@each_row("name", ["top_p", "tools", "messages", "model", "stream", "response_format", "top_k", "x", ""])
async def test_what_was_not_sent_or_may_not_be_changed(name: str) -> None:
    """One request: an option that was not sent, what is in `extra_body`, messages, tools, the form of the answer."""
    refusal = answer("400 No", json.dumps(openai("no", "unsupported_parameter", name)).encode())

    async def script(peer: Connection) -> None:
        while True:
            await peer.request()
            await peer.send(refusal)

    more: dict[str, Any] = {"extra_body": {"top_k": 4, "temperature": 0.1}, "response_format": "json", "temperature": 1}
    async with serving(script) as server, server.provider() as provider:
        for refused in (name, "temperature"):
            server.requests.clear()
            refusal = answer("400 No", json.dumps(openai("no", "unsupported_parameter", refused)).encode())
            with pytest.raises(UnsupportedOptionError):
                await provider.chat("Give me JSON", [TOOL], **more)
            assert len(server.requests) == 1


async def test_an_option_that_comes_back_is_raised() -> None:
    """A server that names the same option again, although it was left out, is not asked a third time."""
    refusal = answer("400 No", json.dumps(openai("no", "unsupported_parameter", "seed")).encode())

    async with serving(sends_each(refusal)) as server, server.provider() as provider:
        with pytest.raises(UnsupportedOptionError):
            await provider.chat("Hello", seed=1)
        assert len(server.requests) == 2


async def test_it_is_learned_of_one_model() -> None:
    """Another model of the same provider is sent the option."""
    script = picky(lambda name: openai("no", "unsupported_parameter", name), {"seed": ""})
    async with serving(script) as server, server.provider() as provider:
        await provider.chat("Hello", seed=1)
        assert "seed" not in provider.preview("Hello", seed=1).json()
        assert provider.preview("Hello", seed=1, model="other").json()["seed"] == 1


async def test_refusals_inside_a_stream() -> None:
    """Before the first chunk it is the same; after it, nothing is sent again."""
    refusal = b"data: " + json.dumps(openai("no", "unsupported_parameter", "seed")).encode() + b"\n\n"

    def script(*before: bytes):
        async def run(peer: Connection) -> None:
            while True:
                if "seed" in json.loads(await peer.request()):
                    await peer.send(STREAM, framed(*before, refusal), b"0\r\n\r\n")
                else:
                    await peer.send(GOOD)

        return run

    async with serving(script()) as server, server.provider() as provider:
        reply = await provider.chat("Hello", seed=1)
        assert [warning.code for warning in reply.warnings] == ["option_dropped"]
        assert len(server.requests) == 2
    async with serving(script(text("It"))) as server, server.provider() as provider:
        with pytest.raises(UnsupportedOptionError) as caught:
            await provider.chat("Hello", seed=1)
        assert caught.value.partial is not None
        assert caught.value.partial.text == "It"
        assert len(server.requests) == 1


async def test_no_tool_runs_twice() -> None:
    """A refusal in the second turn of a loop repeats that turn alone."""
    ran: list[str] = []

    async def weather(city: str) -> str:
        """The weather."""
        ran.append(city)
        return "warm"

    wanted = call(entry(0, "call_1", "weather", '{"city":"Oslo"}')) + fin("tool_calls") + DONE
    refusal = json.dumps(openai("no", "unsupported_parameter", "seed")).encode()

    async def script(peer: Connection) -> None:
        while True:
            body = json.loads(await peer.request())
            if body["messages"][-1]["role"] == "user":
                await peer.send(answer("200 OK", wanted))
            else:
                await peer.send(answer("400 No", refusal) if "seed" in body else GOOD)

    async with serving(script) as server, server.provider() as provider:
        run = run_tools(provider, "Is it warm?", [weather], seed=1)
        async for _ in run:
            pass
        assert ran == ["Oslo"]
        assert len(server.requests) == 3


async def test_reasoning_that_is_refused_is_left_out() -> None:
    """The reasoning of earlier turns, by any of the names that servers have for it."""
    message = (
        "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property"
        " 'reasoning_content' is unsupported)]"
    )
    script_body = json.dumps(openai(message)).encode()

    async def script(peer: Connection) -> None:
        while True:
            refused = b"reasoning_content" in await peer.request()
            await peer.send(answer("400 No", script_body) if refused else GOOD)

    thought = Message("assistant", None, (ToolCall("call_1", "weather", {}, "{}"),), reasoning="because")
    turns = [user("q"), thought, Message("tool", "warm", tool_call_id="call_1")]
    quirks = {"reasoning_field": "reasoning_content"}
    async with serving(script) as server, server.provider(quirks=quirks) as provider:
        for _ in range(2):
            reply = await provider.chat(turns)
            assert [warning.code for warning in reply.warnings] == ["reasoning_dropped"]
        assert len(server.requests) == 3


async def test_a_forced_choice_that_is_refused_is_left_to_the_model() -> None:
    """As for models of which it is known."""
    message = 'tool_choice: type "tool" and "any" are not supported for this model.'

    async def script(peer: Connection) -> None:
        while True:
            forced = json.loads(await peer.request())["tool_choice"] == "required"
            await peer.send(answer("400 No", json.dumps(openai(message)).encode()) if forced else GOOD)

    async with serving(script) as server, server.provider() as provider:
        reply = await provider.chat("Hello", [TOOL], tool_choice="required")
        assert [warning.code for warning in reply.warnings] == ["forced_choice_dropped", "tool_choice_unmet"][:1]
        assert len(server.requests) == 2


async def test_no_secret_is_in_what_was_learned() -> None:
    """A server that quotes the key in its refusal: the warning has it not."""
    message = "Unsupported parameter: 'seed' is not supported for sk-secret-secret."

    async def script(peer: Connection) -> None:
        while True:
            refused = "seed" in json.loads(await peer.request())
            await peer.send(answer("400 No", json.dumps(openai(message)).encode()) if refused else GOOD)

    async with serving(script) as server, server.provider(api_key="sk-secret-secret") as provider:
        for _ in range(2):
            reply = await provider.chat("Hello", seed=1)
            assert [warning.code for warning in reply.warnings] == ["option_dropped"]
            assert "sk-secret" not in str(reply.warnings)


def test_restrictions_are_pure() -> None:
    """A refusal in, a restriction out; a request and restrictions in, another request out."""
    request = Request.read("m", "Hello", None, "auto", {"seed": 1, "temperature": 1.5})
    meaning = error_info(openai("no", "unsupported_parameter", "seed"), 400).meaning()
    assert meaning is not None
    restriction = option_restriction(meaning, "no", request, {"seed": 1})
    assert restriction == OptionRestriction("seed", "no")
    changed, warnings = with_restrictions(request, [restriction, OptionRestriction("temperature", "why", most=1.0)])
    assert (changed.options.seed, changed.options.temperature) == (None, 1.0)
    assert [(warning.code, warning.detail) for warning in warnings] == [
        ("option_dropped", "seed=1 was not sent: m refused it (no)"),
        ("option_changed", "temperature=1.5 is sent as 1.0: m refused it (why)"),
    ]
    assert request.options.seed == 1
