"""streamfold as a chat model of LangChain, beyond LangChain's standard tests."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tables import each_row

pytest.importorskip("langchain_core")

from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from pydantic import BaseModel

import scale
from fixture_answers import Seen, is_right, provider_of, request_of
from streamfold import ConfigError, IncompleteStreamError, Message, Provider, StreamfoldError, WebSearch
from streamfold.recording import Recording
from streamfold.testing import ScriptedProvider, call, fail, say, think
from streamfold_integrations.langchain import ChatStreamfold

FOLDER = Path(__file__).parents[3] / "fixtures"
NAMES = sorted(f"{file.parent.name}/{file.stem}" for file in FOLDER.glob("*/*.sse"))


class City(BaseModel):
    """A city."""

    name: str
    people: int


async def whole(model: Any, *messages: Any) -> AIMessageChunk:
    chunks = [chunk async for chunk in model.astream(list(messages) or "Hello")]
    made = chunks[0]
    for chunk in chunks[1:]:
        made += chunk
    return made


@each_row("name", scale.some(NAMES, 50))
def test_each_kind_of_stream_is_right(name: str) -> None:
    """A program on LangChain sees what the bytes mean: text, whole calls, the end, or an error."""
    recording = Recording.load(FOLDER / name)
    model: Any = ChatStreamfold(client=provider_of(recording))
    request = request_of(recording)
    if "tools" in request:
        model = model.bind(**request)
    seen = Seen()

    async def ask() -> None:
        try:
            made = await whole(model)
        except Exception as error:  # whatever it is
            seen.error = error
            return
        seen.text, seen.finish = str(made.text), made.response_metadata.get("finish_reason")
        calls = {one["id"]: (one["name"], json.dumps(one["args"])) for one in made.tool_calls}
        invalid = {one["id"]: (str(one["name"]), json.loads(one["args"] or '""')) for one in made.invalid_tool_calls}
        seen.calls = [{**calls, **invalid}[chunk["id"]] for chunk in made.tool_call_chunks]

    asyncio.run(ask())
    assert is_right(recording, seen), seen


@pytest.mark.slow
@each_row("stream", [False, True])
def test_an_unchanged_answer_goes_back_as_the_provider_sent_it(stream: bool) -> None:
    """Signatures, items and the model's own text of arguments survive LangChain's messages, of every recording."""

    async def sent_back(recording: Recording) -> tuple[Message, Message] | None:
        request = request_of(recording)
        try:
            reply = await provider_of(recording).chat("Hello", **request)
        except StreamfoldError:
            return None
        if not (reply.tool_calls or reply.extras or reply.message.reasoning):
            return None  # its text is all there is
        model: Any = ChatStreamfold(client=provider_of(recording)).bind(**request)
        answer: Any = await (whole(model) if stream else model.ainvoke("Hello"))
        results = [ToolMessage("x", tool_call_id=one.id) for one in reply.tool_calls]
        script = ScriptedProvider("Done.")
        await ChatStreamfold(client=script).ainvoke([HumanMessage("Hello"), answer, *results])
        return script.requests[0].messages[1], reply.message

    async def changed() -> list[str]:
        pairs = [(name, await sent_back(Recording.load(FOLDER / name))) for name in NAMES]
        return [name for name, found in pairs if found and found[0].to_dict() != found[1].to_dict()]

    assert asyncio.run(changed()) == []


def test_reasoning_is_a_content_block_and_goes_back() -> None:
    """Reasoning is LangChain's own block, and the next request has it, with the model's own text of the arguments."""
    script = ScriptedProvider([think("Let me see."), say("One moment."), call("f", '{"a" : 1}')], "Done.")
    model = ChatStreamfold(client=script)
    answer = asyncio.run(whole(model))
    assert [block["type"] for block in answer.content_blocks] == ["reasoning", "text", "tool_call"]
    restored = AIMessage(**json.loads(json.dumps(AIMessage(**answer.model_dump(exclude={"type"})).model_dump())))
    model.invoke([HumanMessage("Hello"), restored, ToolMessage("2", tool_call_id=answer.tool_calls[0]["id"])])
    sent = script.requests[1].messages[1]
    assert sent.reasoning == "Let me see."
    assert sent.tool_calls[0].raw_arguments == '{"a" : 1}'


def test_an_answer_that_was_edited_is_sent_as_it_is_now() -> None:
    """What a program changes in an answer counts, not what streamfold remembers of it."""
    script = ScriptedProvider([say("Yes."), call("f", a=1)], "Done.")
    model = ChatStreamfold(client=script)
    answer = model.invoke("Hello")
    answer.tool_calls[0]["args"] = {"a": 2}
    model.invoke([HumanMessage("Hello"), answer, ToolMessage("x", tool_call_id=answer.tool_calls[0]["id"])])
    assert script.requests[1].messages[1].tool_calls[0].arguments == {"a": 2}


@each_row("stream", [False, True])
def test_reasoning_that_was_removed_is_not_sent(stream: bool) -> None:
    """A program that removes the reasoning of an answer is obeyed, and its calls stay as the model wrote them."""
    script = ScriptedProvider([think("Secret."), say("Yes."), call("f", '{"a" : 1}')], "Done.")
    model = ChatStreamfold(client=script)
    answer: Any = sum(model.stream("Hello"), start=AIMessageChunk("")) if stream else model.invoke("Hello")
    del answer.additional_kwargs["reasoning_content"]
    model.invoke([HumanMessage("Hello"), answer, ToolMessage("x", tool_call_id=answer.tool_calls[0]["id"])])
    sent = script.requests[1].messages[1]
    assert (sent.content, sent.reasoning) == ("Yes.", None)
    assert [one.raw_arguments for one in sent.tool_calls] == ['{"a" : 1}']


def test_a_broken_stream_raises_and_hands_out_no_call() -> None:
    """The text that came is streamed, the call that was begun is not there, and the error is streamfold's."""
    model = ChatStreamfold(client=ScriptedProvider(then=["Hel", call("f", a=1), fail(IncompleteStreamError)]))
    seen: list[AIMessageChunk] = []
    with pytest.raises(IncompleteStreamError):
        seen += model.stream("Hello")  # type: ignore[arg-type]
    stream = model.stream("Hello")
    assert next(stream).content == "Hel"
    with pytest.raises(IncompleteStreamError):
        next(stream)


def test_parallel_calls_come_whole_on_the_last_chunk() -> None:
    """Two calls are two calls, and no chunk before the last has one."""
    model = ChatStreamfold(client=ScriptedProvider(["Hi", call("f", a=1), call("g", b=[2])]))
    chunks = list(model.stream("Hello"))
    assert [len(chunk.tool_calls) for chunk in chunks[:-1]] == [0] * (len(chunks) - 1)
    assert [(one["name"], one["args"]) for one in chunks[-1].tool_calls] == [("f", {"a": 1}), ("g", {"b": [2]})]


def test_arguments_that_are_no_json_are_never_completed() -> None:
    """LangChain completes JSON that breaks off; such a call is invalid here, streamed or not."""
    model = ChatStreamfold(client=ScriptedProvider(then=call("f", '{"a": 1,')))
    made = asyncio.run(whole(model))
    assert made.tool_calls == []
    assert [one["name"] for one in made.invalid_tool_calls] == ["f"]
    message = model.invoke("Hello")
    assert message.tool_calls == []
    assert message.invalid_tool_calls[0]["args"] == '{"a": 1,'


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
def test_structured_output(method: Any) -> None:
    """Each way to ask for a form gives an instance of the model; one that does not fit is a parsing error."""
    fits = call("City", name="Oslo", people=7) if method == "function_calling" else '{"name": "Oslo", "people": 7}'
    model = ChatStreamfold(client=ScriptedProvider(fits, "no"))
    runnable = model.with_structured_output(City, method=method, include_raw=True)
    assert runnable.invoke("Where?")["parsed"] == City(name="Oslo", people=7)  # type: ignore[index]
    failed: Any = runnable.invoke("Where?")
    assert failed["parsed"] is None
    assert failed["raw"].content == "no"


def test_options_reach_the_provider() -> None:
    """What is set on the model, bound to it, or given with a call is in the request."""
    script = ScriptedProvider(then="ok")
    model = ChatStreamfold(client=script, temperature=0.5, max_tokens=9, options={"seed": 3})
    model.invoke("Hello", stop=["x"], model="other", top_p=0.1)
    body = script.requests[0].body
    assert (body["temperature"], body["seed"], body["stop"], body["model"], body["top_p"]) == (
        0.5, 3, ["x"], "other", 0.1
    )  # fmt: skip
    assert 9 in (body.get("max_tokens"), body.get("max_completion_tokens"))
    with pytest.raises(ConfigError, match="carrier"):
        ChatStreamfold(model="carrier-pigeon").invoke("Hello")


def test_usage_has_its_details() -> None:
    """Tokens from a cache and of reasoning are where LangChain has them."""
    name = next(name for name in NAMES if name.startswith("openai/") and "reason" in name)
    recording = Recording.load(FOLDER / name)
    usage = asyncio.run(whole(ChatStreamfold(client=provider_of(recording)))).usage_metadata
    assert usage is not None
    assert usage["input_tokens"] == recording.expect["usage"]["input_tokens"]
    assert usage["output_token_details"]["reasoning"] == recording.expect["usage"]["reasoning_tokens"]


def test_a_thread_with_an_empty_turn_goes_on() -> None:
    """A checkpointer keeps what was said for good: an empty turn, or a result that is missing, must not stop it."""
    call_of = AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "a"}])
    for history in (
        [HumanMessage("Hi"), AIMessage(""), HumanMessage("Hello?")],
        [HumanMessage("")],
        [HumanMessage("Hi"), AIMessage([{"type": "reasoning", "reasoning": "hm"}]), HumanMessage("Hello?")],
        [HumanMessage("Hi"), call_of, HumanMessage("Hello?")],
    ):
        for provider in ("openai:gpt-5", "kimi", "anthropic:claude-sonnet-4-5", "gemini:gemini-2.5-pro"):
            model = ChatStreamfold(client=ScriptedProvider("Yes.", provider=provider))
            assert model.invoke(history).content == "Yes."
    strict = ChatStreamfold(client=ScriptedProvider("Yes."), options={"repair_history": False})
    with pytest.raises(ConfigError, match="calls 'f'"):
        strict.invoke([HumanMessage("Hi"), call_of, HumanMessage("Hello?")])


def test_a_tool_that_the_provider_runs_is_no_function() -> None:
    """A hosted tool is sent as it was written, or refused by its name; never as a function of the same name."""
    functions = [
        {"name": "f", "description": "F.", "input_schema": {"type": "object", "properties": {}}},
        {"title": "f", "description": "F.", "type": "object", "properties": {}},
        {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}},
        {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}},
    ]
    for tool in functions:
        script = ScriptedProvider("x", provider="anthropic:claude-sonnet-4-5")
        ChatStreamfold(client=script).bind_tools([tool]).invoke("Hi")
        assert [sent["name"] for sent in script.requests[-1].body["tools"]] == ["f"]
    hosted = {"type": "web_search_20250305", "name": "web_search", "max_uses": 1}
    script = ScriptedProvider("x", provider="anthropic:claude-sonnet-4-5")
    try:
        ChatStreamfold(client=script).bind_tools([hosted]).invoke("Hi")
        sent = str(script.requests[-1].body["tools"])
    except ConfigError as error:
        sent = str(error)
    assert "web_search_20250305" in sent


def test_tools_of_the_provider_as_values() -> None:
    """One that it does not run is refused when it is bound."""
    script = ScriptedProvider("x", provider="anthropic:claude-sonnet-4-5")
    ChatStreamfold(client=script).bind_tools([WebSearch(max_uses=1)]).invoke("Hi")
    assert script.requests[-1].body["tools"][0]["name"] == "web_search"
    with pytest.raises(ConfigError, match="does not run the tool 'web_search'"):
        ChatStreamfold(model="kimi:kimi-k2.6", api_key="x").bind_tools([WebSearch()])  # type: ignore[arg-type]


@each_row(
    ("provider", "names", "sent"),
    [
        ("deepseek:deepseek-chat", ["top_k", "presence_penalty"], {"top_k": 4, "presence_penalty": 0.5}),
        ("anthropic:claude-sonnet-4-5", ["top_k", "service_tier"], {"top_k": 4, "service_tier": "standard_only"}),
        ("gemini:gemini-2.5-pro", ["top_k", "presence_penalty"], {"topK": 4, "presencePenalty": 0.5}),
        ("openai-responses:gpt-4o", ["service_tier", "top_p"], {"service_tier": "default", "top_p": 0.5}),
    ],
)
def test_options_that_only_some_apis_have(provider: str, names: list[str], sent: dict[str, Any]) -> None:
    """Set on the model, or given with a call, they are written as the API has them."""
    values = {"top_k": 4, "presence_penalty": 0.5, "service_tier": "default", "top_p": 0.5}
    options: Any = {name: values[name] for name in names}
    script = ScriptedProvider(then="x", provider=provider)
    ChatStreamfold(client=script, extra_body={"x_own": 1}, **options).invoke("Hello")
    ChatStreamfold(client=script).invoke("Hello", **options)
    for request in script.requests:
        body = {**request.body, **request.body.get("generationConfig", {})}
        assert {name: body.get(name) for name in sent} == sent
    assert "x_own" in script.requests[0].body


@each_row(
    ("provider", "options", "wrong"),
    [
        ("openai-responses:gpt-4o", {"top_k": 4}, "doesn't support top_k"),
        ("openai:gpt-4o", {"top_k": 4}, "doesn't support top_k"),
        (
            "anthropic:claude-sonnet-4-5",
            {"logit_bias": {"1": 2}, "frequency_penalty": 1.0},
            "frequency_penalty and logit",
        ),
        ("openai:gpt-4o", {"options": {"logprobs": True}}, "unknown option 'logprobs'"),
        ("openai:gpt-4o", {"options": {"n": 2}}, "n must be 1"),
        ("openai:gpt-4o", {"seed": 1, "reasoning_effort": "hgh"}, "reasoning_effort must be"),
        ("openai:gpt-4o", {"n": 2}, "n must be 1"),
        ("openai:gpt-4o", {"logprobs": True}, "pass extra_body={'logprobs': ...}"),
        ("openai:gpt-4o", {"temprature": 1}, "unknown setting 'temprature' .did you mean 'temperature'?"),
        ("openai:gpt-4o", {"request_timeout": 5}, "pass timeout="),
        ("openai:gpt-4o", {"model_kwargs": {"x": 1}}, "pass extra_body="),
        ("openai:gpt-4o", {"stream_usage": True}, "unknown setting 'stream_usage': remove it, because usage_metadata"),
        ("openai:gpt-4o", {"parallel_tool_calls": False}, "pass options={'parallel_tool_calls': ...}"),
        ("openai:gpt-4o", {"dialect": "hermes"}, "pass config={'dialect': ...}"),
    ],
)
def test_what_no_request_can_have_is_refused_when_the_model_is_made(provider: str, options: Any, wrong: str) -> None:
    """And not at a turn for which a program has waited."""
    with pytest.raises(ConfigError, match=wrong):
        ChatStreamfold(model=provider, api_key="x", **options)


def test_what_a_server_refuses_is_a_fact_of_its_settings() -> None:
    """And not of its name: who starts from the catalogue's OpenAI under another name has the same server."""
    mine = {"name": "mine", "profile": "openai", "model": "gpt-4o", "api_key": "x"}
    with pytest.raises(ConfigError, match="doesn't support top_k"):
        ChatStreamfold(client=Provider.from_config(mine), top_k=4)


def test_a_form_has_its_name_and_description() -> None:
    """Models read both."""
    script = ScriptedProvider('{"name": "Oslo", "people": 7}', provider="openai:gpt-4o")
    model = ChatStreamfold(client=script).with_structured_output(City, strict=True)
    assert model.invoke("Where?") == City(name="Oslo", people=7)
    said = script.requests[-1].body["response_format"]["json_schema"]
    assert (said["name"], said["description"], said["strict"]) == ("City", "A city.", True)


def test_a_refusal_has_the_place_of_openais() -> None:
    """In the message, and not only in its metadata: programs look there."""
    refused = b'data: {"choices":[{"index":0,"delta":{"refusal":"I can not."},"finish_reason":"stop"}]}\n\n'
    recording = Recording("refusal", refused + b"data: [DONE]\n\n", "chat")
    model = ChatStreamfold(client=provider_of(recording))
    assert asyncio.run(whole(model)).additional_kwargs["refusal"] == "I can not."


def test_files_by_their_ids() -> None:
    """A file that was uploaded before, in both shapes that LangChain has."""
    for block in ({"type": "file", "file_id": "file-1"}, {"type": "file", "source_type": "id", "id": "file-1"}):
        script = ScriptedProvider("x", provider="anthropic:claude-sonnet-4-5")
        ChatStreamfold(client=script).invoke([HumanMessage([{"type": "text", "text": "Read."}, block])])
        source = script.requests[-1].body["messages"][0]["content"][1]["source"]
        assert source == {"type": "file", "file_id": "file-1"}


def test_an_answer_of_another_maker() -> None:
    """Its texts stay apart. What its provider's tools did can't be sent, and is not left out without a word."""
    other = AIMessage(
        [
            {"type": "text", "text": "I search."},
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
            {"type": "text", "text": "Found."},
        ]
    )
    script = ScriptedProvider("x", provider="openai:gpt-4o")
    with pytest.warns(UserWarning, match="because it can't send them: server_tool_use"):
        ChatStreamfold(client=script).invoke([HumanMessage("Hi"), other, HumanMessage("More")])
    said = [{"type": "text", "text": "I search."}, {"type": "text", "text": "Found."}]
    assert script.requests[-1].body["messages"][1] == {"role": "assistant", "content": said}


def test_audio_is_counted_apart() -> None:
    """As OpenAI's class does."""
    counts = {"prompt_tokens": 9, "completion_tokens": 5, "prompt_tokens_details": {"audio_tokens": 4}}
    chunk = {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}], "usage": counts}
    body = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()
    usage = asyncio.run(whole(ChatStreamfold(client=provider_of(Recording("usage", body, "chat"))))).usage_metadata
    assert usage is not None
    assert usage["input_token_details"] == {"audio": 4}
