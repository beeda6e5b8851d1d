"""Rows handed over to a provider's batch API: each once, whatever dies on the way, and answered like live rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from batch_servers import ANSWER, KEY, BatchServer, FilesServer, GeminiServer, MessagesServer, Refused
from scale import some
from streamfold import ConfigError, Provider, Reply
from streamfold_jobs import Answer, BatchJob, BatchStore, JobPausedError, Ledger, batch
from streamfold_jobs.provider_batches import runner, submit

ANTHROPIC = {"adapter": "anthropic", "key_header": "x-api-key"}
GEMINI = {"adapter": "gemini", "key_header": "x-goog-api-key", "base_url": "http://127.0.0.1:9/v1beta"}
ROWS = [{"id": f"row-{number}", "prompt": f"p{number}"} for number in range(5)]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is on its way for long here."""
    monkeypatch.setattr(runner, "_FIRST_POLL", 0.001)
    monkeypatch.setattr(runner, "_LAST_POLL", 0.001)
    monkeypatch.setattr(submit, "_UNDER_WAY", 0.01)
    monkeypatch.setattr(submit, "_SEARCH", 0.005)
    monkeypatch.setattr(submit, "pauses", lambda: [0.001] * 3)


class Killed(BaseException):
    """The process is killed here."""


def provider(server: BatchServer, **settings: Any) -> Provider:
    made = {"base_url": "http://127.0.0.1:9/v1", "api_key": KEY, "model": "m", "max_retries": 0, **settings}
    return Provider.from_config(made, http_client=server.client())


def job(server: BatchServer, path: Path, rows: Any = ROWS, settings: Any = None, **options: Any) -> BatchJob:
    return batch(provider(server, **(settings or {})), rows, ledger=path / "ledger", via="provider-batch", **options)


async def answers(made: BatchJob) -> list[Answer]:
    async with made:
        return [answer async for answer in made]


async def test_rows_are_answered_in_their_order(tmp_path: Path) -> None:
    """A batch is uploaded, created, looked at until it has ended, and its results are the answers to the rows."""
    server = FilesServer()
    found = await answers(job(server, tmp_path))
    assert [(answer.id, answer.text) for answer in found] == [
        (f"row-{number}", ANSWER.format(f"p{number}")) for number in range(5)
    ]
    assert found[0].members is not None
    assert found[0].members["request_id"] == "req_p0"
    assert found[0].usage.input_tokens == 1000
    assert server.calls == [
        "POST /v1/files",
        "POST /v1/batches",
        *["GET /v1/batches/batch_0"] * 3,
        "GET /v1/files/file-1/content",
    ]


async def test_answers_are_those_of_live_rows(tmp_path: Path) -> None:
    """Calls, warnings and finish reasons are read by the same engine as a streamed answer."""
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
            {"id": "c2", "type": "function", "function": {"name": "f", "arguments": '{"x'}},
        ],
    }
    called = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}], "model": "m-1"}
    cut = {"choices": [{"index": 0, "message": message, "finish_reason": "length"}], "model": "m-1"}
    server = FilesServer(odd={"p0": (200, called), "p1": (200, cut)})
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    found = await answers(job(server, tmp_path, tools=[tool]))
    assert found[0].members is not None
    assert found[1].members is not None
    calls = [(call["id"], call["arguments"], call.get("error")) for call in found[0].members["tool_calls"]]
    assert calls[0] == ("c1", {"x": 1}, None)
    assert calls[1][2] == "invalid_json"
    assert found[1].members["tool_calls"] == []
    assert found[1].members["finish_reason"] == "length"
    assert found[0].members["model"] == "m-1"


async def test_rows_that_failed_are_errors_and_are_asked_again_in_a_new_batch(tmp_path: Path) -> None:
    """An error, an expired request and one without a result are rows of their own; `retry_errors` asks them again."""
    refused = (400, {"error": {"message": "bad prompt", "type": "invalid_request_error"}})
    server = FilesServer(odd={"p1": refused, "p2": "expired", "p3": "missing"})
    found = await answers(job(server, tmp_path))
    assert [answer.error is not None for answer in found] == [False, True, True, True, False]
    told = [answer.error or {} for answer in found]
    assert told[1]["type"] == "BadRequestError"
    assert "bad prompt" in told[1]["message"]
    assert "completion window expired" in told[2]["message"]
    assert [error["retryable"] for error in told[1:4]] == [False, True, True]
    assert told[3]["type"] == "NoResult"

    assert await answers(job(server, tmp_path)) == found
    assert len(server.created) == 1

    server.odd = {}
    again = await answers(job(server, tmp_path, retry_errors=True))
    assert [answer.error for answer in again] == [None] * 5
    assert len(server.created) == 2
    assert server.files["file-3"]["content"].count(b"\n") == 3


async def test_a_row_that_cannot_be_sent_is_an_error(tmp_path: Path) -> None:
    """What is wrong with one row keeps no other out of the batch."""
    rows = [{"prompt": "a"}, {"promt": "b"}, {"prompt": "c", "options": {"extra_headers": {"X": "1"}}}, {"prompt": "d"}]
    found = await answers(job(FilesServer(), tmp_path, rows))
    assert [answer.error["message"] if answer.error else None for answer in found] == [
        None,
        (
            "row 2: unknown key 'promt' (did you mean 'prompt'?). Allowed: id, prompt, messages, system, model,"
            " options, tools, tool_choice"
        ),
        "extra_headers: a request in a batch can't have headers",
        None,
    ]


@pytest.mark.slow
async def test_rows_are_split_by_the_limits_of_the_provider(tmp_path: Path) -> None:
    """A batch has one model, and no more requests and bytes than the provider takes."""
    rows = [{"prompt": f"p{number}", "model": f"m{number % 2}"} for number in range(10)]
    server = FilesServer(most=2, page=100)
    found = await answers(job(server, tmp_path, rows, {"batches": {"rows": 2}}))
    assert [answer.text for answer in found] == [ANSWER.format(f"p{number}") for number in range(10)]
    assert len(server.created) == 6

    server = FilesServer()
    sizes = {"batches": {"bytes": 500}}
    (tmp_path / "small").mkdir()
    found = await answers(job(server, tmp_path / "small", [*ROWS, {"prompt": "x" * 500}], sizes))
    assert [answer.error is None for answer in found] == [True] * 5 + [False]
    assert len(server.created) > 1
    assert all(len(file["content"]) <= 500 for file in server.files.values() if file["purpose"] == "batch")


async def test_a_batch_that_failed_makes_its_rows_errors(tmp_path: Path) -> None:
    """The provider's words for it are in each of them."""
    server = FilesServer(failing=True)
    found = await answers(job(server, tmp_path))
    assert {(answer.error or {})["type"] for answer in found} == {"BatchFailed"}
    assert "token_limit_exceeded" in (found[0].error or {})["message"]


async def test_without_waiting_the_job_pauses(tmp_path: Path) -> None:
    """`wait=False` hands the rows over; the next run fetches what is there."""
    server = FilesServer(looks=1)
    with pytest.raises(JobPausedError, match=r"1 batch at the provider, 0 of 5 requests done \(batch_0\)"):
        await answers(job(server, tmp_path, wait=False))
    with Ledger(tmp_path / "ledger", readonly=True) as ledger:
        assert [(found.id, found.state, found.rows) for found in BatchStore(ledger).all()] == [
            ("batch_0", "created", 5)
        ]
    found = await answers(job(server, tmp_path, wait=False))
    assert [answer.error for answer in found] == [None] * 5
    assert len(server.created) == 1


@pytest.mark.slow
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("metadata", [True, False])
async def test_a_batch_is_created_once_whatever_call_the_job_dies_in(tmp_path: Path, side: str, metadata: bool) -> None:
    """A job that is killed before or after any call goes on where it was, and no row is handed over twice."""
    for at in some(range(6), 3):
        server = FilesServer(with_metadata=metadata)

        def kill(number: int, at: int = at) -> None:
            if number == at:
                raise Killed

        setattr(server, side, kill)
        folder = tmp_path / f"{at}"
        folder.mkdir()
        with pytest.raises(BaseExceptionGroup):
            await answers(job(server, folder))
        found = await answers(job(server, folder))
        assert [answer.error for answer in found] == [None] * 5
        assert len(server.created) == 1, f"{side} call {at}: {server.calls}"
        assert len([file for file in server.files.values() if file["purpose"] == "batch"]) == 1


async def test_a_call_that_breaks_off_is_not_repeated_blindly(tmp_path: Path) -> None:
    """A server that creates a batch and answers 500 is asked for its list before anything is created again."""
    server = FilesServer(broken={1})
    found = await answers(job(server, tmp_path))
    assert [answer.error for answer in found] == [None] * 5
    assert len(server.created) == 1
    assert "GET /v1/batches" in server.calls


async def test_a_batch_that_was_refused_is_created_later(tmp_path: Path) -> None:
    """Being told to wait is no failure; another refusal pauses the job, and the next run creates the batch."""
    server = FilesServer()
    await _refuse_once(server, "POST /v1/batches", 429)
    assert [answer.error for answer in await answers(job(server, tmp_path))] == [None] * 5
    assert len(server.created) == 1

    other = FilesServer()
    await _refuse_once(other, "POST /v1/batches", 403)
    (tmp_path / "other").mkdir()
    with pytest.raises(JobPausedError, match="no, not now"):
        await answers(job(other, tmp_path / "other"))
    assert [answer.error for answer in await answers(job(other, tmp_path / "other"))] == [None] * 5
    assert len(other.created) == 1
    assert other.calls.count("POST /v1/files") == 1


async def test_a_batch_that_is_refused_holds_up_no_other(tmp_path: Path) -> None:
    """If one of several batches can't be created, the job pauses, and has the answers of those that have ended."""
    server = FilesServer(looks=0)
    carry_out = server.carry_out

    def refuse_second(made: Any) -> Any:
        if made.method == "POST" and made.path == "/v1/batches" and server.created:
            raise Refused("this model has no batches")
        return carry_out(made)

    server.carry_out = refuse_second  # type: ignore[method-assign]
    rows = [{"prompt": f"p{number}", "model": f"m{number % 2}"} for number in range(4)]
    with pytest.raises(JobPausedError, match="this model has no batches"):
        async with job(server, tmp_path, rows) as made:
            await made.run()
    assert (made.summary.done, made.summary.errors) == (2, 0)
    server.carry_out = carry_out  # type: ignore[method-assign]
    found = await answers(job(server, tmp_path, rows))
    assert [answer.text for answer in found] == [ANSWER.format(f"p{number}") for number in range(4)]
    assert len(server.created) == 2


async def _refuse_once(server: FilesServer, call: str, status: int) -> None:
    carry_out, refused = server.carry_out, []

    def first_refuse(made: Any) -> Any:
        if f"{made.method} {made.path}" == call and not refused:
            refused.append(call)
            raise Refused("no, not now", status)
        return carry_out(made)

    server.carry_out = first_refuse  # type: ignore[method-assign]


async def test_batches_belong_to_the_account_that_created_them(tmp_path: Path) -> None:
    """With another key nothing is looked for, and so nothing is created a second time."""
    server = FilesServer()
    with pytest.raises(JobPausedError):
        await answers(job(server, tmp_path, wait=False))
    calls = len(server.calls)
    with pytest.raises(JobPausedError, match="created with another API key"):
        await answers(job(server, tmp_path, settings={"api_key": "other"}))
    assert len(server.calls) == calls


async def test_a_ledger_is_of_one_way_of_asking(tmp_path: Path) -> None:
    """Rows that a provider's batch has are never asked by live requests too."""
    server = FilesServer()
    with pytest.raises(JobPausedError):
        await answers(job(server, tmp_path, wait=False))
    with pytest.raises(ConfigError, match="via was provider-batch and is live"):
        await answers(batch(provider(server), ROWS, ledger=tmp_path / "ledger"))


async def test_a_look_that_fails_is_repeated(tmp_path: Path) -> None:
    """A job that waits for hours survives a server that is away for a moment."""
    server = FilesServer(broken={2, 3, 6})
    assert [answer.error for answer in await answers(job(server, tmp_path))] == [None] * 5


async def test_a_check_that_fails_loses_nothing(tmp_path: Path) -> None:
    """A check says what is wrong with an answer; one that raises stops the job, which goes on where it was."""
    server = FilesServer()

    def broken(reply: Reply) -> str | None:
        raise ValueError("my mistake")

    with pytest.raises(JobPausedError, match="ValueError: my mistake"):
        await answers(job(server, tmp_path, check=broken))
    found = await answers(job(server, tmp_path, check=lambda reply: "no" if "p1" in reply.text else None))
    assert [answer.error is None for answer in found] == [True, False, True, True, True]
    assert len(server.created) == 1


async def test_a_provider_without_batches_says_so(tmp_path: Path) -> None:
    """Servers without a batch API answer 404: the job pauses with their words."""
    server = FilesServer()

    def nothing(call: Any) -> Any:
        raise Refused("no such path", 404)

    server.carry_out = nothing  # type: ignore[method-assign]
    with pytest.raises(JobPausedError, match="no such path"):
        await answers(job(server, tmp_path))


@pytest.mark.parametrize("name", ["rpm", "tpm", "max_cost", "run_tools"])
async def test_what_a_batch_cannot_keep_is_refused(tmp_path: Path, name: str) -> None:
    """Limits that only live requests can keep are not silently ignored."""
    with pytest.raises(ConfigError, match=f"{name} can't be combined with provider batches"):
        job(FilesServer(), tmp_path, **{name: 1})


async def test_arguments_are_checked(tmp_path: Path) -> None:
    """Without a ledger, or with a misspelled way of asking, nothing is begun."""
    with pytest.raises(ConfigError, match="need a ledger"):
        batch(provider(FilesServer()), ROWS, via="provider-batch")
    with pytest.raises(ConfigError, match="Allowed: live, provider-batch"):
        batch(provider(FilesServer()), ROWS, via="batch")  # type: ignore[arg-type]


async def test_a_budget_is_not_exceeded_by_a_batch(tmp_path: Path) -> None:
    """What a batch costs is known when it has ended, so a provider with a budget takes none."""
    with pytest.raises(ConfigError, match="can't be used with max_cost_per_day of custom"):
        job(FilesServer(), tmp_path, settings={"max_cost_per_day": 1.0, "prices": {"input": 1, "output": 1}})


async def test_a_job_that_is_stopped_leaves_its_batches(tmp_path: Path) -> None:
    """`stop` ends the waiting at once; the next run fetches the answers."""
    server = FilesServer(looks=10**9)
    async with job(server, tmp_path) as made:
        with anyio.fail_after(10):
            while made.status_text != "1 batch at the provider, 0 of 5 requests done":
                await anyio.sleep(0.001)
            made.stop()
            with pytest.raises(JobPausedError, match="the job was stopped"):
                await made.run()
    server.looks = 0
    assert [answer.error for answer in await answers(job(server, tmp_path))] == [None] * 5
    assert len(server.created) == 1


async def test_responses_have_batches_of_their_own(tmp_path: Path) -> None:
    """The endpoint of a batch is that of the adapter."""
    server = FilesServer(endpoint="/v1/responses")
    found = await answers(job(server, tmp_path, settings={"adapter": "responses"}))
    assert [answer.text for answer in found] == [ANSWER.format(f"p{number}") for number in range(5)]


async def test_together_has_another_purpose_and_capitals(tmp_path: Path) -> None:
    """What differs between providers is in the table `batches`, or is read as it comes."""
    server = FilesServer(purpose="batch-api", wrapped=True)
    found = await answers(job(server, tmp_path, settings={"batches": {"purpose": "batch-api"}}))
    assert [answer.error for answer in found] == [None] * 5


@pytest.mark.parametrize(("share", "amount", "estimated"), [(0.5, "0.0075", False), (None, "0.015", True)])
async def test_cost_of_a_batch(tmp_path: Path, share: float | None, amount: str, estimated: bool) -> None:
    """Answers of a batch cost the share that is known; if none is, the full price is marked as estimated."""
    prices = {"input": 5, "output": 100, **({"batch": share} if share else {})}
    found = await answers(job(FilesServer(), tmp_path, settings={"prices": prices}))
    cost = found[0].cost
    assert cost is not None
    assert (f"{cost.amount.normalize():f}", cost.estimated) == (amount, estimated)


async def test_secrets_stay_out_of_the_ledger(tmp_path: Path) -> None:
    """The account is a digest."""
    await answers(job(FilesServer(), tmp_path))
    assert KEY.encode() not in (tmp_path / "ledger").read_bytes()


# --- Anthropic and Gemini ---------------------------------------------------------------------------------------------


async def test_message_batches(tmp_path: Path) -> None:
    """Rows become requests of one call, and each kind of result an answer or an error."""
    refused = (400, {"type": "error", "error": {"type": "invalid_request_error", "message": "bad prompt"}})
    server = MessagesServer(odd={"p1": refused, "p2": "expired", "p3": "canceled"})
    found = await answers(job(server, tmp_path, settings=ANTHROPIC))
    assert [answer.text for answer in found] == [ANSWER.format("p0"), "", "", "", ANSWER.format("p4")]
    told = [(answer.error or {}).get("message", "") for answer in found]
    assert [(answer.error or {}).get("retryable") for answer in found] == [None, False, True, True, None]
    assert "bad prompt" in told[1]
    assert told[2] == "custom: the batch expired before this request was processed"
    assert told[3] == "custom: the batch was canceled before this request was processed"
    assert found[0].usage.input_tokens == 1000
    assert server.calls == [
        "POST /v1/messages/batches",
        *["GET /v1/messages/batches/msgbatch_0"] * 3,
        "GET /v1/messages/batches/msgbatch_0/results",
    ]


async def test_requests_of_a_message_batch_share_their_headers(tmp_path: Path) -> None:
    """A beta feature that some rows ask for is a header, so they get a batch of their own."""
    rows = [{"prompt": "a"}, {"prompt": "b", "options": {"extra_body": {"betas": ["new-2026"]}}}, {"prompt": "c"}]
    server = MessagesServer()
    assert [answer.error for answer in await answers(job(server, tmp_path, rows, ANTHROPIC))] == [None] * 3
    assert [len(batch["requests"]) for batch in server.created.values()] == [2, 1]


@pytest.mark.parametrize("keyless", [False, True])
async def test_batches_of_gemini(tmp_path: Path, keyless: bool) -> None:
    """Results come with the operation, in the order of the requests if they have no keys."""
    odd = {"p1": (0, {"error": {"code": 3, "message": "bad prompt"}})}
    server = GeminiServer(keyless=keyless, odd=odd)
    found = await answers(job(server, tmp_path, settings=GEMINI))
    texts = [ANSWER.format(f"p{number}") for number in range(5)]
    assert [answer.text for answer in found] == [texts[0], "", *texts[2:]]
    assert "bad prompt" in (found[1].error or {})["message"]
    assert server.calls == [
        "POST /v1beta/models/m:batchGenerateContent",
        *["GET /v1beta/batches/b0"] * 4,
    ]


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("kind", [MessagesServer, GeminiServer])
async def test_batches_of_other_apis_are_created_once(tmp_path: Path, side: str, kind: type[BatchServer]) -> None:
    """A job that is killed before or after any call hands no row over twice."""
    settings = ANTHROPIC if kind is MessagesServer else GEMINI
    for at in some(range(4), 2):
        server = kind()

        def kill(number: int, at: int = at) -> None:
            if number == at:
                raise Killed

        setattr(server, side, kill)
        folder = tmp_path / f"{at}"
        folder.mkdir()
        with pytest.raises(BaseExceptionGroup):
            await answers(job(server, folder, settings=settings))
        found = await answers(job(server, folder, settings=settings))
        assert [answer.error for answer in found] == [None] * 5
        assert len(server.created) == 1, f"{side} call {at}: {server.calls}"


async def test_a_batch_of_somebody_else_is_not_taken_for_ours(tmp_path: Path) -> None:
    """A list of Anthropic's shows no requests: what looks like ours is ours if its results have our names."""
    server = MessagesServer()
    params = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "p"}]}

    def kill(number: int) -> None:
        if number == 0:
            server.add([{"custom_id": f"theirs-{number}", "params": params} for number in range(5)])
            raise Killed

    server.before = kill
    with pytest.raises(BaseExceptionGroup):
        await answers(job(server, tmp_path, settings=ANTHROPIC))
    found = await answers(job(server, tmp_path, settings=ANTHROPIC))
    assert [answer.text for answer in found] == [ANSWER.format(f"p{number}") for number in range(5)]
    assert len(server.created) == 2


@pytest.mark.parametrize("platform", ["bedrock", "vertex"])
async def test_platforms_without_batches_say_so(tmp_path: Path, platform: str) -> None:
    """Bedrock and Vertex AI read batches from storage of their own."""
    settings = {**ANTHROPIC, "quirks": {"platform": platform}}
    with pytest.raises(ConfigError, match="provider batches are not supported with adapter 'anthropic'"):
        job(MessagesServer(), tmp_path, settings=settings)
