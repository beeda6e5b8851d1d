"""Adapts a conversation to an endpoint. If the endpoint would refuse the conversation, streamfold raises ConfigError
or, with the option `repair_history`, repairs the conversation.

Each adapter defines the `HistoryRules` of its API, and `facts/histories.toml` has the rules of endpoints and models.
streamfold never modifies the caller's messages. It always makes changes that preserve the conversation's meaning, and
makes other changes only with `repair=True`. Each change produces a warning. The running time is linear in the number of
messages and tool calls.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from string import ascii_letters, digits
from typing import Any, Literal, NamedTuple

from ..errors import ConfigError, join_limited
from ..types import (
    INSTRUCTION_ROLES,
    AudioPart,
    Content,
    FilePart,
    ImagePart,
    Message,
    ReplyWarning,
    TextPart,
    ToolCall,
    tool_result_content,
    user,
)
from .request import Request

_ALL_ROLES = frozenset(["system", "developer", "user", "assistant", "tool", "function"])
_NOT_ANSWERED = "this call was not answered"
_STILL_RUNNING = "still running: the result follows"
_NO_OUTPUT = "(no output)"
_PAUSE = "..."  # the assistant's text between a tool result and a user message
_SUMMARY = "Summary of the conversation so far:\n\n"
_MEDIA = {ImagePart: "an image", FilePart: "a file", AudioPart: "audio"}
CONTINUE_PROMPT = "Continue."
GO_ON_MESSAGE = Message("user", CONTINUE_PROMPT)  # compared by identity: streamfold added this message


@dataclass(frozen=True, slots=True)
class HistoryRules:
    """The rules that a conversation must follow so that an API, an endpoint or a model accepts it.

    Attributes:
        roles: the roles that messages may have.
        system: where system messages are allowed: "anywhere", "leading" (one or more at the beginning of the
            conversation) or "first" (only the first message). With "first", streamfold joins system messages at the
            beginning. streamfold sends system messages at other positions as user messages.
        joined: the roles for which the API refuses consecutive messages. streamfold joins consecutive messages of these
            roles.
        begins_with_user, needs_user, ends_with_user: True if the conversation must begin with, contain or end with a
            user message. If this message is missing, streamfold adds a user message with the text "Continue.".
        user_behind_result: True if a user message may follow a tool result. With False, streamfold inserts an assistant
            message with the text "..." between the tool result and the user message.
        late_results: True if the result of a background tool call may arrive in a later request than the other results.
            With False, requests contain a placeholder until the result has arrived.
        added_tools: True if messages inside the conversation may add tools.
        results_follow: True if tool results must directly follow the assistant message that contains their tool calls.
        result_media: True if tool results may contain images. With False, streamfold moves these images to a user
            message after the tool results.
        single_call: True if a message may have at most one tool call.
        unique_ids: whether a tool call id must be unique within its message ("turn") or within the conversation
            ("conversation"). None if the adapter itself renumbers the ids.
        ids: the format of tool call ids. With "word", letters, digits, "_" and "-" are allowed. With "nine", an id must
            have exactly nine letters and digits.
        id_length: the maximum length of a tool call id.
        object_arguments: True if tool call arguments must be a JSON object.
        plain_names: True if the `name` of a message may contain only letters, digits, "_" and "-".
        strings: the roles whose messages must have a string as content, instead of a list of text parts.
        blanks: whether the API accepts blank texts in messages. With "refused", the API refuses empty texts. With
            "space_refused", it also refuses texts that contain only white space.
        blank_results: True if tool results may be empty.
        null_content: True if a message with tool calls may have null as content. With False, streamfold sends `""`
            instead of null.
        empty_others: True if the API accepts user and system messages without content.
        other_content: a function that returns True if an assistant message has content other than text, a refusal and
            tool calls.
        reads_items: True if the API accepts Responses API items in messages.
        wants_reasoning: True if a message with tool calls must contain reasoning. If the reasoning is missing,
            streamfold sends an empty string instead.
        knows_more: True if the provider has stored earlier messages of the conversation. A request may then contain a
            tool result without its tool call, which is among the stored messages.
        refusals: True if assistant messages have a field for refusals. With False, streamfold sends a refusal as text.
    """

    roles: frozenset[str] = _ALL_ROLES
    system: Literal["anywhere", "leading", "first"] = "anywhere"
    joined: tuple[str, ...] = ()
    begins_with_user: bool = False
    needs_user: bool = False
    ends_with_user: bool = False
    user_behind_result: bool = True
    late_results: bool = False
    added_tools: bool = False
    results_follow: bool = True
    result_media: bool = True
    single_call: bool = False
    unique_ids: Literal["turn", "conversation"] | None = "turn"
    ids: Literal["any", "word", "nine"] = "any"
    id_length: int | None = None
    object_arguments: bool = False
    plain_names: bool = False
    strings: tuple[str, ...] = ()
    blanks: Literal["sent", "refused", "space_refused"] = "sent"
    blank_results: bool = True
    null_content: bool = True
    empty_others: bool = False
    other_content: Callable[[Message], bool] = lambda message: bool(message.extras or message.reasoning)
    reads_items: bool = False
    wants_reasoning: bool = False
    knows_more: bool = False
    refusals: bool = False

    def over(self, facts: Mapping[str, Any]) -> HistoryRules:
        """Returns a copy in which the rules of an endpoint or a model (`facts`) replace the rules of the same names."""
        read = dict(facts)
        for name, value in facts.items():
            if isinstance(value, list):  # TOML has neither tuples nor sets
                read[name] = type(getattr(self, name))(value)
        return replace(self, **read) if read else self


class FittedHistory(NamedTuple):
    """An adapted conversation.

    Attributes:
        positions: the index of each message in the caller's list. For a message that streamfold added, this is the
            index of a neighbouring message. None if no message was added or removed.
    """

    messages: tuple[Message, ...]
    positions: tuple[int, ...] | None = None
    warnings: tuple[ReplyWarning, ...] = ()


def fit_history(
    messages: tuple[Message, ...],
    rules: HistoryRules,
    *,
    repair: bool = False,
    open_calls: bool = False,
    origin: str | None = None,
) -> FittedHistory:
    """Adapts a conversation to an endpoint. Returns the adapted conversation, and a warning for each change.

    Args:
        repair: True to allow changes that affect the meaning of the conversation. Repairs never invent text of the
            model or results of a tool.
        open_calls: True to accept tool calls without results, because the conversation isn't sent to a model yet.
        origin: the value of `Message.origin` for messages that this endpoint's model wrote. If `rules.ids` is "any",
            tool call ids in these messages stay unchanged, because the endpoint accepts its own ids.

    Raises:
        ConfigError: the provider would refuse the conversation. The error message lists all reasons, each with the
            index of the message.
    """
    roles = [message.role for message in messages]
    if roles in (["user"], ["system", "user"]) and all(map(_is_plain, messages)) and rules.roles >= {*roles}:
        return FittedHistory(messages)  # a plain question follows all rules
    return _Fitting(messages, rules, repair, open_calls, origin).run()


def _is_plain(message: Message) -> bool:
    return type(message.content) is str and not message.content.isspace() and message.content != "" and not message.name


@dataclass(slots=True, eq=False)
class _Call:
    """A tool call of an assistant message, and its result.

    Attributes:
        number: the index of the tool call in its message.
        new_id: the id that replaces the original id, if the endpoint doesn't accept the original id.
    """

    turn: _Turn
    number: int
    id: str
    result: _Turn | None = None
    new_id: str | None = None


@dataclass(slots=True, eq=False)
class _Turn:
    """A message, and the tool calls and results that belong to it.

    Attributes:
        at: the index of the message in the caller's list.
        answered: the tool call whose result this tool message is. None if no tool call matches, and for other messages.
        repeats: if all earlier tool calls with this tool message's id already have a result, the last of them.
        dropped: True if streamfold leaves the message out of the request.
    """

    at: int
    message: Message
    calls: list[_Call] = field(default_factory=list)
    answered: _Call | None = None
    repeats: _Call | None = None
    dropped: bool = False

    @property
    def name(self) -> str:
        return f"messages[{self.at}]"


class _Fitting:
    def __init__(
        self, messages: tuple[Message, ...], rules: HistoryRules, repair: bool, open_calls: bool, origin: str | None
    ) -> None:
        self._messages, self._rules, self._repair = messages, rules, repair
        self._open_calls, self._origin = open_calls, origin
        self._turns = [_Turn(at, message) for at, message in enumerate(messages)]
        for turn in self._turns:
            turn.calls = [_Call(turn, number, call.id) for number, call in enumerate(turn.message.tool_calls)]
        self._errors: list[str] = []
        self._repairable = True
        self._warnings: list[ReplyWarning] = []
        self._changes: dict[str, list[str]] = {}  # the places of each change
        self._ids: dict[str, str] = {}
        self._moved: set[int] = set()  # the indexes of turns whose results a repair moves
        self._sent: list[tuple[int, Message]] = []

    def run(self) -> FittedHistory:
        self._fit_roles()
        self._fit_blanks()
        self._leave_out_empty_turns()
        self._pair()
        self._check_ids()
        self._check_results()
        self._check_reasoning()
        if self._errors:
            refused = ConfigError(join_limited(self._errors, "; ", "more problems"))
            refused.hint = "pass repair_history=True to repair the conversation" if self._repairable else ""
            raise refused
        self._order()
        self._move_media()
        self._place_system_messages()
        self._join()
        self._fit_ends()
        self._sent = [(at, self._fit_members(at, message)) for at, message in self._sent]
        if not self._sent:
            raise ConfigError("messages: all messages are empty")
        return self._result()

    def _result(self) -> FittedHistory:
        for change, places in self._changes.items():
            detail = f"{join_limited(list(dict.fromkeys(places)))}: {change}"
            self._warnings.append(ReplyWarning("history_repaired", detail))
        if self._ids:
            shown = join_limited([f"{old!r} as {new!r}" for old, new in self._ids.items()])
            detail = f"tool call ids were changed to a format that the provider accepts: {shown}"
            self._warnings.append(ReplyWarning("ids_renumbered", detail))
        positions = tuple(at for at, _ in self._sent)
        same = positions == tuple(range(len(self._messages)))
        messages = tuple(message for _, message in self._sent)
        return FittedHistory(messages, None if same else positions, tuple(self._warnings))

    def _change(self, at: int, what: str) -> None:
        self._changes.setdefault(what, []).append(f"messages[{at}]")

    def _wrong(self, problem: str, repaired: str) -> bool:
        if repaired and self._repair:
            self._warnings.append(ReplyWarning("history_repaired", f"{problem}: {repaired}"))
            return True
        self._errors.append(problem)
        self._repairable = self._repairable and bool(repaired)
        return False

    # --- single messages ----------------------------------------------------------------------------------------------

    def _fit_roles(self) -> None:
        for turn in self._turns:
            role = turn.message.role
            if role not in self._rules.roles and role == "developer":
                self._change(turn.at, "the role 'developer', which this provider doesn't support, was sent as 'system'")
                turn.message = replace(turn.message, role="system")
            elif role not in self._rules.roles:
                self._wrong(f"{turn.name} has the role {role!r}, which this provider doesn't support", "")
            if not self._rules.refusals and (sent := refusal_as_text(turn.message)) is not turn.message:
                self._change(turn.at, "a refusal was sent as text, because this provider has no field for refusals")
                turn.message = sent

    def _fit_blanks(self) -> None:
        if self._rules.blanks == "sent":
            return
        for turn in self._turns:
            message, content = turn.message, turn.message.content
            if isinstance(content, tuple) and (stays := tuple(p for p in content if not self._is_blank(p))) != content:
                if stays or turn.calls:  # a message without content is left out later
                    self._change(turn.at, "blank texts, which this provider refuses, were left out")
                turn.message = replace(message, content=stays or ("" if message.role == "tool" else None))
            elif isinstance(content, str) and turn.calls and self._is_blank(content):
                if content:
                    self._change(turn.at, "blank texts, which this provider refuses, were left out")
                turn.message = replace(message, content=None)

    def _is_blank(self, part: Any) -> bool:
        text = _text_of_part(part)
        if text is None:
            return False
        return not (text.strip() if self._rules.blanks == "space_refused" else text)

    def _leave_out_empty_turns(self) -> None:
        rules = self._rules
        for turn in self._turns:
            message, items = turn.message, turn.message.extras.get("output")
            content = message.content
            parts = (content,) if isinstance(content, str) else content or ()
            blank = all(map(self._is_blank, parts))
            if message.role == "tool":
                if blank and not rules.blank_results and not message.error:
                    self._change(
                        turn.at, f"a result without text, which this provider refuses, was sent as {_NO_OUTPUT}"
                    )
                    turn.message = replace(message, content=_NO_OUTPUT)
                continue
            if not blank or turn.calls or message.refusal or message.partial or message.paused:
                continue
            if message.tools and not message.extras:
                turn.dropped = not rules.added_tools  # the tools are sent in the request's list
                continue
            kinds = sorted({str(item.get("type")) for item in items or () if isinstance(item, Mapping)})
            if message.role == "assistant":
                if rules.other_content(self._messages[turn.at]):
                    continue
                turn.dropped = True
                alone = f"only items of the Responses API ({', '.join(kinds)})" if kinds else "neither text nor calls"
                self._change(turn.at, f"an assistant's turn with {alone} was left out")
            elif items and not rules.reads_items:
                problem = f"only items of the Responses API ({', '.join(kinds)}), which this provider can't read"
                self._wrong(f"{turn.name} has {problem}", "")
            elif not (items or message.extras or (rules.empty_others and rules.blanks == "sent")):
                turn.dropped = True
                self._change(turn.at, f"an empty {message.role} message was left out")

    # --- calls and results --------------------------------------------------------------------------------------------

    def _pair(self) -> None:
        """Assigns each result to the nearest earlier tool call that has the same id and no result yet."""
        waiting: dict[str, list[deque[_Call]]] = {}  # the calls of each turn, by id
        latest: dict[str, _Call] = {}
        for turn in self._turns:
            for call in turn.calls:
                turns = waiting.setdefault(call.id, [])
                if not turns or turns[-1][0].turn is not turn:
                    turns.append(deque())
                turns[-1].append(call)  # if an id occurs twice in a turn, results follow the order of the calls
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
        rules = self._rules
        taken = {call.id for turn in self._turns for call in turn.calls}
        first: dict[str, _Call] = {}
        last: dict[str, _Call] = {}
        for turn in self._turns:
            own = self._origin is not None and turn.message.origin == self._origin
            for call in turn.calls:
                before, last[call.id] = last.get(call.id), call
                first.setdefault(call.id, call)
                if not call.id:
                    call.new_id = self._made_id(call, taken)
                    self._change(turn.at, "a tool call had no id and got a new one")
                    continue
                if rules.unique_ids is None:
                    continue  # the adapter renumbers all ids
                sent = call.id if own and rules.ids == "any" else self._accepted_id(call.id)
                if before is not None:
                    in_turn = before.turn is turn
                    where = "it" if in_turn else first[call.id].turn.name
                    problem = (
                        f"{turn.name} has a tool call with the id {call.id!r}, and so has another tool call of {where}"
                    )
                    if in_turn or (self._repair and rules.unique_ids == "turn"):
                        if self._wrong(problem, "the repeated id was replaced"):
                            call.new_id = self._made_id(call, taken)
                        continue
                    if rules.unique_ids == "conversation":
                        sent = self._made_id(call, taken)
                    else:
                        self._warnings.append(ReplyWarning("history_mismatch", problem))
                if sent != call.id:
                    call.new_id = self._ids[call.id] = sent

    def _accepted_id(self, call_id: str) -> str:
        # The new id depends only on the old id. So the beginning of a growing conversation stays the same, which the
        # prompt cache requires.
        rules = self._rules
        if rules.ids == "nine":
            # "Tool call id was turn1_0 but must be a-z, A-Z, 0-9, with a length of 9" (nearai/ironclaw#1241, Mistral).
            if re.fullmatch(r"[A-Za-z0-9]{9}", call_id):
                return call_id
            number = int.from_bytes(sha256(call_id.encode("utf-8", "replace")).digest()[:8])
            made = ""
            for _ in range(9):
                number, rest = divmod(number, len(_ALPHABET))
                made += _ALPHABET[rest]
            return made
        most = rules.id_length or len(call_id) + 9
        if len(call_id) <= most and (rules.ids == "any" or re.fullmatch(r"[a-zA-Z0-9_-]+", call_id)):
            return call_id
        mark = sha256(call_id.encode("utf-8", "replace")).hexdigest()[:8]
        return f"{re.sub(r'[^a-zA-Z0-9_-]', '_', call_id)[: most - 9]}_{mark}"

    def _made_id(self, call: _Call, taken: set[str]) -> str:
        # The same conversation gets the same ids, which the prompt cache requires.
        number = call.number
        while (made := self._accepted_id(f"call_{call.turn.at}_{number}")) in taken:
            number += 1
        taken.add(made)
        return made

    def _check_results(self) -> None:
        for turn in self._turns:
            if turn.message.role != "tool" or turn.answered or self._rules.knows_more:
                continue
            first = turn.repeats.result if turn.repeats else None
            if first and (first.message.content, first.message.error) == (turn.message.content, turn.message.error):
                turn.dropped = True
                self._change(turn.at, f"a duplicate of the result in {first.name} was left out")
            else:
                turn.dropped = self._wrong(_orphan(turn), "it was left out")
        # The index of the next user or assistant message, for each message.
        following = [len(self._turns) + 1] * (len(self._turns) + 2)
        for turn in reversed(self._turns):
            is_other = turn.message.role in ("user", "assistant") and not turn.dropped
            following[turn.at] = turn.at if is_other else following[turn.at + 1]
        for turn in self._turns:
            for call in turn.calls:
                background = turn.message.tool_calls[call.number].background
                if call.result is None and background:
                    if not self._rules.late_results:
                        self._change(turn.at, f"a background tool call was sent with the result {_STILL_RUNNING!r}")
                elif call.result is None and not self._may_be_open(turn):
                    name = turn.message.tool_calls[call.number].name
                    problem = f"{turn.name} calls {name!r} (id {call.id!r}), but no tool message has the result"
                    self._wrong(problem, f"a result was added with the text: {_NOT_ANSWERED}")
                elif (
                    call.result and self._rules.results_follow and (between := following[turn.at + 1]) < call.result.at
                ):
                    problem = (
                        f"{call.result.name} answers the call {call.id!r} of {turn.name}, and messages[{between}] is"
                        " between them"
                    )
                    if background:
                        self._change(
                            turn.at, "the result of a background tool call was moved directly after its tool call"
                        )
                        self._moved.add(turn.at)
                    elif self._wrong(problem, "it was moved"):
                        self._moved.add(turn.at)

    def _may_be_open(self, turn: _Turn) -> bool:
        return self._open_calls or (turn is self._turns[-1] and turn.message.paused)

    def _check_reasoning(self) -> None:
        if not self._rules.wants_reasoning:
            return
        bare = [turn.name for turn in self._turns if turn.calls and turn.message.reasoning is None]
        if bare:
            detail = f"{', '.join(bare)}: the reasoning before these tool calls is missing, which the model requires"
            self._warnings.append(ReplyWarning("lost_reasoning", f"{detail}; empty reasoning was sent"))

    # --- the order of messages ----------------------------------------------------------------------------------------

    def _order(self) -> None:
        follow = self._rules.results_follow
        rank, ranks = 0, list[int]()  # the position of each message in the request
        for turn in self._turns:
            ranks.append(rank)
            rank += not turn.dropped
        for turn in self._turns:
            if turn.dropped or (follow and turn.answered):
                continue
            sent = _with_new_ids(turn)
            apart = self._rules.single_call and len(turn.calls) > 1
            if apart:
                self._change(turn.at, "a message with several tool calls was sent as messages with one tool call each")
            self._sent.append((turn.at, replace(sent, tool_calls=sent.tool_calls[:1]) if apart else sent))
            places = [ranks[call.result.at] for call in turn.calls if call.result]
            start = ranks[turn.at] + 1
            if follow and turn.at not in self._moved and places != list(range(start, start + len(places))):
                self._change(turn.at, "the tool results were moved directly after their tool calls, in the same order")
            for call in turn.calls:
                if apart and call.number:
                    alone = Message("assistant", tool_calls=(sent.tool_calls[call.number],), origin=sent.origin)
                    self._sent.append((turn.at, alone))
                if call.result is None and turn.message.tool_calls[call.number].background:
                    if not self._rules.late_results:
                        text, call_id = _STILL_RUNNING, call.new_id or call.id
                        self._sent.append((turn.at, Message("tool", text, tool_call_id=call_id)))
                elif call.result is None and not self._may_be_open(turn):
                    # Marked as an error, so that the model does not take it for a result.
                    added = Message("tool", _NOT_ANSWERED, tool_call_id=call.new_id or call.id, error=True)
                    self._sent.append((turn.at, added))
                elif call.result is not None and follow:
                    self._sent.append((call.result.at, _with_new_ids(call.result)))

    def _move_media(self) -> None:
        """Moves images from tool results to a user message after the turn's last tool result.

        OpenAI refuses images in tool results with the error "Image URLs are only allowed for messages with role 'user',
        but this message with role 'tool' contains an image URL" (OpenHands/OpenHands#7700). Some models accept the
        images but ignore them (openai/openai-openapi#523). The user message comes after the last result, because no
        message may stand between the results of one turn.
        """
        if self._rules.result_media:
            return
        moved: list[tuple[int, Message]] = []
        waiting: list[Any] = []
        for at, message in [*self._sent, (len(self._messages), GO_ON_MESSAGE)]:
            if waiting and message.role != "tool":
                moved.append((moved[-1][0], Message("user", tuple(waiting))))
                waiting = []
            parts = message.content if message.role == "tool" and isinstance(message.content, tuple) else ()
            media = [part for part in parts if isinstance(part, ImagePart | FilePart | AudioPart)]
            if media:
                count = ", ".join(_MEDIA[type(part)] for part in media)
                which = f"of the result of {message.tool_call_id}"
                waiting += [TextPart(f"{count} {which}:"), *media]
                texts = [part.text for part in tool_result_content(message) or () if isinstance(part, TextPart)]
                text = "\n".join([*texts, f"({count}: see the next user message)"])
                message = replace(message, content=text, error=False)
                detail = f"messages[{at}]: {count} {which} moved to a user message"
                self._warnings.append(ReplyWarning("tool_images_moved", detail))
            moved.append((at, message))
        self._sent = moved[:-1]

    def _place_system_messages(self) -> None:
        if self._rules.system == "anywhere":
            return
        placed: list[tuple[int, Message]] = []
        opening = True
        for at, message in self._sent:
            opening = opening and message.role in INSTRUCTION_ROLES
            if message.role not in INSTRUCTION_ROLES or (opening and (not placed or self._rules.system == "leading")):
                placed.append((at, message))
            elif opening:
                placed[-1] = placed[-1][0], _joined(placed[-1][1], message)
                self._change(at, "system messages at the beginning were joined")
            else:
                placed.append((at, replace(message, role="user")))
                self._change(at, "a system message inside the conversation was sent as a user message")
        self._sent = placed

    def _join(self) -> None:
        sent: list[tuple[int, Message]] = []
        for at, message in self._sent:
            before = sent[-1][1] if sent else None
            if before and before.role == message.role in self._rules.joined and not before.tool_calls:
                sent[-1] = sent[-1][0], _joined(before, message)
                self._change(at, f"was joined with the previous {message.role} message")
                continue
            if before and before.role == "tool" and message.role == "user" and not self._rules.user_behind_result:
                sent.append((at, Message("assistant", _PAUSE)))
                self._change(
                    at, f'an assistant message "{_PAUSE}" was added between a tool result and this user message'
                )
            sent.append((at, message))
        self._sent = sent

    def _fit_ends(self) -> None:
        rules, end = self._rules, len(self._messages) - 1
        talk = [message for _, message in self._sent if message.role not in INSTRUCTION_ROLES]
        given = [turn for turn in self._turns if turn.message.role not in INSTRUCTION_ROLES]
        silent = bool(given) and given[-1].dropped and given[-1].message.role == "user"
        last = talk[-1] if talk else None
        ends = last is not None and last.role == "assistant" and not last.tool_calls and not last.partial
        if (silent and not talk) or (ends and (rules.ends_with_user or silent)):
            self._sent.append((end, GO_ON_MESSAGE))
            self._change(end, f'a user message "{CONTINUE_PROMPT}" was added after this message')
        roles = [message.role for _, message in self._sent]
        begins = bool(talk) and talk[0].role != "user" and rules.begins_with_user
        if begins or (rules.needs_user and "user" not in roles):
            start = next((number for number, role in enumerate(roles) if role not in INSTRUCTION_ROLES), len(roles))
            at = self._sent[start][0] if start < len(roles) else end
            self._sent.insert(start, (at, GO_ON_MESSAGE))
            self._change(at, f'a user message "{CONTINUE_PROMPT}" was added before this message')

    # --- members of messages ------------------------------------------------------------------------------------------

    def _fit_members(self, at: int, message: Message) -> Message:
        rules = self._rules
        if rules.plain_names and message.name and not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", message.name):
            self._change(at, "unsupported characters in a name were replaced by _")
            message = replace(message, name=re.sub(r"[^a-zA-Z0-9_-]", "_", message.name)[:64])
        if rules.object_arguments and any(call.error and call.kind != "custom" for call in message.tool_calls):
            self._change(at, 'arguments other than a JSON object were sent as {"_raw": ...}')
            message = replace(message, tool_calls=tuple(map(_with_object, message.tool_calls)))
        if message.role in rules.strings and isinstance(message.content, tuple):
            texts = [_text_of_part(part) for part in message.content]
            if None not in texts:
                self._change(at, "a list of texts was sent as one string")
                cache = message.cache or any(getattr(part, "cache", False) for part in message.content)
                message = replace(message, content="\n".join(text or "" for text in texts), cache=cache)
        if message.tool_calls and message.content is None and not rules.null_content:
            message = replace(message, content="")
        return message


def _text_of_part(part: Any) -> str | None:
    match part:
        case str(text) | TextPart(text) | {"type": "text", "text": str(text)}:
            return text
    return None


def is_blank_message(message: Message) -> bool:
    """Returns True if a message has no content. Responses API items in `extras["output"]` don't count as content, and
    tool calls aren't checked."""
    if message.refusal or message.partial or message.tools or any(name != "output" for name in message.extras):
        return False
    content = message.content
    return not content if isinstance(content, str | None) else all(part == TextPart("") for part in content)


def refusal_as_text(message: Message) -> Message:
    content = message.content
    if isinstance(content, tuple) and any(map(_is_refusal, content)):
        content = tuple(TextPart(part["refusal"]) if _is_refusal(part) else part for part in content)
    if message.refusal:
        content = _joined_content(content, message.refusal)
    return message if content is message.content else replace(message, content=content, refusal=None)


def _is_refusal(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") == "refusal" and isinstance(part.get("refusal"), str)


def _joined_text(one: str | None, other: str | None) -> str | None:
    return f"{one}\n\n{other}" if one and other else one or other


def _joined_content(one: Any, other: Any) -> Content:
    if not one or not other:
        joined: Content = one or other
        return joined
    if isinstance(one, str) and isinstance(other, str):
        return f"{one}\n\n{other}"
    first, second = ((TextPart(content),) if isinstance(content, str) else content for content in (one, other))
    return (*first, *second)


def _joined(one: Message, other: Message) -> Message:
    extras = dict(one.extras)
    for name, value in other.extras.items():
        both_lists = isinstance(extras.get(name), list) and isinstance(value, list)
        extras[name] = [*extras[name], *value] if both_lists else value
    if one.origin != other.origin:  # each provider can read only its own extras
        extras = {}
    return replace(
        other,
        content=_joined_content(one.content, other.content),
        reasoning=_joined_text(one.reasoning, other.reasoning) if one.origin == other.origin else None,
        refusal=_joined_text(one.refusal, other.refusal),
        name=one.name if one.name == other.name else None,
        extras=extras,
        cache=other.cache or one.cache,
        tools=(*one.tools, *other.tools),
    )


def _with_object(call: ToolCall) -> ToolCall:
    if not call.error or call.kind == "custom":
        return call
    wrapped = {"_raw": call.raw_arguments}
    return replace(call, arguments=wrapped, raw_arguments=json.dumps(wrapped, ensure_ascii=False))


_ALPHABET = digits + ascii_letters


def _orphan(turn: _Turn) -> str:
    call_id = turn.message.tool_call_id
    if call_id is None:
        return f"{turn.name} has no tool_call_id: add the id of the tool call"
    if turn.repeats is not None and turn.repeats.result is not None:
        return f"{turn.name} answers the call {call_id!r} again, with another result than {turn.repeats.result.name}"
    return f"{turn.name} answers the call {call_id!r}, which no earlier message has"


def _with_new_ids(turn: _Turn) -> Message:
    message = turn.message
    if turn.answered is not None and turn.answered.new_id is not None:
        return replace(message, tool_call_id=turn.answered.new_id)
    if not any(call.new_id for call in turn.calls):
        return message
    pairs = zip(message.tool_calls, turn.calls, strict=True)
    calls = tuple(replace(call, id=checked.new_id or call.id) for call, checked in pairs)
    extras = _with_ids(message.extras, "output", ("function_call", "custom_tool_call"), "call_id", calls)
    return replace(message, tool_calls=calls, extras=_with_ids(extras, "blocks", ("tool_use",), "id", calls))


def _with_ids(
    extras: Mapping[str, Any], name: str, kinds: tuple[str, ...], member: str, calls: tuple[ToolCall, ...]
) -> Mapping[str, Any]:
    # The ids must match the message, because otherwise the reasoning can't be sent.
    items = extras.get(name)
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        return extras
    if sum(item.get("type") in kinds for item in items) != len(calls):
        return extras
    ids = iter(calls)
    made = [{**item, member: next(ids).id} if item.get("type") in kinds else item for item in items]
    return {**extras, name: made}


def read_foreign_compactions(request: Request) -> tuple[Request, list[ReplyWarning]]:
    """Replaces the compactions of other providers with text messages. A compaction is a provider's summary of earlier
    messages. Returns the new request, and a warning for each compaction.

    Only a message that has no other content counts as a compaction.

    Raises:
        ConfigError: only the provider that wrote the summary can read it, so this model wouldn't see the earlier
            messages.
    """
    if not any(message.extras for message in request.messages):
        return request, []
    messages, warnings = list(request.messages), list[ReplyWarning]()
    for number, (at, message) in enumerate(request.numbered):
        if request.came_from_here(message) or message.role != "assistant" or message.content or message.tool_calls:
            continue
        parts = message.hosted
        if not parts or any(part.kind != "compaction" for part in parts):
            continue
        summary = parts[0].raw.get("content")
        if not isinstance(summary, str) or not summary:
            why = f"only the provider that created it can read it ({message.origin})"
            raise ConfigError(f"messages[{at}] is a compaction, and {why}: pass the earlier messages instead")
        messages[number] = user(f"{_SUMMARY}{summary}")
        detail = f"messages[{at}]: the summary of another provider's compaction was sent as text"
        warnings.append(ReplyWarning("provider_data_dropped", detail))
    return (replace(request, messages=tuple(messages)), warnings) if warnings else (request, warnings)
