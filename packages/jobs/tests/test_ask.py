"""Rows asked in batches, as a data engine gives them: every row has an answer or an error, and no key travels."""

from __future__ import annotations

import json
import pickle
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from folding import DONE, call, entry, fin, text
from servers import END, STREAM, Connection, Server, answer, framed, serving
from streamfold import ConfigError, Reply, Tool
from streamfold_jobs import ANSWER_COLUMNS
from streamfold_jobs.ray import Ask, AskStoppedError
from tables import each_row

pa = pytest.importorskip("pyarrow")

Rows = list[dict[str, Any]]


def prompt_of(body: bytes) -> str:
    return str(json.loads(body)["messages"][-1]["content"])


async def echo(connection: Connection) -> None:
    """Answers a prompt with itself; `bad` is refused, `flagged` forbidden, and `tool` is answered with a call."""
    while True:
        body = await connection.request()
        prompt = prompt_of(body)
        if prompt in ("bad", "flagged", "key"):
            status = {"bad": "400 Bad Request", "flagged": "403 Forbidden", "key": "401 Unauthorized"}[prompt]
            error = json.dumps({"error": {"message": f"no {prompt}"}}).encode()
            await connection.send(answer(status, error, "Content-Type: application/json"))
        elif prompt == "tool":
            said = call(entry(0, "a", "f", '{"x":1}')) + fin("tool_calls")
            await connection.send(STREAM + framed(said, DONE) + END)
        else:
            await connection.send(STREAM + framed(text(prompt), fin("stop"), DONE) + END)


@asynccontextmanager
async def asking(script: Callable[[Connection], Awaitable[None]] = echo, **settings: Any) -> AsyncIterator[Any]:
    """Asks a server about rows, and knows what it was asked."""
    async with serving(script) as server:
        spec = {"base_url": server.base_url, "model": "m"}

        async def ask(batch: Any, **more: Any) -> Any:
            made = Ask(spec, **{**settings, **more})
            try:
                return await made(batch)
            finally:
                await made.aclose()

        ask.asked = lambda: asked(server)  # type: ignore[attr-defined]
        ask.forms = lambda: [json.loads(one.partition(b"\r\n\r\n")[2])["stream"] for one in server.requests]  # type: ignore[attr-defined]
        yield ask


def asked(server: Server) -> list[str]:
    return sorted(prompt_of(request.partition(b"\r\n\r\n")[2]) for request in server.requests)


async def test_answers_are_columns() -> None:
    """Beside the columns that the batch had: text, calls, usage and what else an answer has, null where it has none."""
    table = pa.table({"id": [0.5, 1.5, 2.5], "prompt": ["one", "tool", "bad"], "label": ["a", "b", "c"]})
    async with asking() as ask:
        made = await ask(table)
    assert made.column_names == ["id", "prompt", "label", *ANSWER_COLUMNS]
    assert made["label"].to_pylist() == ["a", "b", "c"]
    first, second, third = made.to_pylist()
    assert (first["text"], first["finish_reason"], first["error"], first["tries"]) == ("one", "stop", None, 1)
    assert json.loads(second["tool_calls"]) == [{"id": "a", "name": "f", "arguments": {"x": 1}}]
    assert (third["text"], json.loads(third["error"])["type"]) == (None, "BadRequestError")


@each_row("kind", ["mapping", "pandas", "numpy"])
async def test_every_kind_of_batch(kind: str) -> None:
    """A batch comes back as what it was: arrays by name, or a data frame."""
    given: Any = {"prompt": ["one", "two"], "id": [1, 2]}
    if kind == "pandas":
        given = pytest.importorskip("pandas").DataFrame(given)
    elif kind == "numpy":
        numpy = pytest.importorskip("numpy")
        given = {name: numpy.array(values) for name, values in given.items()}
    async with asking() as ask:
        made = await ask(given)
    assert type(made) is type(given)
    assert list(made["text"]) == ["one", "two"]
    assert list(made["id"]) == [1, 2]


async def test_answers_in_one_piece() -> None:
    """They are asked for so, and a server that streams all the same is read."""
    async with asking(stream=False) as ask:
        made = await ask({"prompt": ["one"]})
        assert ask.forms() == [False]
    assert list(made["text"]) == ["one"]


async def test_values_that_pandas_says_are_absent() -> None:
    """NaN, NaT and NA are no values: the row has none."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"prompt": ["one", "two", None], "system": [float("nan"), "Be brief.", None]})
    frame["options"] = pandas.array([pandas.NA, '{"seed": 1}', pandas.NA], dtype="string")
    frame["messages"] = [None, None, [{"role": "user", "content": "three"}]]
    async with asking() as ask:
        made = await ask(frame)
    assert list(made["text"]) == ["one", "two", "three"]


async def test_rows_that_are_wrong_are_rows_with_an_error() -> None:
    """No exception leaves a row: not a wrong one, not a refused one, not one whose check goes wrong."""

    def check(reply: Any) -> str | None:
        if reply.text == "crash":
            raise RuntimeError("in the check")
        return "too short" if len(reply.text) < 2 else None

    prompts = ["good", None, "bad", "flagged", "x", "crash", "\ud83d half"]
    messages = [None, '[{"role": "usr", "content": "x"}]', None, None, None, None, None]
    batch = {"prompt": prompts, "messages": messages, "options": [None, None, None, None, '{"n": 2}', None, None]}
    async with asking(check=check) as ask:
        made = await ask(batch)
        again = await ask(batch | {"options": [None] * 7})
    types = [error and json.loads(error)["type"] for error in made["error"]]
    assert types == [
        None,
        "ConfigError",
        "BadRequestError",
        "PermissionDeniedError",
        "ConfigError",
        "RuntimeError",
        None,
    ]
    failed = json.loads(again["error"][4])
    assert (failed["type"], failed["message"], failed["reply"]["text"]) == ("CheckFailed", "too short", "x")
    assert again["text"][6].encode()


async def test_where_the_members_of_a_row_are() -> None:
    """Columns may have other names; those that are not named are not read, whatever they are called."""
    batch = {"question": ["one"], "model": ["a car"], "setup": ["Be brief."], "text": ["taken"]}
    async with serving(echo) as server:
        ask = Ask(
            {"base_url": server.base_url, "model": "m"},
            columns={"prompt": "question", "system": "setup"},
            prefix="llm_",
        )
        made = await ask(batch)
        await ask.aclose()
        body = json.loads(server.requests[0].partition(b"\r\n\r\n")[2])
    assert (made["llm_text"], made["model"], made["text"]) == (["one"], ["a car"], ["taken"])
    assert (body["model"], body["messages"][0]) == ("m", {"role": "system", "content": "Be brief."})


@each_row(
    ("batch", "settings", "message"),
    [
        ({"question": ["x"]}, {}, "there is no column 'prompt' or 'messages' among question"),
        ({"promt": ["x"]}, {"columns": {"prompt": "prompt"}}, "there is no column 'prompt' .did you mean 'promt'"),
        ({"prompt": ["x"]}, {"temprature": 0.5}, "unknown option 'temprature': did you mean 'temperature'"),
        ({"prompt": ["x"]}, {"n": 2}, "n must be 1"),
        ({"prompt": ["x"], "text": ["y"]}, {}, "the rows have a column 'text' already"),
        ({"prompt": ["x"]}, {"answers": "sqlite:////tmp/none.db"}, "stored answers need rows with an id"),
        ({"prompt": ["x"], "id": ["a"]}, {"answers": "sqlite:////no/such/folder.db"}, "there is no folder"),
        ({"prompt": ["x"], "id": ["a"]}, {"answers": "valkey://127.0.0.1:1"}, "answers: the store can't be read"),
    ],
)
async def test_mistakes_that_end_a_job(batch: Any, settings: dict[str, Any], message: str) -> None:
    """They are of all rows alike, and nothing is asked."""
    if "valkey" in str(settings.get("answers")):
        pytest.importorskip("valkey")
    async with asking(**settings) as ask:
        with pytest.raises(ConfigError, match=message):
            await ask(batch)
        assert ask.asked() == []


@each_row(
    ("settings", "message"),
    [
        ({"columns": {"promt": "x"}}, "columns: unknown field 'promt' .did you mean 'prompt'"),
        ({"on_refused": "never"}, "on_refused: can't be 'never'. Allowed: stop, error"),
        (
            {"answers": "sqlite:///relative.db"},
            "answers: can't be 'sqlite:///relative.db', which other workers can't reach",
        ),
        ({"answers": "memory"}, "answers: can't be 'memory', which other workers can't reach"),
        ({"answers": "valky://127.0.0.1"}, "answers: must be memory, .* .did you mean 'valkey'"),
        ({"keep": 0}, "keep must be greater than 0, not 0"),
        ({"concurrency": 0}, "concurrency and tries must be at least 1"),
        ({"schema": {"type": "nothing"}}, "schema: not a JSON schema"),
    ],
)
async def test_settings_that_are_wrong(settings: dict[str, Any], message: str) -> None:
    """They are refused where the job is made."""
    with pytest.raises(ConfigError, match=message):
        Ask("openai", **settings)


@each_row(
    ("provider", "settings"),
    [
        ({"profile": "openai", "api_key": "sk-secret"}, {}),
        ({"profile": "openai", "headers": {"x-key": "sk-secret"}}, {}),
        ({"base_url": "http://me:sk-secret@127.0.0.1/v1"}, {}),
        ("openai", {"extra_headers": {"x-key": "sk-secret"}}),
        ("openai", {"answers": "valkey://:sk-secret@127.0.0.1"}),
    ],
)
async def test_keys_do_not_travel(provider: Any, settings: dict[str, Any]) -> None:
    """Settings are kept by the engine on their way: a key in them is refused, and not quoted."""
    with pytest.raises(ConfigError, match="would be stored with the job") as caught:
        Ask(provider, **settings)
    assert "sk-secret" not in str(caught.value)


async def test_what_is_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings alone: keys are looked up where the rows are asked."""
    monkeypatch.setenv("SOME_KEY", "sk-secret")
    async with serving(echo) as server:
        ask = Ask({"base_url": server.base_url, "model": "m", "api_key_env": "SOME_KEY"}, temperature=0.5)
        await ask({"prompt": ["one"]})
        data = pickle.dumps(ask)
        await ask.aclose()
        other = pickle.loads(data)
        assert (await other({"prompt": ["two"]}))["text"] == ["two"]
        await other.aclose()
        assert b"sk-secret" not in data
        assert all(b"sk-secret" in request for request in server.requests)


async def test_a_key_that_is_refused_ends_the_job() -> None:
    """Nothing else is asked, also for other batches; the error says what the server said."""
    async with serving(echo) as server:
        ask = Ask({"base_url": server.base_url, "model": "m"}, concurrency=1)
        for batch in (["key", "one", "two"], ["three"]):
            with pytest.raises(
                AskStoppedError, match=r"the job ends, because no further row can be answered: .*no key"
            ):
                await ask({"prompt": batch})
        await ask.aclose()
        assert asked(server) == ["key"]


async def test_a_key_that_is_refused_as_an_error_of_each_row() -> None:
    """For those who want all rows, whatever happens."""
    async with asking(on_refused="error") as ask:
        made = await ask({"prompt": ["key", "one"]})
    assert [error and json.loads(error)["type"] for error in made["error"]] == ["AuthenticationError", None]


@pytest.mark.slow
async def test_rows_that_are_forbidden() -> None:
    """A single prompt may be; twenty in succession are the key's fault."""
    async with asking(concurrency=1) as ask:
        made = await ask({"prompt": [*["flagged"] * 19, "one", *["flagged"] * 19]})
        assert [error is None for error in made["error"]].index(True) == 19
        with pytest.raises(AskStoppedError):
            await ask({"prompt": ["flagged"] * 40})


@pytest.mark.slow
async def test_one_limit_for_all_batches() -> None:
    """A worker asks so many rows at once, however many batches it has."""
    running = most = 0

    async def slow(connection: Connection) -> None:
        nonlocal running, most
        while True:
            prompt = prompt_of(await connection.request())
            running += 1
            most = max(most, running)
            await anyio.sleep(0.2)  # longer than the requests are apart at first
            running -= 1
            await connection.send(STREAM + framed(text(prompt), fin("stop"), DONE) + END)

    async with serving(slow) as server:
        ask = Ask({"base_url": server.base_url, "model": "m"}, concurrency=3)
        async with anyio.create_task_group() as tasks:
            for number in range(4):
                tasks.start_soon(ask, {"prompt": [f"{number} {at}" for at in range(6)]})
        await ask.aclose()
        assert len(server.requests) == 24
    assert most == 3


async def test_answers_that_are_kept_are_not_paid_twice(tmp_path: Path) -> None:
    """A batch that is computed again is answered from the store: the same rows, of the same job, asking the same."""
    where = f"sqlite:///{tmp_path / 'answers.db'}"
    batch = {"id": ["a", "b", "c", None], "prompt": ["one", "tool", "bad", "none"]}
    tools = [Tool("f", parameters={"type": "object", "properties": {}})]
    async with asking(answers=where, tools=tools) as ask:
        first = await ask(batch)
        again = await ask(batch)
        assert ask.asked() == ["bad", "none", "none", "one", "tool"]
        assert {name: again[name] for name in ("text", "tool_calls")} == {
            name: first[name] for name in ("text", "tool_calls")
        }
        await ask({"id": ["a"], "prompt": ["another"]})
        await ask({"id": ["x"], "prompt": ["one"]})
        await ask({"id": ["a"], "prompt": ["one"]}, temperature=0.5)
        await ask({"id": ["a"], "prompt": ["one"]}, job="another")
        assert ask.asked().count("one") == 4


async def test_a_killed_batch_is_not_paid_twice(tmp_path: Path) -> None:
    """What was answered before a worker died is there for the next one."""
    where = f"sqlite:///{tmp_path / 'answers.db'}"
    batch = {"id": ["a", "b", "c"], "prompt": ["one", "two", "hang"]}
    hanging = anyio.Event()

    async def script(connection: Connection) -> None:
        while True:
            prompt = prompt_of(await connection.request())
            if prompt == "hang" and not hanging.is_set():
                hanging.set()
                await anyio.sleep_forever()
            await connection.send(STREAM + framed(text(prompt), fin("stop"), DONE) + END)

    async with asking(script, answers=where, concurrency=1) as ask:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, batch)
            await hanging.wait()
            tasks.cancel_scope.cancel()
        made = await ask(batch)
        assert made["text"] == ["one", "two", "hang"]
        assert ask.asked() == ["hang", "hang", "one", "two"]


def named_check(reply: Reply) -> str | None:
    """A check with a name of its own."""
    return None


@each_row(("check", "asked"), [(named_check, 1), (lambda reply: None, 2), (partial(named_check), 2)])
async def test_answers_are_kept_for_a_check_with_a_name(check: Any, asked: int, tmp_path: Path) -> None:
    """Two lambdas have one name: an answer that passed one of them would count as one that passed the other."""
    where = f"sqlite:///{tmp_path / f'{asked}-{id(check)}.db'}"
    async with asking(answers=where, check=check) as ask:
        for _ in range(2):
            assert (await ask({"id": ["a"], "prompt": ["one"]}))["text"] == ["one"]
        assert ask.asked().count("one") == asked


async def test_a_store_that_fails_later_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The answers are there; that they could not be stored is logged."""
    where = tmp_path / "answers.db"
    async with serving(echo) as server:
        ask = Ask({"base_url": server.base_url, "model": "m"}, answers=f"sqlite:///{where}", concurrency=1)
        await ask({"id": ["a"], "prompt": ["one"]})
        with closing(sqlite3.connect(where, isolation_level=None)) as database:
            database.execute("DROP TABLE answers_values")
            full = "CREATE TRIGGER full BEFORE INSERT ON answers_records BEGIN SELECT RAISE(ABORT, 'full'); END"
            database.execute(full)
        made = await ask({"id": ["a", "b"], "prompt": ["one", "two"]})
        await ask.aclose()
    assert made["text"] == ["one", "two"]
    assert {record.message for record in caplog.records} == {
        "the stored answers could not be read: their rows are sent again",
        "1 answers could not be stored",
    }
