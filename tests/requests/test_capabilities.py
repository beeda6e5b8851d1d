"""What a model can do: how it is written down, asked for, and used before a request is sent."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from streamfold import (
    AllowedTools,
    ConfigError,
    Fallback,
    NamedTool,
    Provider,
    Tool,
    ToolCall,
    assistant,
    audio,
    file,
    image,
    run_tools,
    tool_result,
    user,
)
from streamfold.adapters import Adapter, EncodingReport
from streamfold.adapters.responses import ResponsesAdapter
from streamfold.config import catalogue as catalogue_module
from streamfold.config import file as file_module
from streamfold.config.catalogue import catalogue_values, provider_files
from streamfold.config.file import read_config, read_profile
from streamfold.config.inspection import capability_values, effective_values
from streamfold.requests import FACTS as FACTS_OF_MODELS
from streamfold.requests import ModelTable
from streamfold.requests.model_facts import CAPABILITIES
from streamfold.requests.request import Request
from streamfold.requests.required_capabilities import Requirement, missing_capabilities, requirements_of
from streamfold.types import Capabilities
from tables import each_row

PIXEL = image("data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs=")
PDF = file(b"%PDF-1.7", name="a.pdf")
SOUND = audio("data:audio/wav;base64,UklGRiQAAABXQVZF")
TOOL = Tool("get_weather")
CALL = ToolCall("call_0", "get_weather", {}, "{}")
ENDPOINT = {"base_url": "http://test/v1", "model": "m", "max_retries": 0}


class Answer(BaseModel):
    text: str


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("MOONSHOT_API_KEY", "MOONSHOTAI_API_KEY", "KIMI_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)


def request(messages: Any = "Hello", tools: Any = None, tool_choice: Any = "auto", **options: Any) -> Request:
    return Request.read("m", messages, tools, tool_choice, options)


class Endpoint:
    """A provider that answers "Hi", and keeps what it was sent."""

    def __init__(self, **config: Any) -> None:
        self.bodies: list[dict[str, Any]] = []
        client = httpx.AsyncClient(transport=httpx.MockTransport(self._answer))
        self.provider = Provider.from_config({**ENDPOINT, **config}, http_client=client)

    def _answer(self, sent: httpx.Request) -> httpx.Response:
        self.bodies.append(json.loads(sent.content))
        return httpx.Response(200, json={"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]})

    async def chat(self, *words: Any, **options: Any) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        """What was sent for this, and the warnings of the reply."""
        reply = await self.provider.chat(*words, **options)
        return self.bodies[-1], [(warning.code, warning.detail) for warning in reply.warnings]


def refusal(config: dict[str, Any], *words: Any, **options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        Provider.from_config({**ENDPOINT, **config}).chat_stream(*words, **options)
    return str(caught.value)


# --- by model --------------------------------------------------------------------------------------------------------


@each_row(
    ("pattern", "model", "fits"),
    [
        ("kimi-k2*", "kimi-k2.6", True),
        ("kimi-k2*", "Kimi-K2-Instruct", True),
        ("Kimi-K2*", "kimi-k2.6", True),
        ("kimi-k2*", "moonshotai/Kimi-K2-Instruct", True),
        ("kimi-k2*", "accounts/fireworks/models/kimi-k2-instruct", True),
        ("moonshotai/*", "moonshotai/Kimi-K2-Instruct", True),
        ("moonshotai/*", "kimi-k2.6", False),
        ("other/kimi*", "moonshotai/kimi-k2.6", False),
        ("gpt-4", "gpt-4o", False),
        ("o[34]*", "o4-mini", True),
        ("qwen3:?b", "qwen3:8b", True),
        ("*", "", True),
        ("kimi*", "", False),
    ],
)
def test_patterns(pattern: str, model: str, fits: bool) -> None:
    """Of the name behind the vendor's, in capitals or not; a pattern with a slash is of the whole name."""
    assert ModelTable(pattern).fits(model) is fits


def test_the_later_table_counts_key_by_key() -> None:
    """All tables that fit count, in their order; what one does not say stays, and "unknown" takes it back."""
    tables = [
        {"pattern": "big-*", "images": "no", "tools": "yes"},
        {"pattern": "big-4o*", "images": "yes", "reasoning": "no"},
        {"pattern": "big-4o-new*", "reasoning": "unknown"},
    ]
    endpoint = Capabilities(tools="no", audio="no")
    profile = read_profile({**ENDPOINT, "capabilities": endpoint, "models": tables})
    assert profile.capabilities_of("x") == endpoint
    assert profile.capabilities_of("big-3") == Capabilities(tools="yes", images="no", audio="no")
    known = Capabilities(tools="yes", images="yes", reasoning="no", audio="no")
    assert profile.capabilities_of("big-4o") == known
    assert profile.capabilities_of("big-4o-new").reasoning == "unknown"
    assert profile.capabilities_of("") == endpoint


def test_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider tells of its own model, of another one, and without any of what they have in common."""
    provider = Provider.from_config("kimi:kimi-k2-0905-preview")
    assert provider.capabilities().images == "no"
    assert provider.capabilities("kimi-k2.6").images == "yes"
    assert provider.capabilities("nobody-knows").images == "unknown"
    assert Provider.from_config("kimi").capabilities() == Capabilities(
        tools="yes", parallel_calls="yes", files="no", audio="no"
    )
    assert Provider.from_config(ENDPOINT).capabilities() == Capabilities()
    by_variable = Provider.from_config("kimi", model="${SOME_MODEL}")
    monkeypatch.delenv("SOME_MODEL", raising=False)
    with pytest.raises(ConfigError, match='provider "kimi": model: SOME_MODEL is not set'):
        by_variable.capabilities()
    monkeypatch.setenv("SOME_MODEL", "kimi-k2.6")
    assert by_variable.capabilities().images == "yes"


# --- layers ----------------------------------------------------------------------------------------------------------


def test_layers() -> None:
    """The endpoint's words are joined, models come after the catalogue's, and who writes last has the last word."""
    own = {
        "profile": "kimi",
        "capabilities": {"audio": "yes", "images": "no"},
        "models": [{"pattern": "kimi-k2.6", "reasoning": "no"}],
    }
    profile = read_profile(own)
    known = profile.capabilities_of("kimi-k2.6")
    assert (known.tools, known.audio, known.images, known.reasoning) == ("yes", "yes", "no", "no")
    assert profile.capabilities_of("kimi-k3").reasoning == "yes"
    assert profile.capabilities_of("kimi-k3").images == "no"
    over = read_profile(own, {"capabilities": {"images": "unknown"}, "models": [{"pattern": "*", "reasoning": "yes"}]})
    known = over.capabilities_of("kimi-k2.6")
    assert (known.images, known.reasoning, known.audio) == ("unknown", "yes", "yes")
    whole = read_profile(own, {"capabilities": Capabilities(tools="no")})
    assert whole.capabilities_of("kimi-k2.6") == Capabilities(tools="no")


def test_layers_of_a_file(tmp_path: Path) -> None:
    """The same in streamfold.toml, and each with its line."""
    path = tmp_path / "streamfold.toml"
    path.write_text(
        """\
[providers.main]
profile = "kimi"
model = "kimi-k2.6"
[providers.main.capabilities]
parallel_calls = "no"
[[providers.main.models]]
pattern = "kimi-*"
audio = "yes"
[[providers.main.models]]
pattern = "kimi-k2*"
images = "no"
files = "unknown"
[providers.other]
base_url = "http://test/v1"
models = [{ pattern = "a*", tools = "no" }, { pattern = "*", images = "no" }]
""",
        "utf-8",
    )
    provider = Provider.from_config("main", config=path)
    assert provider.capabilities() == Capabilities(
        tools="yes", images="no", structured_output="yes", reasoning="yes", parallel_calls="no", audio="yes"
    )
    config = read_config(path)
    found = {name: (support, source) for name, support, source in capability_values(config, "main")}
    kimi = (provider_files()["kimi"]).read_text("utf-8").splitlines()
    tools = kimi.index('tools = "yes"') + 1
    assert found["tools"] == ("yes", f"catalogue kimi.toml:{tools}")
    assert found["parallel_calls"] == ("no", f"{path}:5")
    assert found["audio"] == ("yes", f"{path}:8")
    assert found["images"] == ("no", f"{path}:11")
    assert found["files"] == ("unknown", f"{path}:12")
    assert found["forced_choice"] == ("unknown", "unknown source")
    of_another = {name: source for name, _, source in capability_values(config, "main", "kimi-k3")}
    assert of_another["images"].startswith("families.toml:")
    inline = {name: (support, source) for name, support, source in capability_values(config, "other:abc")}
    assert (inline["tools"], inline["images"]) == (("no", f"{path}:15"), ("no", f"{path}:15"))
    shown = {value.key: (value.shown, value.source) for value in effective_values(config, "main")}
    assert shown["capabilities.images"] == ('"no"', f"{path}:11")


def test_a_model_from_a_variable_that_is_not_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is shown without it is what all models have in common; showing needs no variable."""
    monkeypatch.delenv("SOME_MODEL", raising=False)
    path = tmp_path / "streamfold.toml"
    path.write_text('[providers.main]\nprofile = "kimi"\nmodel = "${SOME_MODEL}"\n', "utf-8")
    assert ("images", "unknown", "unknown source") in capability_values(read_config(path), "main")


# --- mistakes --------------------------------------------------------------------------------------------------------

KEYS = ", ".join(CAPABILITIES)
FACTS = f"quirks, prices, {', '.join(FACTS_OF_MODELS)}"


UNKNOWN = "unknown key (did you mean 'images'?)"
SUPPORT = ". Allowed: yes, no, unknown"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("capabilities.imagess = 'no'", f"2: providers.a.capabilities.imagess: {UNKNOWN}. Allowed: {KEYS}"),
        (
            "capabilities.images = 'nope'",
            f"2: providers.a.capabilities.images: can't be 'nope' (did you mean 'no'?){SUPPORT}",
        ),
        ("capabilities.images = true", f"2: providers.a.capabilities.images: can't be True{SUPPORT}"),
        ("capabilities = 1", "2: providers.a.capabilities: must be a table"),
        ("models = 1", "2: providers.a.models: must be a list"),
        ("models = [1]", "2: providers.a.models[0]: must be a table"),
        (
            "[[providers.a.models]]\npattern = 'x'\n[[providers.a.models]]\n\npattern = 'x'\nimagess = 'no'",
            f"7: providers.a.models[1].imagess: {UNKNOWN}",
        ),
        ("[[providers.a.models]]\nimages = 'no'", "2: providers.a.models[0].pattern: required"),
        ("[[providers.a.models]]\npattern = 1", "3: providers.a.models[0].pattern: must be a string"),
        ("[[providers.a.models]]\npattern = 'x'\nexamples = 'x'", "4: providers.a.models[0].examples: must be a list"),
        (
            "[[providers.a.models]]\npattern = 'x'\ntools = 'jes'",
            f"4: providers.a.models[0].tools: can't be 'jes' (did you mean 'yes'?){SUPPORT}",
        ),
    ],
)
def test_mistakes_in_a_file(text: str, message: str, tmp_path: Path) -> None:
    """File, line, key, what was probably meant, what is allowed."""
    path = tmp_path / "streamfold.toml"
    path.write_text(f"[providers.a]\n{text}\n", "utf-8")
    url = {"base_url": "http://x/v1"}
    with pytest.raises(ConfigError) as caught:
        Provider.from_config("a", config=path, **url)
    assert str(caught.value) == f"{path}:{message}"


def test_mistakes_in_the_catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of the catalogue is named, with the line."""
    path = tmp_path / "acme.toml"
    path.write_text('base_url = "https://x/v1"\n[[models]]\npattern = "x"\ntool = "no"\n', "utf-8")
    for module in (catalogue_module, file_module):
        monkeypatch.setattr(module, "provider_files", lambda: {"acme": path})
    with pytest.raises(ConfigError) as caught:
        read_profile("acme")
    assert str(caught.value).startswith("catalogue acme.toml:4: models[0].tool: unknown key (did you mean 'tools'?)")


# --- what a request needs ---------------------------------------------------------------------------------------------


def test_needs_and_their_places() -> None:
    """Each need with the place that has it, in every spelling of a part."""
    conversation = [
        user("What is this?", PIXEL),
        assistant(tool_calls=[CALL]),
        tool_result(CALL, ["See:", PIXEL]),
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "And?"},
                {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
                {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
                {"type": "file", "file": {"file_id": "f"}},
            ],
        },
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image",
         "image_url": "https://x/y"}]},
        user(PDF, SOUND, "text"),
    ]  # fmt: skip
    options = {"response_format": Answer, "reasoning_effort": "low", "parallel_tool_calls": True}
    assert tuple(requirements_of(request(conversation, [TOOL], "required", **options))) == (
        Requirement("images", "messages[0].content[1]"),
        Requirement("images", "messages[2].content[1]"),
        Requirement("images", "messages[3].content[1]"),
        Requirement("audio", "messages[3].content[2]"),
        Requirement("files", "messages[3].content[3]"),
        Requirement("images", "messages[4].content[0]"),
        Requirement("files", "messages[5].content[0]"),
        Requirement("audio", "messages[5].content[1]"),
        Requirement("tools", "tools"),
        Requirement("forced_choice", "tool_choice"),
        Requirement("structured_output", "response_format"),
        Requirement("reasoning", "reasoning_effort"),
        Requirement("parallel_calls", "parallel_tool_calls"),
    )


@each_row(
    ("options", "needs"),
    [
        ({}, []),
        ({"tools": [TOOL]}, ["tools"]),
        ({"tools": [TOOL], "tool_choice": "none"}, ["tools"]),
        ({"tools": [TOOL], "tool_choice": NamedTool("get_weather")}, ["tools", "forced_choice"]),
        ({"tools": [TOOL], "tool_choice": AllowedTools(("get_weather",))}, ["tools"]),
        ({"tools": [TOOL], "tool_choice": AllowedTools(("get_weather",), "required")}, ["tools", "forced_choice"]),
        ({"response_format": "json"}, []),  # JSON mode is no schema
        ({"response_format": {"type": "object"}}, ["structured_output"]),
        ({"reasoning_effort": "none"}, []),
        ({"parallel_tool_calls": False}, []),
    ],
)
def test_what_needs_nothing(options: dict[str, Any], needs: list[str]) -> None:
    assert [need.capability for need in requirements_of(request(**options))] == needs


def test_unknown_is_not_missing() -> None:
    """Only "no" is missing; neither "yes" nor "unknown" is."""
    asked = request([user(PIXEL, SOUND, PDF)], [TOOL])
    can = Capabilities(tools="no", images="yes", audio="no")
    assert missing_capabilities(can, asked) == (
        Requirement("audio", "messages[0].content[1]"),
        Requirement("tools", "tools"),
    )
    assert missing_capabilities(Capabilities(), asked) == ()


# --- what is refused --------------------------------------------------------------------------------------------------

AFTER_ALL = '. If this is wrong, set capabilities = {{ {} = "yes" }} for this provider'


@each_row(
    ("name", "asked", "message"),
    [
        ("tools", {"tools": [TOOL]}, "call tools, which tools= needs: leave the tools out"),
        ("images", {"messages": [user("a", PIXEL)]}, "see images, which messages[0].content[1] needs: leave it out"),
        ("files", {"messages": [user(PDF)]}, "read files, which messages[0].content[0] needs: leave it out"),
        ("audio", {"messages": [user(SOUND)]}, "hear audio, which messages[0].content[0] needs: leave it out"),
        (
            "structured_output",
            {"response_format": Answer},
            (
                "enforce a schema on its answer, which response_format= needs: set the quirk response_format to "
                '"json_object" (JSON mode and an instruction) or "tool"'
            ),
        ),
    ],
)
def test_refused_before_anything_is_sent(name: str, asked: dict[str, Any], message: str) -> None:
    """The need, its place, provider and model, and what to do."""
    asked = {"messages": "Hello", **asked}
    assert refusal({"capabilities": {name: "no"}}, **asked) == (
        f'provider "custom": m can\'t {message}, or use a model that can{AFTER_ALL.format(name)}'
    )
    Provider.from_config(ENDPOINT).chat_stream(**asked)  # unknown is sent
    Provider.from_config({**ENDPOINT, "capabilities": {name: "yes"}}).chat_stream(**asked)


def test_refusal_names_models_that_can() -> None:
    """The places, the first three of them, and models of the same provider that can."""
    picture = user("a", PIXEL)
    text = refusal({"profile": "kimi", "model": "kimi-k2-0905-preview"}, [picture] * 5)
    assert text == (
        'provider "kimi": kimi-k2-0905-preview can\'t see images, which messages[0].content[1], '
        "messages[1].content[1], messages[2].content[1] and 2 more need: leave it out, or use a model that can "
        "(kimi-k2.5, kimi-k2.6, kimi-k3, moonshot-v1-8k-vision-preview)"
        f"{AFTER_ALL.format('images')}"
    )
    text = refusal({"profile": "kimi", "model": "kimi-k2.6", "name": "main"}, [picture, user(SOUND), user(PDF)])
    assert text == (
        'provider "main": '
        "kimi-k2.6 can't hear audio, which messages[1].content[0] needs: leave it out, or use a model that can; "
        "kimi-k2.6 can't read files, which messages[2].content[0] needs: leave it out, or use a model that can. "
        'If this is wrong, set capabilities = { audio = "yes", files = "yes" } for this provider'
    )


def test_the_model_of_the_request_counts() -> None:
    """Not the configured one, if the request names another."""
    provider = Provider.from_config("kimi:kimi-k2.6", api_key="x")
    provider.chat_stream([user(PIXEL)])
    with pytest.raises(ConfigError, match="moonshot-v1-8k can't see images"):
        provider.chat_stream([user(PIXEL)], model="moonshot-v1-8k")


# --- what is made up for ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", ["required", NamedTool("get_weather")])
async def test_force_that_is_not_to_be_had(choice: Any) -> None:
    """The choice is left to the model, and the reply says so."""
    sent, warnings = await Endpoint(capabilities={"forced_choice": "no"}).chat("Hello", [TOOL], tool_choice=choice)
    assert sent["tool_choice"] == "auto"
    assert warnings == [
        ("forced_choice_dropped", "m doesn't support a forced tool choice: tool_choice='auto' was sent")
    ]


async def test_force_among_some_tools() -> None:
    """Which tools are allowed is kept."""
    tools, choice = [TOOL, Tool("other")], AllowedTools(("other",), "required")
    sent, warnings = await Endpoint(capabilities={"forced_choice": "no"}).chat("Hello", tools, tool_choice=choice)
    assert ([tool["function"]["name"] for tool in sent["tools"]], sent["tool_choice"]) == (["other"], "auto")
    assert [code for code, _ in warnings] == ["forced_choice_dropped", "tool_choice_changed"]


@pytest.mark.parametrize("wanted", [True, False])
async def test_calls_that_come_one_at_a_time(wanted: bool) -> None:
    """An option that asks for what is so anyway, or for what is not to be had, is left out; the reply says so."""
    endpoint = Endpoint(capabilities={"parallel_calls": "no"})
    sent, warnings = await endpoint.chat("Hello", [TOOL], parallel_tool_calls=wanted)
    assert "parallel_tool_calls" not in sent
    assert warnings == [("option_dropped", "m makes only one tool call per answer: parallel_tool_calls was not sent")]


async def test_no_effort_of_a_model_that_never_reasons() -> None:
    sent, warnings = await Endpoint(capabilities={"reasoning": "no"}).chat("Hello", reasoning_effort="none")
    assert "reasoning_effort" not in sent
    assert warnings == [("option_dropped", "m doesn't support reasoning: reasoning_effort was not sent")]
    kimi = Endpoint(profile="kimi", api_key="x", model="moonshot-v1-8k")
    sent, warnings = await kimi.chat("Hello", reasoning_effort="none")
    assert "thinking" not in sent


async def test_schema_by_a_call() -> None:
    """Where no schemas are known and calls can be forced, the answer is asked for as a call."""
    can = {"structured_output": "no", "tools": "yes", "forced_choice": "yes"}
    sent, warnings = await Endpoint(capabilities=can).chat("Hello", response_format=Answer)
    assert sent["tool_choice"] == {"type": "function", "function": {"name": "Answer"}}
    assert "response_format" not in sent
    assert [code for code, _ in warnings][:1] == ["response_format_changed"]


async def test_schema_as_the_quirk_says() -> None:
    """The quirk says how a schema is asked for where there are none; it needs no capability."""
    config = {"capabilities": {"structured_output": "no"}, "quirks": {"response_format": "json_object"}}
    sent, warnings = await Endpoint(**config).chat("Hello", response_format=Answer)
    assert sent["response_format"] == {"type": "json_object"}
    assert [code for code, _ in warnings] == ["response_format_changed"]


def test_schema_by_a_tool_needs_tools() -> None:
    config = {"capabilities": {"structured_output": "no", "tools": "no"}, "quirks": {"response_format": "tool"}}
    assert refusal(config, "Hello", response_format=Answer).startswith(
        'provider "custom": m can\'t enforce a schema on its answer'
    )


def test_json_mode_is_no_schema() -> None:
    Provider.from_config({**ENDPOINT, "capabilities": {"structured_output": "no"}}).chat_stream(
        "Hello", response_format="json"
    )


@each_row(
    ("model", "known", "asked"),
    [("gpt-4", "unknown", False), ("x", "unknown", True), ("gpt-4", "yes", True), ("x", "no", False)],
)
def test_encrypted_reasoning_of_models_that_reason(model: str, known: Any, asked: bool) -> None:
    """What is known counts; where nothing is, the name of the model."""
    wanted = replace(request(), model=model, capabilities=Capabilities(reasoning=known))
    assert ("include" in ResponsesAdapter().encode(wanted, EncodingReport())) is asked


def test_adapter_that_makes_up_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An adapter of another package may say that it emulates no missing capability."""

    class Plain(Adapter):
        name, path = "plain", "/x"

        def emulated_capabilities(self, request: Request) -> tuple[str, ...]:
            return ()

        def encode(self, request: Request, report: EncodingReport) -> dict[str, Any]:
            return {}

        def decode(self, event: Any) -> list[Any]:
            return []

    entry = SimpleNamespace(name="plain", value="another_package:Plain", load=lambda: Plain)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [entry])
    config = {"adapter": "plain", "capabilities": {"forced_choice": "no"}}
    assert refusal(config, "Hello", [TOOL], tool_choice="required") == (
        'provider "custom": m can\'t be forced to call a tool, which tool_choice= needs: pass tool_choice="auto", or '
        f"use a model that can{AFTER_ALL.format('forced_choice')}"
    )


# --- run_tools --------------------------------------------------------------------------------------------------------


def get_weather(city: str) -> str:
    return city


def test_run_tools_asks_first() -> None:
    """A model that calls no tools is refused where the run is made, not when it is read."""
    provider = Provider.from_config({**ENDPOINT, "capabilities": {"tools": "no"}})
    with pytest.raises(ConfigError, match=r"^provider \"custom\": m can't call tools, which tools= needs"):
        run_tools(provider, "Hello", [get_weather])


async def test_run_tools_runs_what_comes() -> None:
    """Calls at the same time are run, whatever is known of them."""
    entries = [
        {"index": at, "id": f"c{at}", "function": {"name": "get_weather", "arguments": f'{{"city": "{city}"}}'}}
        for at, city in enumerate(["Oslo", "Bergen"])
    ]
    turns = [
        {"choices": [{"delta": {"tool_calls": entries}, "finish_reason": "tool_calls"}]},
        {"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]},
    ]

    def answer(sent: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=f"data: {json.dumps(turns.pop(0))}\n\ndata: [DONE]\n\n")

    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    provider = Provider.from_config({**ENDPOINT, "capabilities": {"parallel_calls": "no"}}, http_client=client)
    async with run_tools(provider, "Hello", [get_weather]) as run:
        async for _ in run:
            pass
    assert [message.content for message in run.messages if getattr(message, "role", "") == "tool"] == ["Oslo", "Bergen"]


# --- several providers ------------------------------------------------------------------------------------------------


async def test_fallback_passes_over_who_can_not() -> None:
    """Who is known not to have what is needed is not asked; the unknown is; and the reply says why."""
    blind, other = Endpoint(name="blind", capabilities={"images": "no"}), Endpoint(name="other")
    async with Fallback(blind.provider, other.provider) as provider:
        conversation = (message for message in [user("What is this?", PIXEL)])  # read once, for both of them
        reply = await provider.chat(conversation, (given for given in [get_weather]))
        assert (reply.provider, blind.bodies, len(other.bodies)) == ("other", [], 1)
        assert [attempt.provider for attempt in reply.attempts] == ["blind"]
        assert reply.attempts[0].problem.startswith(
            'provider "blind": m can\'t see images, which messages[0].content[1] needs'
        )
        sent = other.bodies[0]
        assert (len(sent["messages"]), sent["tools"][0]["function"]["name"]) == (1, "get_weather")
    deaf = Endpoint(name="deaf", capabilities={"images": "no", "tools": "no"})
    both = Fallback(blind.provider, deaf.provider)
    with pytest.raises(ConfigError, match=r'^provider "blind": .*; provider "deaf": '):
        both.chat_stream([user(PIXEL)])


# --- the catalogue ----------------------------------------------------------------------------------------------------

TABLES = [
    (name, at, table)
    for name in provider_files()
    for at, table in enumerate(catalogue_values(name).get("models", ()))
]  # fmt: skip


def said_of(table: dict[str, Any]) -> Iterable[str]:
    return [key for key in table if key in CAPABILITIES]


@each_row(("name", "at", "table"), TABLES, ids=lambda value: str(value)[:40])
def test_every_table_of_the_catalogue_is_of_use(name: str, at: int, table: dict[str, Any]) -> None:
    """It names models, its pattern fits them, and each thing that it says holds for one of them in the end."""
    profile = read_profile(name)
    read = profile.models[at]
    assert read.examples
    assert all(read.fits(model) for model in read.examples)
    assert said_of(table) or table.get("prices") or table.get("quirks")
    for key, price in table.get("prices", {}).items():
        assert profile.prices.get(key) != price, f"the price {key} is said already"
        assert price in {profile.prices_of(model)[key] for model in read.examples}, f"the price {key} never holds"
    for key in said_of(table):
        before = profile.model_copy(update={"models": profile.models[:at]}).capabilities_of(read.examples[0])
        assert table[key] != before.of(key), f"{key} is said already"
        assert table[key] in {profile.capabilities_of(model).of(key) for model in read.examples}, f"{key} never holds"


@each_row(
    ("spec", "known"),
    [
        ("openai:gpt-3.5-turbo", {"images": "no", "tools": "yes", "structured_output": "no"}),
        ("openai:gpt-4.1-mini", {"images": "yes", "reasoning": "no"}),
        ("openai:gpt-5-mini", {"images": "yes", "reasoning": "yes", "structured_output": "yes"}),
        ("openai:o3-mini", {"images": "no", "reasoning": "yes", "parallel_calls": "no"}),
        ("openai-responses:gpt-4o", {"audio": "no"}),
        ("kimi:kimi-k2-turbo-preview", {"images": "no", "reasoning": "no"}),
        ("kimi-vllm:moonshotai/Kimi-K2-Thinking", {"images": "no", "reasoning": "yes", "forced_choice": "yes"}),
        ("kimi-cn:kimi-k2.6", {"images": "yes"}),
        ("deepseek:deepseek-v4-pro", {"images": "no", "structured_output": "no"}),
        ("ollama:qwen3:8b", {"forced_choice": "no", "tools": "unknown"}),
        ("openrouter:openai/gpt-4o", {"images": "yes"}),
        ("openrouter:nobody/knows", {"images": "unknown"}),
    ],
)
def test_facts(spec: str, known: dict[str, str]) -> None:
    can = Provider.from_config(spec).capabilities()
    assert {name: can.of(name) for name in known} == known
