"""How a user's code is meant to check, in mypy's strict mode and in pyright. Never run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, assert_type

import httpx
from pydantic import BaseModel

from streamfold import (
    APIError,
    ChatModel,
    ChatOptions,
    ChatStream,
    Fallback,
    FinishReason,
    Hooks,
    Limits,
    Message,
    NamedTool,
    PartialToolCall,
    Preview,
    Provider,
    Reply,
    ReplyWarning,
    StreamChunk,
    StreamDecoder,
    StreamError,
    Timeouts,
    Tool,
    ToolCall,
    ToolChoice,
    ToolRun,
    Usage,
    WarningCode,
    assistant,
    audio,
    file,
    image,
    run_tools,
    sync,
    system,
    tool,
    tool_result,
    user,
)
from streamfold.faults import status
from streamfold.testing import (
    ProviderDouble,
    ReplayFixture,
    ReplayProvider,
    ScriptedFixture,
    ScriptedProvider,
    SentRequest,
    assert_any_cut,
    assert_any_text_cut,
    assert_recording,
    call,
    fail,
    finish,
    refuse,
    say,
    think,
    usage,
)
from streamfold.tools import in_thread
from streamfold.types import Capabilities, FilePart, ImagePart, Messages, Partial, RequestInfo, ToolLike


class Weather(BaseModel):
    """The weather in a city."""

    city: str


def get_time(zone: str) -> str:
    return zone


async def stream(provider: Provider) -> None:
    chat = provider.chat_stream(
        "Hello", [Tool.from_model(Weather), tool(get_time)], tool_choice=NamedTool("Weather"), temperature=0.5
    )
    assert_type(chat, ChatStream)
    assert_type(chat.partial_tool_calls, tuple[PartialToolCall, ...])
    chat.watch("files[].content", lambda update: (update.delta, update.path[-1]), tool="write")
    async with chat as stream:
        async for chunk in stream:
            assert_type(chunk, StreamChunk)
            assert_type(chunk.delta, str)
            assert_type(chunk.finish_reason, FinishReason | None)
            assert_type(chunk.usage, Usage | None)
            for call in chunk.tool_calls or ():
                assert_type(call, ToolCall)
                assert_type(call.arguments, dict[str, Any])
                assert_type(call.parse_as(Weather), Weather)
        assert_type(stream.reply, Reply)


async def converse() -> None:
    async with Provider.from_config("kimi:kimi-k2.6", timeouts=Timeouts(read=5), limits=Limits()) as provider:
        assert_type(provider, Provider)
        history: list[Message] = [system("Be brief."), user("Hello"), assistant("Hi.")]
        try:
            reply = await provider.chat(history, tools=[{"type": "function", "function": {"name": "f"}}])
        except APIError as error:
            assert_type(error.partial, Reply | None)
            assert_type(error.retryable, bool)
            return
        assert_type(reply.message.to_json(), str)
        assert_type(Message.from_json("{}"), Message)
        history += [reply.message, *(tool_result(call, {"ok": True}) for call in reply.tool_calls)]


def configure(client: httpx.AsyncClient, choice: ToolChoice) -> Provider:
    assert_type(Provider.from_config(), Provider)
    assert_type(Provider.from_config("main", config=Path("streamfold.toml"), model="m"), Provider)
    provider = Provider.from_config(
        {"adapter": "chat", "base_url": "http://127.0.0.1/v1"}, http_client=client, model="m"
    )
    provider.chat_stream([{"role": "user", "content": "Hello"}], tool_choice=choice)
    provider.chat_stream("Hello", [get_time, Weather, tool(get_time), {"type": "function"}], timeouts={"read": 5})
    made: list[Tool] = [tool(get_time)]
    provider.chat_stream("Hello", made, timeouts=Timeouts(read=5))
    assert_type(provider.capabilities(), Capabilities)
    assert_type(provider.capabilities("kimi-k2.6").images, Literal["yes", "no", "unknown"])
    return provider


def decode(body: bytes) -> list[StreamChunk]:
    decoder = StreamDecoder("chat")
    return decoder.feed(body) + decoder.close()


def without_async(client: httpx.AsyncClient) -> None:
    with sync.Provider.from_config("kimi:kimi-k2.6", http_client=client, timeouts=Timeouts(read=5)) as provider:
        assert_type(provider, sync.Provider)
        assert_type(provider.chat("Hello", [get_time], tool_choice="none", temperature=0.5), Reply)
        assert_type(provider.preview("Hello"), Preview)
        assert_type(provider.capabilities(), Capabilities)
        with provider.chat_stream("Hello", response_format=Weather) as stream:
            assert_type(stream, sync.ChatStream)
            for chunk in stream.start():
                assert_type(chunk, StreamChunk)
                assert_type(stream.partial(Weather), Partial[Weather] | None)
            assert_type(stream.warnings, tuple[ReplyWarning, ...])
            assert_type(stream.reply, Reply)
        run = sync.run_tools(provider, "Hello", [get_time], max_turns=3, seed=1)
        assert_type(run, sync.ToolRun)
        assert_type(run.read(), Reply)
        assert_type(run.messages, list[Message])
        assert_type(run.usage, Usage | None)
    sync.Provider(Fallback(Provider.from_config("kimi"))).close()


async def use_tools(provider: Provider, call: ToolCall, mcp: object) -> None:
    def blocks(path: str) -> bytes:
        return path.encode()

    def echo(**arguments: Any) -> str:
        return str(arguments)

    made = tool(blocks, name="read", description="Reads.", strict=True)
    assert_type(made("notes.txt"), bytes)
    threaded = in_thread(blocks)
    assert_type(await tool(threaded)("notes.txt"), bytes)
    listed: list[Tool] = [made, tool(get_time)]
    together = [made, tool(get_time)]
    run_tools(provider, "Hello", listed)
    run_tools(provider, "Hello", together)
    assert_type(Tool.from_mcp(mcp, function=echo), Tool)
    assert_type(Tool.from_model(Weather, function=lambda weather: weather), Tool)
    assert_type(await made.call(call), object)
    run = run_tools(provider, "Hello", [made, get_time, {"type": "function"}], max_turns=3, temperature=0.5)
    assert_type(run, ToolRun)
    async with run:
        async for chunk in run:
            assert_type(chunk, StreamChunk)
    assert_type(run.reply, Reply)
    assert_type(run.replies, list[Reply])
    assert_type(run.usage, Usage | None)
    Path("history.jsonl").write_text("\n".join(message.to_json() for message in run.messages))
    history = [Message.from_json(line) for line in Path("history.jsonl").read_text().splitlines()]
    assert_type(history, list[Message])
    assert_type(run_tools(provider, history, [made]).messages, list[Message])
    assert_type(await run_tools(provider, "Hello", [made], on_tool_error=lambda call, error: str(error)), Reply)


async def with_any_model(provider: Provider, scripted: ScriptedProvider) -> None:
    fallback = Fallback(provider, scripted, Fallback(scripted), cooldown=60)
    models: list[ChatModel] = [provider, scripted, fallback]
    options: ChatOptions = {"temperature": 0.2, "timeouts": {"read": 5}, "extra_body": {"top_k": 40}}
    for model in models:
        stream = await model.chat_stream("Hello", **options).start()
        assert_type(stream, ChatStream)
        assert_type(stream.warnings, tuple[ReplyWarning, ...])
        assert_type(stream.warnings[0].code, WarningCode)
        reply = await model.chat("Hello", response_format=Weather, reasoning_effort="low", stop=["a"])
        assert_type(reply, Reply)
        assert_type((reply.usage or Usage()) + Usage(), Usage)
        await run_tools(model, "Hello", [get_time])
    assert_type(provider.preview("Hello", **options), Preview)


def watch(messages: Messages, tools: list[ToolLike]) -> Provider:
    def finished(info: RequestInfo, reply: Reply) -> None:
        assert_type(info.model, str)
        assert_type(reply.usage, Usage | None)

    provider = Provider.from_config("kimi", hooks=Hooks(on_finish=finished))
    provider.chat_stream(messages, tools)
    return provider


async def in_a_form(provider: Provider) -> Weather:
    async with provider.chat_stream("Hello", response_format=Weather) as stream:
        async for _ in stream:
            value = stream.partial(Weather)
            assert_type(value, Partial[Weather] | None)
            if value:
                assert_type(value.city, Any)  # a str, or None while nothing of it has come
    reply = stream.reply
    assert_type(reply.parse_as(Weather), Weather)
    return reply.parse_as(Weather)


def show(path: Path, call: ToolCall) -> list[Message]:
    assert_type(image(path, detail="low"), ImagePart)
    assert_type(file(b"%PDF-1.7", name="a.pdf"), FilePart)
    shown = user("What is this?", image("https://example.com/a.png"), audio(path), {"type": "text", "text": "And?"})
    return [shown, user([image(path)]), tool_result(call, ["See:", image(path)]), tool_result(call, "no", error=True)]


async def test_an_application(scripted: ScriptedFixture, replay: ReplayFixture) -> None:
    provider = scripted(
        [think("Hm."), say("Let me", " see."), call("get_time", zone="UTC"), usage(1, 2)],
        lambda request: [refuse("No."), finish("length"), fail("overloaded")],
        then="Still here.",
        provider="kimi:kimi-k2.6",
        max_retries=2,
    )
    assert_type(provider, ScriptedProvider)
    assert_type(provider.requests[0], SentRequest)
    assert_type(provider.requests[0].tools, tuple[Tool, ...])
    assert_type(replay("kimi/parallel_calls", cuts="bytes:1", faults=[status(429)]), ProviderDouble)
    assert_type(ReplayProvider(Path("fixtures/kimi/parallel_calls"), provider={"dialect": "kimi"}), ReplayProvider)
    assert_type(await ScriptedProvider("Hello.").chat("Hi"), Reply)


def test_an_adapter(body: bytes) -> None:
    assert_type(assert_any_cut(body, adapter="chat", tools=[get_time]), Reply)
    assert_type(assert_any_text_cut("<think>Hm.</think>", dialect="think"), Reply)
    assert_type(assert_recording("fixtures/acme/case", splits=50), Reply | StreamError)
