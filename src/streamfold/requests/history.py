"""The conversation before it is sent: what a provider would refuse is said here, with its place, and can be mended.

What every wire refuses: a result that answers no call, a call without a result, two answers to one call. What only some
refuse is in `HistoryRules`, which an adapter states about itself. Nothing of the caller's is changed; a repair makes a
copy, and each one is a warning on the reply.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ..values import ConfigError, Message, MessageLike, ProtocolWarning
from .turns import (
    NOT_ANSWERED,
    Call,
    Turn,
    answering,
    called,
    has_reasoning,
    is_empty,
    read_turn,
    renamed,
    unanswered,
    with_role,
)

__all__ = ["HistoryRules", "check_history"]

_ALL_ROLES = frozenset(["system", "developer", "user", "assistant", "tool", "function"])


@dataclass(frozen=True, slots=True)
class HistoryRules:
    """What a wire or an endpoint demands of a conversation.

    Attributes:
        roles: the roles that it knows.
        results_follow: results stand right behind the turn with their calls; else anywhere after it.
        unique_ids: no two calls of one turn, or of the whole conversation, may have the same id. None: the adapter
            numbers them anew.
        empty_turn: an assistant's turn without text and calls is refused; only with null for its text; or is left out.
        wants_reasoning: a turn with calls is refused without its reasoning; the adapter sends an empty one instead.
        knows_more: the provider has kept earlier turns, so that results may answer calls that are not here.
    """

    roles: frozenset[str] = _ALL_ROLES
    results_follow: bool = True
    unique_ids: Literal["turn", "conversation"] | None = "turn"
    empty_turn: Literal["refused", "null_refused", "left_out"] = "null_refused"
    wants_reasoning: bool = False
    knows_more: bool = False


def check_history(
    messages: tuple[MessageLike, ...], rules: HistoryRules, *, repair: bool = False
) -> tuple[tuple[MessageLike, ...], list[ProtocolWarning]]:
    """The conversation as it may be sent, and what was found in it.

    Args:
        repair: mend what can be mended without inventing anything that the model or a tool said.

    Raises:
        ConfigError: the provider would refuse it; all reasons at once, each with its position.
    """
    return _Check(messages, rules, repair).run()


class _Check:
    def __init__(self, messages: tuple[MessageLike, ...], rules: HistoryRules, repair: bool) -> None:
        self._messages, self._rules, self._repair = messages, rules, repair
        self._turns = [read_turn(at, message) for at, message in enumerate(messages)]
        self._errors: list[str] = []
        self._mendable = True
        self._warnings: list[ProtocolWarning] = []

    def run(self) -> tuple[tuple[MessageLike, ...], list[ProtocolWarning]]:
        self._check_roles()
        self._check_empty_turns()
        self._pair()
        self._check_ids()
        self._check_results()
        self._check_reasoning()
        if self._errors:
            hint = "; pass repair=True to have this mended" if self._mendable else ""
            raise ConfigError("; ".join(self._errors) + hint)
        if not self._repair:
            return self._messages, self._warnings
        return tuple(self._mended()), self._warnings

    def _wrong(self, what: str, mended: str | None) -> bool:
        """Notes an error, or that it is mended. True: mend it."""
        if self._repair and mended:
            self._warnings.append(ProtocolWarning("history_repaired", f"{what}: {mended}"))
            return True
        self._errors.append(what)
        self._mendable = self._mendable and mended is not None
        return False

    def _doubtful(self, what: str) -> None:
        self._warnings.append(ProtocolWarning("history_doubtful", what))

    # --- what is found ------------------------------------------------------------------------------------------------

    def _check_roles(self) -> None:
        for turn in self._turns:
            if turn.role in self._rules.roles:
                continue
            what = f"{turn.name} has the role {turn.role!r}, which this provider does not know"
            if turn.role != "developer":
                self._wrong(what, None)
            elif self._wrong(what, "it was sent as a system message"):
                turn.message = with_role(turn.message, "system")

    def _check_empty_turns(self) -> None:
        for turn in self._turns:
            if turn.role != "assistant" or turn.calls or not is_empty(turn.message):
                continue
            content = turn.message.content if isinstance(turn.message, Message) else turn.message.get("content")
            what = f"{turn.name} is an assistant's turn with neither text nor calls"
            if self._rules.empty_turn == "refused" or (self._rules.empty_turn == "null_refused" and content is None):
                turn.dropped = self._wrong(what, "it was left out")
            elif self._rules.empty_turn == "null_refused":
                self._doubtful(what)

    def _pair(self) -> None:
        """Each result goes with the nearest call before it that has its id and no result yet."""
        open_calls: list[Call] = []
        for turn in self._turns:
            open_calls += turn.calls
            if turn.role != "tool" or turn.answers is None:
                continue
            fitting = [call for call in open_calls if call.id == turn.answers]
            if fitting:
                last = fitting[-1].turn
                call = next(call for call in fitting if call.turn is last)  # an id twice in one turn: in their order
                call.result = turn
                open_calls.remove(call)

    def _check_ids(self) -> None:
        seen: dict[str, list[Call]] = {}
        for turn in self._turns:
            for call in turn.calls:
                seen.setdefault(call.id, []).append(call)
        taken = set(seen)
        for call_id, calls in seen.items():
            for call in calls[1:]:
                in_turn = any(other.turn is call.turn for other in calls[: calls.index(call)])
                where = "of it" if in_turn else f"of {calls[0].turn.name}"
                what = f"{call.turn.name} has a call with the id {call_id!r}, which another call {where} has too"
                refused = self._rules.unique_ids == "conversation" or (self._rules.unique_ids == "turn" and in_turn)
                if self._rules.unique_ids is None:
                    continue  # renumbered in any case
                if not refused and not self._repair:
                    self._doubtful(what)
                elif self._wrong(what, "it was given a fresh one"):
                    call.new_id = _fresh(call, taken)

    def _check_results(self) -> None:
        answered = {id(call.result): call for turn in self._turns for call in turn.calls if call.result}
        for turn in self._turns:
            if turn.role == "tool" and id(turn) not in answered and not self._rules.knows_more:
                turn.dropped = self._wrong(self._orphan(turn), "it was left out")
        for turn in self._turns:
            for call in turn.calls:
                if call.result is None:
                    what = f"{turn.name} calls {called(call)!r} (id {call.id!r}), and no tool message answers it"
                    turn.ordered |= self._wrong(what, f"a result was added that says: {NOT_ANSWERED}")
                elif self._rules.results_follow and (between := self._between(turn, call.result)):
                    what = (
                        f"{call.result.name} answers the call {call.id!r} of {turn.name}, and {between.name} is between"
                        " them"
                    )
                    turn.ordered |= self._wrong(what, "it was moved")

    def _orphan(self, turn: Turn) -> str:
        if not turn.answers:
            return f"{turn.name} has no tool_call_id: nothing says which call it answers"
        before = [call for other in self._turns[: turn.at] for call in other.calls if call.id == turn.answers]
        if before and before[-1].result is not None:
            return f"{turn.name} answers the call {turn.answers!r} again, after {before[-1].result.name}"
        return f"{turn.name} answers the call {turn.answers!r}, which no turn before it has made"

    def _between(self, turn: Turn, result: Turn) -> Turn | None:
        """The first message between a turn and a result of it that is no result itself."""
        others = self._turns[turn.at + 1 : result.at]
        return next((other for other in others if other.role not in ("tool", "function") and not other.dropped), None)

    def _check_reasoning(self) -> None:
        if not self._rules.wants_reasoning:
            return
        bare = [turn.name for turn in self._turns if turn.calls and not has_reasoning(turn.message)]
        if bare:
            detail = f"{', '.join(bare)}: calls without the reasoning before them, which the model wants back"
            self._warnings.append(ProtocolWarning("lost_reasoning", f"{detail}; an empty one was sent"))

    # --- what is mended -----------------------------------------------------------------------------------------------

    def _mended(self) -> Iterator[MessageLike]:
        new_ids = {id(call.result): call.new_id for turn in self._turns for call in turn.calls if call.new_id}
        for turn in self._turns:
            if turn.dropped or turn.moved:
                continue
            if turn.role == "tool":
                yield answering(turn.message, new_ids.get(id(turn)))
                continue
            yield renamed(turn)
            if not turn.ordered:
                continue
            for call in turn.calls:
                if call.result is None:
                    yield unanswered(call)
                elif self._rules.results_follow:
                    call.result.moved = True
                    yield answering(call.result.message, call.new_id)


def _fresh(call: Call, taken: set[str]) -> str:
    # The same for the same conversation: a provider's cache goes by the beginning of the prompt.
    number = call.number
    while (made := f"call_{call.turn.at}_{number}") in taken:
        number += 1
    taken.add(made)
    return made
