"""Conversations that the provider compacts: on request, or by itself from a number of tokens on."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import corpus
import streamfold.sync
from scale import examples
from streamfold import (
    BadRequestError,
    Compaction,
    ConfigError,
    Hooks,
    Message,
    Provider,
    Reply,
    StreamDecoder,
    Tool,
    ToolCall,
    UpstreamError,
    assistant,
    system,
    tool_result,
    trim_history,
    user,
)
from tables import each_row

CALL = ToolCall("c1", "look", {"at": "x"}, '{"at":"x"}')
LOOK = Tool("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}})
TALK = [
    system("Be brief."),
    user("Look."),
    Message("assistant", None, (CALL,)),
    tool_result(CALL, "A cat."),
    assistant("There is a cat. "),
]
SPECS = {"responses": "openai-responses:gpt-5.6", "anthropic": "anthropic:claude-opus-4-8"}
PRICES = {"input": 2, "output": 10}
SAID = {
    "id": "msg_1", "type": "message", "status": "completed", "role": "user",
    "content": [{"type": "input_text", "text": "Look."}],
}  # fmt: skip
OPAQUE = {"id": "cmp_1", "type": "compaction", "encrypted_content": "gAAA"}
SUMMARY = {"type": "compaction", "content": "A cat was seen.", "signature": "EuYB", "tool_changes": []}


def compacted_by_openai(*items: Any, **more: Any) -> bytes:
    counts = {"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100}
    said = {"id": "resp_1", "object": "response.compaction", "created_at": 1, "output": items, "usage": counts}
    return json.dumps({**said, **more}).encode()


def compacted_by_claude(*blocks: Any, stop_reason: str = "compaction") -> bytes:
    """As the API streams it: the block comes whole, and the tokens of the summary are in no top-level count."""
    step = {"type": "compaction", "input_tokens": 1000, "output_tokens": 100}
    usage = {"input_tokens": 0, "output_tokens": 0}
    begun = {"id": "msg_1", "role": "assistant", "content": [], "model": "claude-opus-4-8", "usage": usage}
    events: list[Any] = [{"type": "message_start", "message": begun}]
    for index, block in enumerate(blocks):
        events += [
            {"type": "content_block_start", "index": index, "content_block": block},
            {"type": "ping"},
            {"type": "content_block_stop", "index": index},
        ]
    delta = {"stop_reason": stop_reason}
    events += [{"type": "message_delta", "delta": delta, "usage": {**usage, "iterations": [step]}}]
    lines = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in [*events, {"type": "message_stop"}]]
    return "".join(lines).encode()


BODIES = {"responses": compacted_by_openai(SAID, OPAQUE), "anthropic": compacted_by_claude(SUMMARY)}


class Server:
    """Answers each request with the next body, the last one again and again."""

    def __init__(self, *bodies: bytes, status: int = 200) -> None:
        self.requests: list[httpx.Request] = []
        self._bodies = [*bodies]
        self._status = status

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        body = self._bodies.pop(0) if len(self._bodies) > 1 else self._bodies[0]
        kind = "application/json" if body[:1] == b"{" else "text/event-stream"
        return httpx.Response(self._status, content=body, headers={"content-type": kind})

    @property
    def last(self) -> Any:
        return json.loads(self.requests[-1].content)

    def provider(self, spec: str, **settings: Any) -> Provider:
        client = httpx.AsyncClient(transport=httpx.MockTransport(self))
        return Provider.from_config(spec, api_key="k", http_client=client, prices=PRICES, **settings)


async def compacted(api: str, body: bytes, **options: Any) -> tuple[Compaction, Server, Provider]:
    server = Server(body)
    provider = server.provider(SPECS[api])
    return await provider.compact(TALK, [LOOK], **options), server, provider


# --- on request -------------------------------------------------------------------------------------------------------


async def test_openai_compacts() -> None:
    """The conversation goes to its own address; what comes back is the next input, item by item, and no answer."""
    found, server, provider = await compacted("responses", BODIES["responses"], reasoning_effort="low", stop="x")
    assert server.requests[-1].url.path == "/v1/responses/compact"
    assert sorted(server.last) == ["input", "instructions", "model"]
    assert server.last["instructions"] == "Be brief."
    kinds = [item["type"] for item in server.last["input"]]
    assert kinds == ["message", "function_call", "function_call_output", "message"]
    assert (found.reply.text, found.reply.tool_calls, found.summary) == ("", [], None)
    sent = provider.preview([*found.messages, user("And now?")])
    assert sent.json()["input"] == [
        {"type": "message", "role": "system", "content": "Be brief."},
        SAID,
        OPAQUE,
        {"type": "message", "role": "user", "content": "And now?"},
    ]
    assert sent.warnings == ()


async def test_claude_compacts() -> None:
    """The request is one for an answer, without what the API refuses; its block goes back first, and unchanged."""
    options: Any = {"reasoning_effort": "low", "stop": "x", "response_format": Reply, "compact_threshold": 90_000}
    found, server, provider = await compacted("anthropic", BODIES["anthropic"], **options)
    body = server.last
    assert server.requests[-1].headers["anthropic-beta"] == "compact-2026-09-04"
    assert body["compaction"] == {"type": "summarize"}
    assert body["output_config"] == {"effort": "low"}
    assert not body.keys() & {"stop_sequences", "context_management", "tool_choice"}
    assert body["messages"][-1]["content"] == [{"type": "text", "text": "There is a cat. "}]  # as it was said
    assert [tool["name"] for tool in body["tools"]] == ["look"]
    assert found.summary == "A cat was seen."
    sent = provider.preview([*found.messages, user("And now?")], [LOOK])
    assert [message["content"] for message in sent.json()["messages"]] == [
        [SUMMARY],
        [{"type": "text", "text": "And now?"}],
    ]
    assert sent.headers["anthropic-beta"] == "compact-2026-09-04"
    assert sent.warnings == ()


@each_row("api", SPECS)
async def test_what_a_compaction_costs(api: str) -> None:
    """It is billed as the request that it is: in the reply, for hooks, and in sums of several replies."""
    ended: list[Reply] = []
    server = Server(BODIES[api])
    provider = server.provider(SPECS[api], hooks=Hooks(on_finish=lambda info, reply: ended.append(reply)))
    reply = (await provider.compact(TALK, [LOOK])).reply
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (1000, 100)
    assert reply.cost is not None
    assert reply.cost.amount == Decimal("0.003")
    assert [each.cost for each in ended] == [reply.cost]
    assert [(part.kind, part.part) for part in reply.hosted] == [("compaction", "state")]


async def test_compacted_again() -> None:
    """The newest compaction stands for all: with what came before it, and with what was said since."""
    second = {**SUMMARY, "content": "Two cats.", "signature": "Ex2"}
    server = Server(compacted_by_claude(SUMMARY), compacted_by_claude(second))
    provider = server.provider(SPECS["anthropic"])
    first = await provider.compact(TALK, [LOOK])
    talk = [*first.messages, user("Again."), assistant("Two.")]
    found = await provider.compact(talk, [LOOK])
    assert server.last["messages"][0]["content"][0] == SUMMARY
    for history in (found.messages, [*talk, *found.messages[1:]]):  # in the place of the others, or behind them
        sent = provider.preview([*history, user("Go on.")], [LOOK]).json()["messages"]
        assert [message["content"][0] for message in sent] == [second, {"type": "text", "text": "Go on."}]


@each_row(
    ("api", "body", "why"),
    [
        ("anthropic", compacted_by_claude({"type": "text", "text": ""}, stop_reason="end_turn"), "'end_turn'"),
        ("anthropic", compacted_by_claude(stop_reason="max_tokens"), "'max_tokens'"),
        ("anthropic", compacted_by_claude(stop_reason="refusal"), "'refusal'"),
        ("anthropic", compacted_by_claude({"type": "compaction", "content": None}), "no summary"),
        ("responses", compacted_by_openai(SAID), "no item of the type compaction"),
    ],
)
async def test_an_answer_without_a_compaction(api: str, body: bytes, why: str) -> None:
    """It is an error that says so and has what was billed: the conversation can go on as it is."""
    with pytest.raises(UpstreamError, match=f"did not compact the conversation: .*{why}") as caught:
        await compacted(api, body)
    assert caught.value.partial is not None
    assert caught.value.partial.usage is not None
    assert caught.value.partial.usage.input_tokens == 1000


async def test_a_refusal() -> None:
    """What the server says against a compaction is raised as for any request."""
    refusal = {"type": "error", "error": {"type": "invalid_request_error", "message": "nothing to summarize"}}
    provider = Server(json.dumps(refusal).encode(), status=400).provider(SPECS["anthropic"])
    with pytest.raises(BadRequestError, match="nothing to summarize"):
        await provider.compact(TALK, [LOOK])


@each_row("adapter", ["chat", "kimi", "gemini", "interactions"])
async def test_an_api_without_compactions(adapter: str) -> None:
    """The error says which ones have them; nothing is sent."""
    provider = Provider.from_config({"base_url": "http://127.0.0.1:9/v1", "adapter": adapter, "model": "m"})
    with pytest.raises(ConfigError, match=r"can't compact a conversation\. Adapters that can: anthropic, responses"):
        await provider.compact("Hi")


@pytest.mark.one_loop
async def test_without_an_event_loop() -> None:
    """The synchronous provider does the same."""
    server = Server(BODIES["anthropic"])
    with streamfold.sync.Provider(server.provider(SPECS["anthropic"])) as provider:
        assert provider.compact(TALK, [LOOK]).summary == "A cat was seen."


# --- at other providers -----------------------------------------------------------------------------------------------

OTHERS = [{"adapter": "chat"}, {"adapter": "gemini"}, {"adapter": "responses"}, {"adapter": "anthropic"}]


@each_row("other", OTHERS)
async def test_a_summary_is_read_everywhere(other: dict[str, Any]) -> None:
    """Where Claude's block can't be sent, its text is: the model knows what was said, and a warning says how."""
    found, _, _ = await compacted("anthropic", BODIES["anthropic"])
    provider = Provider.from_config({"base_url": "http://other.test/v1", "model": "m", "api_key": "k", **other})
    sent = provider.preview([*found.messages, user("And now?")])
    assert b"A cat was seen." in sent.body
    assert b"EuYB" not in sent.body
    assert [warning.code for warning in sent.warnings] == ["provider_data_dropped"]


@each_row("other", OTHERS)
async def test_what_only_its_provider_can_read_is_sent_nowhere_else(other: dict[str, Any]) -> None:
    """Without it the model would answer to another conversation, so that this is an error."""
    found, _, _ = await compacted("responses", BODIES["responses"])
    provider = Provider.from_config({"base_url": "http://other.test/v1", "model": "m", "api_key": "k", **other})
    with pytest.raises(ConfigError, match=r"messages\[2\] is a compaction, and only the provider that created it"):
        provider.preview([*found.messages, user("And now?")])


# --- whatever there is in it ------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=30)


def said_by_user(text: str, number: int) -> dict[str, Any]:
    return {**SAID, "id": f"msg_{number}", "content": [{"type": "input_text", "text": text or "."}]}


def compaction_of(text: str) -> dict[str, Any]:
    return {"type": "compaction", "encrypted_content": text, "id": "cmp_0"}


ITEMS = st.builds(said_by_user, TEXTS, st.integers(0, 99)) | st.builds(compaction_of, TEXTS.filter(bool))
BLOCKS = st.fixed_dictionaries(
    {"type": st.just("compaction"), "content": TEXTS.filter(bool), "signature": TEXTS.filter(bool)},
    optional={"encrypted_content": st.none() | TEXTS, "tool_changes": st.just([])},
)


def run_sync(body: bytes, spec: str) -> tuple[Compaction, Callable[..., Any]]:
    provider = Server(body).provider(spec)
    with streamfold.sync.Provider(provider) as sync:
        return sync.compact(TALK, [LOOK]), provider.preview


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(ITEMS, max_size=5))
def test_every_item_goes_back(items: list[dict[str, Any]]) -> None:
    """Whatever OpenAI makes of a conversation, the next input begins with it: each item once, in order, unchanged."""
    found, preview = run_sync(compacted_by_openai(*items, OPAQUE), SPECS["responses"])
    sent = preview([*found.messages, user("And now?")])
    assert sent.json()["input"][1:-1] == [*items, OPAQUE]
    assert sent.warnings == ()


@settings(max_examples=examples(200), deadline=None)
@given(BLOCKS)
def test_every_block_goes_back(block: dict[str, Any]) -> None:
    """Whatever Claude writes, the block is the first of the next request, member by member."""
    found, preview = run_sync(compacted_by_claude(block), SPECS["anthropic"])
    [first, *_] = preview([*found.messages, user("And now?")]).json()["messages"]
    assert first == {"role": "assistant", "content": [block]}


# --- from a number of tokens on ---------------------------------------------------------------------------------------


@each_row(
    ("spec", "threshold", "member", "codes"),
    [
        ("openai-responses:gpt-5.6", 1000, [{"type": "compaction", "compact_threshold": 1000}], []),
        ("anthropic:claude-opus-4-8", 90_000, 90_000, []),
        ("anthropic:claude-opus-4-8", 1000, 50_000, ["option_changed"]),  # the smallest that Anthropic takes
        ("openai:gpt-4.1", 1000, None, ["option_dropped"]),
        ("kimi:kimi-k2.6", 1000, None, ["option_dropped"]),
        ("gemini:gemini-3-flash-preview", 1000, None, ["option_dropped"]),
        ("gemini-interactions:gemini-3-flash-preview", 1000, None, ["option_dropped"]),
    ],
)
def test_one_option_for_all(spec: str, threshold: int, member: Any, codes: list[str]) -> None:
    """Each API is told in its own words; one without compactions answers all the same, with a warning."""
    provider = Provider.from_config(spec, api_key="k")
    sent = provider.preview(TALK[:2], compact_threshold=threshold)
    if isinstance(member, int):
        edit = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": member}}
        member = {"edits": [edit]}
        assert sent.headers["anthropic-beta"] == "compact-2026-01-12"
    assert sent.json().get("context_management") == member
    assert [warning.code for warning in sent.warnings] == codes
    if codes:
        with pytest.raises(ConfigError, match="compact_threshold"):
            provider.preview(TALK[:2], compact_threshold=threshold, unsupported_options="strict")


@each_row("value", [0, -1, True, 1.5, "9"])
def test_a_threshold_is_a_number(value: Any) -> None:
    """Anything else is an error before anything is sent."""
    with pytest.raises(ConfigError, match="compact_threshold must be a whole number greater than 0"):
        Provider.from_config("anthropic:claude-opus-4-8", api_key="k").preview("Hi", compact_threshold=value)


async def test_a_compaction_inside_an_answer() -> None:
    """It is a step of the reply, it is billed, and it goes back in its place; what came before goes on being sent."""
    block = {"type": "compaction", "content": "So far.", "encrypted_content": "b3A="}
    server = Server(compacted_by_claude(block, {"type": "text", "text": "Yes."}, stop_reason="end_turn"))
    provider = server.provider(SPECS["anthropic"])
    reply = await provider.chat([*TALK, user("Is it?")], [LOOK], compact_threshold=90_000)
    assert reply.text == "Yes."
    assert [(part.kind, part.raw["content"]) for part in reply.hosted] == [("compaction", "So far.")]
    assert reply.cost is not None
    assert reply.cost.amount == Decimal("0.003")
    sent = provider.preview([*TALK, user("Is it?"), reply.message, user("Sure?")], [LOOK])
    assert [message["role"] for message in sent.json()["messages"]] == ["user", "assistant"] * 3 + ["user"]
    assert sent.json()["messages"][-2]["content"] == [block, {"type": "text", "text": "Yes."}]
    assert sent.headers["anthropic-beta"] == "compact-2026-01-12"  # or the API would not know the block


@each_row("name", corpus.names("corpus/*/*compact*.sse"))
def test_recorded_compactions(name: str) -> None:
    """Each stream of a provider that compacted: a step of the reply, its tokens counted, and sent back unchanged."""
    api = "anthropic" if "anthropic" in name.split("/")[1] else "responses"
    decoder = StreamDecoder(api)
    decoder.feed(corpus.body(name))
    decoder.close()
    reply = decoder.reply
    found = [part.raw for part in reply.hosted if part.kind == "compaction"]
    assert len(found) == 1
    assert reply.usage is not None
    assert reply.usage.input_tokens
    sent = Provider.from_config(SPECS[api], api_key="k").preview([user("Hi"), reply.message, user("And now?")])
    assert sent.warnings == ()
    listed = sent.json()["messages"][1]["content"] if api == "anthropic" else sent.json()["input"]
    back = [each for each in listed if each["type"] == "compaction"]
    output_only = ("status", "created_by")  # which the Responses API refuses in its input
    assert back == [{name: value for name, value in each.items() if name not in output_only} for each in found]


async def test_a_server_that_refuses_a_threshold() -> None:
    """The request is repeated without it, with a warning: the answer is the same."""
    refusal = {"error": {"message": "Unknown parameter: 'context_management'.", "param": "context_management",
                         "code": "unknown_parameter", "type": "invalid_request_error"}}  # fmt: skip
    done = {"id": "r", "object": "response", "status": "completed", "output": [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}]}  # fmt: skip
    requests: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(json.loads(request.content))
        refused = "context_management" in requests[-1]
        return httpx.Response(400 if refused else 200, json=refusal if refused else done)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        provider = Provider.from_config({"base_url": "http://a.test/v1", "adapter": "responses", "model": "m"},
                                        http_client=client)  # fmt: skip
        reply = await provider.chat("Hi", compact_threshold=1000)
    assert (reply.text, len(requests)) == ("Hi", 2)
    assert [warning.code for warning in reply.warnings] == ["option_dropped"]


# --- conversations that are cut ---------------------------------------------------------------------------------------


async def test_a_compaction_is_not_trimmed() -> None:
    """It stands for all that came before: older turns go first, then newer ones, and it stays."""
    found, _, _ = await compacted("anthropic", BODIES["anthropic"])
    history = [*found.messages, *(each for n in range(9) for each in (user(f"{n}" * 400), assistant("x" * 400)))]
    history.append(user("last"))
    left = await trim_history(history, 400)
    assert left[:2] == found.messages
    assert 3 <= len(left) < len(history)
    assert await trim_history(history, 1) == [*found.messages, history[-1]]
