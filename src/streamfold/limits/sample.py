"""What became of the requests that were under way when a server refused one."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Sample"]


@dataclass(slots=True)
class Sample:
    """Counts the answers to requests that were sent at the same rate as a refused one, after it.

    Attributes:
        epoch, first: the epoch and the number of the refused request.
        rate: at which it was sent.
    """

    epoch: int
    first: int
    rate: float
    accepted: int = 0
    refused: int = 1

    def add(self, epoch: int, number: int, *, accepted: bool) -> None:
        """Counts an answer."""
        if epoch == self.epoch and number > self.first:
            self.accepted += accepted
            self.refused += not accepted
