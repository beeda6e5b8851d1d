"""The function `batch` and the class `BatchJob`, the running job that it returns. The job yields one answer for every
row, in the order of the rows.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Self

import anyio
import anyio.abc
import anyio.to_thread

from streamfold import ChatModel, ConfigError, Reply, StreamfoldError
from streamfold.middleware import check_model, get_model_info
from streamfold.tools import as_tools
from streamfold.types import ToolLike

from .answers import Answer, JobSummary
from .ledger import Ledger
from .live_requests import LiveBackend, Pacing
from .provider_batches import ProviderBatchBackend
from .queue import JobBackend, RowQueue
from .rows import Rows
from .settings import JobPausedError, JobSettings

_BATCH = 100  # number of answers in each read from the ledger


def batch(
    model: ChatModel,
    rows: str | os.PathLike[str] | Iterable[Mapping[str, Any]],
    *,
    ledger: str | os.PathLike[str] | None = None,
    concurrency: int = 50,
    tries: int = 5,
    rpm: float | None = None,
    tpm: float | None = None,
    max_cost: float | None = None,
    in_flight: Literal["ask", "error"] = "ask",
    retry_errors: bool = False,
    shard: tuple[int, int] = (0, 1),
    tools: Iterable[ToolLike] = (),
    run_tools: bool = False,
    check: Callable[[Reply], str | None] | None = None,
    retry_checks: bool = False,
    via: Literal["live", "provider-batch"] = "live",
    wait: bool = True,
    stream: bool = True,
    **options: Any,
) -> BatchJob:
    """Returns a job that sends many rows to a model and yields one answer for each row.

        async with batch(provider, "rows.jsonl", ledger="rows.ledger") as job:
            async for answer in job:
                print(answer.id, answer.text)

    To continue a stopped or killed job, start it again with the same ledger. The job doesn't send rows with an answer
    again, and yields all answers in the order of the rows. Only rows that were in flight when the job was killed are
    sent a second time: at most `concurrency` rows.

    Args:
        rows: a `.jsonl` or `.parquet` file, or mappings. A row has `prompt` or `messages`, and may have `id`, `system`,
            `model`, `options`, `tools` and `tool_choice`. Lines of OpenAI's Batch API are accepted too.
        ledger: the file in which the job records sent rows and answers. Without a ledger, a stopped job can't continue.
        concurrency: maximum number of rows in flight at the same time.
        tries: the maximum number of times that the job sends a row. A request that the provider rejects with a 429
            doesn't count.
        rpm, tpm: maximum requests and tokens per minute.
        max_cost: the job pauses before its total cost exceeds this amount, in the currency of the provider's prices.
        in_flight: what happens to rows that were in flight when the job was killed: "ask" sends them again, "error"
            records an error for them.
        retry_errors: also send rows for which an earlier run recorded an error.
        shard: `(i, n)`: send only every n-th row, beginning with row i. Each shard of a job needs its own ledger.
        tools: the tools for rows without `tools`.
        run_tools: run the tools that the model calls, and send the results to the model. If false, the answers contain
            the tool calls.
        check: a function that returns what is wrong with a reply, or None. If the function rejects a row's reply, the
            row ends with an error.
        retry_checks: if `check` rejects a reply, send the row again, up to `tries` times. The row's usage and cost then
            include the rejected replies.
        via: "provider-batch" sends the rows through the provider's batch API, which may take hours and often costs half
            the price. A job with "provider-batch" needs a ledger, and can't have `rpm`, `tpm`, `max_cost`, `run_tools`
            or `retry_checks`.
        wait: with "provider-batch", wait for the answers. If false, the job pauses after it has submitted all rows.
            Start it again to fetch the answers.
        stream: request streamed answers. For short answers, `stream=False` needs less CPU time.
        options: options for all rows; see `chat_stream`. Options in a row take precedence.

    Raises:
        ConfigError: an argument is invalid. `async with` raises the errors that it finds in the rows and in the ledger.
    """
    check_model(model, "batch()")
    settings = JobSettings(
        concurrency, tries, max_cost, in_flight, retry_errors, shard, as_tools(tools), run_tools, check, options,
        stream, retry_checks,
    )  # fmt: skip
    backend = _make_backend(settings, model, via, ledger, wait, {"rpm": rpm, "tpm": tpm})
    return BatchJob(model, Rows(rows), ledger, settings, backend)


def _make_backend(
    settings: JobSettings, model: ChatModel, via: str, ledger: object, wait: bool, rates: Mapping[str, float | None]
) -> JobBackend:
    if via == "live":
        return LiveBackend(settings, Pacing(model, **rates))
    if via != "provider-batch":
        raise ConfigError(f"via: can't be {via!r}. Allowed: live, provider-batch")
    limits = {**rates, "max_cost": settings.max_cost, "run_tools": settings.run_tools or None}
    limits["retry_checks"] = settings.retry_checks or None
    given = [name for name, value in limits.items() if value is not None]
    if given:
        raise ConfigError(f"{given[0]} can't be combined with provider batches")
    if ledger is None:
        raise ConfigError("provider batches need a ledger, so that a restarted job finds its batches")
    facts = get_model_info(model)
    if facts is None or (direct := facts.direct) is None:
        raise ConfigError(f"provider batches need a single provider, and {model.name} isn't one")
    if direct.limiter is not None and direct.limiter.limits_cost:
        raise ConfigError(
            f"provider batches can't be used with max_cost_per_day of {model.name}, because their cost is known only at"
            " the end: use live requests, or a provider without a budget"
        )
    return ProviderBatchBackend(direct, wait=wait)


class BatchJob:
    """A running job: an async context manager, and an async iterator of its answers in the order of the rows."""

    def __init__(
        self,
        model: ChatModel,
        rows: Rows,
        ledger: str | os.PathLike[str] | None,
        settings: JobSettings,
        backend: JobBackend,
    ) -> None:
        self._model = model
        self._rows = rows
        self._path = ledger
        self._settings = settings
        self._backend = backend
        self._ended = False  # true if no more rows are sent
        self._next = settings.shard[0]  # the number of the row whose answer is yielded next
        self._ready: deque[Answer] = deque()
        self._read = False  # true if all answers were yielded

    async def __aenter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory() if self._path is None else None
        path = Path(self._folder.name) / "ledger" if self._folder else Path(str(self._path))
        try:
            ledger = await _open_ledger(path)
        except BaseException:
            self._clean_up()
            raise
        self._queue = RowQueue(self._rows, ledger, self._settings, self._model.name)
        try:
            identity = _identity(self._model, self._settings, self._backend.via)
            await anyio.to_thread.run_sync(self._queue.begin, identity, self._priced)
            self._tasks = anyio.create_task_group()
            await self._tasks.__aenter__()
        except BaseException:
            ledger.close()
            self._clean_up()
            raise
        self._tasks.start_soon(self._send_rows)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._tasks.cancel_scope.cancel()
        try:
            await self._tasks.__aexit__(None, None, None)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self.ledger.close)
            self._clean_up()

    @property
    def summary(self) -> JobSummary:
        """The progress of the job."""
        return self._queue.summary

    @property
    def status_text(self) -> str:
        """How many requests of the job's provider batches have finished, as text; empty for a job without provider
        batches.
        """
        return self._queue.status_text

    @property
    def ledger(self) -> Ledger:
        """The ledger of the job. It exists only inside `async with`."""
        return self._queue.ledger

    def stop(self) -> None:
        """Stops sending rows. The job waits for the rows in flight, then `run` raises JobPausedError."""
        self._queue.stop("the job was stopped")

    async def run(self) -> JobSummary:
        """Sends the rows, and waits until every row has an answer or an error.

        Raises:
            JobPausedError: the job was stopped, or couldn't continue.
        """
        while not self._ended:
            await self._queue.wait_for_change()
        if self._queue.stopped is not None and not self._queue.complete:
            raise self._queue.stopped
        return self.summary

    def __aiter__(self) -> Self:
        if self._read:
            raise StreamfoldError("the answers of this job have already been read; they are in its ledger")
        return self

    async def __anext__(self) -> Answer:
        while not self._ready:
            if self._next >= self._queue.count:
                self._read = True
                raise StopAsyncIteration
            if group := self._queue.ended_rows(self._next, _BATCH):
                # Not in another thread, which would wait for Python's lock after each row.
                self._ready = deque(self.ledger.answers(self._next, len(group)))
            elif self._ended:
                raise self._queue.stopped or StreamfoldError(
                    "the job has ended: read its answers inside the `async with` block"
                )
            else:
                await self._queue.wait_for_change()
        answer = self._ready.popleft()
        self._next = answer.number + self._settings.shard[1]
        return answer

    async def _send_rows(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.ledger.transactions.commit)
            try:
                await self._backend.send_rows(self._queue)
                await self.ledger.transactions.written()
            except JobPausedError as error:
                self._queue.stop(str(error), error.__cause__)
            finally:
                tasks.cancel_scope.cancel()
                self._ended = True
                self._queue.notify()

    def _priced(self, model: str | None) -> bool:
        facts = get_model_info(self._model)
        return facts is None or facts.is_priced(model or self._settings.options.get("model"))

    def _clean_up(self) -> None:
        if self._folder is not None:
            with suppress(OSError):
                self._folder.cleanup()


async def _open_ledger(path: Path) -> Ledger:
    """Opens a ledger in a thread. If the task is cancelled meanwhile, the thread closes the ledger again."""
    opened: list[Ledger] = []  # its `pop` is atomic: only one of the two threads closes
    left = False

    def close() -> None:
        with suppress(IndexError):
            opened.pop().close()

    def run() -> None:
        opened.append(Ledger(path))
        if left:
            close()

    try:
        await anyio.to_thread.run_sync(run)
    except BaseException:
        left = True
        close()
        raise
    return opened[0]


def _identity(model: ChatModel, settings: JobSettings, via: str) -> dict[str, str]:
    """Describes the model, the options and the tools of a job. A later run continues the job only if its description is
    the same.
    """

    def as_json(value: Any) -> Any:
        schema = getattr(value, "model_json_schema", None)
        return schema() if callable(schema) else str(value)

    facts = get_model_info(model)
    tools = [[tool.kind, tool.name, tool.description, tool.parameters, tool.strict] for tool in settings.tools]
    digest = hashlib.sha256(json.dumps(tools, sort_keys=True, default=str).encode()).hexdigest()
    names = ", ".join(tool.name for tool in settings.tools)
    return {
        "model": ", then ".join(map(str, facts.endpoints)) if facts else model.name,
        "options": json.dumps(settings.options, sort_keys=True, default=as_json),
        "tools": f"{names} ({digest[:16]})" if tools else "none",
        "run_tools": str(settings.run_tools).lower(),
        "via": via,
    }
