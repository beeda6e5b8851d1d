"""How a job is begun."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from streamfold import ChatModel, ConfigError, Reply
from streamfold.middleware import get_model_info
from streamfold.tools import as_tools
from streamfold.types import ToolLike

from .job import BatchJob
from .live_requests import LiveBackend
from .pacing import Pacing
from .provider_batches import ProviderBatchBackend
from .row_queue import JobBackend
from .rows import Rows
from .settings import JobSettings


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
    via: Literal["live", "provider-batch"] = "live",
    wait: bool = True,
    stream: bool | None = None,
    **options: Any,
) -> BatchJob:
    """Returns a job that asks a model about many rows, and has one answer for each.

        async with batch(provider, "rows.jsonl", ledger="rows.ledger") as job:
            async for answer in job:
                print(answer.id, answer.text)

    A job that was stopped or killed goes on where it was when it is started again with the same ledger: answers that
    came are never asked for again, and come out again in their order. At most `concurrency` rows, which were under way
    when it was killed, are asked again.

    Args:
        rows: a `.jsonl` or `.parquet` file, or mappings. A row has `prompt` or `messages`, and may have `id`, `system`,
            `model`, `options`, `tools` and `tool_choice`; or it is a line of OpenAI's Batch API.
        ledger: the file that remembers what was sent and what came back. Without one, nothing survives the job.
        concurrency: how many rows are asked at once.
        tries: how often a row is asked before it is an error. Being told to wait is no try.
        rpm, tpm: requests and tokens a minute.
        max_cost: stop before answers cost more than this, in their currency.
        in_flight: what happens to rows that had been sent when the job died: they are asked again, or are errors.
        retry_errors: ask again for rows that were errors in an earlier run.
        shard: `(i, n)`: ask only every n-th row, beginning with row i. Shards of one job have ledgers of their own.
        tools: for all rows that have none of their own.
        run_tools: run the calls with `run_tools`; without it they are part of the answer.
        check: looks at each reply, and returns what is wrong with it; such a row is an error.
        via: "provider-batch" hands the rows over to the provider's batch API, which answers within hours and often for
            half the price. It needs a ledger, and takes none of `rpm`, `tpm`, `max_cost` and `run_tools`.
        wait: with "provider-batch": wait for the answers. Otherwise the job pauses when all rows are handed over, and
            fetches the answers that are there when it is started again.
        stream: False fetches answers in one piece, which costs less to read. Default: once they are known to be short.
        options: for all rows, as for `chat_stream`; those of a row win.

    Raises:
        ConfigError: an argument is wrong. What is wrong with the rows or the ledger is raised by `async with`.
    """
    settings = JobSettings(
        concurrency, tries, max_cost, in_flight, retry_errors, shard, as_tools(tools), run_tools, check, options, stream
    )
    asker = _asker(settings, model, via, ledger, wait, {"rpm": rpm, "tpm": tpm})
    return BatchJob(model, Rows(rows), ledger, settings, asker)


def _asker(
    settings: JobSettings, model: ChatModel, via: str, ledger: object, wait: bool, rates: Mapping[str, float | None]
) -> JobBackend:
    if via == "live":
        return LiveBackend(settings, Pacing(model, **rates))
    if via != "provider-batch":
        raise ConfigError(f"via: can't be {via!r}. Allowed: live, provider-batch")
    limits = {**rates, "max_cost": settings.max_cost, "run_tools": settings.run_tools or None}
    given = [name for name, value in limits.items() if value is not None]
    if given:
        raise ConfigError(f"{given[0]} is not available with batches of the provider: leave it out")
    if ledger is None:
        raise ConfigError("batches of the provider need a ledger: it knows them when the job is started again")
    facts = get_model_info(model)
    if facts is None or (direct := facts.direct) is None:
        raise ConfigError(f"batches are handed over to one provider, and {model.name} is something else")
    if direct.limiter is not None and direct.limiter.limits_cost:
        raise ConfigError(
            f"batches of the provider can't be kept within max_cost_per_day of {model.name}, because what they cost is"
            " known when they have ended: ask by live requests, or use a provider without a budget"
        )
    return ProviderBatchBackend(direct, wait=wait)
