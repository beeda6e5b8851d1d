"""The Responses API over WebSockets: one connection a conversation, and nothing else is different."""

from __future__ import annotations

import json
import ssl
import sys
import traceback
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

import corpus
from servers import certificate
from sockets import (
    SocketPeer,
    SocketServer,
    answers,
    call_item,
    error_event,
    events_of,
    message_item,
    reasoning_item,
    serving_sockets,
)
from streamfold import (
    APIConnectionError,
    APIError,
    APIStatusError,
    APITimeoutError,
    AuthenticationError,
    BadRequestError,
    ChatStream,
    ConfigError,
    ContextLengthError,
    Conversation,
    IncompleteStreamError,
    ModelNotFoundError,
    PermissionDeniedError,
    ProtocolError,
    Provider,
    RateLimitError,
    Reply,
    ServerError,
    StreamChunk,
    StreamDecoder,
    StreamError,
    UpstreamError,
    assistant,
    tool_result,
    user,
)
from streamfold.net import make_client
from streamfold.net.websocket_transport import WebSocketTransport
from streamfold.recording import ReplayTransport, recording_client
from tables import each_row

HI = events_of("resp_1", message_item("Hi"))
BYE = events_of("resp_2", message_item("Bye"))
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def two_turns(provider: Provider, **options: Any) -> Reply:
    """Two turns of one conversation."""
    messages: list[Any] = [user("Hello")]
    reply = await provider.chat(messages, **options)
    return await provider.chat([*messages, reply.message, user("Bye")], **options)


def whole(sent: dict[str, Any]) -> bool:
    """Whether a message has the whole conversation of `two_turns`."""
    return "previous_response_id" not in sent and len(sent["input"]) == 3


# --- a conversation --------------------------------------------------------------------------------------------------


async def test_a_request_is_one_message() -> None:
    """The body of a request is sent as `response.create`, without what only HTTP has."""
    async with serving_sockets(answers(HI)) as server, server.provider() as provider:
        stream = provider.chat_stream([user("Hello")])
        assert "".join([chunk.delta async for chunk in stream]) == "Hi"
        assert (stream.reply.id, stream.reply.finish_reason, stream.reply.warnings) == ("resp_1", "stop", [])
        [sent] = server.created
        assert sent["type"] == "response.create"
        assert not sent.keys() & {"stream", "stream_options", "background"}
        assert (sent["model"], sent["store"]) == ("m", False)
        [head] = server.heads
        assert (head.path, head.headers["authorization"]) == ("/v1/responses", "Bearer sk-secret")


async def test_a_conversation_has_one_connection_and_sends_what_is_new() -> None:
    """A turn that continues the newest response names it, and sends the new items alone."""
    turns = [
        events_of("resp_1", reasoning_item("hm"), call_item("call_1", "add", '{"a":1}')),
        events_of("resp_2", message_item("Two")),
        events_of("resp_3", message_item("Bye")),
    ]
    async with serving_sockets(answers(*turns)) as server, server.provider() as provider:
        messages: list[Any] = [user("1 + 1?")]
        reply = await provider.chat(messages, TOOLS)
        messages += [reply.message, tool_result(reply.tool_calls[0], "2")]
        reply = await provider.chat(messages, TOOLS)
        messages += [reply.message, user("Bye")]
        reply = await provider.chat(messages, TOOLS)
        assert reply.text == "Bye"
        first, second, third = server.created
        assert {each["_connection"] for each in server.created} == {0}
        assert "previous_response_id" not in first
        assert second["previous_response_id"] == "resp_1"
        assert [item["type"] for item in second["input"]] == ["function_call_output"]
        assert third["previous_response_id"] == "resp_2"
        assert [item["content"] for item in third["input"]] == ["Bye"]
        assert second["tools"] == first["tools"]
    await server.all_closed()


CHANGES = {
    "another answer": lambda reply: [user("Hello"), assistant("Hello!"), user("Bye")],
    "another question": lambda reply: [user("Hallo"), reply.message, user("Bye")],
    "a turn less": lambda reply: [user("Hello")],
    "the same again": lambda reply: [user("Hello"), reply.message],
}


@each_row("change, history", CHANGES.items(), ids=[*CHANGES])
async def test_a_history_that_was_changed_is_sent_whole(change: str, history: Any) -> None:
    """Only what the server remembers is left out: every item of the conversation must be the same."""
    async with serving_sockets(answers(HI, BYE)) as server, server.provider() as provider:
        messages = history(await provider.chat([user("Hello")]))
        assert (await provider.chat(messages)).text == "Bye"
        second = server.created[1]
        assert "previous_response_id" not in second
        assert len(second["input"]) == len(messages)


async def test_conversations_in_parallel_have_a_connection_each() -> None:
    """Two conversations of one provider never share a connection, and each continues on its own."""
    turns = [events_of(f"resp_{number}", message_item(f"answer {number}")) for number in range(6)]
    async with serving_sockets(answers(*turns)) as server, server.provider() as provider:
        histories: list[list[Any]] = [[user("A")], [user("B")]]
        for _ in range(3):
            async with anyio.create_task_group() as tasks:
                for history in histories:
                    tasks.start_soon(one_more_turn, provider, history)
        assert len(server.heads) == 2
        seen: dict[int, set[str]] = {0: set(), 1: set()}
        for sent in server.created:
            said = json.dumps(sent["input"])
            seen[sent["_connection"]] |= {name for name in "AB" if f'"{name}' in said}
            assert len(sent["input"]) == 1
        assert sorted(map(sorted, seen.values())) == [["A"], ["B"]]


async def one_more_turn(provider: Provider, history: list[Any]) -> None:
    reply = await provider.chat(history)
    history += [reply.message, user(history[0].content)]


async def test_a_branch_of_a_busy_conversation_gets_its_own_connection() -> None:
    """Requests on one connection are sequential: a second one from the same place is sent whole on another."""

    async def script(peer: SocketPeer) -> None:
        await peer.accept()
        await peer.create()
        await peer.send(*HI)
        await peer.create()
        while len(server.created) < 3:
            await anyio.sleep(0.005)
        await peer.send(*BYE)
        await peer.gone()

    async with serving_sockets(script) as server, server.provider() as provider:
        messages: list[Any] = [user("Hello")]
        messages += [(await provider.chat(messages)).message]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(provider.chat, [*messages, user("1")])
            tasks.start_soon(provider.chat, [*messages, user("2")])
            with anyio.fail_after(5):
                while len(server.created) < 3:
                    await anyio.sleep(0.005)
            tasks.cancel_scope.cancel()
        _, one, other = server.created
        assert one["_connection"] != other["_connection"]
        assert sorted(len(sent["input"]) for sent in (one, other)) == [1, 3]


async def test_connections_are_never_shared_by_keys() -> None:
    """Only requests with the same address and headers share connections."""
    async with serving_sockets(answers(HI, BYE)) as server, server.provider() as provider:
        messages: list[Any] = [user("Hello")]
        messages += [(await provider.chat(messages)).message, user("Bye")]
        await provider.chat(messages, extra_headers={"Authorization": "Bearer other"})
        assert [head.headers["authorization"] for head in server.heads] == ["Bearer sk-secret", "Bearer other"]
        assert whole(server.created[1])


async def test_a_response_that_the_caller_names_is_continued_where_it_was_made() -> None:
    """`previous_response_id` chooses the connection whose newest response it is."""
    turns = [HI, events_of("resp_b", message_item("B")), BYE]
    async with serving_sockets(answers(*turns)) as server, server.provider() as provider:
        await provider.chat([user("Hello")])
        await provider.chat([user("Another conversation")])
        reply = await provider.chat([user("Bye")], extra_body={"previous_response_id": "resp_1"})
        assert reply.text == "Bye"
        assert [sent["_connection"] for sent in server.created] == [0, 1, 0]
        assert (server.created[2]["previous_response_id"], len(server.created[2]["input"])) == ("resp_1", 1)


async def test_a_stored_conversation_has_one_connection() -> None:
    """Requests that name the same conversation of the provider share its connection."""
    turns = [HI, events_of("resp_b", message_item("B")), BYE]
    async with serving_sockets(answers(*turns)) as server, server.provider() as provider:
        for name in ("conv_1", "conv_2", "conv_1"):
            await provider.chat([user("Hello")], extra_body={"conversation": name})
        assert [sent["_connection"] for sent in server.created] == [0, 1, 0]
        assert [sent["conversation"] for sent in server.created] == ["conv_1", "conv_2", "conv_1"]


async def test_the_option_conversation() -> None:
    """`conversation=` names the response that it continues; if that is forgotten, all is sent with a warning."""
    turns = [HI, BYE, [error_event(400, "previous_response_not_found")], events_of("resp_3", message_item("Again"))]
    quirks = {"conversations": "without_instructions"}
    async with serving_sockets(answers(*turns)) as server, server.provider(quirks=quirks) as provider:
        conversation, messages = Conversation(), [user("Hello")]
        for text in ("Bye", "More"):
            reply = await provider.chat(messages, conversation=conversation)
            messages += [reply.message, user(text)]
        reply = await provider.chat(messages, conversation=conversation)
        assert (reply.text, [warning.code for warning in reply.warnings]) == ("Again", ["conversation_restarted"])
        sent = [(each["_connection"], each.get("previous_response_id"), len(each["input"])) for each in server.created]
        assert sent == [(0, None, 1), (0, "resp_1", 1), (0, "resp_2", 1), (0, None, 5)]


async def test_idle_connections_are_few() -> None:
    """More than 16 conversations take over the connections that were idle longest."""
    turns = [events_of(f"resp_{number}", message_item("x")) for number in range(20)]
    async with serving_sockets(answers(*turns)) as server, server.provider() as provider:
        for number in range(20):
            await provider.chat([user(f"conversation {number}")])
        assert (len(server.heads), server.open) == (16, 16)
        assert [sent["_connection"] for sent in server.created[16:]] == [0, 1, 2, 3]
    await server.all_closed()
    assert server.closes == [1000] * 16


# --- what the server says when it fails -------------------------------------------------------------------------------

ERRORS: list[tuple[dict[str, Any], type[APIError], int | None, bool]] = [
    (error_event(400, "invalid_stream_id"), BadRequestError, 400, False),
    (error_event(400, "websocket_stream_limit_reached"), BadRequestError, 400, False),
    (error_event(400, "previous_response_not_found"), BadRequestError, 400, False),
    (error_event(400, "websocket_connection_limit_reached"), APIStatusError, 400, True),
    (error_event(429, "websocket_connection_limit_reached"), RateLimitError, 429, True),
    (error_event(400, "context_length_exceeded"), ContextLengthError, 400, False),
    (error_event(401, "invalid_api_key"), AuthenticationError, 401, False),
    (error_event(403, "forbidden"), PermissionDeniedError, 403, False),
    (error_event(404, "model_not_found"), ModelNotFoundError, 404, False),
    (error_event(429, "rate_limit_exceeded"), RateLimitError, 429, True),
    (error_event(500, "server_error"), ServerError, 500, True),
    (error_event(503, "server_is_overloaded"), ServerError, 503, True),
    (error_event(None, "server_error"), UpstreamError, None, True),
    (error_event(None, "invalid_stream_id"), UpstreamError, None, False),
    ({"type": "error", "code": "server_error", "message": "no", "param": None}, UpstreamError, None, True),
    ({"type": "error", "status_code": 429, "error": {"message": "no"}}, RateLimitError, 429, True),
]


NAMES = [f"{row[0].get('status')} {(row[0].get('error') or row[0]).get('code')}" for row in ERRORS]


@each_row("event, kind, status, retryable", ERRORS, ids=NAMES)
async def test_each_error_of_the_socket(
    event: dict[str, Any], kind: type[APIError], status: int | None, retryable: bool
) -> None:
    """An error instead of an answer is the exception that the same status has over HTTP."""

    async def script(peer: SocketPeer) -> None:
        await peer.accept()
        while True:
            await peer.create()
            await peer.send(event)

    async with serving_sockets(script) as server, server.provider() as provider:
        with pytest.raises(kind) as raised:
            await provider.chat([user("Hello")])
        said = "no" if status is None else f"no (HTTP {status})"
        assert (raised.value.message, raised.value.retryable) == (said, retryable)
        assert getattr(raised.value, "status_code", None) == status
        assert len(server.created) <= 3


@each_row("event, kind, status, retryable", ERRORS, ids=NAMES)
async def test_each_error_inside_an_answer(
    event: dict[str, Any], kind: type[APIError], status: int | None, retryable: bool
) -> None:
    """An error after the first text ends the answer: its text is in `partial`, and no call is delivered."""
    begun = events_of("resp_1", message_item("Hi"), call_item("call_1", "add", "{}"))[:-1]
    async with serving_sockets(answers([*begun, event])) as server, server.provider() as provider:
        chunks: list[StreamChunk] = []
        with pytest.raises(UpstreamError) as raised:
            await read_into(chunks, provider.chat_stream([user("Hello")], TOOLS))
        assert "".join(chunk.delta for chunk in chunks) == "Hi"
        assert not any(chunk.tool_calls or chunk.finished for chunk in chunks)
        assert raised.value.partial is not None
        assert (raised.value.partial.text, raised.value.partial.tool_calls) == ("Hi", [])
        assert (raised.value.message, raised.value.retryable) == ("no", retryable)


async def read_into(chunks: list[StreamChunk], stream: ChatStream) -> None:
    async for chunk in stream:
        chunks.append(chunk)


async def test_the_headers_of_an_error_are_read() -> None:
    """What a server says beside an error counts as the headers of its response."""
    error = error_event(
        429, "rate_limit_exceeded", headers={"Retry-After": 7, "x-request-id": "req_7", "content-length": "9"}
    )
    async with serving_sockets(answers([error])) as server, server.provider() as provider:
        with pytest.raises(RateLimitError) as raised:
            await provider.chat([user("Hello")])
        assert (raised.value.retry_after, raised.value.request_id) == (7.0, "req_7")


async def test_a_request_is_sent_again_as_over_http() -> None:
    """An error that may pass is followed by another attempt, on the same connection."""
    overloaded = error_event(503, "server_is_overloaded", headers={"retry-after": "0"})
    async with serving_sockets(answers([overloaded], HI)) as server, server.provider(max_retries=1) as provider:
        reply = await provider.chat([user("Hello")])
        assert (reply.text, [attempt.error for attempt in reply.attempts]) == ("Hi", ["ServerError"])
        assert [sent["_connection"] for sent in server.created] == [0, 0]


async def test_a_response_that_the_server_forgot_is_sent_whole() -> None:
    """After `previous_response_not_found` the whole conversation is sent once more, without an id."""
    turns = [HI, [error_event(400, "previous_response_not_found")], BYE]
    async with serving_sockets(answers(*turns)) as server, server.provider() as provider:
        reply = await two_turns(provider)
        assert (reply.text, reply.attempts) == ("Bye", ())
        first, second, third = server.created
        assert (len(first["input"]), second["previous_response_id"]) == (1, "resp_1")
        assert whole(third)


async def test_a_server_that_refuses_to_continue_gets_all() -> None:
    """A server that accepts the whole history, but not a part of it with an id, gets no part any more."""
    more = [events_of(f"resp_{number}", message_item("More")) for number in (3, 4)]
    turns = [HI, [error_event(400, "invalid_request_error")], BYE, *more]
    async with serving_sockets(answers(*turns)) as server, server.provider() as provider:
        messages: list[Any] = [user("Hello")]
        for _ in range(4):
            messages += [(await provider.chat(messages)).message, user("Bye")]
        sent = [(each["_connection"], each.get("previous_response_id"), len(each["input"])) for each in server.created]
        assert sent == [(0, None, 1), (0, "resp_1", 1), (0, None, 3), (0, None, 5), (0, None, 7)]


async def test_a_refusal_of_the_whole_history_is_an_error() -> None:
    """A request that is refused in part and whole is sent twice, not more."""
    refusal = [error_event(400, "invalid_request_error")]
    async with serving_sockets(answers(HI, refusal, refusal)) as server, server.provider() as provider:
        with pytest.raises(BadRequestError):
            await two_turns(provider)
        assert len(server.created) == 3


async def test_a_connection_at_its_age_limit_is_replaced() -> None:
    """After `websocket_connection_limit_reached` the whole conversation is sent on a new connection."""
    turns = [HI, [error_event(400, "websocket_connection_limit_reached")], BYE]
    async with serving_sockets(answers(*turns)) as server, server.provider() as provider:
        reply = await two_turns(provider)
        assert (reply.text, reply.attempts) == ("Bye", ())
        assert [sent["_connection"] for sent in server.created] == [0, 0, 1]
        assert whole(server.created[2])


async def test_a_failed_turn_is_not_continued() -> None:
    """A server forgets the response that a failed turn continued: the next turn is sent whole."""
    turns = [HI, [error_event(500, "server_error")], BYE]
    async with serving_sockets(answers(*turns)) as server, server.provider() as provider:
        messages: list[Any] = [user("Hello")]
        messages += [(await provider.chat(messages)).message, user("Bye")]
        with pytest.raises(ServerError):
            await provider.chat(messages)
        assert (await provider.chat(messages)).text == "Bye"
        assert whole(server.created[2])


# --- cut connections --------------------------------------------------------------------------------------------------

ANSWER = events_of("resp_1", reasoning_item("hm"), message_item("Hi"), call_item("call_1", "add", '{"a": 1}'))
ENDS = {
    "cut": None,
    "closed": (1000, ""),
    "going away": (1001, "shutting down"),
    "failed": (1011, "internal error"),
    "half a frame": b'\x81\x7e\x10\x00{"type":',
    "no frame": b"HTTP/1.1 500 Internal Server Error\r\n\r\n",
    "masked": b"\x81\x85\x00\x00\x00\x00hello",
}


@each_row("name, end", ENDS.items(), ids=[*ENDS])
async def test_a_cut_behind_each_frame(name: str, end: Any) -> None:
    """A connection that ends before the last event is a cut stream: never a call, and all that arrived in `partial`."""
    lengths = iter(range(len(ANSWER) + 1))

    async def script(peer: SocketPeer) -> None:
        await peer.accept()
        await peer.create()
        await peer.send(*ANSWER[: next(lengths)])
        if isinstance(end, bytes):
            await peer.send_bytes(end)
        elif end is not None:
            await peer.close(*end)

    async with serving_sockets(script) as server:
        for length in range(len(ANSWER) + 1):
            async with server.provider() as provider:
                text, finished, error = "", None, None
                try:
                    async for chunk in provider.chat_stream([user("Hello")], TOOLS):
                        text += chunk.delta
                        assert chunk.tool_calls is None or chunk.finished
                        finished = chunk if chunk.finished else None
                except APIError as exc:
                    error = exc
            arrived = [event["delta"] for event in ANSWER[:length] if event["type"] == "response.output_text.delta"]
            if length == len(ANSWER):
                assert error is None
                assert finished is not None
                assert finished.tool_calls is not None
                assert [call.arguments for call in finished.tool_calls] == [{"a": 1}]
                continue
            assert finished is None
            assert isinstance(error, APIConnectionError if length == 0 else IncompleteStreamError), (length, error)
            assert error.retryable
            if length:
                assert error.partial is not None
                assert (error.partial.text, error.partial.tool_calls) == ("".join(arrived), [])
    await server.all_closed()


async def test_a_connection_that_was_closed_while_idle_is_opened_again() -> None:
    """A server that closes an idle connection costs no attempt."""

    async def script(peer: SocketPeer) -> None:
        await peer.accept()
        await peer.create()
        await peer.send(*(HI if peer.number == 0 else BYE))
        await peer.close()

    async with serving_sockets(script) as server, server.provider() as provider:
        reply = await two_turns(provider)
        assert (reply.text, reply.attempts, len(server.heads)) == ("Bye", (), 2)
        assert whole(server.created[1])


async def test_a_connection_that_is_closed_when_it_is_used_is_opened_again() -> None:
    """A closing frame instead of an answer on a connection that was idle means that nothing has run."""

    async def script(peer: SocketPeer) -> None:
        await peer.accept()
        await peer.create()
        await peer.send(*(HI if peer.number == 0 else BYE))
        await peer.create()
        await peer.close(1001)

    async with serving_sockets(script) as server, server.provider() as provider:
        reply = await two_turns(provider)
        assert (reply.text, reply.attempts) == ("Bye", ())
        assert [sent["_connection"] for sent in server.created] == [0, 0, 1]
        assert whole(server.created[2])


async def test_messages_that_answer_no_request_end_the_connection() -> None:
    """What comes behind the end of an answer is never the answer to the next request."""

    async def script(peer: SocketPeer) -> None:
        await peer.accept()
        await peer.create()
        if peer.number == 0:
            await peer.send(*HI, *events_of("resp_x", message_item("stray")))
            await peer.gone()
        await peer.send(*BYE)
        await peer.gone()

    async with serving_sockets(script) as server, server.provider() as provider:
        assert (await two_turns(provider)).text == "Bye"
        assert [sent["_connection"] for sent in server.created] == [0, 1]


async def test_late_messages_end_the_connection() -> None:
    """A message that arrives on an idle connection is never the answer to the next request."""
    sent_late = anyio.Event()

    async def script(peer: SocketPeer) -> None:
        await peer.accept()
        await peer.create()
        if peer.number == 0:
            await peer.send(*HI)
            await idle.wait()
            await peer.send(*events_of("resp_x", message_item("stray")))
            sent_late.set()
            await peer.gone()
        await peer.send(*BYE)
        await peer.gone()

    idle = anyio.Event()
    async with serving_sockets(script) as server, server.provider() as provider:
        messages: list[Any] = [user("Hello")]
        messages += [(await provider.chat(messages)).message, user("Bye")]
        idle.set()
        await sent_late.wait()
        assert (await provider.chat(messages)).text == "Bye"
        assert [sent["_connection"] for sent in server.created] == [0, 1]


async def test_a_stored_answer_is_resumed_over_http() -> None:
    """After a cut, the rest of an answer that the provider keeps is fetched as always."""

    async def script(peer: SocketPeer) -> None:
        if peer.number == 0:
            await peer.accept()
            await peer.create()
            await peer.send(*HI[:4])
            return
        path = (await peer.http_request()).split()[1].decode()
        assert path.startswith("/v1/responses/resp_1?stream=true&starting_after=")
        after = int(path.rpartition("=")[2])
        body = b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in HI[after + 1 :])
        await peer.send_bytes(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + body)

    async with serving_sockets(script) as server, server.provider(max_retries=1) as provider:
        reply = await provider.chat([user("Hello")], extra_body={"store": True})
        assert (reply.text, [attempt.resumed_after for attempt in reply.attempts]) == ("Hi", [3])


# --- age, pings, sizes ------------------------------------------------------------------------------------------------


def make_websocket_client(now: Any = None) -> httpx.AsyncClient:
    """A client with the transport itself, and another clock."""
    return httpx.AsyncClient(transport=WebSocketTransport(httpx.AsyncHTTPTransport(), httpx.AsyncHTTPTransport(), now))


async def test_a_connection_is_replaced_before_the_hour() -> None:
    """A connection that is 55 minutes old takes no further request: the next one is sent whole on a new one."""
    clock = [1000.0]
    turns = [events_of(f"resp_{number}", message_item("x")) for number in range(4)]
    async with (
        serving_sockets(answers(*turns)) as server,
        make_websocket_client(lambda: clock[0]) as client,
    ):
        config = {"adapter": "responses", "base_url": server.base_url, "model": "m", "api_key": "k", "max_retries": 0}
        provider = Provider.from_config(config, http_client=client)
        history: list[Any] = [user("Hello")]
        for wait in (0, 54 * 60, 59, 1):
            clock[0] += wait
            reply = await provider.chat(history)
            history += [reply.message, user("More")]
        assert [sent["_connection"] for sent in server.created] == [0, 0, 0, 1]
        assert [len(sent["input"]) for sent in server.created] == [1, 1, 1, 7]
        assert "previous_response_id" not in server.created[3]
    await server.all_closed()


async def test_pings_are_answered() -> None:
    """Pings inside an answer and between answers are answered, and change nothing."""
    pongs: list[bytes] = []

    async def script(peer: SocketPeer) -> None:
        await peer.accept()
        await peer.create()
        await peer.send(*HI[:3])
        await peer.ping(b"inside")
        pongs.append(await peer.pong())
        await peer.send(*HI[3:])
        await peer.ping(b"between")
        await peer.create()
        pongs.append(await peer.pong())
        await peer.send(*BYE)
        await peer.gone()

    async with serving_sockets(script) as server, server.provider() as provider:
        assert (await two_turns(provider)).text == "Bye"
        assert pongs == [b"inside", b"between"]
        assert [sent.get("previous_response_id") for sent in server.created] == [None, "resp_1"]


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_messages_in_several_frames(size: int) -> None:
    """A message is the same in one frame or in many, on one line or on several."""

    async def script(peer: SocketPeer) -> None:
        await peer.accept()
        await peer.create()
        for event in HI:
            await peer.send_pieces(json.dumps(event, indent=1).replace("\n", "\r\n"), size)
        await peer.gone()

    async with serving_sockets(script) as server, server.provider() as provider:
        assert (await provider.chat([user("Hello")])).text == "Hi"


async def test_a_message_beyond_the_limit() -> None:
    """A message that is larger than `limits.event_bytes` is refused before it is read whole."""
    large = {**HI[3], "delta": "x" * 5000}
    async with (
        serving_sockets(answers([*HI[:3], large, *HI[3:]])) as server,
        server.provider(limits={"event_bytes": 4000}) as provider,
    ):
        with pytest.raises(ProtocolError, match="event_bytes") as raised:
            await provider.chat([user("Hello")])
        assert raised.value.partial is not None
        assert raised.value.partial.text == "H"
    await server.all_closed()


async def test_what_is_no_json_is_a_malformed_event() -> None:
    """The decoder says what is wrong with a message, as with an event."""
    async with serving_sockets(answers([*HI[:3], "{nonsense"])) as server, server.provider() as provider:
        with pytest.raises(ProtocolError) as raised:
            await provider.chat([user("Hello")])
        assert raised.value.partial is not None
        assert raised.value.partial.text == "H"


NESTED = "[" * 100_000 + "]" * 100_000


@each_row("at, event", [(3, NESTED), (5, json.dumps({**HI[-2], "x": 0})[:-2] + NESTED + "}")], ids=["event", "item"])
async def test_what_is_nested_too_deeply(at: int, event: str) -> None:
    """A message that can't be parsed is a malformed event, and the next request works."""
    async with serving_sockets(answers([*HI[:at], event, *HI[at:]], BYE)) as server, server.provider() as provider:
        with pytest.raises(ProtocolError):
            await provider.chat([user("Hello")])
        assert (await provider.chat([user("Hello")])).text == "Bye"


# --- leaving and waiting ----------------------------------------------------------------------------------------------


async def falls_silent(peer: SocketPeer) -> None:
    await peer.accept()
    await peer.create()
    await peer.send(*HI[:3])
    await peer.gone()


async def test_leaving_an_answer_closes_its_connection() -> None:
    """`aclose()` ends the connection before it returns."""
    async with serving_sockets(falls_silent) as server, server.provider() as provider:
        async with provider.chat_stream([user("Hello")]) as stream:
            assert (await anext(aiter(stream))).delta == "H"
        await server.all_closed()


@pytest.mark.parametrize("events", [0, 3])
async def test_a_cancelled_request_closes_its_connection(events: int) -> None:
    """A task that is cancelled while it waits for an answer leaves no connection behind."""
    waits = anyio.Event()

    async def script(peer: SocketPeer) -> None:
        await peer.accept()
        await peer.create()
        await peer.send(*HI[:events])
        waits.set()
        await peer.gone()

    async with serving_sockets(script) as server, server.provider() as provider:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(provider.chat, [user("Hello")])
            await waits.wait()
            tasks.cancel_scope.cancel()
        await server.all_closed()


@pytest.mark.parametrize(("phase", "events"), [("first_event", 0), ("read", 3)])
async def test_timeouts_are_those_of_http(phase: str, events: int) -> None:
    """A server that falls silent is noticed, and its connection closed."""

    async def script(peer: SocketPeer) -> None:
        await peer.accept()
        await peer.create()
        await peer.send(*HI[:events])
        await peer.gone()

    async with serving_sockets(script) as server, server.provider(timeouts={phase: 0.2}) as provider:
        with pytest.raises(APITimeoutError) as raised:
            await provider.chat([user("Hello")])
        assert raised.value.phase == phase
        await server.all_closed()


# --- opening ----------------------------------------------------------------------------------------------------------

REFUSALS = [
    (
        401,
        '{"error": {"message": "no such key sk-secret", "code": "invalid_api_key"}}',
        AuthenticationError,
        "no such key",
    ),
    (404, "Not Found", APIError, "the server refused the WebSocket"),
    (426, '{"error": {"message": "send a POST"}}', APIError, "send a POST"),
    (503, "busy", ServerError, "busy"),
]


@each_row("status, body, kind, says", REFUSALS, ids=[str(row[0]) for row in REFUSALS])
async def test_a_refused_connection(status: int, body: str, kind: type[APIError], says: str) -> None:
    """A server that opens no WebSocket gets the error of its status, and no secret is in it."""

    async def script(peer: SocketPeer) -> None:
        await peer.accept(status=status, body=body)

    async with serving_sockets(script) as server, server.provider() as provider:
        with pytest.raises(kind, match=says) as raised:
            await provider.chat([user("Hello")])
        assert "sk-secret" not in str(raised.value) + repr(raised.value) + str(raised.value.body)


@pytest.mark.parametrize("events", [0, 3])
async def test_no_secret_is_in_the_reason_of_a_close(events: int) -> None:
    """A server that repeats the key when it closes a connection finds it removed from the error."""

    async def script(peer: SocketPeer) -> None:
        await peer.accept()
        await peer.create()
        await peer.send(*HI[:events])
        await peer.close(1008, "the key sk-secret is bad")

    async with serving_sockets(script) as server, server.provider() as provider:
        with pytest.raises(APIConnectionError if events == 0 else IncompleteStreamError) as raised:
            await provider.chat([user("Hello")])
        said = "".join(traceback.format_exception(raised.value)) + repr(raised.value)
        assert "1008 the key" in said
        assert "sk-secret" not in said


@pytest.mark.parametrize("header", ["Sec-WebSocket-Accept: AAAA", "Upgrade: h2c"])
async def test_another_protocol_is_refused(header: str) -> None:
    """A connection is used only if the server has agreed to a WebSocket."""

    async def script(peer: SocketPeer) -> None:
        await peer.head()
        name = header.partition(":")[0]
        head = [line for line in ("Upgrade: websocket", "Connection: Upgrade") if not line.startswith(name)]
        lines = ["HTTP/1.1 101 Switching Protocols", *head, header, "", ""]
        await peer.send_bytes("\r\n".join(lines).encode())
        await peer.gone()

    async with serving_sockets(script) as server, server.provider() as provider:
        with pytest.raises(APIError, match="a protocol other than WebSocket"):
            await provider.chat([user("Hello")])
        await server.all_closed()


async def test_requests_that_a_socket_does_not_take_go_over_http() -> None:
    """An answer in one piece, and one in the background, are requested by a POST."""

    async def script(peer: SocketPeer) -> None:
        request = await peer.http_request()
        assert request.startswith(b"POST /v1/responses ")
        assert b"upgrade" not in request.lower()
        body = json.dumps(HI[-1]["response"]).encode()
        await peer.send_bytes(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" + body)

    async with serving_sockets(script) as server, server.provider() as provider:
        assert (await provider.chat([user("Hello")], stream=False)).text == "Hi"
        assert (await provider.chat([user("Hello")], extra_body={"background": True})).text == "Hi"
        assert server.created == []


async def test_tls_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate that nobody vouches for ends the connection; one that is trusted is used."""
    cert = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "both.pem")
    async with serving_sockets(answers(HI), tls=context) as server:
        async with server.provider() as provider:
            with pytest.raises(APIConnectionError, match="certificate"):
                await provider.chat([user("Hello")])
        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
        async with server.provider() as provider:
            assert (await provider.chat([user("Hello")])).text == "Hi"


async def test_a_proxy_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection with TLS goes through the tunnel of the proxy in the environment."""
    cert = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "both.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    async with serving_sockets(answers(HI, BYE), tls=context) as server, tunnelling() as (proxy, tunnels):
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        async with server.provider() as provider:
            assert (await two_turns(provider)).text == "Bye"
        assert tunnels == [server.base_url.removeprefix("https://").removesuffix("/v1")]


@asynccontextmanager
async def tunnelling() -> AsyncIterator[tuple[str, list[str]]]:
    """A proxy that opens tunnels; yields its URL, and where the tunnels led."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    tunnels: list[str] = []

    async def pump(source: Any, target: Any) -> None:
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for data in source:
                await target.send(data)
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await target.aclose()

    async def handle(stream: Any) -> None:
        async with stream:
            head = b""
            while b"\r\n\r\n" not in head:
                head += await stream.receive()
            place = head.split()[1].decode()
            tunnels.append(place)
            host, _, port = place.partition(":")
            async with await anyio.connect_tcp(host, int(port)) as target, anyio.create_task_group() as tasks:
                await stream.send(b"HTTP/1.1 200 OK\r\n\r\n")
                tasks.start_soon(pump, target, stream)
                await pump(stream, target)

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        yield f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}", tunnels
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("config", "says"),
    [({"adapter": "chat"}, 'set adapter = "responses"'), ({"auth": "sigv4"}, "requires a signature for each request")],
)
def test_what_has_no_websockets_is_refused(config: dict[str, Any], says: str) -> None:
    """A wrong combination is an error of the configuration, before anything is sent."""
    base = {"adapter": "responses", "base_url": "http://localhost/v1", "model": "m", "transport": "websocket"}
    with pytest.raises(ConfigError, match=says):
        Provider.from_config({**base, **config})


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its package, the error says what to install."""
    monkeypatch.delitem(sys.modules, "streamfold.net.websocket_transport", raising=False)
    monkeypatch.setitem(sys.modules, "websockets.protocol", None)
    with pytest.raises(ConfigError, match=r"streamfold\[websocket\]"):
        make_client("websocket")


# --- the same as over HTTP --------------------------------------------------------------------------------------------


async def test_a_recording_is_that_of_http(tmp_path: Path) -> None:
    """What is recorded is a stream of events, which is replayed without a socket."""
    async with serving_sockets(answers(HI)) as server:
        client, _ = recording_client(make_client("websocket"), tmp_path, name="hi", adapter="responses")
        async with client:
            config = {"adapter": "responses", "base_url": server.base_url, "model": "m", "api_key": "sk-secret"}
            assert (await Provider.from_config(config, http_client=client).chat([user("Hello")])).text == "Hi"
    assert "sk-secret" not in "".join(path.read_text() for path in tmp_path.rglob("*.*"))
    async with httpx.AsyncClient(transport=ReplayTransport(tmp_path / "hi")) as replayed:
        config["base_url"] = "http://nowhere.invalid/v1"
        reply = await Provider.from_config(config, http_client=replayed).chat([user("Hello")])
    assert (reply.text, reply.id) == ("Hi", "resp_1")


def frames_of(body: bytes) -> list[str]:
    """The events of a stream as messages."""
    blocks = body.replace(b"\r\n", b"\n").split(b"\n\n")
    events = [[line[5:].strip() for line in block.split(b"\n") if line.startswith(b"data:")] for block in blocks]
    return [b"\n".join(lines).decode() for lines in events if lines and lines != [b"[DONE]"]]


def told(reply: Reply) -> dict[str, Any]:
    """All that a reply says of the answer."""
    return {
        "text": reply.text, "reasoning": reply.reasoning, "refusal": reply.refusal, "usage": reply.usage,
        "finish": (reply.finish_reason, reply.raw_finish_reason), "id": (reply.id, reply.model),
        "calls": [(call.id, call.name, call.raw_arguments, call.kind, call.error) for call in reply.tool_calls],
        "hosted": reply.hosted, "citations": reply.citations, "files": reply.files, "phases": reply.phases,
        "extras": reply.message.extras,
    }  # fmt: skip


async def over_a_socket(server: SocketServer) -> dict[str, Any]:
    async with server.provider() as provider:
        try:
            return told(await provider.chat([user("Hello")], unsupported_options="adapt"))
        except StreamError as error:
            return {"error": type(error), **told(error.partial or Reply())}


def over_http(body: bytes) -> dict[str, Any]:
    decoder = StreamDecoder("responses")
    try:
        decoder.feed(body)
        decoder.close()
        return told(decoder.reply)
    except StreamError as error:
        return {"error": type(error), **told(error.partial or Reply())}


RECORDED = corpus.names("corpus/responses/*.sse", "corpus/hosted-openai/*.sse")
FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.mark.one_loop
async def test_recorded_streams_are_the_same_over_frames(folded: Counter[str]) -> None:
    """Every recorded stream of the Responses API gives the same answer, one message an event, as over HTTP."""
    if isinstance(RECORDED[0], str):
        await compare({name: corpus.body(name) for name in RECORDED})
        folded["responses streams over a WebSocket"] += len(RECORDED)
    else:
        pytest.skip(corpus.ABSENT)


@pytest.mark.one_loop
async def test_fixtures_are_the_same_over_frames() -> None:
    """Every fixture of the Responses API gives the same answer, one message an event, as over HTTP."""
    files = [path for path in FIXTURES.rglob("*.toml") if 'adapter = "responses"' in path.read_text("utf-8")]
    bodies = {str(path): path.with_suffix(".sse").read_bytes() for path in files}
    await compare({name: body for name, body in bodies.items() if b"data:" in body})


async def compare(bodies: dict[str, bytes]) -> None:
    """Compares each body with its frames."""
    assert len(bodies) > 20
    current: list[str] = []

    async def script(peer: SocketPeer) -> None:
        await peer.accept()
        await peer.create()
        await peer.send(*current)

    async with serving_sockets(script) as server:
        for name, body in bodies.items():
            current[:] = frames_of(body)
            assert await over_a_socket(server) == over_http(body), name
