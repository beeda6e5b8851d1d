"""streamfold as a model of pydantic-ai: agents with tools, structured output, and streams that break."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tables import each_row

pytest.importorskip("pydantic_ai")

from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, CachePoint, NativeOutput, PromptedOutput
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.exceptions import ContentFilterError, ModelAPIError, ModelHTTPError, UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UploadedFile,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import ToolDefinition

import scale
from fixture_answers import Seen, is_right, provider_of
from streamfold import APIError, Fallback, IncompleteStreamError, Provider
from streamfold.recording import Recording
from streamfold.testing import ScriptedProvider, call, fail, say, think
from streamfold_integrations.pydantic_ai import StreamfoldModel

pytestmark = pytest.mark.one_loop  # pydantic-ai's agents are written for it
FOLDER = Path(__file__).parents[3] / "fixtures"
NAMES = sorted(f"{file.parent.name}/{file.stem}" for file in FOLDER.glob("*/*.sse"))


class City(BaseModel):
    name: str
    people: int


def model_of(*turns: Any, **rest: Any) -> tuple[StreamfoldModel, ScriptedProvider]:
    script = ScriptedProvider(*turns, **rest)
    return StreamfoldModel(script), script


async def streamed(model: Model, parameters: ModelRequestParameters | None = None) -> ModelResponse:
    messages: Any = [ModelRequest.user_text_prompt("Hello")]
    async with model.request_stream(messages, None, parameters or ModelRequestParameters()) as stream:
        async for _ in stream:
            pass
        return stream.get()


@each_row("name", scale.some(NAMES, 50))
async def test_each_kind_of_stream_is_right(name: str) -> None:
    """A program on pydantic-ai sees what the bytes mean: text, whole calls, the end, or an error."""
    recording, seen = Recording.load(FOLDER / name), Seen()
    schema = {"type": "object", "properties": {}}
    tools = [ToolDefinition(name=tool, parameters_json_schema=schema) for tool in recording.tools]
    choice: Any = [recording.tool_choice] if recording.tool_choice in recording.tools else recording.tool_choice
    model = StreamfoldModel(provider_of(recording), settings={"tool_choice": choice} if tools else None)
    try:
        whole = await streamed(model, ModelRequestParameters(function_tools=tools))
    except ModelAPIError as error:
        seen.error = error
    else:
        seen.text, seen.finish = whole.text or "", whole.finish_reason
        calls = [part for part in whole.parts if isinstance(part, ToolCallPart)]
        seen.calls = [(part.tool_name, str(part.args)) for part in calls]
    assert is_right(recording, seen), seen


async def test_an_agent_runs_parallel_tools() -> None:
    """Both calls of one answer run, and their results go back under their ids, beside the reasoning."""
    turn = [think("Both."), call("population", '{"city" : "Oslo"}'), call("population", city="Bergen")]
    model, script = model_of(turn, "One million.")
    agent = Agent(model, instructions="Be brief.")

    @agent.tool_plain
    def population(city: str) -> int:
        """How many people live in a city."""
        return {"Oslo": 700_000, "Bergen": 300_000}[city]

    result = await agent.run("How many?")
    assert result.output == "One million."
    sent = script.requests[1].messages
    assert [message.role for message in sent] == ["system", "user", "assistant", "tool", "tool"]
    assert [one.raw_arguments for one in sent[2].tool_calls] == ['{"city" : "Oslo"}', '{"city": "Bergen"}']
    assert sent[2].reasoning == "Both."
    assert [message.content for message in sent[3:]] == ["700000", "300000"]
    assert script.requests[0].tools[0].description == "How many people live in a city."
    restored = ModelMessagesTypeAdapter.validate_json(result.all_messages_json())
    assert any(isinstance(part, ThinkingPart) for message in restored for part in message.parts)


@each_row("stream", [False, True])
@each_row("form", [City, NativeOutput(City), PromptedOutput(City)])
async def test_structured_output(form: Any, stream: bool) -> None:
    """Output as a call of a tool, as the provider's own form, or as described in the prompt."""
    fits = call("final_result", name="Oslo", people=7) if form is City else '{"name": "Oslo", "people": 7}'
    model, script = model_of(fits)
    agent = Agent(model, output_type=form)
    if stream:
        async with agent.run_stream("Which?") as running:
            assert await running.get_output() == City(name="Oslo", people=7)
    else:
        assert (await agent.run("Which?")).output == City(name="Oslo", people=7)
    body = script.requests[0].body
    assert ("response_format" in body) == (form is not City and isinstance(form, NativeOutput))
    assert (script.requests[0].tool_choice == "required") == (form is City)


async def test_arguments_that_are_no_json_are_asked_for_again() -> None:
    """A call with broken arguments is not run; the model hears of it, and its next answer counts."""
    model, script = model_of(call("final_result", '{"name": "Os'), call("final_result", name="Oslo", people=7))
    assert (await Agent(model, output_type=City).run("Which?")).output.name == "Oslo"
    assert len(script.requests) == 2


async def test_a_broken_stream_runs_no_tool() -> None:
    """A stream that breaks off raises pydantic-ai's error, behind the text that came, and the tool does not run."""
    model, _ = model_of(then=["Hel", call("dangerous", x=1), fail(IncompleteStreamError)])
    ran, agent = [], Agent(model)

    @agent.tool_plain
    def dangerous(x: int) -> str:
        ran.append(x)
        return "done"

    with pytest.raises(ModelAPIError, match="before the response was complete") as raised:
        await agent.run("Hello")
    assert isinstance(raised.value.__cause__, APIError)
    shown: list[str] = []

    async def show() -> None:
        async with agent.run_stream("Hello") as running:
            async for piece in running.stream_text(delta=True, debounce_by=None):
                shown.append(piece)

    with pytest.raises(ModelAPIError):
        await show()
    assert (shown, ran) == (["Hel"], [])


async def test_errors_are_those_of_pydantic_ai() -> None:
    """So its FallbackModel tries the next model."""
    with pytest.raises(ModelHTTPError) as raised:
        await Agent(model_of(then=fail(429))[0]).run("Hello")
    assert raised.value.status_code == 429
    fallback = FallbackModel(model_of(then=fail(503))[0], TestModel(custom_output_text="from the other"))
    assert (await Agent(fallback).run("Hello")).output == "from the other"


async def test_settings_files_and_thinking_reach_the_provider() -> None:
    """Settings of pydantic-ai are options here, and binary content is a part."""
    model, script = model_of("ok")
    settings: Any = {"temperature": 0.5, "max_tokens": 9, "stop_sequences": ["x"], "seed": 3, "thinking": "low"}
    question = ["What is it?", BinaryContent(b"bytes", media_type="image/png")]
    await Agent(model, model_settings=settings).run(question)
    body = script.requests[0].body
    assert (body["temperature"], body["stop"], body["seed"], body["reasoning_effort"]) == (0.5, ["x"], 3, "low")
    assert [part["type"] for part in body["messages"][0]["content"]] == ["text", "image_url"]


async def test_a_stream_can_be_given_up() -> None:
    """Leaving a run early closes the connection."""
    model, _ = model_of([say("one "), say("two "), say("three")])
    async with Agent(model).run_stream("Hello") as running:
        async for _ in running.stream_text(delta=True, debounce_by=None):
            break
        await running.cancel()
    assert running.is_complete or running.cancelled


@each_row("provider", ["kimi", "deepseek", "anthropic", "gemini", "openai-responses:gpt-5"])
async def test_an_answer_of_nothing_but_thoughts(provider: str) -> None:
    """The agent asks again, with that turn in the history, as it does behind pydantic-ai's own models."""
    model, script = model_of([think("I should answer.")], "Paris.", provider=provider)
    assert (await Agent(model).run("What is the capital of France?")).output == "Paris."
    assert len(script.requests) == 2


async def test_cache_points() -> None:
    """A mark of pydantic-ai is a mark on what stands before it, with its lifetime; a first one marks nothing."""
    model, script = model_of("x", provider="anthropic:claude-sonnet-4-5")
    await Agent(model).run(["long context", CachePoint(), "more", CachePoint(ttl="1h"), "question"])
    marks = [part.get("cache_control") for part in script.requests[-1].body["messages"][0]["content"]]
    assert marks == [{"type": "ephemeral", "ttl": "5m"}, {"type": "ephemeral", "ttl": "1h"}, None]
    model, script = model_of("x", provider="openai:gpt-5")
    await Agent(model).run(["long context", CachePoint(), "question"])
    assert "cache" not in str(script.requests[-1].body)
    with pytest.raises(UserError, match="first content"):
        await Agent(model).run([CachePoint(), "question"])


async def test_tools_that_the_provider_runs() -> None:
    """Their words for them are ours, each written for the API; functions stand before them."""
    from pydantic_ai.native_tools import CodeExecutionTool, WebSearchTool

    script = ScriptedProvider("Hi", provider="anthropic:claude-sonnet-5")
    search = WebSearchTool(max_uses=2, allowed_domains=["met.no"])
    parameters = ModelRequestParameters(
        function_tools=[ToolDefinition(name="add")], native_tools=[search, CodeExecutionTool()]
    )
    await StreamfoldModel(script).request([ModelRequest.user_text_prompt("q")], None, parameters)
    function, *hosted = script.requests[-1].body["tools"]
    assert function["name"] == "add"
    assert hosted == [
        {"type": "web_search_20260318", "name": "web_search", "max_uses": 2, "allowed_domains": ["met.no"]},
        {"type": "code_execution_20260521", "name": "code_execution"},
    ]


@each_row(
    ("provider", "sent"),
    [
        ("deepseek:deepseek-chat", {"top_k": 4, "presence_penalty": 0.5, "service_tier": "default"}),
        ("openai:gpt-4o", {"presence_penalty": 0.5, "service_tier": "default"}),
        ("anthropic:claude-sonnet-4-5", {"top_k": 4, "service_tier": "standard_only"}),
        ("gemini:gemini-2.5-pro", {"generationConfig": {"topK": 4, "presencePenalty": 0.5}, "serviceTier": "standard"}),
        ("openai-responses:gpt-5.5", {"service_tier": "default"}),
    ],
)
async def test_settings_that_only_some_apis_have(provider: str, sent: dict[str, Any]) -> None:
    """They are written as each API has them; of a run they are left out where there is none, as pydantic-ai does."""
    settings: Any = {"top_k": 4, "presence_penalty": 0.5, "service_tier": "default", "extra_body": {"x_own": 1}}
    model, script = model_of("x", provider=provider)
    await Agent(model, model_settings=settings).run("Hello")
    body = script.requests[-1].body
    names = {"top_k", "presence_penalty", "service_tier", "serviceTier", "x_own"}
    found = {name: value for name, value in body.items() if name in names}
    if "generationConfig" in sent:
        found["generationConfig"] = {name: body["generationConfig"].get(name) for name in sent["generationConfig"]}
    assert found == {**sent, "x_own": 1}


@each_row(
    ("provider", "settings", "wrong"),
    [
        ("openai-responses:gpt-5.5", {"top_k": 4, "seed": 1}, "top_k"),
        (
            "anthropic:claude-sonnet-4-5",
            {"logit_bias": {"1": 2}, "presence_penalty": 1},
            "logit_bias, presence_penalty",
        ),
        ("openai:gpt-4o", {"openai_logprobs": True}, "openai_logprobs"),
    ],
)
def test_a_setting_that_can_not_be_sent_is_refused_when_the_model_is_made(
    provider: str, settings: Any, wrong: str
) -> None:
    """And not at a turn for which a program has waited. Of several that may answer, all must have it."""
    two = Fallback(Provider.from_config("deepseek", api_key="x"), Provider.from_config(provider, api_key="x"))
    for model in (ScriptedProvider(provider=provider), two):
        with pytest.raises(UserError, match=f"can't send these settings to .*: {wrong}"):
            StreamfoldModel(model, settings=settings)
    StreamfoldModel(Fallback(two.models[0], two.models[0]), settings={"top_k": 4})


def test_the_tools_that_a_provider_runs_are_known_before_a_run() -> None:
    """So that an agent uses its own search, or is told at once."""
    runs = {
        name: {kind.kind for kind in StreamfoldModel(name, api_key="x").profile["supported_native_tools"]}
        for name in ("kimi:kimi-k2.6", "anthropic:claude-sonnet-4-5", "openai-responses:gpt-5.5")
    }
    assert runs == {
        "kimi:kimi-k2.6": set(),
        "anthropic:claude-sonnet-4-5": {"web_search", "web_fetch", "code_execution", "mcp_server"},
        "openai-responses:gpt-5.5": {"web_search", "code_execution", "file_search", "mcp_server"},
    }


async def test_a_form_has_its_name_and_description() -> None:
    """Models read both."""
    model, script = model_of('{"name": "Oslo", "people": 7}', provider="openai-responses:gpt-5.5")
    form = NativeOutput(City, name="town", description="A place.", strict=True)
    assert (await Agent(model, output_type=form).run("Where?")).output == City(name="Oslo", people=7)
    said = script.requests[-1].body["text"]["format"]
    assert (said["name"], said["description"], said["strict"]) == ("town", "A place.", True)


async def test_a_refusal_is_a_finish() -> None:
    """The agent raises with the model's words, instead of asking again for an answer that will not come."""
    refused = b'data: {"choices":[{"index":0,"delta":{"refusal":"I can not."},"finish_reason":"stop"}]}\n\n'
    recording = Recording("refusal", refused + b"data: [DONE]\n\n", "chat")
    model = StreamfoldModel(provider_of(recording))
    assert (await streamed(model)).finish_reason == "content_filter"
    with pytest.raises(ContentFilterError, match="I can not"):
        await Agent(model).run("Hello")


async def test_files_by_their_ids() -> None:
    """A file that was uploaded before; Google's ids are addresses."""
    uploaded = UploadedFile("file-1", "anthropic", media_type="application/pdf")
    model, script = model_of("x", provider="anthropic:claude-sonnet-4-5")
    await Agent(model).run(["Read.", uploaded])
    assert script.requests[-1].body["messages"][0]["content"][1]["source"] == {"type": "file", "file_id": "file-1"}
    address = "https://generativelanguage.googleapis.com/v1beta/files/1"
    model, script = model_of("x", provider="gemini:gemini-2.5-pro")
    await Agent(model).run(["Look.", UploadedFile(address, "google", media_type="image/png")])
    assert script.requests[-1].body["contents"][0]["parts"][1]["fileData"]["fileUri"] == address


@each_row("stream", [False, True])
@each_row("provider", ["kimi", "anthropic:claude-sonnet-4-5", "gemini:gemini-3-pro-preview", "openai-responses:gpt-5"])
async def test_what_a_history_shows_is_sent(provider: str, stream: bool) -> None:
    """A changed argument, text or thought of an earlier answer is what the model gets, on every wire format."""
    shown = [think("I look it up."), "Looking.", call("look", {"city": "Oslo", "days": 1}, call_id="call_1")]
    model, _ = model_of(shown, provider=provider)
    tools = ModelRequestParameters(function_tools=[ToolDefinition(name="look")])
    asked: Any = [ModelRequest.user_text_prompt("Hello")]
    answer = await (streamed(model, tools) if stream else model.request(asked, None, tools))
    [answer] = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json([answer]))
    result = ModelRequest([ToolReturnPart("look", "cold", tool_call_id="call_1")])

    async def sent(parts: Any) -> str:
        model, script = model_of("Cold.", provider=provider)
        await model.request([*asked, replace(answer, parts=parts), result], None, tools)
        return json.dumps(script.requests[-1].body)

    same = await sent(answer.parts)
    assert all(text in same for text in ("Looking.", "Oslo"))
    edited = [replace(part, args={"city": "Rome", "days": True}) if isinstance(part, ToolCallPart) else part
              for part in answer.parts]  # fmt: skip
    assert "Rome" in (body := await sent(edited))
    assert "Oslo" not in body
    assert "Looking." in body
    as_values = [replace(part, args={"days": 1, "city": "Oslo"}) if isinstance(part, ToolCallPart) else part
                 for part in answer.parts]  # fmt: skip
    assert await sent(as_values) == same
    booked = [replace(part, args={"days": True, "city": "Oslo"}) if isinstance(part, ToolCallPart) else part
              for part in answer.parts]  # fmt: skip
    assert await sent(booked) != same
    other_text = [replace(part, content="Wait.") if isinstance(part, TextPart) else part for part in answer.parts]
    assert "Looking." not in (body := await sent(other_text))
    assert all(text in body for text in ("Wait.", "Oslo"))
    body = await sent([part for part in answer.parts if not isinstance(part, ThinkingPart)])
    assert "I look it up." not in body
    assert all(text in body for text in ("Looking.", "Oslo"))


async def test_a_history_processor_changes_what_is_sent() -> None:
    """An agent's processor that removes the thoughts of earlier answers is obeyed."""

    def without_thoughts(messages: list[ModelMessage]) -> list[ModelMessage]:
        return [
            replace(message, parts=[part for part in message.parts if not isinstance(part, ThinkingPart)])
            if isinstance(message, ModelResponse)
            else message
            for message in messages
        ]

    model, script = model_of([think("Secret."), call("look", {})], "Done.", provider="kimi:kimi-k2.6")
    agent = Agent(model, capabilities=[ProcessHistory(without_thoughts)])

    @agent.tool_plain
    def look() -> str:
        return "cold"

    assert (await agent.run("Hello")).output == "Done."
    assert "Secret." not in json.dumps(script.requests[-1].body)


async def test_an_answer_of_another_maker() -> None:
    """Its texts stay apart. What its provider's tools did can't be sent, and is not left out without a word."""
    other = ModelResponse(
        [
            TextPart("I search."),
            NativeToolCallPart("web_search", {"query": "x"}, "s1", provider_name="openai"),
            NativeToolReturnPart("web_search", {"found": 1}, "s1", provider_name="openai"),
            TextPart("Found."),
        ],
        provider_name="openai",
    )
    history: Any = [ModelRequest.user_text_prompt("Hello"), other]
    model, script = model_of("x", provider="openai:gpt-4o")
    with pytest.warns(UserWarning, match=r"response from openai.*NativeToolCallPart, NativeToolReturnPart"):
        await Agent(model).run("More", message_history=history)
    said = [{"type": "text", "text": "I search."}, {"type": "text", "text": "Found."}]
    assert script.requests[-1].body["messages"][1] == {"role": "assistant", "content": said}


async def test_usage_by_kind() -> None:
    """Audio and predictions are counted apart, as their own classes do."""
    counts = {
        "prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14,
        "prompt_tokens_details": {"audio_tokens": 4},
        "completion_tokens_details": {"audio_tokens": 2, "accepted_prediction_tokens": 1, "reasoning_tokens": 1},
    }  # fmt: skip
    chunk = {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}], "usage": counts}
    body = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()
    model = StreamfoldModel(provider_of(Recording("usage", body, "chat")))
    usage = (await streamed(model)).usage
    assert (usage.input_audio_tokens, usage.output_audio_tokens) == (4, 2)
    assert usage.details == {"reasoning_tokens": 1, "accepted_prediction_tokens": 1}
