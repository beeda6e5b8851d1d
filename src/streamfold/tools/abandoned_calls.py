"""Denies abandoned tool calls. A tool call is abandoned if the user continued the conversation before the tool call had
a result. Tools that have already started aren't affected.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from dataclasses import replace

from ..errors import ConfigError
from ..stores import StoreError
from ..types import Message, ToolCall, tool_result
from .approvals import TurnCalls, take_open_calls
from .journal import (
    Approval,
    CallInDoubtError,
    CallJournal,
    CallKey,
    approval_key,
    call_key,
    check_age,
    load_approval,
    run_key,
    run_once,
    store_approval,
)
from .run_state import read_state
from .tool_results import ToolResult

ABANDONED = "result unknown: the conversation continued without the result, and the tool may have been started"
_STARTED = "result unknown: the tool was started, and the conversation continued without the result"
_NOT_RUN = "not run: the conversation continued without it"

_logger = logging.getLogger("streamfold.tools")


class AbandonedCalls:
    """The abandoned tool calls of a conversation: the user continued the conversation before they had a result.

    Args:
        state: the saved state of the conversation's paused run, or None.
        is_shown_as: a function that is called with a tool call's id and an id from the user interface. It returns True
            if both ids identify the same tool call.
    """

    def __init__(self, state: str | None, is_shown_as: Callable[[str, str], bool]) -> None:
        self._state = state
        self._is_shown_as = is_shown_as

    async def settle(self, messages: list[Message], journal: CallJournal, owner: str, chat_id: str) -> set[str]:
        """Denies the tool calls that wait for an approval or a result, and inserts the denials into `messages`.

        If the journal's store fails, logs the failure and leaves `messages` unchanged.

        Returns:
            The journal keys of the abandoned runs and approvals, for `end_runs`.
        """
        ended: set[str] = set()
        try:
            open_calls = _open_calls(messages)
            if self._state is not None:
                ended |= await self._settle_saved(messages, open_calls, journal, owner, chat_id)
            for at, call in open_calls.items():
                place = approval_key(owner, chat_id, call)
                if (known := await load_approval(journal, place)) is not None:
                    ended |= {place, known.key}
                    found = await _denied(journal, CallKey(known.key, call))
                    # The approval was found by ids that the client chose, so the client isn't shown the result.
                    messages[at] = replace(messages[at], content=_NOT_RUN if found and found.denied else _STARTED)
        except (StoreError, OSError) as error:
            _logger.warning("the journal can't be used to deny abandoned tool calls: %s", error)
        return ended

    async def _settle_saved(
        self, messages: list[Message], open_calls: dict[int, ToolCall], journal: CallJournal, owner: str, chat_id: str
    ) -> set[str]:
        found = _last_turn(self._state or "", journal, owner)
        if found is None:
            return set()
        run_id, position, turn = found
        ended = {run_key(owner, run_id)}
        for status in ("approval", "ready", "started"):
            for call in turn.having(status):
                key = call_key(owner, run_id, position, call)
                result = await _result(journal, CallKey(key, call, turn[call].unanswered), turn)
                at = next((at for at in reversed(open_calls) if self._is_shown_as(call.id, open_calls[at].id)), None)
                if at is not None:
                    place = approval_key(owner, chat_id, open_calls.pop(at))
                    messages[at] = replace(messages[at], content=result.content, error=result.error)
                    await store_approval(journal, place, Approval(secrets.token_hex(16), key))  # for later requests
                    ended.add(place)
        return ended


def _open_calls(messages: list[Message]) -> dict[int, ToolCall]:
    calls: dict[str | None, ToolCall] = {}
    found: dict[int, ToolCall] = {}
    for at, message in enumerate(messages):
        calls |= {call.id: call for call in message.tool_calls}
        if message.role == "tool" and message.content == ABANDONED and message.tool_call_id in calls:
            found[at] = calls[message.tool_call_id]
    return found


def _last_turn(state: str, journal: CallJournal, owner: str) -> tuple[str, int, TurnCalls] | None:
    try:
        saved = read_state(state)
        check_age(journal, saved.began)
        messages = list(saved.messages)
        turn = take_open_calls(messages)
        if turn is None or saved.calls is None or saved.run_id is None or saved.owner != owner:
            return None
        turn.load(saved.calls)
    except ConfigError as error:
        _logger.warning("the saved state of an abandoned run can't be used: %s", error)
        return None
    return saved.run_id, len(messages), turn


async def _result(journal: CallJournal, key: CallKey, turn: TurnCalls) -> Message:
    # A waiting tool call is denied.
    if turn[key.call].status == "started":  # without a journal, the tool call was never claimed
        stored = await journal.result(key.text)
        found = None if stored is None else ToolResult.from_json(key.call, stored)
    else:
        found = await _denied(journal, key)
    return tool_result(key.call, _STARTED, error=True) if found is None else found.message


async def _denied(journal: CallJournal, key: CallKey) -> ToolResult | None:
    """Denies a tool call and returns the denial as its result.

    If another run has already started the tool call, returns the result of that run, or None if there is no result yet.
    """

    async def deny() -> ToolResult:
        return ToolResult(key.call, tool_result(key.call, _NOT_RUN, error=True), _NOT_RUN, denied=True)

    try:
        return await run_once(journal, key, deny)
    except CallInDoubtError:
        return None
