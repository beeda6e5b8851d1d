"""The tool loop with tools that the provider runs: pauses, approvals, custom tools, files; one program on three APIs.

The servers are made up after the documentation of each API.
"""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from streamfold import (
    CodeExecution,
    ConfigError,
    CustomTool,
    GeneratedFile,
    HostedMcpServer,
    HostedTool,
    IncompleteStreamError,
    Message,
    ProtocolError,
    Provider,
    ToolCall,
    WebSearch,
    run_tools,
    tool_result,
    user,
)
from tables import each_row

pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")


class Script:
    """A server that answers with these lists of events, and remembers what it was asked."""

    def __init__(self, *turns: list[dict[str, Any]]) -> None:
        self.turns = list(turns)
        self.bodies: list[dict[str, Any]] = []

    def provider(self, profile: str, model: str) -> Provider:
        client = httpx.AsyncClient(transport=httpx.MockTransport(self._answer))
        config = {"base_url": "http://test/v1", "api_key": "x", "model": model, "max_retries": 0}
        return Provider.from_config(profile, http_client=client, **config)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.bodies.append(json.loads(request.content))
        events = "".join(f"data: {json.dumps(event)}\n\n" for event in self.turns.pop(0))
        return httpx.Response(200, content=events, headers={"content-type": "text/event-stream"})


def claude(*blocks: dict[str, Any], stop: str = "end_turn", **members: Any) -> list[dict[str, Any]]:
    usage = {"input_tokens": 3, "output_tokens": 1}
    events: list[dict[str, Any]] = [
        {
            "type": "message_start",
            "message": {"id": "msg", "role": "assistant", "content": [], "model": "m", "usage": usage},
        }
    ]
    for at, block in enumerate(blocks):
        events.append({"type": "content_block_start", "index": at, "content_block": block})
        events.append({"type": "content_block_stop", "index": at})
    events.append({"type": "message_delta", "delta": {"stop_reason": stop, **members}, "usage": {"output_tokens": 5}})
    return [*events, {"type": "message_stop"}]


def openai(*items: dict[str, Any]) -> list[dict[str, Any]]:
    response = {"id": "r", "object": "response", "status": "completed", "model": "m", "output": list(items)}
    done = [{"type": "response.output_item.done", "output_index": at, "item": item} for at, item in enumerate(items)]
    return [*done, {"type": "response.completed", "response": response}]


def gemini(*parts: dict[str, Any], **candidate: Any) -> list[dict[str, Any]]:
    content = {"role": "model", "parts": list(parts)}
    return [{"candidates": [{"content": content, "finishReason": "STOP", **candidate}], "modelVersion": "m"}]


def said(text: str, *annotations: dict[str, Any]) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": list(annotations)}
    return {"type": "message", "id": "msg", "role": "assistant", "status": "completed", "content": [part]}


# --- pauses -----------------------------------------------------------------------------------------------------------

SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}


async def test_a_pause_is_no_end() -> None:
    """The turn goes back as it is, last, and the model goes on with it. It is one turn, also in the history."""
    paused = [{"type": "text", "text": "Let me look. "}, SEARCH]
    rest = {"type": "text", "text": "It is 3."}
    script = Script(claude(*paused, stop="pause_turn"), claude(rest))
    run = run_tools(script.provider("anthropic", "claude-opus-4-8"), "q", [WebSearch()], max_turns=1)
    reply = await run
    assert reply.text == "Let me look. It is 3."
    assert [part.kind for part in reply.hosted] == ["web_search"]
    assert script.bodies[1]["messages"][1:] == [{"role": "assistant", "content": paused}]
    assert [message.role for message in run.messages] == ["user", "assistant"]
    assert run.messages[1].extras["blocks"] == [*paused, rest]
    assert reply.usage is not None
    assert reply.usage.tools == {"web_search": 1}


async def test_a_model_that_only_pauses() -> None:
    """The limit is that of the answer; the run ends with its error, or without continuations with its first part."""
    script = Script(*[claude(SEARCH, stop="pause_turn")] * 9)
    with pytest.raises(IncompleteStreamError, match="max_continuations"):
        await run_tools(script.provider("anthropic", "claude-opus-4-8"), "q", [WebSearch()])
    assert len(script.bodies) == 9
    script = Script(claude(SEARCH, stop="pause_turn"))
    run = run_tools(script.provider("anthropic", "claude-opus-4-8"), "q", [WebSearch()], max_continuations=0)
    reply = await run
    assert (len(script.bodies), reply.paused, reply.raw_finish_reason) == (1, True, "pause_turn")


# --- approvals --------------------------------------------------------------------------------------------------------

ASKED = {"type": "mcp_approval_request", "id": "mcpr_1", "name": "drop", "server_label": "db", "arguments": '{"t":1}'}
SERVER = HostedMcpServer("db", "https://db.test/mcp", require_approval="always")


@pytest.mark.parametrize("approve", [True, False])
async def test_the_program_answers_for_the_provider(approve: bool) -> None:
    """`approve` decides; the answer goes back in its own form, behind the request as it came."""
    seen: list[ToolCall] = []

    async def decide(call: ToolCall) -> bool:
        seen.append(call)
        return approve

    script = Script(openai(ASKED), openai(said("Done.")))
    reply = await run_tools(script.provider("openai-responses", "gpt-5.4"), "q", [SERVER], approve=decide)
    assert reply.text == "Done."
    assert [(call.kind, call.name, call.arguments, call.extra) for call in seen] == [
        ("approval", "drop", {"t": 1}, {"server": "db"})
    ]
    request, answer = script.bodies[1]["input"][1:]
    assert request == ASKED
    wanted = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": approve}
    assert {name: answer[name] for name in wanted} == wanted


async def test_without_a_function_the_run_pauses_for_an_approval() -> None:
    """As for a tool of the program that needs one."""
    script = Script(openai(ASKED), openai(said("Done.")))
    async with run_tools(script.provider("openai-responses", "gpt-5.4"), "q", [SERVER]) as run:
        assert [chunk async for chunk in run]
        assert [(pending.call.id, pending.waits_for) for pending in run.pending] == [("mcpr_1", "approval")]
        run.approve("mcpr_1")
        assert [chunk async for chunk in run]
    assert script.bodies[1]["input"][-1]["approve"] is True


def test_an_approval_is_answered_in_words_too() -> None:
    """Words that agree are an approval; any others are the reason of a refusal, as is an error."""
    provider = Script().provider("openai-responses", "gpt-5.4")
    call = ToolCall("mcpr_1", "drop", {"t": 1}, '{"t":1}', kind="approval")
    turn = Message("assistant", tool_calls=(call,), extras={"output": [ASKED]})
    said: list[tuple[Any, dict[str, Any]]] = [
        (True, {"approve": True}),
        (False, {"approve": False}),
        ("yes", {"approve": True}),
        ("not today", {"approve": False, "reason": "not today"}),
        ({"approve": False, "reason": "no"}, {"approve": False, "reason": "no"}),
    ]
    for content, wanted in said:
        sent = provider.preview([user("q"), turn, tool_result(call, content)], [SERVER]).json()["input"]
        assert sent[1:] == [ASKED, {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", **wanted}]
    unanswered = provider.preview([user("q"), turn, user("go on")], [SERVER], repair_history=True).json()["input"]
    assert (unanswered[1], unanswered[2]["approve"]) == (ASKED, False)


# --- what the program runs --------------------------------------------------------------------------------------------


async def test_custom_tools_and_shells_run_here() -> None:
    """A custom tool gets its text, another tool the call; results go back in the form of each."""
    sql = {"type": "custom_tool_call", "id": "c", "call_id": "c", "name": "sql", "input": "select 1"}
    shell = {"type": "shell_call", "id": "s", "call_id": "s", "action": {"commands": ["ls"], "max_output_length": 9}}
    script = Script(openai(sql, shell), openai(said("Done.")))

    async def query(text: str) -> str:
        return f"ran {text}"

    def run(call: ToolCall) -> str:
        return " ".join(call.arguments["commands"])

    tools = [CustomTool("sql", function=query), HostedTool({"type": "shell"}, function=run)]
    await run_tools(script.provider("openai-responses", "gpt-5.4"), "q", tools)
    assert script.bodies[1]["input"][1:] == [
        sql,
        shell,
        {"type": "custom_tool_call_output", "call_id": "c", "output": "ran select 1"},
        {
            "type": "shell_call_output",
            "call_id": "s",
            "output": [{"stdout": "ls", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
            "max_output_length": 9,
        },
    ]


def test_a_custom_tool_needs_a_function_to_run() -> None:
    """Or somebody else who runs it."""
    provider = Script().provider("openai-responses", "gpt-5.4")
    with pytest.raises(ConfigError, match="has no function to run"):
        run_tools(provider, "q", [CustomTool("sql")])
    run_tools(provider, "q", [], external=[CustomTool("sql")])


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "file", "path"),
    [
        ("openai-responses", GeneratedFile(file_id="cfile_1", container_id="cntr_1"),
         "/v1/containers/cntr_1/files/cfile_1/content"),
        ("anthropic", GeneratedFile(file_id="file_1"), "/v1/files/file_1/content"),
    ],
)  # fmt: skip
async def test_a_file_is_fetched_when_somebody_asks(profile: str, file: GeneratedFile, path: str) -> None:
    """From where its provider keeps it, with its key; not more than a limit."""
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, content=b"a,b")

    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    config: dict[str, Any] = {"base_url": "http://test/v1", "api_key": "x", "model": "m"}
    async with Provider.from_config(profile, http_client=client, **config) as provider:
        assert await provider.fetch_file(file) == b"a,b"
        with pytest.raises(ProtocolError, match="larger than 2 bytes"):
            await provider.fetch_file(file, max_bytes=2)
        assert await provider.fetch_file(GeneratedFile(data=b"x")) == b"x"
        with pytest.raises(ConfigError, match="has no file_id"):
            await provider.fetch_file(GeneratedFile(url="https://a.test/b"))
    assert {(request.method, request.url.path) for request in asked} == {("GET", path)}
    if profile == "anthropic":
        assert asked[0].headers["anthropic-beta"] == "files-api-2025-04-14"


# --- one program ------------------------------------------------------------------------------------------------------


def get_weather(city: str) -> str:
    """Returns the weather."""
    return f"18 degrees in {city}"


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


async def program(provider: Provider) -> dict[str, Any]:
    """Searches, calculates, and calls two functions of its own. It knows nothing of the API."""
    shown: list[str] = []
    async with run_tools(provider, "Weather?", [get_weather, WebSearch(), CodeExecution(), add]) as run:
        async for chunk in run:
            shown += [part.kind for part in chunk.hosted]
    text = run.reply.text
    return {
        "text": text,
        "cited": [(one.title, text[one.start : one.end]) for one in run.reply.citations],
        "tools": [part.kind for reply in run.replies for part in reply.hosted if part.part in ("call", "both")],
        "calls": [call.name for reply in run.replies for call in reply.tool_calls],
        "shown": sorted(set(shown)),
    }


TEXT = "In Oslø it is 18°."
CALLED = [("get_weather", {"city": "Oslo"}), ("add", {"a": 1, "b": 2})]
RESULT = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
CODE = {"type": "server_tool_use", "id": "srvtoolu_2", "name": "code_execution", "input": {"code": "1"}}
RAN = {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_2", "content": {"type": "code_execution_result"}}
CITED = {"type": "web_search_result_location", "url": "https://met.no", "title": "Met", "cited_text": "18"}
SERVERS: dict[str, tuple[str, list[list[dict[str, Any]]]]] = {
    "anthropic": (
        "claude-sonnet-5",
        [
            claude(
                SEARCH, RESULT, CODE, RAN,
                *({"type": "tool_use", "id": name, "name": name, "input": given} for name, given in CALLED),
                stop="tool_use", container={"id": "cont_1"},
            ),
            claude({"type": "text", "text": "In "}, {"type": "text", "text": TEXT[3:], "citations": [CITED]}),
        ],
    ),
    "openai-responses": (
        "gpt-5.4",
        [
            openai(
                {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search"}},
                {"type": "code_interpreter_call", "id": "ci", "status": "completed", "code": "1", "container_id": "c"},
                *({"type": "function_call", "id": f"fc_{name}", "call_id": name, "name": name, "status": "completed",
                   "arguments": json.dumps(given)} for name, given in CALLED),
            ),
            openai(said(TEXT, {"type": "url_citation", "url": "https://met.no", "title": "Met", "start_index": 3,
                               "end_index": len(TEXT)})),
        ],
    ),
    "gemini": (
        "gemini-3-pro-preview",
        [
            gemini(
                {"toolCall": {"id": "s", "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["x"]}}},
                {"toolResponse": {"id": "s", "toolType": "GOOGLE_SEARCH_WEB", "response": {}}},
                {"executableCode": {"language": "PYTHON", "code": "1"}},
                {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
                *({"functionCall": {"name": name, "args": args}, "thoughtSignature": "c2ln"} for name, args in CALLED),
            ),
            gemini({"text": TEXT}, groundingMetadata={
                "groundingChunks": [{"web": {"uri": "https://met.no", "title": "Met"}}],
                "groundingSupports": [{"segment": {"startIndex": 3, "endIndex": len(TEXT.encode())},
                                       "groundingChunkIndices": [0]}],
            }),
        ],
    ),
}  # fmt: skip


@each_row("profile", SERVERS)
async def test_one_program_on_three_apis(profile: str) -> None:
    """The provider is one line of configuration; what the program sees is the same."""
    model, turns = SERVERS[profile]
    script = Script(*turns)
    assert await program(script.provider(profile, model)) == {
        "text": TEXT,
        "cited": [("Met", TEXT[3:])],
        "tools": ["web_search", "code_execution"],
        "calls": ["get_weather", "add"],
        "shown": ["code_execution", "web_search"],
    }
    first, second = script.bodies
    sent = json.dumps(second, ensure_ascii=False)
    assert "18 degrees in Oslo" in sent
    if profile == "anthropic":
        assert second["container"] == "cont_1"
        assert second["messages"][1]["content"][:4] == [SEARCH, RESULT, CODE, RAN]
    if profile == "openai-responses":
        assert [item["type"] for item in second["input"][1:3]] == ["web_search_call", "code_interpreter_call"]
    if profile == "gemini":
        assert all(body["toolConfig"] == {"includeServerSideToolInvocations": True} for body in (first, second))
        assert [next(iter(part)) for part in second["contents"][1]["parts"]][:4] == [
            "toolCall", "toolResponse", "executableCode", "codeExecutionResult",
        ]  # fmt: skip
