"""Jobs over many rows: each is asked once, in the order of the rows, through mistakes, limits and restarts."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from folding import DONE, call, entry, event, fin, text
from streamfold import (
    AuthenticationError,
    ConfigError,
    Cost,
    PermissionDeniedError,
    Provider,
    QuotaExceededError,
    Reply,
    StreamfoldError,
    Usage,
    tool,
)
from streamfold_jobs import BatchJob, JobPausedError, Ledger, Rows, batch
from tables import each_row
from whole_bodies import whole_body


class Server:
    """A server that answers each prompt with itself, and notes what it was asked.

    Args:
        odd: the status and body for some prompts, for as many times as there are.
    """

    def __init__(self, odd: Mapping[str, list[httpx.Response]] | None = None) -> None:
        self.asked: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.odd = {prompt: list(answers) for prompt, answers in (odd or {}).items()}
        self.running = self.most = 0

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        prompt = body["messages"][-1]["content"]
        self.asked.append(prompt)
        self.bodies.append(body)
        self.running += 1
        self.most = max(self.most, self.running)
        await anyio.sleep(0)
        self.running -= 1
        if left := self.odd.get(prompt):
            return left.pop(0)
        return streamed(text(f"{prompt}!"))

    def provider(self, **settings: Any) -> Provider:
        client = httpx.AsyncClient(transport=httpx.MockTransport(self))
        made = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "max_retries": 0, **settings}
        return Provider.from_config(made, http_client=client)


def streamed(body: bytes, prompt_tokens: int = 10) -> httpx.Response:
    usage = event({"choices": [], "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": 1}})
    end = b"" if b'finish_reason":"' in body else fin("stop")
    return httpx.Response(200, content=body + end + usage + DONE, headers={"content-type": "text/event-stream"})


def refused(status: int, message: str, **headers: str) -> httpx.Response:
    return httpx.Response(status, json={"error": {"message": message}}, headers=headers)


def rows(count: int) -> list[dict[str, str]]:
    return [{"id": f"r{number}", "prompt": f"p{number}"} for number in range(count)]


async def finished(job: BatchJob) -> list[tuple[str, str | None]]:
    """The ids of all answers in the order in which they come, with their texts; None for an error."""
    async with job:
        return [(answer.id, None if answer.error else answer.text) async for answer in job]


@pytest.mark.slow
async def test_answers_come_in_the_order_of_the_rows() -> None:
    """Many rows are asked at the same time, and never more than were allowed."""
    server = Server()
    found = await finished(batch(server.provider(), rows(300), concurrency=7))
    assert found == [(f"r{number}", f"p{number}!") for number in range(300)]
    assert sorted(server.asked) == sorted(f"p{number}" for number in range(300))
    assert 1 < server.most <= 7


async def test_what_a_row_may_hold() -> None:
    """A prompt or messages, with options, a model and tools of its own, or a line of OpenAI's Batch API."""
    server = Server()
    tool = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
    line = {"model": "b", "messages": [{"role": "user", "content": "four"}], "max_tokens": 3}
    given: list[dict[str, Any]] = [
        {"prompt": "one", "system": "Be brief.", "options": {"temperature": 0.5}},
        {"id": "x", "messages": [{"role": "user", "content": "two"}], "model": "a"},
        {"id": 7, "prompt": "three", "tools": [tool], "tool_choice": "required"},
        {"custom_id": "y", "method": "POST", "url": "/v1/chat/completions", "body": line},
    ]
    found = await finished(batch(server.provider(), given, concurrency=1, max_output_tokens=9))
    assert found == [("0", "one!"), ("x", "two!"), ("7", "three!"), ("y", "four!")]
    first, second, third, fourth = server.bodies
    assert first["messages"][0] == {"role": "system", "content": "Be brief."}
    assert (first["temperature"], second["model"], third["tool_choice"]) == (0.5, "a", "required")
    assert (third["tools"][0]["function"]["name"], fourth["model"]) == ("now", "b")
    assert [body.get("max_tokens", body.get("max_completion_tokens")) for body in server.bodies] == [9, 9, 9, 3]


async def test_a_bad_row_is_an_error_of_its_own() -> None:
    """It says which row it is and what is wrong; the others are asked."""
    server = Server()
    given = [*rows(1), {"id": "bad", "promt": "x"}, {"id": "worse", "messages": [{"role": "usr", "content": "x"}]}]
    async with batch(server.provider(), given) as job:
        answers = [answer async for answer in job]
        with pytest.raises(StreamfoldError, match="answers of this job have already been read"):
            aiter(job)
    assert [answer.error and answer.error["type"] for answer in answers] == [None, "ConfigError", "ConfigError"]
    assert answers[1].error is not None
    assert answers[1].error["message"] == (
        "row 2: unknown key 'promt' (did you mean 'prompt'?). Allowed: id, prompt, messages, system, model, options,"
        " tools, tool_choice"
    )
    assert (job.summary.done, job.summary.errors, job.summary.rows) == (1, 2, 3)


@each_row(
    ("row", "problem"),
    [
        ({"prompt": "x", "messages": []}, "row 2: prompt and messages can't be combined in a row"),
        (
            {"prompt": "x", "temperature": 1},
            'row 2: \'temperature\' is an option: write "options": {"temperature": ...}',
        ),
    ],
)
async def test_a_row_that_says_too_much(row: dict[str, Any], problem: str) -> None:
    """It is an error of this row."""
    async with batch(Server().provider(), [*rows(1), row]) as job:
        answers = [answer async for answer in job]
    assert [answer.error and answer.error["message"] for answer in answers] == [None, problem]


async def test_lines_that_are_no_json(tmp_path: Path) -> None:
    """They are errors too, by their number; blank lines count for nothing."""
    path = tmp_path / "rows.jsonl"
    path.write_text('{"prompt": "a"}\n\n{"prompt": \n["b"]\n', "utf-8")
    async with batch(Server().provider(), path) as job:
        answers = [answer async for answer in job]
    errors = [answer.error["message"] for answer in answers if answer.error]
    assert errors[0].startswith("rows.jsonl, row 2: not JSON")
    assert errors[1] == "rows.jsonl, row 3: a row must be an object, not list"


@each_row(
    ("given", "problem"),
    [
        ([{"id": "a", "prompt": "x"}, {"id": "a", "prompt": "y"}], "row 2: the id 'a' is also the id of row 1"),
        ([{"id": "1", "prompt": "x"}, {"prompt": "y"}], "row 2: the id '1' is also the id of row 1"),
        ([{"text": "x"}], "no row has a prompt. Each row needs one of: prompt, messages, body"),
    ],
)
async def test_mistakes_that_stop_a_job_before_it_asks(given: list[dict[str, Any]], problem: str) -> None:
    """Two rows with one id, or no conversation anywhere."""
    server = Server()
    with pytest.raises(ConfigError, match=problem):
        await finished(batch(server.provider(), given))
    assert server.asked == []


@each_row(
    ("wrong", "problem"),
    [
        ({"concurrency": 0}, "must be at least 1"),
        ({"shard": (2, 2)}, r"shard must be \(i, n\)"),
        ({"in_flight": "again"}, "in_flight: can't be 'again'. Allowed: ask, error"),
        ({"rpm": 0}, "rpm must be greater than 0"),
        ({"temprature": 1}, "unknown option 'temprature': did you mean 'temperature'"),
    ],
)
def test_wrong_arguments(wrong: dict[str, Any], problem: str) -> None:
    """They are refused at once."""
    with pytest.raises(ConfigError, match=problem):
        batch(Server().provider(), rows(1), **wrong)


@pytest.mark.slow
async def test_a_row_that_fails_for_a_while() -> None:
    """A failure that may pass is tried again, and counted; one that stays is an error of the row."""
    server = Server({"p1": [refused(500, "oops")], "p2": [refused(400, "no such thing")]})
    async with batch(server.provider(), rows(3)) as job:
        answers = [answer async for answer in job]
    assert [answer.tries for answer in answers] == [1, 2, 1]
    assert answers[2].error is not None
    assert (answers[2].error["type"], answers[2].error["status_code"]) == ("BadRequestError", 400)


@pytest.mark.slow
async def test_a_failure_that_says_how_long_it_lasts() -> None:
    """The row is asked again when the server wants it, and not before."""
    odd = {"p0": [refused(503, "later", **{"retry-after": "0.2"}) for _ in range(4)]}
    began = anyio.current_time()
    async with batch(Server(odd).provider(), rows(1)) as job:
        (answer,) = [answer async for answer in job]
    assert (answer.error, answer.tries) == (None, 5)
    assert 0.8 <= anyio.current_time() - began


@pytest.mark.slow
async def test_too_many_requests_are_no_try() -> None:
    """A row waits as long as the server wants, and so do all the others."""
    busy = [refused(429, "slow down", **{"retry-after": "0.01"}) for _ in range(8)]
    server = Server({"p0": busy})
    async with batch(server.provider(), rows(3), tries=1) as job:
        answers = [answer async for answer in job]
    assert [answer.error for answer in answers] == [None] * 3
    assert [answer.tries for answer in answers] == [1, 1, 1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (refused(401, "Incorrect API key"), AuthenticationError),
        (httpx.Response(429, json={"error": {"message": "x", "code": "insufficient_quota"}}), QuotaExceededError),
    ],
)
async def test_a_key_that_is_refused_pauses_the_job(tmp_path: Path, response: httpx.Response, kind: type) -> None:
    """Nothing else is asked, no row becomes an error for it, and the same job goes on later."""
    server = Server({"p5": [response]})
    path = tmp_path / "ledger"
    with pytest.raises(JobPausedError, match="the job has paused") as caught:
        await finished(batch(server.provider(), rows(20), ledger=path, concurrency=1))
    assert isinstance(caught.value.__cause__, kind)
    assert server.asked == [f"p{number}" for number in range(6)]
    found = await finished(batch(server.provider(), rows(20), ledger=path))
    assert [name for name, said in found if said] == [f"r{number}" for number in range(20)]
    assert sorted(server.asked) == sorted([*(f"p{number}" for number in range(20)), "p5"])


@pytest.mark.slow
async def test_a_job_goes_on_where_it_was(tmp_path: Path) -> None:
    """Answers that came are not asked for again, and come out again."""
    server, path = Server(), tmp_path / "ledger"
    async with batch(server.provider(), rows(50), ledger=path, concurrency=5) as job:
        async for answer in job:
            if answer.number == 20:
                break
    before = len(server.asked)
    async with batch(server.provider(), rows(50), ledger=path, concurrency=5) as job:
        found = [answer.text async for answer in job]
        assert job.summary.recorded >= 21
    assert found == [f"p{number}!" for number in range(50)]
    assert len(server.asked) - before <= 50 - 21
    assert len(server.asked) <= 50 + 5  # at most what was under way


async def test_another_job_does_not_go_on(tmp_path: Path) -> None:
    """Other rows, another model or other options are said, and nothing is asked."""
    server, path = Server(), tmp_path / "ledger"
    await finished(batch(server.provider(), rows(3), ledger=path, temperature=0.5))
    before = len(server.asked)
    for given, settings, options, problem in (
        (rows(4), {}, {"temperature": 0.5}, "another job: rows was"),
        (rows(3), {"model": "other"}, {"temperature": 0.5}, "model was custom chat .* m and is custom chat .* other"),
        (rows(3), {}, {"temperature": 1}, "options was .*0.5.* and is .*1"),
        (rows(3), {}, {"temperature": 0.5, "shard": (0, 2)}, "shard was 0/1 and is 0/2"),
    ):
        with pytest.raises(ConfigError, match=problem):
            await finished(batch(server.provider(**settings), given, ledger=path, **options))
    assert len(server.asked) == before


async def test_rows_that_were_under_way_when_a_job_died(tmp_path: Path) -> None:
    """They are asked again, or are errors: as the caller wants it."""
    server = Server()
    for in_flight, said in (("ask", "p1!"), ("error", None)):
        path = tmp_path / in_flight
        with pytest.raises(JobPausedError):  # so that there is a job to go on with
            await finished(batch(Server({"p0": [refused(401, "no")]}).provider(), rows(3), ledger=path, concurrency=1))
        with Ledger(path) as ledger:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ledger.transactions.commit)
                ledger.mark_sent(1, "r1")
                await ledger.transactions.written()
                tasks.cancel_scope.cancel()
        found = await finished(batch(server.provider(), rows(3), ledger=path, in_flight=in_flight))  # type: ignore[arg-type]
        assert found == [("r0", "p0!"), ("r1", said), ("r2", "p2!")]


async def test_errors_may_be_asked_again(tmp_path: Path) -> None:
    """With `retry_errors`, and only they."""
    server, path = Server({"p1": [refused(400, "no")]}), tmp_path / "ledger"
    assert (await finished(batch(server.provider(), rows(3), ledger=path)))[1] == ("r1", None)
    assert (await finished(batch(server.provider(), rows(3), ledger=path)))[1] == ("r1", None)
    assert (await finished(batch(server.provider(), rows(3), ledger=path, retry_errors=True)))[1] == ("r1", "p1!")
    assert sorted(server.asked) == ["p0", "p1", "p1", "p2"]


async def test_one_job_writes_to_a_ledger(tmp_path: Path) -> None:
    """A second one is refused while the first is running; reading is not."""
    async with batch(Server().provider(), rows(1), ledger=tmp_path / "ledger"):
        with pytest.raises(ConfigError, match="another job is using this ledger"):
            await finished(batch(Server().provider(), rows(1), ledger=tmp_path / "ledger"))
        with Ledger(tmp_path / "ledger", readonly=True) as ledger:
            assert set(ledger.counts()) == {"sent", "done", "error"}
        # Who was refused has not given up what SQLite locks for this process: another one leaves the journal there.
        reads = "import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.execute('SELECT * FROM row'); d.close()"
        await anyio.run_process([sys.executable, "-c", reads, str(tmp_path / "ledger")])
        assert (tmp_path / "ledger-wal").exists()


async def test_a_file_that_is_no_ledger(tmp_path: Path) -> None:
    """It is left alone."""
    path = tmp_path / "ledger"
    path.write_text("dear diary\n" * 100)
    with pytest.raises(ConfigError, match="the ledger can't be used"):
        await finished(batch(Server().provider(), rows(1), ledger=path))
    assert path.read_text() == "dear diary\n" * 100


async def test_money_is_not_overspent() -> None:
    """A job stops before its answers cost more than allowed, also with many under way."""
    server = Server()
    prices = {"input": 100_000, "output": 0}  # an answer costs 1
    for concurrency, limit in ((1, 20), (4, 20), (50, 20.5)):
        before = len(server.asked)
        with pytest.raises(JobPausedError) as caught:
            await finished(batch(server.provider(prices=prices), rows(100), max_cost=limit, concurrency=concurrency))
        assert str(caught.value) == (
            f"the job has paused: max_cost is {limit}, and 20 USD are spent; an answer costs about 1"
        )
        assert len(server.asked) - before == 20


async def test_money_needs_a_price() -> None:
    """Without one a job does not begin, also if only some rows ask for a model that has none."""
    server = Server()
    for priced, models in ((False, [None]), (True, [None, "other"])):
        prices = {"models": [{"pattern": "m", "prices": {"input": 1, "output": 1}}]} if priced else {}
        given = [{"prompt": "x"} | ({"model": model} if model else {}) for model in models]
        with pytest.raises(ConfigError, match="is unknown: configure its `prices`"):
            await finished(batch(server.provider(**prices), given, max_cost=20))
    assert not server.asked


async def test_costs_and_tokens_are_summed_up(tmp_path: Path) -> None:
    """Over all runs, to the last digit."""
    server = Server()
    for _ in range(2):
        model = server.provider(prices={"input": 1, "output": 0.1})
        async with batch(model, rows(3), ledger=tmp_path / "ledger") as job:
            summary = await job.run()
        assert (summary.usage.input_tokens, summary.usage.output_tokens) == (30, 3)
        assert summary.costs["USD"].amount == Decimal("0.0000303")


async def test_the_sums_of_a_job_that_continues(tmp_path: Path) -> None:
    """They are those of a job that was never stopped: every count of tokens, and the source and date of the costs."""
    counts = {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}
    parts = {
        "prompt_tokens_details": {"cached_tokens": 6, "cache_write_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    counted = event({"choices": [], "usage": {**counts, **parts}})
    answer = httpx.Response(200, content=text("Hi") + fin("stop") + counted + DONE)
    server = Server({f"p{number}": [answer] for number in range(3)})
    model = server.provider(prices={"input": 1, "output": 0.1, "date": date(2026, 11, 1)})
    async with batch(model, rows(3), ledger=tmp_path / "ledger") as job:
        before = await job.run()
    async with batch(model, rows(3), ledger=tmp_path / "ledger") as job:
        after = await job.run()
    assert before.usage == Usage(30, 12, 42, 18, reasoning_tokens=9, cache_write_tokens=6)
    assert before.costs == {"USD": Cost(Decimal("0.0000312"), "USD", "prices", date(2026, 11, 1), estimated=True)}
    assert (after.usage, after.costs) == (before.usage, before.costs)


async def test_shards_share_the_rows(tmp_path: Path) -> None:
    """Each asks its own, and together they have all."""
    server = Server()
    parts = [
        await finished(batch(server.provider(), rows(10), shard=(part, 3), ledger=tmp_path / str(part)))
        for part in range(3)
    ]
    assert parts[1] == [("r1", "p1!"), ("r4", "p4!"), ("r7", "p7!")]
    assert sorted(server.asked) == sorted(f"p{number}" for number in range(10))


async def test_calls_are_part_of_an_answer() -> None:
    """They are recorded and not run, unless that is asked for."""
    asked = [streamed(call(entry(0, "call_a", "now", "{}")) + fin("tool_calls")) for _ in range(2)]
    server, ran = Server({"p0": asked}), []

    def now() -> str:
        """The time."""
        ran.append(1)
        return "noon"

    async with batch(server.provider(), rows(1), tools=[now]) as job:
        (answer,) = [answer async for answer in job]
    assert answer.members is not None
    assert answer.members["tool_calls"] == [{"id": "call_a", "name": "now", "arguments": {}}]
    assert ran == []
    assert await finished(batch(server.provider(), rows(1), tools=[now], run_tools=True)) == [("r0", "noon!")]
    assert ran == [1]


async def test_answers_in_one_piece(tmp_path: Path) -> None:
    """They are asked for with `stream=False`, rows with tools too; the ledger does not say how they came."""
    ran: list[int] = []

    @tool
    def now() -> str:
        """The time."""
        ran.append(1)
        return "noon"

    class Whole(Server):
        async def __call__(self, request: httpx.Request) -> httpx.Response:
            streamed = await super().__call__(request)
            return whole(streamed) if self.bodies[-1]["stream"] is False else streamed

    asked = streamed(call(entry(0, "call_a", "now", "{}")) + fin("tool_calls"))
    server = Whole({"p0": [asked]})
    job = batch(server.provider(), rows(2), ledger=tmp_path / "l", tools=[now], run_tools=True, stream=False)
    assert await finished(job) == [("r0", "noon!"), ("r1", "p1!")]
    assert (ran, [body["stream"] for body in server.bodies]) == ([1], [False] * 3)
    again = batch(server.provider(), rows(2), ledger=tmp_path / "l", tools=[now], run_tools=True)
    assert await finished(again) == [("r0", "noon!"), ("r1", "p1!")]
    assert len(server.bodies) == 3
    with pytest.raises(ConfigError, match="stream must be True or False, not 'no'"):
        batch(server.provider(), rows(1), stream="no")  # type: ignore[arg-type]


def whole(streamed: httpx.Response) -> httpx.Response:
    """The same answer, as a server sends it in one piece."""
    return httpx.Response(200, content=whole_body("chat", streamed.content))


async def test_answers_are_streamed_by_default() -> None:
    """Also those that follow many short ones, and one that is sent again after it was lost."""
    server = Server({"p30": [httpx.Response(504, content=b"the proxy would not wait")]})
    job = batch(server.provider(), rows(40), concurrency=1)
    assert [text for _, text in await finished(job)] == [f"p{at}!" for at in range(40)]
    assert [body["stream"] for body in server.bodies] == [True] * 41


async def test_answers_are_checked() -> None:
    """An answer that a check finds wrong is an error, which holds the answer."""

    def check(reply: Reply) -> str | None:
        return "not even" if reply.text in ("p1!", "p3!") else None

    async with batch(Server().provider(), rows(4), check=check) as job:
        answers = [answer async for answer in job]
    assert [bool(answer.error) for answer in answers] == [False, True, False, True]
    assert answers[1].error is not None
    assert (answers[1].error["message"], answers[1].error["reply"]["text"]) == ("not even", "p1!")


async def test_a_check_that_raises_stops_the_job() -> None:
    """What it raised is the cause, and is not taken for an answer's fault."""

    def check(reply: Reply) -> str | None:
        return {"p0!": None, "p1!": None}[reply.text]

    with pytest.raises(JobPausedError, match="stopped at row 3: KeyError") as caught:
        await finished(batch(Server().provider(), rows(10), check=check, concurrency=1))
    assert isinstance(caught.value.__cause__, KeyError)


async def test_an_error_in_the_block_is_raised_as_it_is() -> None:
    """The job stops, and what was raised is no group."""

    async def leave() -> None:
        async with batch(Server().provider(), rows(1000)) as job:
            async for _ in job:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await leave()


async def test_nothing_is_left_behind(tmp_path: Path) -> None:
    """Without a ledger no file stays; with one, its connection is closed."""
    await finished(batch(Server().provider(), rows(2), ledger=tmp_path / "ledger"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger", "ledger.lock"]


def paced(made: list[float]) -> Callable[[httpx.Request], httpx.Response]:
    def answer(request: httpx.Request) -> httpx.Response:
        made.append(anyio.current_time())
        return streamed(text("x"), prompt_tokens=99)

    return answer


@pytest.mark.slow
@pytest.mark.parametrize("limit", [{"rpm": 6000}, {"tpm": 600_000}])
async def test_a_pace_is_kept(limit: dict[str, float]) -> None:
    """A hundredth of a second for each request: never faster, whatever is used of it is settled."""
    made: list[float] = []
    client = httpx.AsyncClient(transport=httpx.MockTransport(paced(made)))
    model = Provider.from_config({"base_url": "http://127.0.0.1:9/v1", "model": "m"}, http_client=client)
    async with batch(model, rows(60), **limit) as job:  # type: ignore[arg-type]
        began = anyio.current_time()  # a busy machine only makes the last request later
        await job.run()
    assert made[-1] - began >= 59 * 0.01 * 0.8


@pytest.mark.slow
async def test_a_prompt_that_is_refused_with_403() -> None:
    """It is an error of its row if others are answered; if nobody is, the job pauses, and no row is an error."""
    for concurrency in (1, 5):
        server = Server({f"p{at}": [refused(403, "flagged")] for at in (0, 7, 19)})
        found = await finished(batch(server.provider(), rows(20), concurrency=concurrency))
        assert [name for name, said in found if said is None] == ["r0", "r7", "r19"]
        server = Server({f"p{at}": [refused(403, "no access")] for at in range(4, 100)})
        with pytest.raises(JobPausedError, match="no further row can be answered: custom: no access") as caught:
            await finished(batch(server.provider(), rows(100), concurrency=concurrency))
        assert isinstance(caught.value.__cause__, PermissionDeniedError)
        assert len(server.asked) <= 4 + 2 * concurrency + 1


@pytest.mark.slow
async def test_the_last_rows_are_refused_with_403(tmp_path: Path) -> None:
    """The job pauses; started again, when there is nothing else to ask, they are errors, which can be asked again."""
    odd = {f"p{at}": [refused(403, "no access") for _ in range(2)] for at in range(4, 10)}
    server, ledger = Server(odd), tmp_path / "ledger"
    with pytest.raises(JobPausedError):
        await finished(batch(server.provider(), rows(10), ledger=ledger))
    assert [said for _, said in await finished(batch(server.provider(), rows(10), ledger=ledger))][4:] == [None] * 6
    found = await finished(batch(server.provider(), rows(10), ledger=ledger, retry_errors=True))
    assert [said for _, said in found] == [f"p{at}!" for at in range(10)]


async def test_a_key_that_is_not_set_pauses_the_job() -> None:
    """It is said once, and not for each row."""
    server = Server()
    model = server.provider(api_key_env=["STREAMFOLD_NO_SUCH_KEY"])
    with pytest.raises(JobPausedError, match="set STREAMFOLD_NO_SUCH_KEY"):
        await finished(batch(model, rows(10)))
    assert server.asked == []


async def test_what_a_refused_answer_cost_is_spent(tmp_path: Path) -> None:
    """An answer that a check refuses is an error, and it has been paid for: in this run and in the next."""
    for _ in range(2):
        model = Server().provider(prices={"input": 1, "output": 0.1})
        async with batch(model, rows(4), ledger=tmp_path / "ledger", check=lambda reply: "no") as job:
            summary = await job.run()
        assert (summary.errors, summary.usage.input_tokens) == (4, 40)
        assert summary.costs["USD"].amount == Decimal("0.0000404")


async def test_what_a_ledger_says_to_other_programs(tmp_path: Path) -> None:
    """A row for each row that was asked, with its state as a word."""
    await finished(batch(Server({"p1": [refused(400, "no")]}).provider(), rows(3), ledger=tmp_path / "ledger"))
    with closing(sqlite3.connect(tmp_path / "ledger")) as database:
        found = database.execute("SELECT n, id, state, tries, input_tokens FROM row ORDER BY n").fetchall()
    assert found == [(0, "r0", "done", 1, 10), (1, "r1", "error", 1, None), (2, "r2", "done", 1, 10)]


@pytest.mark.parametrize("text", ["two\nlines", "\u2028", "\x00", "日本語 👩\u200d💻", '"}'])
async def test_names_and_answers_of_any_text(tmp_path: Path, text: str) -> None:
    """They come out as they went in, also from the file."""
    given = [{"id": f"{text}{at}", "prompt": f"p{at}"} for at in range(2)]
    assert await finished(batch(Server().provider(), given)) == [(f"{text}{at}", f"p{at}!") for at in range(2)]


@pytest.mark.slow
async def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """The job pauses and says so; when there is room again, it goes on with what was on the disk."""
    server, path = Server(), tmp_path / "ledger"
    async with batch(server.provider(), rows(300), ledger=path, concurrency=5) as job:
        job.ledger._writer.execute("PRAGMA max_page_count = 12")  # type: ignore[union-attr]
        with pytest.raises(JobPausedError, match=r"ledger can't be written: .*ledger: database or disk is full"):
            await job.run()
    with Ledger(path, readonly=True) as ledger:
        counts = ledger.counts()
    assert counts["done"] > 5
    assert await finished(batch(server.provider(), rows(300), ledger=path)) == [(f"r{n}", f"p{n}!") for n in range(300)]
    assert len(server.asked) <= 300 + 2 * 5


@pytest.mark.slow
async def test_a_ledger_that_is_broken(tmp_path: Path) -> None:
    """It is said, and nothing is asked."""
    path = tmp_path / "ledger"
    await finished(batch(Server().provider(), rows(300), ledger=path))
    data = path.read_bytes()
    for broken in (data[: len(data) // 2], data[:8192] + b"x" * 8192 + data[16384:]):
        path.write_bytes(broken)
        server = Server()
        with pytest.raises(ConfigError, match="database disk image is malformed"):
            await finished(batch(server.provider(), rows(300), ledger=path))
        assert server.asked == []


@pytest.mark.slow
async def test_a_job_that_is_stopped(tmp_path: Path) -> None:
    """Rows that are under way get their answers, nobody waits for a turn or another try, and it goes on later."""
    odd = {"p3": [refused(500, "oops")], "p4": [refused(429, "later", **{"retry-after": "50"})]}
    server, path = Server(odd), tmp_path / "ledger"
    async with batch(server.provider(), rows(300), ledger=path, concurrency=5) as job:
        async for answer in job:
            if answer.number == 2:
                while len(server.asked) < 5:
                    await anyio.sleep(0.01)
                job.stop()
                break
        with pytest.raises(JobPausedError, match="the job was stopped"):
            await job.run()
    assert 5 <= len(server.asked) < 50
    assert await finished(batch(server.provider(), rows(300), ledger=path)) == [(f"r{n}", f"p{n}!") for n in range(300)]
    assert len(server.asked) == 300 + 2  # nothing twice but what was refused


def test_tools_that_a_job_can_not_run() -> None:
    """Those without a function, and those that somebody must approve."""
    described = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}

    @tool(needs_approval=True)
    def pay() -> str:
        """Pays."""
        return ""

    for given, problem in ((described, "'now' has no function"), (pay, "'pay' needs approval")):
        with pytest.raises(ConfigError, match=problem):
            batch(Server().provider(), rows(1), tools=[given], run_tools=True)


async def test_a_name_that_no_file_can_hold() -> None:
    """Half of a surrogate pair, as JSON may have it: the row is an error."""
    async with batch(Server().provider(), [{"id": "\ud83d", "prompt": "x"}]) as job:
        (answer,) = [answer async for answer in job]
    assert answer.error is not None
    assert "unpaired surrogate" in answer.error["message"]


def test_names_that_are_given_twice_among_many(tmp_path: Path) -> None:
    """They are found whatever else there is, and the places of the first pair are said."""
    lines = [f'{{"id": {number % 9_000}, "prompt": "x"}}\n' for number in range(9_003)]
    lines[4] = "\ufeffnot JSON\n"
    (tmp_path / "rows.jsonl").write_text("".join(lines), "utf-8")
    with pytest.raises(ConfigError, match=r"rows\.jsonl, row 9001: the id '0' is also the id of row 1"):
        Rows(tmp_path / "rows.jsonl").check()


async def test_a_wrong_answer_is_asked_for_again() -> None:
    """As often as `tries` allows, with the usage and the cost of all replies; without `retry_checks`, never."""
    for again, asked, cost in ((False, 1, 10), (True, 3, 30)):
        server = Server()
        model = server.provider(prices={"input": 1_000_000, "output": 0})
        job = batch(model, rows(1), tries=3, check=lambda reply: "wrong", retry_checks=again)
        async with job:
            (answer,) = [each async for each in job]
        assert answer.error is not None
        assert (answer.error["type"], len(server.asked), answer.tries) == ("CheckFailed", asked, asked)
        assert answer.cost is not None
        assert (answer.usage.input_tokens, answer.cost.amount, answer.reply) == (10 * asked, cost, None)
        assert job.summary.costs["USD"].amount == cost
    verdicts = iter(["wrong", None])
    async with batch(Server().provider(), rows(1), check=lambda reply: next(verdicts), retry_checks=True) as job:
        (answer,) = [each async for each in job]
    assert (answer.error, answer.text, answer.tries, answer.usage.input_tokens) == (None, "p0!", 2, 20)


async def test_an_answer_is_a_reply() -> None:
    """With its text, calls, usage, cost and warnings, and `parse_as`."""
    server = Server({"p0": [streamed(text('{"name": "Oslo"}'))]})
    async with batch(server.provider(prices={"input": 1_000_000, "output": 0}), rows(1)) as job:
        (answer,) = [each async for each in job]
    reply = answer.reply
    assert reply is not None
    assert (reply.text, reply.finish_reason, reply.usage) == (answer.text, "stop", answer.usage)
    assert reply.cost == answer.cost
    assert reply.parse_as(dict[str, str]) == {"name": "Oslo"}
    assert answer.usage == Usage(10, 1)


async def test_the_usage_of_an_answer_in_several_requests() -> None:
    """Its steps are those that were billed, and it equals the usage of the reply."""
    ends = [("pause_turn", "One"), ("end_turn", ", two.")]
    parts = [
        {
            "type": "message", "role": "assistant", "stop_reason": reason, "content": [{"type": "text", "text": said}],
            "usage": {"input_tokens": 10, "output_tokens": 2},
        }
        for reason, said in ends
    ]  # fmt: skip
    client = httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(200, json=parts.pop(0))))
    config = {"adapter": "anthropic", "base_url": "http://127.0.0.1:9/v1", "model": "m"}
    model = Provider.from_config(config, http_client=client)
    async with batch(model, rows(1), stream=False) as job:
        (answer,) = [each async for each in job]
    assert (answer.error, answer.text) == (None, "One, two.")
    assert answer.usage == Usage(20, 4, 24, steps=(Usage(10, 2, 12), Usage(10, 2, 12)))
    assert answer.reply is not None
    assert answer.reply.usage == answer.usage
