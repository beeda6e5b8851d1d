"""Assigns faults to answers, and counts how often each has happened."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..values import ConfigError
from .steps import Chain
from .vocabulary import FAULTS, Fault, hang_up, slow, status


@dataclass(frozen=True, slots=True)
class Injection:
    """The faults of one answer.

    Attributes:
        instead: comes in place of the answer.
        delay: seconds before its head.
        body: takes the steps of the body; fresh for each answer.
        touched: whether any fault happens to the body.
    """

    instead: status | hang_up | None = None
    delay: float = 0.0
    body: Chain = field(default_factory=lambda: Chain([]))
    touched: bool = False


class Injector:
    """Hands out the faults for one answer after the other.

    A fault that comes in place of an answer (`status`, `hang_up`) leaves the others for the next one.

    Raises:
        ConfigError: `faults` contains something else.
    """

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        given = None if isinstance(faults, Fault | str | bytes) or not isinstance(faults, Iterable) else list(faults)
        if given is None or not all(isinstance(fault, Fault) for fault in given):
            raise ConfigError(f"faults are a list of values of streamfold.faults ({', '.join(FAULTS)}), not {faults!r}")
        self._faults = given
        self._happened = [0] * len(given)

    def next(self) -> Injection:
        """Returns the faults of the next answer."""
        left = [
            (number, fault)
            for number, fault in enumerate(self._faults)
            if fault.times is None or self._happened[number] < fault.times
        ]
        for number, fault in left:
            if isinstance(fault, status | hang_up):
                self._happened[number] += 1
                return Injection(instead=fault)
        for number, _ in left:
            self._happened[number] += 1
        return Injection(
            delay=sum(fault.head for _, fault in left if isinstance(fault, slow)),
            body=Chain([each for _, fault in left for each in fault.filters()]),
            touched=bool(left),
        )
