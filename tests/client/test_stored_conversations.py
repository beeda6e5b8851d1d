"""Conversations that the provider stores: the model sees all of it, and nothing is sent that is stored already."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import anyio
import httpx
import pytest

from scale import pick
from storing_server import Item, Plan, StoringServer, plain
from streamfold import (
    APIError,
    BadRequestError,
    ConfigError,
    Conversation,
    Fallback,
    Message,
    NotFoundError,
    Provider,
    Reply,
    ServerError,
    ToolCall,
    UpstreamError,
    assistant,
    extract,
    run_tools,
    system,
    tool_result,
    user,
)
from streamfold import sync as streamfold_sync
from streamfold.client.endpoint import Endpoint
from streamfold.requests import StoredConversation, continue_stored
from streamfold.testing import ScriptedProvider, fail

STORING = {"adapter": "responses", "quirks": {"conversations": "with_instructions"}, "model": "m", "max_retries": 1}


def look(n: int) -> str:
    """Looks something up."""
    return f"found {n}"


def responses(client: httpx.AsyncClient, host: str = "one", key: str = "a", **more: Any) -> Provider:
    return Provider.from_config(
        {**STORING, "base_url": f"http://{host}/v1", "api_key": key, **more}, http_client=client
    )


def models_of(client: httpx.AsyncClient) -> dict[str, Provider]:
    """Two keys, two addresses, one without instructions beside an id, another API, and two that store nothing."""
    chat = {"adapter": "chat", "base_url": "http://chat/v1", "api_key": "a", "model": "m", "max_retries": 0}
    google = {"profile": "gemini-interactions", "base_url": "http://google/v1", "api_key": "a", "model": "m"}
    return {
        "one a": responses(client),
        "one b": responses(client, key="b"),
        "two a": responses(client, "two"),
        "x": responses(client, "x", quirks={"conversations": "without_instructions"}),
        "google": Provider.from_config({**google, "max_retries": 1}, http_client=client),
        "deaf": responses(client, "deaf"),
        "chat": Provider.from_config(chat, http_client=client),
    }


def server(seed: int = 0) -> StoringServer:
    return StoringServer(Random(seed), frozenset(["x"]), frozenset(["deaf"]))


def shown(history: Sequence[Message]) -> tuple[str, tuple[Item, ...]]:
    """What the model has to see of a history."""
    instructions = "\n\n".join(message.text for message in history if message.role == "system")
    items: list[Item] = []
    for message in history:
        if message.role == "tool":
            items.append(("result", message.tool_call_id or "", message.text))
        elif message.role != "system" and message.text:
            items.append((message.role, message.text))
        items += [("call", call.id, call.name, plain(call.raw_arguments)) for call in message.tool_calls]
    return instructions, tuple(items)


class Program:
    """A program that does with a history what programs do, one thing after the other."""

    def __init__(self, seed: int, server: StoringServer, models: dict[str, Provider]) -> None:
        self.random, self.server, self.models = Random(seed), server, models
        self.conversation = Conversation()
        self.history: list[Message] = [system("rules 0")] if self.random.random() < 0.7 else []
        self.said = 0
        self.favourite = self.random.choice([*models])

    def question(self) -> Message:
        self.said += 1
        return user(f"question {self.said}")

    def change(self) -> None:
        """Changes instructions or history, saves and loads, or lets the servers forget."""
        random, at = self.random, next((n for n, each in enumerate(self.history) if each.role != "system"), 0)
        match random.choice(
            ["none"] * 4 + ["rules", "forget", "edit", "edit answer", "trim", "again", "save", "dicts"]
        ):
            case "rules":
                self.said += 1
                self.history[:at] = [system(f"rules {self.said}")] if random.random() < 0.8 else []
            case "forget":
                self.server.forget(random.choice([0.3, 1.0]))
            case "edit":
                users = [n for n, each in enumerate(self.history) if each.role == "user"]
                if users:
                    self.history[random.choice(users)] = self.question()
            case "edit answer":
                answers = [n for n, each in enumerate(self.history) if each.role == "assistant"]
                if answers:
                    self.said += 1
                    at = random.choice(answers)
                    self.history[at] = replace(self.history[at], content=f"edited {self.said}")
            case "trim":
                users = [n for n, each in enumerate(self.history) if each.role == "user"]
                if len(users) > 1:
                    del self.history[at : users[1]]
            case "again":  # another answer to the last question
                users = [n for n, each in enumerate(self.history) if each.role == "user"]
                if users:
                    del self.history[users[-1] :]
            case "save":
                self.conversation = Conversation.from_json(self.conversation.to_json())
                self.history = [Message.from_json(each.to_json()) for each in self.history]
            case "dicts":  # a program that keeps text and calls alone
                self.history = [
                    Message(each.role, each.content, each.tool_calls, each.tool_call_id) for each in self.history
                ]

    def model(self) -> Provider | Fallback:
        random = self.random
        name = self.favourite if random.random() < 0.6 else random.choice([*self.models])
        if random.random() < 0.8:
            return self.models[name]
        return Fallback(self.models[name], self.models[random.choice([*self.models])], cooldown=0)

    async def step(self) -> None:
        random, model = self.random, self.model()
        self.change()
        self.history.append(self.question())
        if random.random() < 0.1:
            self.history.append(self.question())
        code = random.choice(["previous_response_not_found", "invalid_request_error"])
        end = random.choice(["whole"] * 5 + ["length", "cut", "cancelled"])
        fails = random.choice([None, None, None, 503, 500])
        self.server.plan = Plan(fail=fails, code=code, stores=random.random() < 0.5)
        if random.random() < 0.25 and end == "whole":
            self.server.plan.calls = ["look"] * random.randint(1, 2)
            await self.run_tools(model)
            return
        if random.random() < 0.2 and end == "whole":
            self.server.plan.calls = ["look"]
        self.server.plan.end = {"cancelled": "cut"}.get(end, end)
        before = len(self.server.seen)
        try:
            reply = await self.ask(model, end)
        except APIError as error:
            if len(self.server.seen) > before:
                self.check()
            if error.partial is not None and error.partial.text and random.random() < 0.5:
                self.history.append(assistant(error.partial.text))
            return
        self.check()
        if reply is None:
            return
        if reply.finish_reason in ("stop", "tool_calls"):
            self.server.known.add(reply.id or "")
        self.history.append(reply.message)
        self.history += [tool_result(call, f"found {call.id}") for call in reply.tool_calls]

    async def ask(self, model: Provider | Fallback, end: str) -> Reply | None:
        tools = [look] if self.random.random() < 0.9 or self.server.plan.calls else None
        if end == "whole" and self.random.random() < 0.3:
            return await model.chat(self.history, tools, stream=False, conversation=self.conversation)
        async with model.chat_stream(self.history, tools, conversation=self.conversation) as stream:
            async for _ in stream:
                if end == "cancelled":
                    return None
        return stream.reply

    async def run_tools(self, model: Provider | Fallback) -> None:
        run = run_tools(model, self.history, [look], conversation=self.conversation)
        try:
            async for chunk in run:
                if chunk.finished:
                    self.server.known.add(run.replies[-1].id or "")
        except APIError:
            self.history = list(run.messages)
            return
        self.history = list(run.messages)
        instructions, items = shown(self.history)
        assert self.server.seen[-1] == (instructions, items[:-1])

    def check(self) -> None:
        assert self.server.seen[-1] == shown(self.history)


async def program(seed: int) -> StoringServer:
    storing = server(seed)
    async with httpx.AsyncClient(transport=httpx.MockTransport(storing)) as client:
        running = Program(seed, storing, models_of(client))
        for _ in range(running.random.randint(3, 10)):
            await running.step()
            assert storing.problems == [], (seed, storing.problems)
    return storing


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_model_sees_everything_once(backend: str) -> None:
    """Whatever is changed, forgotten, cut, cancelled or sent elsewhere: the model sees the whole history, nothing that
    is stored is sent again, and no id goes to another key or address."""
    every = [anyio.run(program, seed, backend=backend) for seed in range(pick(300, 60))]
    assert sum(each.continued for each in every) > len(every)  # it is worth something
    assert sum(each.rejected for each in every) > len(every) // 10
    assert sum(each.ignored for each in every) > len(every) // 10


async def ask(storing: StoringServer, *models: Provider, conversation: Any, **more: Any) -> list[Reply]:
    """Asks each of the models in turn, each with one question more."""
    history: list[Message] = [system("rules")]
    replies = []
    for number, model in enumerate(models):
        history.append(user(f"question {number}"))
        reply = await model.chat(history, conversation=conversation, **more)
        history.append(reply.message)
        replies.append(reply)
    assert storing.problems == []
    return replies


def inputs(storing: StoringServer) -> list[int]:
    """How many items each request had."""
    return [len(body.get("input") or body["messages"]) for body in storing.bodies]


@pytest.mark.anyio
async def test_only_what_is_new_is_sent() -> None:
    """The second request has the id of the first answer, and one message."""
    storing = server()
    async with httpx.AsyncClient(transport=httpx.MockTransport(storing)) as client:
        first, _ = await ask(storing, *[responses(client)] * 2, conversation=Conversation())
    assert inputs(storing) == [1, 1]
    assert [body.get("previous_response_id") for body in storing.bodies] == [None, first.id]
    assert [body["instructions"] for body in storing.bodies] == ["rules", "rules"]
    assert {body["store"] for body in storing.bodies} == {True}


@pytest.mark.anyio
async def test_instructions_that_change() -> None:
    """New instructions are sent with the new message alone, and take the place of the old ones."""
    storing = server()
    async with httpx.AsyncClient(transport=httpx.MockTransport(storing)) as client:
        for model in (responses(client), models_of(client)["google"]):
            conversation, history = Conversation(), [system("Be brief."), user("one")]
            reply = await model.chat(history, conversation=conversation)
            history = [system("Be kind."), *history[1:], reply.message, user("two")]
            await model.chat(history, conversation=conversation)
            assert storing.seen[-1] == ("Be kind.", shown(history)[1])
            assert inputs(storing)[-1] == 1


@pytest.mark.anyio
async def test_forgotten() -> None:
    """Everything is sent once more, with a warning, and the next request is short again."""
    storing = server()
    conversation, history = Conversation(), [user("one")]
    async with httpx.AsyncClient(transport=httpx.MockTransport(storing)) as client:
        model = responses(client, max_retries=0)
        for question in ("two", "three"):
            reply = await model.chat(history, conversation=conversation)
            storing.forget() if question == "two" else None
            history += [reply.message, user(question)]
        last = await model.chat(history, conversation=conversation, unsupported_options="strict")
    (warning,) = reply.warnings
    assert warning.code == "conversation_restarted"
    assert "Previous response with id 'one-a-1' not found." in warning.detail
    assert (last.warnings, storing.rejected, inputs(storing)) == ([], 1, [1, 1, 4, 1])
    assert [attempt.error for attempt in reply.attempts] == ["BadRequestError"]


@pytest.mark.anyio
async def test_forgotten_twice() -> None:
    """A server that knows no ids at all gets one more request, and its error is raised."""
    calls: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        calls.append(json.loads(request.content))
        return httpx.Response(404, json={"error": {"message": "previous_response_id: no", "code": "nothing"}})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        conversation, model = Conversation(), responses(client)
        known = server()
        async with httpx.AsyncClient(transport=httpx.MockTransport(known)) as other:
            reply = await responses(other).chat("one", conversation=conversation)
        with pytest.raises(NotFoundError):
            await model.chat([user("one"), reply.message, user("two")], conversation=conversation)
    assert ["previous_response_id" in body for body in calls] == [True, False]


@pytest.mark.anyio
@pytest.mark.parametrize("stream", [True, False])
async def test_a_server_that_ignores_the_id(stream: bool) -> None:
    """It says that the answer continues none: nothing of that answer is shown, and from then on all is sent at once."""
    storing = server()
    conversation, history = Conversation(), [user("one")]
    codes = []
    async with httpx.AsyncClient(transport=httpx.MockTransport(storing)) as client:
        model = responses(client, "deaf", max_retries=0)
        for question in ("two", "three", "four"):
            reply = await model.chat(history, conversation=conversation, stream=stream)
            history += [reply.message, user(question)]
            codes.append([warning.code for warning in reply.warnings])
            conversation = Conversation.from_json(conversation.to_json())
            assert storing.seen[-1] == shown(history[:-2])
        with pytest.raises(UpstreamError, match="the model saw only the new messages"):
            await model.chat("five", conversation=reply.id)
    assert (storing.ignored, codes) == (2, [[], ["conversation_restarted"], []])


@pytest.mark.anyio
async def test_an_error_event_says_that_it_is_forgotten() -> None:
    """The same where the error comes in the stream."""
    storing = server()

    def answer(request: httpx.Request) -> httpx.Response:
        made = storing(request)
        if made.status_code != 400:
            return made
        event = {"type": "error", **json.loads(made.content)["error"]}
        body = f"event: error\ndata: {json.dumps(event)}\n\n"
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=body.encode())

    conversation, history = Conversation(), [user("one")]
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        model = responses(client)
        history += [(await model.chat(history, conversation=conversation)).message, user("two")]
        storing.forget()
        reply = await model.chat(history, conversation=conversation)
    assert [warning.code for warning in reply.warnings] == ["conversation_restarted"]
    assert storing.seen[-1] == shown(history)


@pytest.mark.anyio
@pytest.mark.parametrize("given", ["id", "conversation"])
async def test_an_id_of_the_provider(given: str) -> None:
    """An id continues what it names, and the messages are those after it, results of its calls included."""
    storing = server()
    storing.plan = Plan(calls=["look"])
    async with httpx.AsyncClient(transport=httpx.MockTransport(storing)) as client:
        for model in (responses(client), models_of(client)["google"]):
            storing.plan = Plan(calls=["look"])
            first = await model.chat("one", [look], conversation=Conversation())
            known = first.id or ""
            after = known if given == "id" else Conversation(known)
            reply = await model.chat([tool_result(first.tool_calls[0], "found it")], [look], conversation=after)
            assert reply.text.startswith("answer")
            assert storing.seen[-1][1][-1] == ("result", first.tool_calls[0].id, "found it")
            assert len(storing.seen[-1][1]) == 4


@pytest.mark.anyio
async def test_an_id_that_is_forgotten() -> None:
    """What came before an id is nowhere else: the server's error is raised."""
    storing = server()
    async with httpx.AsyncClient(transport=httpx.MockTransport(storing)) as client:
        model = responses(client)
        known = (await model.chat("one", conversation=Conversation())).id
        storing.forget()
        with pytest.raises(BadRequestError, match="not found"):
            await model.chat("two", conversation=known)


@pytest.mark.anyio
async def test_an_id_is_for_one_account() -> None:
    """An id that one key has accepted is refused for any other, and for an API that stores nothing."""
    storing = server()
    async with httpx.AsyncClient(transport=httpx.MockTransport(storing)) as client:
        known = (await responses(client).chat("one", conversation=Conversation())).id
        conversation = Conversation(known)
        await responses(client).chat("two", conversation=conversation)
        saved = Conversation.from_json(conversation.to_json())
        for each in (conversation, saved):
            with pytest.raises(ConfigError, match="belongs to another endpoint or API key"):
                await responses(client, key="b").chat("three", conversation=each)
        with pytest.raises(ConfigError, match="stores no conversations here"):
            await models_of(client)["chat"].chat("three", conversation=known)
    assert storing.problems == []


@pytest.mark.anyio
async def test_an_id_does_not_fall_back() -> None:
    """Of several models the first one gets an id; the others, which don't know it, are skipped."""
    storing = server()
    async with httpx.AsyncClient(transport=httpx.MockTransport(storing)) as client:
        known = (await responses(client).chat("one", conversation=Conversation())).id
        both = Fallback(responses(client, max_retries=0), responses(client, "two"))
        storing.plan = Plan(fail=500)
        with pytest.raises(ServerError):
            await both.chat("two", conversation=known)
        assert (await both.chat("three", conversation=known)).text == "answer 2."  # it is cooling down, and asked alone
    assert storing.problems == []


def conversations_api(bodies: list[Any]) -> httpx.MockTransport:
    """A server of OpenAI's Conversations API, to whose conversations items are added."""
    storing = server()

    def answer(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        bodies.append({**body})
        assert body.pop("conversation") == "conv_1"
        return storing(httpx.Request("POST", request.url, headers=request.headers, json=body))

    return httpx.MockTransport(answer)


@pytest.mark.anyio
async def test_a_conversation_of_the_provider() -> None:
    """Items are added to a `conv_` id, so that each message is sent once, and earlier ones can't be changed."""
    bodies: list[Any] = []
    async with httpx.AsyncClient(transport=conversations_api(bodies)) as client:
        model, conversation = responses(client), Conversation("conv_1")
        history = [user("one")]
        for question in ("two", "three"):
            reply = await model.chat(history, conversation=conversation)
            history += [reply.message, user(question)]
        await model.chat(history, conversation=conversation)
        with pytest.raises(ConfigError, match="must begin with the messages"):
            await model.chat([user("other"), *history[1:]], conversation=conversation)
    assert [len(body["input"]) for body in bodies] == [1, 1, 1]


@pytest.mark.anyio
async def test_runs_send_only_what_is_new() -> None:
    """`run_tools` sends each turn the results alone, after an id too; so does `extract` with what was wrong."""
    storing = server()
    async with httpx.AsyncClient(transport=httpx.MockTransport(storing)) as client:
        model = responses(client)
        storing.plan = Plan(calls=["look", "look"])
        run = run_tools(model, "one", [look], conversation=Conversation())
        known = (await run).id
        storing.plan = Plan(calls=["look"])
        await run_tools(model, "two", [look], conversation=known)
        assert inputs(storing) == [1, 2, 1, 1]
        with pytest.raises(ValueError, match="does not match"):
            await extract(model, int, "three", conversation=known, attempts=2)
        assert inputs(storing)[4:] == [1, 1]
    assert storing.problems == []


@pytest.mark.anyio
async def test_an_api_that_stores_nothing() -> None:
    """All messages are sent, with a warning; that is an error if no option may be left out."""
    storing = server()
    async with httpx.AsyncClient(transport=httpx.MockTransport(storing)) as client:
        model = models_of(client)["chat"]
        _, second = await ask(storing, model, model, conversation=Conversation())
        assert [warning.code for warning in second.warnings] == ["option_dropped"]
        with pytest.raises(ConfigError, match="doesn't store conversations here"):
            await model.chat("one", conversation=Conversation(), unsupported_options="strict")
        unknown = responses(client, quirks={})
        assert [each.code for each in unknown.preview("one", conversation=Conversation()).warnings] == [
            "option_dropped"
        ]
    assert inputs(storing) == [2, 4]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"extra_body": {"store": False}}, "remove store=False"),
        ({"extra_body": {"previous_response_id": "resp_1"}}, "pass only one of them"),
        ({"conversation": 7}, "not int"),
        ({"conversation": ""}, "needs an id of the provider"),
        ({"previous_response_id": "resp_1"}, "pass conversation="),
    ],
)
def test_what_can_t_be_meant(options: dict[str, Any], said: str) -> None:
    """A request that asks for two things is refused before anything is sent."""
    model = Provider.from_config({**STORING, "base_url": "http://one/v1", "api_key": "a"})
    with pytest.raises(ConfigError, match=said):
        model.preview("one", **{"conversation": Conversation(), **options})


def test_two_apis_at_one_address() -> None:
    """Where the API isn't pinned, a conversation goes to the one that stores it."""
    chosen = Provider.from_config("openai:gpt-4.1", api_key="k")
    pinned = Provider.from_config("openai:gpt-4.1", api_key="k", api="chat")
    assert chosen.preview("one").url.endswith("/chat/completions")
    preview = chosen.preview("one", conversation=Conversation())
    assert (preview.url.rsplit("/", 1)[-1], preview.warnings) == ("responses", ())
    assert [each.code for each in pinned.preview("one", conversation=Conversation()).warnings] == ["option_dropped"]


@pytest.mark.anyio
async def test_headers_that_name_an_account() -> None:
    """A header of one request may name another project; ids of requests and traces name nobody."""
    storing = server()
    async with httpx.AsyncClient(transport=httpx.MockTransport(storing)) as client:
        model, conversation, history = responses(client), Conversation(), [user("one")]
        for headers in ({"X-Request-Id": "1", "traceparent": "00"}, {"X-Request-Id": "2"}, {"OpenAI-Project": "p"}):
            reply = await model.chat(history, conversation=conversation, extra_headers=headers)
            history += [reply.message, user(f"after {headers}")]
    assert inputs(storing) == [1, 1, 7]  # with the reasoning of both answers


@pytest.mark.anyio
async def test_a_key_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of a provider may change while it is used: ids of the old one are not sent with the new one."""
    storing = server()
    monkeypatch.setenv("CONVERSATION_KEY", "a")
    async with httpx.AsyncClient(transport=httpx.MockTransport(storing)) as client:
        model, conversation = responses(client, api_key="${CONVERSATION_KEY}"), Conversation()
        history = [user("one"), (await model.chat("one", conversation=conversation)).message, user("two")]
        monkeypatch.setenv("CONVERSATION_KEY", "b")
        await model.chat(history, conversation=conversation)
    assert (inputs(storing), storing.problems) == ([1, 4], [])


def test_credentials_of_clouds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a key, the variables that choose an identity tell accounts apart."""
    for name in ("AWS_BEARER_TOKEN_BEDROCK", "AWS_PROFILE", "AWS_ROLE_ARN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    accounts = set()
    for identity in ("AKIA1", "AKIA2", "AKIA1"):
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", identity)
        accounts.add(Endpoint(Provider.from_config("bedrock-mantle-responses:m").profile).account("responses"))
    assert len(accounts) == 2


@pytest.mark.anyio
async def test_a_result_that_comes_late() -> None:
    """Where a call that ran on was sent as unfinished, its result changes what was stored: all is sent again."""
    storing = server()
    call = ToolCall("late", "look", {"n": 1}, '{"n": 1}')
    begun: list[Message] = [user("one"), assistant(tool_calls=[replace(call, extra={"async": True})])]
    async with httpx.AsyncClient(transport=httpx.MockTransport(storing)) as client:
        model, conversation = models_of(client)["google"], Conversation()
        reply = await model.chat([*begun, user("two")], [look], conversation=conversation)
        history = [*begun, user("two"), reply.message, tool_result(call, "found it"), user("three")]
        await model.chat(history, [look], conversation=conversation)
    assert ("result", "late", "found it") in storing.seen[-1][1]
    assert storing.problems == []


def test_a_compaction_that_differs() -> None:
    """What a compaction stands for isn't in its text: another one is another conversation."""
    stored = StoredConversation("account")

    def digest(secret: str) -> str:
        item = {"type": "compaction", "id": "cmp_1", "encrypted_content": secret}
        history = [Message("assistant", extras={"output": [item]}), user("one")]
        return continue_stored(stored, history, {}, grows=False).digest

    assert (digest("a") == digest("a"), digest("a") == digest("b")) == (True, False)


@pytest.mark.anyio
async def test_branches_at_once() -> None:
    """Several requests may continue one answer at the same time, each from where it stands."""
    storing = server()
    async with httpx.AsyncClient(transport=httpx.MockTransport(storing)) as client:
        model, conversation = responses(client), Conversation()
        history = [user("one"), (await model.chat("one", conversation=conversation)).message]

        async def branch(number: int) -> None:
            mine = [*history, user(f"branch {number}")]
            for each in range(3):
                mine += [(await model.chat(mine, conversation=conversation)).message, user(f"more {number} {each}")]

        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(branch, number)
    assert (storing.problems, set(inputs(storing))) == ([], {1})


def test_what_a_preview_shows() -> None:
    """A preview shows the request, and changes nothing."""
    conversation = Conversation("resp_1")
    model = Provider.from_config({**STORING, "base_url": "http://one/v1"})
    assert model.preview("two", conversation=conversation).json()["previous_response_id"] == "resp_1"
    assert conversation.account is None


def test_saved_and_loaded() -> None:
    """What is saved has neither text nor key; what is damaged is refused."""
    conversation = Conversation()
    conversation.add("account", "digest", "resp_1")
    assert json.loads(conversation.to_json())["turns"] == {"account": {"digest": "resp_1"}}
    assert dict(Conversation.from_json(conversation.to_json()).turns("account")) == {"digest": "resp_1"}
    assert repr(conversation) == "<Conversation turns=1>"
    for text in (
        "x",
        "[]",
        "{}",
        '{"version": 1, "turns": {"a": {"b": 3}}}',
        '{"version": 1, "after": 3, "turns": {}}',
    ):
        with pytest.raises(ConfigError):
            Conversation.from_json(text)


def test_how_much_is_kept() -> None:
    """The last hundred answers of the last twenty accounts."""
    conversation = Conversation()
    for number in range(150):
        conversation.add("account", f"digest {number}", f"resp_{number}")
    for number in range(19):
        conversation.add(f"other {number}", "digest", "resp")
    assert [*conversation.turns("account")] == [f"digest {number}" for number in range(50, 150)]
    conversation.add("one more", "digest", "resp")
    assert (len(conversation.turns("account")), len(conversation.turns("other 0"))) == (0, 1)


def test_synchronous() -> None:
    """`streamfold.sync` takes the same argument."""
    storing = server()
    client = httpx.AsyncClient(transport=httpx.MockTransport(storing))
    with streamfold_sync.Provider(responses(client)) as model:
        conversation = Conversation()
        history = [user("one"), model.chat("one", conversation=conversation).message, user("two")]
        model.chat(history, conversation=conversation)
    assert (inputs(storing), storing.problems) == ([1, 1], [])


@pytest.mark.anyio
@pytest.mark.parametrize("provider", ["openai-responses:gpt-5.4", "gemini-interactions:gemini-3-pro"])
async def test_scripted(provider: str) -> None:
    """A script is a server that stores: its test sees what was sent, and may have it forget."""
    gone = fail(404, "it is gone", code="previous_response_not_found")
    model = ScriptedProvider("Hello", gone, "Hello again", "And again", provider=provider)
    conversation, history = Conversation(), [user("one")]
    for question in ("two", "three"):
        reply = await model.chat(history, conversation=conversation)
        history += [reply.message, user(question)]
    await model.chat(history, conversation=conversation)
    model.assert_done()
    assert [warning.code for warning in reply.warnings] == ["conversation_restarted"]
    assert [len(sent.body["input"]) for sent in model.requests] == [1, 1, 3, 1]
    assert [len(sent.messages) for sent in model.requests] == [1, 3, 3, 5]


@pytest.mark.anyio
async def test_tokens_before_an_id() -> None:
    """What only the provider has can't be counted; a whole conversation can."""

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"object": "response.input_tokens", "input_tokens": 7})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        model = Provider.from_config("openai-responses:gpt-5.4", api_key="k", http_client=client)
        assert await model.count_tokens("one", conversation=Conversation()) == 7
        with pytest.raises(ConfigError, match="can't be counted"):
            await model.count_tokens("one", conversation="resp_1")
