"""The check of a conversation before it is sent. A conversation that the provider would refuse raises, or is repaired.

Every API refuses a result that answers no call, a call without a result, and two results of one call. What only some
refuse is in `HistoryRules`, which an adapter states. The caller's messages are never changed: a repair makes copies,
and each repair is a warning. A repair that changes no meaning, such as another word for a role, is made without being
asked for. Every step is linear in the number of messages and calls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, Literal

from ..errors import ConfigError, join_limited
from ..types import Message, ReplyWarning, TextPart, ToolCall

_ALL_ROLES = frozenset(["system", "developer", "user", "assistant", "tool", "function"])
_SYSTEM = ("system", "developer")
_PLAIN = frozenset({"system", "user"})
_NOT_ANSWERED = "this call was not answered"
CONTINUE_PROMPT = "Continue."
GO_ON_MESSAGE = Message("user", CONTINUE_PROMPT)  # this object says that no client has written it


@dataclass(frozen=True, slots=True)
class HistoryRules:
    """What a wire format or an endpoint demands of a conversation.

    Attributes:
        roles: the roles that it knows.
        results_follow: results stand directly behind the turn with their calls; else anywhere after it.
        unique_ids: no two calls of one turn, or of the whole conversation, may have the same id. None: the adapter
            renumbers them.
        empty_turn: an assistant's turn without text and calls is refused; refused only with null for its text; or is
            left out by the adapter.
        empty_others: turns of other roles may be without content.
        reads_items: items of the Responses API can be sent.
        wants_reasoning: a turn with calls is refused without its reasoning; the adapter sends an empty one instead.
        knows_more: the provider has stored earlier turns, so that results may answer calls that are not here.
        begins_with_user: a conversation that begins with the assistant is refused.
        ends_with_user: one that ends with the assistant is refused: its text can't be continued.
        refusals: an assistant's turn has a place of its own for a refusal. Elsewhere it is sent as text.
    """

    roles: frozenset[str] = _ALL_ROLES
    results_follow: bool = True
    unique_ids: Literal["turn", "conversation"] | None = "turn"
    empty_turn: Literal["refused", "null_refused", "left_out"] = "null_refused"
    empty_others: bool = False
    reads_items: bool = False
    wants_reasoning: bool = False
    knows_more: bool = False
    begins_with_user: bool = False
    ends_with_user: bool = False
    refusals: bool = False


def check_history(
    messages: tuple[Message, ...], rules: HistoryRules, *, repair: bool = False, open_calls: bool = False
) -> tuple[tuple[Message, ...], list[ReplyWarning]]:
    """Returns the conversation as it may be sent, and warnings about what was repaired or is doubtful.

    Args:
        repair: repair what can be repaired without inventing anything that the model or a tool said.
        open_calls: calls may be without a result: the conversation isn't sent as it is.

    Raises:
        ConfigError: the provider would refuse the conversation; names all reasons, each with its position.
    """
    if rules.roles >= _PLAIN and all(map(_is_plain, messages)):
        return messages, []  # questions alone, with which nothing can be wrong
    return _Check(messages, rules, repair, open_calls).run()


def _is_plain(message: Message) -> bool:
    return message.role in _PLAIN and type(message.content) is str and message.content != "" and not message.tool_calls


def is_custom(call: ToolCall) -> bool:
    """Returns whether a call is of a custom tool, whose input is text and not JSON."""
    return call.kind == "custom"


@dataclass(slots=True, eq=False)
class _Call:
    """A call, and the result that it is paired with.

    Attributes:
        number: its place among the calls of its turn.
        new_id: the id to send if its own can't be sent.
    """

    turn: _Turn
    number: int
    id: str
    result: _Turn | None = None
    new_id: str | None = None


@dataclass(slots=True, eq=False)
class _Turn:
    """A message, and what the check found out about it.

    Attributes:
        at: its position in the caller's list.
        answered: on a result, the call that it answers, if there is one.
        repeats: on a result without a call, the last call before it that has the id.
        dropped: it is not sent.
        ordered: its results are sent directly behind it in the calls' order, because one was elsewhere or missing.
        moved: a result that was already sent with its turn.
    """

    at: int
    message: Message
    calls: list[_Call] = field(default_factory=list)
    answered: _Call | None = None
    repeats: _Call | None = None
    dropped: bool = False
    ordered: bool = False
    moved: bool = False

    @property
    def name(self) -> str:
        return f"messages[{self.at}]"


class _Check:
    def __init__(self, messages: tuple[Message, ...], rules: HistoryRules, repair: bool, open_calls: bool) -> None:
        self._messages, self._rules, self._repair, self._open_calls = messages, rules, repair, open_calls
        self._turns = [_Turn(at, message) for at, message in enumerate(messages)]
        for turn in self._turns:
            turn.calls = [_Call(turn, number, call.id) for number, call in enumerate(turn.message.tool_calls)]
        self._errors: list[str] = []
        self._repairable = True
        self._warnings: list[ReplyWarning] = []
        self._goes_on = False  # a user's message is added at the end

    def run(self) -> tuple[tuple[Message, ...], list[ReplyWarning]]:
        self._check_roles()
        self._check_refusals()
        self._check_empty_turns()
        self._check_ends()
        self._pair()
        self._check_ids()
        self._check_results()
        self._check_reasoning()
        if self._errors:
            refused = ConfigError(join_limited(self._errors, "; ", "more problems"))
            refused.hint = "pass repair_history=True to have this repaired" if self._repairable else ""
            raise refused
        if not any(warning.code == "history_repaired" for warning in self._warnings):
            return self._messages, self._warnings
        if not self._goes_on and all(turn.dropped for turn in self._turns):
            raise ConfigError("messages: nothing is left of the conversation after its repair")
        return tuple(self._repaired()), self._warnings

    def _wrong(self, problem: str, repaired: str | None, *, harmless: bool = False) -> bool:
        """Notes an error, or its repair. Returns whether to repair it. A harmless repair is always made."""
        if repaired and (self._repair or harmless):
            self._warnings.append(ReplyWarning("history_repaired", f"{problem}: {repaired}"))
            return True
        self._errors.append(problem)
        self._repairable = self._repairable and repaired is not None
        return False

    def _doubtful(self, problem: str) -> None:
        self._warnings.append(ReplyWarning("history_mismatch", problem))

    # --- what is found ------------------------------------------------------------------------------------------------

    def _check_roles(self) -> None:
        for turn in self._turns:
            role = turn.message.role
            if role in self._rules.roles:
                continue
            problem = f"{turn.name} has the role {role!r}, which this provider does not know"
            if role != "developer":
                self._wrong(problem, None)
            elif self._wrong(problem, "it was sent as a system message", harmless=True):
                turn.message = replace(turn.message, role="system")

    def _check_refusals(self) -> None:
        if self._rules.refusals:
            return
        for turn in self._turns:
            sent = refusal_as_text(turn.message)
            if sent is not turn.message:
                problem = f"{turn.name} has a refusal, for which this provider has no place"
                self._wrong(problem, "it was sent as text", harmless=True)
                turn.message = sent

    def _check_empty_turns(self) -> None:
        rules = self._rules
        unread = ("output", "blocks") if rules.empty_turn == "refused" else ("output",)
        for turn in self._turns:
            message = turn.message
            items = message.extras.get("output")
            silent = not turn.calls and is_blank_message(message, unread)
            if message.role == "tool" or not silent or (items and rules.reads_items):
                continue
            if items:
                kinds = ", ".join(sorted({str(item.get("type")) for item in items if isinstance(item, Mapping)}))
                problem = f"{turn.name} has only items of the Responses API ({kinds}), which this provider can't read"
                turn.dropped = self._wrong(problem, "it was left out" if message.role == "assistant" else None)
            elif message.role != "assistant":
                if not rules.empty_others:
                    turn.dropped = self._wrong(f"{turn.name} ({message.role}) has no content", "it was left out")
            else:
                problem = f"{turn.name} is an assistant's turn with neither text nor calls"
                null = message.content is None
                if rules.empty_turn == "refused" or (rules.empty_turn == "null_refused" and null):
                    turn.dropped = self._wrong(problem, "it was left out")
                elif rules.empty_turn == "null_refused":
                    self._doubtful(problem)

    def _check_ends(self) -> None:
        spoken = [turn for turn in self._turns if turn.message.role not in _SYSTEM and not self._is_left_out(turn)]
        if self._rules.begins_with_user:
            leading = list(takewhile(lambda turn: turn.message.role in ("assistant", "tool"), spoken))
            if leading and leading[0].message.role == "assistant":
                problem = f"{leading[0].name} is the assistant's, and the conversation must begin with a user message"
                if self._wrong(problem, "everything before the first user message was left out"):
                    for turn in leading:
                        turn.dropped, turn.calls = True, []
        if not spoken and any(turn.dropped and turn.message.role == "user" for turn in self._turns):
            self._goes_on = self._wrong("the user says nothing at all", f'"{CONTINUE_PROMPT}" was added')
        last = spoken[-1] if spoken else None
        if self._rules.ends_with_user and last and last.message.role == "assistant" and not last.calls:
            problem = f"{last.name} is the last message and the assistant's, and this model continues no text"
            if not last.dropped:
                self._goes_on = self._wrong(f"{problem}: add a user message", f'"{CONTINUE_PROMPT}" was added')

    def _is_left_out(self, turn: _Turn) -> bool:
        empty = turn.message.role == "assistant" and not turn.calls and is_blank_message(turn.message)
        return turn.dropped or (empty and self._rules.empty_turn == "left_out")

    def _pair(self) -> None:
        """Pairs each result with the nearest call before it that has its id and no result yet."""
        waiting: dict[str, list[deque[_Call]]] = {}  # by id, the calls of each turn
        latest: dict[str, _Call] = {}
        for turn in self._turns:
            for call in turn.calls:
                turns = waiting.setdefault(call.id, [])
                if not turns or turns[-1][0].turn is not turn:
                    turns.append(deque())
                turns[-1].append(call)  # an id twice in one turn: results come in the calls' order
                latest[call.id] = call
            if turn.message.role != "tool" or turn.message.tool_call_id is None:
                continue
            if turns := waiting.get(turn.message.tool_call_id, []):
                turn.answered = turns[-1].popleft()
                turn.answered.result = turn
                if not turns[-1]:
                    turns.pop()
            else:
                turn.repeats = latest.get(turn.message.tool_call_id)

    def _check_ids(self) -> None:
        if self._rules.unique_ids is None:
            return  # renumbered in any case
        first: dict[str, _Call] = {}
        last: dict[str, _Call] = {}
        taken = {call.id for turn in self._turns for call in turn.calls}
        for call in (call for turn in self._turns for call in turn.calls):
            before, last[call.id] = last.get(call.id), call
            if before is None:
                first[call.id] = call
                continue
            in_turn = before.turn is call.turn
            where = "of it" if in_turn else f"of {first[call.id].turn.name}"
            problem = f"{call.turn.name} has a call with the id {call.id!r}, which another call {where} has too"
            refused = self._rules.unique_ids == "conversation" or in_turn
            if not refused and not self._repair:
                self._doubtful(problem)
            elif self._wrong(problem, "it was given a new one"):
                call.new_id = _new_id(call, taken)

    def _check_results(self) -> None:
        for turn in self._turns:
            if turn.dropped:
                continue
            if turn.message.role == "tool" and turn.answered is None and not self._rules.knows_more:
                turn.dropped = self._wrong(_orphan(turn), "it was left out")
        others = self._others()
        for turn in self._turns:
            for call in turn.calls:
                if call.result is None:
                    if self._open_calls:
                        continue
                    name = turn.message.tool_calls[call.number].name
                    problem = f"{turn.name} calls {name!r} (id {call.id!r}), and no tool message answers it"
                    turn.ordered |= self._wrong(problem, f"a result was added that says: {_NOT_ANSWERED}")
                elif self._rules.results_follow and (between := others[turn.at + 1]) < call.result.at:
                    problem = (
                        f"{call.result.name} answers the call {call.id!r} of {turn.name}, and messages[{between}] is"
                        " between them"
                    )
                    turn.ordered |= self._wrong(problem, "it was moved")

    def _others(self) -> list[int]:
        """Returns, for each position, that of the first message from there on that is not a result and is sent."""
        at = len(self._turns)
        found = [at + 1] * (at + 2)
        for turn in reversed(self._turns):
            is_other = turn.message.role not in ("tool", "function") and not turn.dropped
            found[turn.at] = turn.at if is_other else found[turn.at + 1]
        return found

    def _check_reasoning(self) -> None:
        if not self._rules.wants_reasoning:
            return
        bare = [turn.name for turn in self._turns if turn.calls and turn.message.reasoning is None]
        if bare:
            detail = f"{', '.join(bare)}: calls without the reasoning before them, which the model wants back"
            self._warnings.append(ReplyWarning("lost_reasoning", f"{detail}; an empty one was sent"))

    # --- what is repaired ---------------------------------------------------------------------------------------------

    def _repaired(self) -> Iterator[Message]:
        for turn in self._turns:
            if turn.dropped or turn.moved:
                continue
            if turn.message.role == "tool":
                yield _answering(turn.message, turn.answered)
                continue
            yield _with_new_ids(turn)
            if not turn.ordered:
                continue
            for call in turn.calls:
                if call.result is None:
                    # Marked as an error, so that the model does not take it for a result.
                    yield Message("tool", _NOT_ANSWERED, tool_call_id=call.new_id or call.id, error=True)
                elif self._rules.results_follow:
                    call.result.moved = True
                    yield _answering(call.result.message, call)
        if self._goes_on:
            yield GO_ON_MESSAGE


def is_blank_message(message: Message, unread: Collection[str] = ("output",)) -> bool:
    """Returns whether a message without calls has no content.

    Args:
        unread: extras that are not counted. Default: items of the Responses API.
    """
    if message.refusal or message.partial or any(name not in unread for name in message.extras):
        return False
    content = message.content
    return not content if isinstance(content, str | None) else all(part == TextPart("") for part in content)


def refusal_as_text(message: Message) -> Message:
    """Returns a message whose refusal, if there is one, stands in its content as text."""
    content = message.content
    if isinstance(content, tuple) and any(map(_is_refusal, content)):
        content = tuple(TextPart(part["refusal"]) if _is_refusal(part) else part for part in content)
    if message.refusal:
        if isinstance(content, tuple):
            content = (*content, TextPart(message.refusal))
        else:
            content = f"{content}\n\n{message.refusal}" if content else message.refusal
    return message if content is message.content else replace(message, content=content, refusal=None)


def _is_refusal(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") == "refusal" and isinstance(part.get("refusal"), str)


def _orphan(turn: _Turn) -> str:
    call_id = turn.message.tool_call_id
    if not call_id:
        return f"{turn.name} has no tool_call_id, which says which call it answers"
    if turn.repeats is not None and turn.repeats.result is not None:
        return f"{turn.name} answers the call {call_id!r} again, after {turn.repeats.result.name}"
    return f"{turn.name} answers the call {call_id!r}, which no turn before it has made"


def _answering(message: Message, call: _Call | None) -> Message:
    return message if call is None or call.new_id is None else replace(message, tool_call_id=call.new_id)


def _with_new_ids(turn: _Turn) -> Message:
    """Returns the message with the new ids of its calls."""
    message = turn.message
    if not any(call.new_id for call in turn.calls):
        return message
    pairs = zip(message.tool_calls, turn.calls, strict=True)
    calls = tuple(replace(call, id=checked.new_id or call.id) for call, checked in pairs)
    return replace(message, tool_calls=calls, extras=_items_with_ids(message.extras, calls))


def _items_with_ids(extras: Mapping[str, Any], calls: tuple[ToolCall, ...]) -> Mapping[str, Any]:
    """Returns the extras with the new ids in the items that the message came as.

    They must still match the message, or its reasoning can't be sent with it.
    """
    items = extras.get("output")
    kinds = ("function_call", "custom_tool_call")
    if not isinstance(items, list) or sum(item.get("type") in kinds for item in items) != len(calls):
        return extras
    ids = iter(calls)
    made = [{**item, "call_id": next(ids).id} if item.get("type") in kinds else item for item in items]
    return {**extras, "output": made}


def _new_id(call: _Call, taken: set[str]) -> str:
    # The same for the same conversation: a provider's cache goes by the beginning of the prompt.
    number = call.number
    while (made := f"call_{call.turn.at}_{number}") in taken:
        number += 1
    taken.add(made)
    return made
