"""The queue of a job: rows without an answer, the states of all rows, and the budget (`max_cost`).

A `JobBackend` sends the rows as live requests or in provider batches.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Literal, Protocol

import anyio

from streamfold import ConfigError, Usage

from .answers import Answer, JobSummary, error_members
from .ledger import DONE, ERROR, SENT, Ledger
from .rows import Row, Rows
from .settings import JobPausedError, JobSettings


class JobBackend(Protocol):
    """Sends the rows of a job. One implementation sends live requests, the other sends provider batches.

    Attributes:
        via: the name of the backend. A later run must use the backend that began the ledger.
    """

    via: str

    async def send_rows(self, queue: RowQueue) -> None:
        """Sends the rows that `queue.next_row()` returns, until it returns None.

        A backend must record a request in the ledger before it sends the request. If the process is killed, the next
        run knows only what the ledger contains.
        """


class RowQueue:
    """The rows of a job, the state of each row, and the budget (`max_cost`).

    Attributes:
        rows: all rows of the job.
        ledger: the ledger. A backend may also store its own records in it.
        summary: the progress of the job so far.
        stopped: why the queue returns no more rows; None until `stop` is called.
        stopping: an event that `stop` sets.
        status_text: how many requests of the job's provider batches have finished; empty for a job without provider
            batches.
    """

    def __init__(self, rows: Rows, ledger: Ledger, settings: JobSettings, name: str) -> None:
        self.rows = rows
        self.ledger = ledger
        self.settings = settings
        self.summary = JobSummary()
        self._name = name
        self._budget = JobBudget(settings.max_cost, self.summary)
        # One byte for each row: 0, `SENT`, `DONE` or `ERROR`. A row has ended when its answer is on disk.
        self._states = bytearray()
        self._pending: Iterator[tuple[int, bytes | Mapping[str, Any]]] = iter(())
        self.stopped: JobPausedError | None = None
        self.status_text = ""
        self.stopping = anyio.Event()
        self._changed: anyio.Event | None = None  # set by `notify`

    def begin(self, identity: Mapping[str, str], priced: Callable[[str | None], bool]) -> None:
        """Loads the progress of earlier runs, and validates the rows unless an earlier run did.

        Args:
            priced: returns whether the price of a model is known. The argument None stands for the job's own model.

        Raises:
            ConfigError: the rows are invalid, the ledger belongs to another job, or the job has a budget and the price
                of a model is unknown.
        """
        if self.settings.max_cost is not None:
            for model in self.rows.models() or {None}:
                if not priced(model):
                    raise ConfigError(f"max_cost: {unpriced(model or self._name)}")
        first, step = self.settings.shard
        rows = {"rows": self.rows.digest(), "shard": f"{first}/{step}"}
        before = self.ledger.settings()
        is_checked = before.get("rows") == rows["rows"] and "count" in before
        count = int(before["count"]) if is_checked else self.rows.check()
        self.ledger.begin({**rows, "count": str(count), **identity})
        self._states = self.ledger.states(count)
        self.summary = self.ledger.summary(len(range(first, count, step)))
        if self.settings.retry_errors:
            self._states = self._states.replace(bytes([ERROR]), bytes([0]))
            self.summary.recorded, self.summary.errors = self.summary.done, 0
        self._budget = JobBudget(self.settings.max_cost, self.summary)
        self._pending = (
            (number, raw)
            for number, raw in enumerate(self.rows)
            if number % step == first and not self.has_ended(number)
        )

    async def next_row(self, skip: Container[int] = ()) -> Row | None:
        """Returns the next row that has no answer; None after the last row, or after `stop`.

        If a row is invalid, the method records an error as its answer, and continues with the next row.

        Args:
            skip: numbers of rows to leave out.
        """
        while not self.stopped and (found := next(self._pending, None)) is not None:
            number, raw = found
            if number in skip:
                continue
            try:
                return self.rows.parse(number, raw)
            except ConfigError as error:
                self.record(Answer(self.rows.name(number, raw), number, error=error_members(error)))
                await self.written()
        return None

    @property
    def count(self) -> int:
        """The number of all rows in the job, including the rows of other shards."""
        return len(self._states)

    def was_sent(self, number: int) -> bool:
        """Returns whether a row is marked as sent, by this run or by an earlier run that was killed."""
        return self._states[number] == SENT

    def has_ended(self, number: int) -> bool:
        """Returns whether a row has an answer or an error."""
        return self._states[number] in (DONE, ERROR)

    def ended_rows(self, first: int, most: int) -> range:
        """Returns the numbers of the rows from `first` up to the first row that hasn't ended, at most `most`."""
        step = self.settings.shard[1]
        numbers = range(first, len(self._states), step)[:most]
        ended = next((at for at, number in enumerate(numbers) if not self.has_ended(number)), len(numbers))
        return numbers[:ended]

    async def mark_sent(self, row: Row) -> None:
        """Marks a row as sent in the ledger. When the method returns, the mark is on disk."""
        self.ledger.mark_sent(row.number, row.id)
        self.note_sent([row.number])
        await self.written()

    def note_sent(self, numbers: Iterable[int]) -> None:
        """Sets the state of rows to `SENT`, after the ledger has marked them as sent."""
        for number in numbers:
            self._states[number] = SENT

    async def unmark(self, row: Row) -> None:
        """Marks a row as not sent, because the server rejected its request without processing it. The request doesn't
        count as a try.
        """
        self.ledger.unmark(row.number)
        self._states[row.number] = 0
        self.give_up(row)
        await self.written()

    def give_up(self, row: Row) -> None:
        """Releases the budget that is reserved for a row, if the row isn't sent."""
        self._budget.release(row.number)
        self.notify()

    async def written(self) -> None:
        """Waits until the ledger has written all changes so far to disk."""
        await self.ledger.transactions.written()

    def record(self, answer: Answer) -> None:
        """Records the answer of a row. The row counts as ended when the answer is on disk."""
        self.ledger.ended(answer, self._ended)

    def _ended(self, answer: Answer) -> None:
        self._states[answer.number] = ERROR if answer.error else DONE
        self.summary.add(answer)
        self._budget.ended(answer)
        if self.settings.max_cost is not None:
            if answer.cost is None and not answer.error and not self._budget.is_known:
                self.stop(f"max_cost: {_uncounted(answer) or unpriced(self._name)}")
            elif len(self.summary.costs) > 1:
                self.stop(f"max_cost: costs are in {' and in '.join(self.summary.costs)}, which can't be added")
        self.notify()

    async def reserve_budget(self, number: int) -> bool:
        """Waits until the budget allows a row, and returns True. If too little of the budget is left, stops the queue
        and returns False.
        """
        while not self.stopped:
            match self._budget.reserve(number):
                case "yes":
                    return True
                case "later":
                    await self.wait_for_change()
                case "never":
                    self.stop(f"the job has paused: {self._budget}")
        return False

    def stop(self, text: str, cause: BaseException | None = None) -> None:
        """Stops the queue, so that no more rows are sent. After the first call, further calls do nothing."""
        if self.stopped is None:
            self.stopped = JobPausedError(text)
            self.stopped.__cause__ = cause
            self.stopping.set()
            self.notify()

    @property
    def complete(self) -> bool:
        """True if every row has an answer or an error."""
        return self.summary.done + self.summary.errors >= self.summary.rows

    async def wait_for_change(self) -> None:
        """Waits until a row has ended, or until `stop` is called."""
        self._changed = self._changed or anyio.Event()
        await self._changed.wait()

    def notify(self) -> None:
        """Wakes the tasks that wait in `wait_for_change`."""
        if self._changed is not None:
            self._changed.set()
            self._changed = None


def unpriced(model: str) -> str:
    """Returns the error message for a model whose price is unknown."""
    return f"the price of {model} is unknown: configure its `prices`"


def _uncounted(answer: Answer) -> str | None:
    """Returns why an answer has no token counts, so that its cost is unknown; None if it has token counts."""
    if answer.usage != Usage():
        return None
    said = (answer.members or {}).get("warnings") or ()
    if any(warning["code"] == "option_emulated" for warning in said):
        return (
            "a stream that streamfold ends at a stop sequence has no token counts: use stream=False (--no-stream),"
            " or remove the stop sequence"
        )
    return "the server sent no token counts, so the cost of its answers is unknown"


class JobBudget:
    """Decides whether a job's budget allows another row.

    Until the cost of an answer is known, only one row may be in flight. Then each row in flight reserves the cost of
    the most expensive answer so far. If less than twice that cost is left, only one row may be in flight; if less than
    the average cost of an answer is left, none.

    Args:
        limit: the maximum cost of all answers together; None for no limit.
        summary: the job's summary, which contains the cost of earlier runs and of this run.
    """

    def __init__(self, limit: float | None, summary: JobSummary) -> None:
        self._limit = None if limit is None else Decimal(str(limit))
        self._summary = summary
        self._known = summary.done - summary.unpriced  # answers with a cost
        self._highest = self._average if self._known else Decimal(0)
        self._reserved: set[int] = set()

    @property
    def is_known(self) -> bool:
        """True if the cost of at least one answer is known."""
        return self._known > 0

    @property
    def spent(self) -> Decimal:
        """The cost of all answers so far. For an answer with an unknown cost, it includes the average cost of the
        others.
        """
        return self._counted + self._average * self._summary.unpriced

    @property
    def _counted(self) -> Decimal:
        return sum((cost.amount for cost in self._summary.costs.values()), Decimal(0))

    @property
    def _average(self) -> Decimal:
        return self._counted / self._known if self._known else Decimal(0)

    def reserve(self, number: int) -> Literal["yes", "later", "never"]:
        """Returns whether the budget allows a row: "yes", "never", or "later" if it may allow the row after a row in
        flight has ended.
        """
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
        """Releases the money that is reserved for a row, and records the cost of the row's answer."""
        self.release(answer.number)
        if answer.cost is not None:
            self._known += 1
            self._highest = max(self._highest, answer.cost.amount)

    def release(self, number: int) -> None:
        """Releases the money that is reserved for a row."""
        self._reserved.discard(number)

    def __str__(self) -> str:
        amounts = [self._limit or Decimal(0), self.spent, self._average]
        limit, spent, mean = [f"{amount:.9f}".rstrip("0").rstrip(".") for amount in amounts]
        units = ", ".join(self._summary.costs)
        return f"max_cost is {limit}, and {spent}{f' {units}' if units else ''} are spent; an answer costs about {mean}"
