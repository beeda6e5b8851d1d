"""Rows that have no answer yet, what came of the others, and the budget (`max_cost`).

Rows may be sent in several ways: as live requests, or in batches of the provider. Each of them is a `JobBackend`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Literal, Protocol

import anyio

from streamfold import ConfigError, Usage

from .answers import Answer, JobSummary, error_members
from .ledger import DONE, ERROR, SENT, Ledger
from .rows import Row, Rows
from .settings import JobPausedError, JobSettings


class JobBackend(Protocol):
    """Sends the rows of a job.

    Attributes:
        via: the name of the backend. A ledger belongs to one of them.
    """

    via: str

    async def send_rows(self, queue: RowQueue) -> None:
        """Sends every row of `queue.pending()`, until all have ended or the queue is stopped.

        Everything about a request must be in the ledger before it is sent: the process may be killed at any moment, and
        the next one continues with the rows that are left.
        """


class RowQueue:
    """The rows of a job, and the state of each.

    Attributes:
        summary: what the job has done so far.
        budget: the budget (`max_cost`).
        states: one byte for each row: 0, `SENT`, `DONE` or `ERROR`. A row has ended when its answer is on disk.
        stopped: why no more rows are sent; None while they are.
        status_text: what the job is doing, where the summary doesn't say it.
    """

    def __init__(self, rows: Rows, ledger: Ledger, settings: JobSettings, name: str) -> None:
        self.rows = rows
        self.ledger = ledger
        self.settings = settings
        self.name = name
        self.summary = JobSummary()
        self.budget = JobBudget(settings.max_cost, self.summary)
        self.states = bytearray()
        self.stopped: JobPausedError | None = None
        self.status_text = ""
        self.stopping = anyio.Event()
        self._changed: anyio.Event | None = None  # set by `notify`

    def begin(self, identity: Mapping[str, str], priced: Callable[[str | None], bool]) -> None:
        """Checks the rows unless they were checked before, and counts what earlier runs have done.

        Args:
            priced: returns whether the price of a model is known; None: the default model.

        Raises:
            ConfigError: the rows are wrong, the ledger belongs to another job, or there is a budget and the price of a
                model is unknown.
        """
        if self.settings.max_cost is not None:
            for model in self.rows.models() or {None}:
                if not priced(model):
                    raise ConfigError(f"max_cost: {unpriced(model or self.name)}")
        first, step = self.settings.shard
        rows = {"rows": self.rows.digest(), "shard": f"{first}/{step}"}
        before = self.ledger.settings()
        count = int(before["count"]) if before.get("rows") == rows["rows"] and "count" in before else None
        count = self.rows.check() if count is None else count
        self.ledger.begin({**rows, "count": str(count), **identity})
        self.states = self.ledger.states(count)
        self.summary = self.ledger.summary(len(range(first, count, step)))
        if self.settings.retry_errors:
            self.states = self.states.replace(bytes([ERROR]), bytes([0]))
            self.summary.recorded, self.summary.errors = self.summary.done, 0
        self.budget = JobBudget(self.settings.max_cost, self.summary)

    def pending(self) -> Iterator[tuple[int, bytes | Mapping[str, Any]]]:
        """Yields the numbers of the rows that have no answer, and the rows, unparsed."""
        first, step = self.settings.shard
        for number, raw in enumerate(self.rows):
            if number % step == first and self.states[number] not in (DONE, ERROR):
                yield number, raw

    async def row(self, number: int, raw: bytes | Mapping[str, Any]) -> Row | None:
        """Returns a parsed row. If it is invalid, records that as its answer and returns None."""
        try:
            return self.rows.parse(number, raw)
        except ConfigError as error:
            self.record(Answer(self.rows.name(number, raw), number, error=error_members(error)))
            await self.ledger.written()
            return None

    async def mark_sent(self, *rows: Row) -> None:
        """Marks rows as sent. The mark is on disk when this returns."""
        for row in rows:
            self.ledger.mark_sent(row.number, row.id)
            self.states[row.number] = SENT
        await self.ledger.written()

    async def unmark(self, *rows: Row) -> None:
        """Removes the mark: the server refused the request unread, which doesn't count as a try."""
        for row in rows:
            self.ledger.unmark(row.number)
            self.states[row.number] = 0
        self.budget.release(*(row.number for row in rows))
        self.notify()
        await self.ledger.written()

    def record(self, answer: Answer) -> None:
        """Records the answer of a row. It counts once it is on disk, at the latest with the next mark."""
        self.ledger.ended(answer, self._ended)

    def _ended(self, answer: Answer) -> None:
        self.states[answer.number] = ERROR if answer.error else DONE
        self.summary.add(answer)
        self.budget.ended(answer)
        if self.settings.max_cost is not None:
            if answer.cost is None and not answer.error and not self.budget.is_known:
                self.stop(f"max_cost: {_uncounted(answer) or unpriced(self.name)}")
            elif len(self.summary.costs) > 1:
                self.stop(f"max_cost: costs are in {' and in '.join(self.summary.costs)}, which can't be added")
        self.notify()

    async def reserve_budget(self, number: int) -> bool:
        """Waits until the budget allows a row, and returns whether it does. If it never will, the queue is stopped."""
        while not self.stopped:
            match self.budget.reserve(number):
                case "yes":
                    return True
                case "later":
                    await self.wait_for_change()
                case "never":
                    self.stop(f"the job has paused: {self.budget}")
        return False

    def stop(self, text: str, cause: BaseException | None = None) -> None:
        """Sends no more rows. The first reason is the one that is reported."""
        if self.stopped is None:
            self.stopped = JobPausedError(text)
            self.stopped.__cause__ = cause
            self.stopping.set()
            self.notify()

    @property
    def complete(self) -> bool:
        """True if every row has ended."""
        return self.summary.done + self.summary.errors >= self.summary.rows

    async def wait_for_change(self) -> None:
        """Waits until a row has ended or the queue is stopped."""
        self._changed = self._changed or anyio.Event()
        await self._changed.wait()

    def notify(self) -> None:
        """Wakes the tasks that wait in `change`."""
        if self._changed is not None:
            self._changed.set()
            self._changed = None


def unpriced(model: str) -> str:
    """Returns the message about a model without prices."""
    return f"what {model} costs is not known; give its prices in the configuration"


def _uncounted(answer: Answer) -> str | None:
    """Returns why the cost of an answer with a known price is unknown; None if its tokens were counted."""
    if answer.usage != Usage():
        return None
    said = (answer.members or {}).get("warnings") or ()
    if any(warning["code"] == "option_emulated" for warning in said):
        return (
            "an answer that is cut at a stop text while it is streamed has no token counts: fetch the answers in one"
            " piece (stream=False, --no-stream), or leave the stop text out"
        )
    return "the server counted no tokens, so that what its answers cost is not known"


class JobBudget:
    """Decides whether the budget allows one more row.

    Until the cost of an answer is known, rows are sent one at a time. Later, each row in flight reserves the cost of
    the most expensive answer so far. The last rows are sent one at a time again, until less is left than an answer
    costs on average.

    Args:
        limit: what all answers may cost together; None: no limit.
        summary: what earlier runs and this one have spent.
    """

    def __init__(self, limit: float | None, summary: JobSummary) -> None:
        self._limit = None if limit is None else Decimal(str(limit))
        self._summary = summary
        self._known = summary.done - summary.unpriced  # answers with a cost
        self._highest = self._average if self._known else Decimal(0)
        self._reserved: set[int] = set()

    @property
    def is_known(self) -> bool:
        """True if the cost of an answer is known."""
        return self._known > 0

    @property
    def spent(self) -> Decimal:
        """The cost so far. An answer whose usage can't be counted has the average cost."""
        return self._counted + self._average * self._summary.unpriced

    @property
    def _counted(self) -> Decimal:
        return sum((cost.amount for cost in self._summary.costs.values()), Decimal(0))

    @property
    def _average(self) -> Decimal:
        return self._counted / self._known if self._known else Decimal(0)

    def reserve(self, number: int) -> Literal["yes", "later", "never"]:
        """Returns whether a row may be sent; "later": after another row in flight has ended."""
        if self._limit is None or number in self._reserved:
            return "yes"
        left, under_way = self._limit - self.spent, len(self._reserved)
        fits = left > 0 and self._average <= left
        if under_way and not (fits and self._known and self._highest * (under_way + 1) <= left):
            return "later"
        if not fits:
            return "never"
        self._reserved.add(number)
        return "yes"

    def ended(self, answer: Answer) -> None:
        """Adds the cost of an answer that the summary has counted."""
        self.release(answer.number)
        if answer.cost is not None:
            self._known += 1
            self._highest = max(self._highest, answer.cost.amount)

    def release(self, *numbers: int) -> None:
        """Releases what rows had reserved."""
        self._reserved.difference_update(numbers)

    def __str__(self) -> str:
        limit, spent, mean = (_shown(amount) for amount in (self._limit or Decimal(0), self.spent, self._average))
        units = ", ".join(self._summary.costs)
        return f"max_cost is {limit}, and {spent}{f' {units}' if units else ''} are spent; an answer costs about {mean}"


def _shown(amount: Decimal) -> str:
    text = f"{amount:.9f}"
    return text.rstrip("0").rstrip(".")
