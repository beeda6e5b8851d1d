"""What is believed about a rate that nobody has configured, as a store has it: `search.py` decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

State: TypeAlias = dict[str, float]
"""What a store keeps of one limit. A member that is missing is 0."""

BELIEVED = ("rate", "base", "need", "calm", "vain")  # of a belief, in the order in which stores tell it
COUNTED = ("clean", "refused", "since", "filled")  # of the answers since it has changed
_TOLD = BELIEVED + COUNTED
FIRST_NEED = 5  # answers that say anything about a rate


@dataclass(frozen=True, slots=True)
class Belief:
    """What is believed about a rate that nobody has configured, or that turned out to be too fast. See `search.py`.

    Attributes:
        epoch: how often the belief has changed.
        rate: requests per second; 0: nothing is believed.
        base: the rate that is gone back to when as many requests as are needed have been sent; 0: none is known.
        need: answers that tell whether the rate is right.
        calm: answers that told so one after the other, without a faster rate being tried.
        vain: the faster rate that was last tried in vain; 0: none was.
        clean, refused: answers at this rate so far, and refusals.
        since: clean answers since the first refusal.
        filled: seconds that it took to send as many as are needed; 0: not as many have been sent.
    """

    epoch: int = 0
    rate: float = 0.0
    base: float = 0.0
    need: int = 0
    calm: int = 0
    vain: float = 0.0
    clean: int = 0
    refused: int = 0
    since: int = 0
    filled: float = 0.0


NO_BELIEF = Belief()


def told_belief(
    epoch: float, rate: float, base: float, need: float, calm: float, vain: float, *counted: float
) -> Belief:
    """Returns the belief whose numbers a store tells: `BELIEVED`, then `COUNTED`."""
    if not epoch:
        return NO_BELIEF
    clean, refused, since, filled = counted
    return Belief(int(epoch), rate, base, int(need), int(calm), vain, int(clean), int(refused), int(since), filled)


def count_answers(state: State, clean: int, refused: int, since: int) -> None:
    """Counts answers at the rate that is believed.

    Args:
        since: clean answers after the first of the refusals.
    """
    since = clean if state.get("refused") else since
    for name, more in (("clean", clean), ("refused", refused), ("since", since)):
        state[name] = state.get(name, 0) + more


def change(state: State, belief: Belief) -> None:
    """Writes another belief into a state; what is counted begins again."""
    state["epoch"] = state.get("epoch", 0) + 1
    state.update({name: getattr(belief, name) for name in BELIEVED})
    state.update(dict.fromkeys((*COUNTED, "sent", "began"), 0))


def belief_in(state: State) -> Belief:
    """Returns the belief of a state."""
    get = state.get
    if not get("epoch"):
        return NO_BELIEF
    return told_belief(get("epoch", 0), *[get(name, 0.0) for name in _TOLD])


def count_sent(state: State, number: int, moment: float, step: float) -> None:
    """Counts the requests of this rate, to know whether they were as many as it allows."""
    if not state.get("rate") or state["filled"]:
        return
    state["began"] = state["began"] or moment
    state["sent"] += number
    if state["sent"] >= state["need"]:
        state["filled"] = max(moment + (number - 1) * step - state["began"], 1e-6)
