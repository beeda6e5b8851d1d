"""What a job may spend: reserved before a row is asked, counted when its answer is on disk."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from .answers import Answer, JobSummary


class JobBudget:
    """Decides whether one row more can be paid.

    As long as nobody knows what an answer costs, one row is asked alone. Later, those under way reserve what the
    dearest answer has cost; the last rows are asked one by one, until another one would cost too much in the mean.

    Args:
        limit: what all answers may cost together; None: anything.
        summary: what earlier runs have spent, and this one spends.
    """

    def __init__(self, limit: float | None, summary: JobSummary) -> None:
        self._limit = None if limit is None else Decimal(str(limit))
        self._summary = summary
        self._known = summary.done - summary.unpriced  # answers with a cost
        self._most = self._mean if self._known else Decimal(0)
        self._asking: set[int] = set()

    @property
    def is_known(self) -> bool:
        """Whether it is known what an answer costs."""
        return self._known > 0

    @property
    def spent(self) -> Decimal:
        """What is spent. An answer whose cost is not known, as its usage can't be counted, counts as an average one."""
        return self._counted + self._mean * self._summary.unpriced

    @property
    def _counted(self) -> Decimal:
        return sum((cost.amount for cost in self._summary.costs.values()), Decimal(0))

    @property
    def _mean(self) -> Decimal:
        return self._counted / self._known if self._known else Decimal(0)

    def ask(self, number: int) -> Literal["yes", "later", "never"]:
        """Returns whether a row may be asked; later: when one of those has ended that are under way."""
        if self._limit is None or number in self._asking:
            return "yes"
        left, under_way = self._limit - self.spent, len(self._asking)
        fits = left > 0 and self._mean <= left
        if under_way and not (fits and self._known and self._most * (under_way + 1) <= left):
            return "later"
        if not fits:
            return "never"
        self._asking.add(number)
        return "yes"

    def ended(self, answer: Answer) -> None:
        """Takes the cost of an answer, which the summary counts already."""
        self.not_asked(answer.number)
        if answer.cost is not None:
            self._known += 1
            self._most = max(self._most, answer.cost.amount)

    def not_asked(self, *numbers: int) -> None:
        """Gives back what rows had reserved."""
        self._asking.difference_update(numbers)

    def __str__(self) -> str:
        limit, spent, mean = (_shown(amount) for amount in (self._limit or Decimal(0), self.spent, self._mean))
        units = ", ".join(self._summary.costs)
        return f"max_cost is {limit}, and {spent}{f' {units}' if units else ''} are spent; an answer costs about {mean}"


def _shown(amount: Decimal) -> str:
    text = f"{amount:.9f}"
    return text.rstrip("0").rstrip(".")
