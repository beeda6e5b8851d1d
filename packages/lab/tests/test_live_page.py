"""The live page of `streamfold serve --ui`: what it knows, who may see it, and what it saves."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from gateways import CHAT, asking, serve_command
from servers import END, STREAM, Connection, framed, serving
from streamfold import Hooks, Provider
from streamfold.recording import Recording
from streamfold.types import Attempt, RequestInfo
from streamfold_gateway import gateway
from streamfold_lab.live import LivePage

KEY = "sk-upstream-0123456789abcdef"
SAVE = {"x-streamfold": "1"}


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    return f"data: {json.dumps({'choices': [{'delta': delta, 'finish_reason': finish}]})}\n\n".encode()


HELLO = [chunk({"content": "Hello "}), chunk({"content": "there"}, "stop"), b"data: [DONE]\n\n"]


class Desk:
    """A gateway with its page, in this process: a client of the model, and a viewer of the page."""

    def __init__(self, app: Any, client: str = "127.0.0.1", page: LivePage | None = None) -> None:
        transport = httpx.ASGITransport(app, client=(client, 1234))
        token = {"authorization": f"Bearer {page.path.partition('=')[2]}"} if page else {}
        self.http = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=token)

    async def ask(self, question: str = "Hi", **members: Any) -> httpx.Response:
        return await self.http.post(CHAT, json=asking(CHAT, question, **members))

    async def seen(self, since: int = -1) -> dict[str, Any]:
        answer = await self.http.get("/ui/answers", params={"since": since})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


@asynccontextmanager
async def desk(script: Any, retries: int = 1, **options: Any) -> AsyncIterator[Desk]:
    async with serving(script) as server:
        page = LivePage(**options)
        config = {"base_url": server.base_url, "model": "m-1", "api_key": KEY, "max_retries": retries}
        app = gateway({"main": config}, hooks=page.hooks)
        made = Desk(page.around(app), page=page)
        async with app, made.http:
            yield made


async def hello(peer: Connection) -> None:
    await peer.request()
    await peer.send(STREAM, framed(*HELLO), END)


async def test_an_answer_is_seen_while_it_streams() -> None:
    """State, text so far, and the whole of it at the end; a viewer that knows it all gets nothing again."""
    go_on = anyio.Event()

    async def slow(peer: Connection) -> None:
        await peer.request()
        await peer.send(STREAM, framed(HELLO[0]))
        await go_on.wait()
        await peer.send(framed(*HELLO[1:]), END)

    async with desk(slow) as made, anyio.create_task_group() as tasks:
        assert (await made.seen())["changed"] == []
        tasks.start_soon(made.ask)
        with anyio.fail_after(10):
            while not ((found := await made.seen())["changed"] and found["changed"][0]["text"]):
                await anyio.sleep(0.01)
        (line,) = found["changed"]
        assert (line["state"], line["text"], line["model"], line["adapter"]) == ("streaming", "Hello ", "m-1", "chat")
        again = await made.seen(found["clock"])
        assert (again["changed"], again["numbers"]) == ([], [1])
        go_on.set()
        with anyio.fail_after(10):
            while (await made.seen())["changed"][0]["state"] != "finished":
                await anyio.sleep(0.01)
        (line,) = (await made.seen())["changed"]
        assert (line["text"], line["finish"], line["error"]) == ("Hello there", "stop", None)


async def test_errors_warnings_and_failed_attempts() -> None:
    """A line says what went wrong, and how often it was tried."""
    answers = [
        b"HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy",
        STREAM + framed(chunk({"content": "Hi"}), b"data: [DONE]\n\n") + END,
        STREAM + framed(HELLO[0]),
    ]

    async def script(peer: Connection) -> None:
        while answers:
            await peer.request()
            data = answers.pop(0)
            await peer.send(data)
            if not data.endswith(END):
                return

    async with desk(script) as made:
        await made.ask()
        await made.ask()
        first, second = (await made.seen())["changed"]
        assert (first["retries"], first["warnings"]) == (1, ["missing_finish_reason"])
        assert second["state"] == "failed"
        assert second["error"]["kind"] == "IncompleteStreamError"
        assert second["text"] == "Hello "
        page = await made.http.get("/ui/answers/2")
        assert page.status_code == 200
        assert "IncompleteStreamError" in page.text


async def test_the_timeline_names_every_failed_attempt() -> None:
    """Each attempt before the answer is there with its problem."""
    refusals = [
        b"HTTP/1.1 503 Busy\r\ncontent-length: 4\r\nretry-after: 0\r\n\r\n" + text for text in (b"busy", b"full")
    ]

    async def script(peer: Connection) -> None:
        for refusal in list(refusals):
            refusals.remove(refusal)
            await peer.request()
            await peer.send(refusal)
        await hello(peer)

    async with desk(script, retries=2) as made:
        await made.ask()
        page = await made.http.get("/ui/answers/1")
    assert "custom: busy (HTTP 503); custom: full (HTTP 503)" in page.text


async def test_the_list_shows_the_text_of_the_present_attempt() -> None:
    """A look at the list during the pause before another attempt takes nothing from the text of that attempt."""
    infos: list[RequestInfo] = []
    async with serving(hello) as server:
        config = {"base_url": server.base_url, "model": "m-1", "api_key": KEY}
        async with Provider.from_config(config, hooks=[Hooks(on_request=infos.append)]) as provider:
            await provider.chat("Hi")
    page, (info,) = LivePage(), infos
    hooks, viewer = page.hooks, Desk(page.around(None), page=page)
    texts = []
    async with viewer.http:
        hooks.on_request(info)
        hooks.on_bytes(info, chunk({"content": "Howdy "}))
        hooks.on_retry(info, Attempt("main", "the connection broke"))
        texts.append((await viewer.seen())["changed"][0]["text"])
        hooks.on_request(info)
        hooks.on_bytes(info, chunk({"content": "Hello "}))
        texts.append((await viewer.seen())["changed"][0]["text"])
    assert texts == ["Howdy ", "Hello "]


async def test_a_failed_attempt_takes_no_room_from_the_next_one() -> None:
    """The first stream is larger than what the page keeps, and breaks off; the answer of the next attempt isn't."""
    comments = b": " + b"x" * 5000 + b"\n\n"
    streams = [STREAM + framed(comments), STREAM + framed(*HELLO) + END]

    async def script(peer: Connection) -> None:
        await peer.request()
        await peer.send(streams.pop(0))

    async with desk(script, most_bytes=2000) as made:
        await made.ask()
        page = await made.http.get("/ui/answers/1")
    assert "Hello " in page.text


async def test_each_answer_opens_in_the_timeline() -> None:
    """The inspector's page, with its own policy; what is not kept is a 404."""
    async with desk(hello) as made:
        await made.ask()
        page = await made.http.get("/ui/answers/1")
        assert "Hello " in page.text
        assert "script-src 'sha256-" in page.text
        assert page.headers["content-security-policy"] == "frame-ancestors 'none'"
        assert (await made.http.get("/ui/answers/7")).status_code == 404


async def test_only_the_last_answers_are_kept() -> None:
    """By number and by size."""
    async with desk(hello, answers=2) as made:
        for _ in range(3):
            await made.ask()
        assert (await made.seen())["numbers"] == [2, 3]
    async with desk(hello, most_bytes=200) as made:
        for _ in range(3):
            await made.ask()
        assert (await made.seen())["numbers"] == [3]


async def test_secrets_are_not_shown(tmp_path: Path) -> None:
    """A key that the provider echoes is neither in the list, nor in the timeline, nor in a fixture."""

    async def echo(peer: Connection) -> None:
        await peer.request()
        await peer.send(STREAM, framed(chunk({"content": f"your key is {KEY}"}, "stop"), HELLO[-1]), END)

    async with desk(echo, fixtures=tmp_path) as made:
        await made.ask()
        await made.http.post("/ui/answers/1/fixture?name=echo", headers=SAVE)
        for shown in (json.dumps(await made.seen()), (await made.http.get("/ui/answers/1")).text):
            assert "your key is" in shown
            assert KEY not in shown
    saved = b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
    assert b"your key is" in saved
    assert KEY.encode() not in saved


async def test_an_answer_is_saved_as_a_fixture(tmp_path: Path) -> None:
    """It is a recording with its origin, its pieces and what it must fold to. Nothing is replaced."""
    async with desk(hello, fixtures=tmp_path / "new") as made:
        await made.ask(tools=[{"type": "function", "function": {"name": "f"}}])
        saved = await made.http.post("/ui/answers/1/fixture?name=hello", headers=SAVE)
        assert (saved.status_code, Path(saved.json()["saved"])) == (201, tmp_path / "new" / "hello")
        recording = Recording.load(tmp_path / "new" / "hello")
        assert (recording.source, recording.tools, recording.expect["text"]) == ("recorded", ("f",), "Hello there")
        assert recording.complete
        assert sum(cut.size for cut in recording.cuts) == len(recording.body)
        again = await made.http.post("/ui/answers/1/fixture?name=hello", headers=SAVE)
        assert again.status_code == 409
        for name in ("../evil", "a/b", "", ".hidden", "x" * 101, "a%0Ab"):
            refused = await made.http.post(f"/ui/answers/1/fixture?name={name}", headers=SAVE)
            assert refused.status_code == 400, name


async def test_only_the_page_itself_saves() -> None:
    """A form or a script of another site can't set the header, and browsers say where a request comes from."""
    async with desk(hello) as made:
        await made.ask()
        for headers in ({}, {**SAVE, "sec-fetch-site": "cross-site"}):
            answer = await made.http.post("/ui/answers/1/fixture?name=x", headers=headers)
            assert answer.status_code == 403
        assert (await made.http.get("/ui/answers/1/fixture?name=x")).status_code == 405


async def test_without_a_key_it_is_for_this_machine_alone() -> None:
    """Neither another machine, nor a name that leads here, nor a proxy in front, nor without the token."""
    page = LivePage()
    app = page.around(gateway({"main": {"base_url": "http://test/v1", "model": "m"}}, hooks=page.hooks))
    paths = ["/ui", "/ui/answers", "/ui/answers/1"]
    async with Desk(app, page=page).http as here, Desk(app, "192.0.2.7", page).http as there, Desk(app).http as plain:
        for path in paths:  # as nginx passes on a stranger's request by default: nothing says so
            for query in ("", "?token=", "?token=x", f"?token={page.path[11:-1]}"):
                assert (await plain.get(f"{path}{query}")).status_code == 403
        assert (await plain.get(page.path)).status_code == 200
        assert [(await plain.get(path)).status_code for path in paths] == [200, 200, 404]  # by its cookie
        for path in paths:
            assert (await there.get(path)).status_code == 403
            assert (await here.get(path, headers={"host": "evil.example"})).status_code == 403
            assert (await here.get(path, headers={"x-forwarded-for": "192.0.2.7"})).status_code == 403
        assert [(await here.get(path)).status_code for path in paths] == [200, 200, 404]
        assert (await here.get("/healthz")).status_code == 200  # the gateway is still there


async def test_with_a_key_it_is_for_whoever_has_it() -> None:
    """As a bearer token, or as the password that a browser asks for."""
    page = LivePage(keys=["viewer"])
    app = page.around(gateway({"main": {"base_url": "http://test/v1", "model": "m"}}, hooks=page.hooks))
    basic = {kind: f"Basic {base64.b64encode(kind.encode()).decode()}" for kind in ("me:viewer", "me:wrong", "viewer")}
    async with Desk(app, "192.0.2.7").http as viewer:
        for given, status in [
            ({}, 401),
            ({"authorization": basic["me:viewer"]}, 200),
            ({"authorization": "Bearer viewer"}, 200),
            ({"authorization": basic["me:wrong"]}, 401),
            ({"authorization": basic["viewer"]}, 401),
            ({"authorization": "Basic ???"}, 401),
            ({"x-api-key": "viewer"}, 401),
        ]:
            answer = await viewer.get("/ui", headers=given)
            assert answer.status_code == status, given
        assert answer.headers["www-authenticate"].startswith("Basic")


async def test_the_page_loads_nothing_from_elsewhere() -> None:
    """Its policy allows its own script and style by their hashes, its own server, and no frame around it."""
    page = LivePage()
    async with Desk(page.around(None), page=page).http as viewer:
        answer = await viewer.get("/ui")
        assert answer.headers["content-security-policy"] == "frame-ancestors 'none'"
        policy = answer.text.partition('http-equiv="Content-Security-Policy" content="')[2].partition('"')[0]
        assert policy.startswith("default-src 'none'; script-src 'sha256-")
        assert policy.endswith("form-action 'none'; connect-src 'self'")
        assert "unsafe" not in policy
        assert "://" not in answer.text
        assert "innerHTML" not in answer.text


@pytest.mark.slow
async def test_streamfold_serve_ui(tmp_path: Path) -> None:
    """`ui = true` serves the page beside the gateway, and the log says where."""
    file = tmp_path / "streamfold.toml"
    async with serving(hello) as server:
        file.write_text(
            f'[gateway]\nui = true\n[providers.main]\nbase_url = "{server.base_url}"\nmodel = "m"\nadapter = "chat"\n'
        )
        async with serve_command(file) as (address, said, _), httpx.AsyncClient(base_url=address) as client:
            await client.post(CHAT, json=asking(CHAT))
            assert (await client.get("/ui/answers")).status_code == 403
            path = said.partition(address.encode() + b"/ui")[2].split()[0].decode()
            found = (await client.get(f"/ui/answers{path}")).json()
    assert [line["text"] for line in found["changed"]] == ["Hello there"]
