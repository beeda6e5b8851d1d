"""The options of a run, and its saved state as text."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigError
from ..requests import ChatOptions
from ..types import Message, ToolLike
from .approvals import Approve
from .journal import CallJournal
from .tool_results import OnToolError

MAX_TURNS = 10  # where nothing else is said


def checked_owner(owner: object) -> str:
    """Returns the owner of a run. Raises ConfigError if it isn't text: None would be one owner for all without one."""
    if not isinstance(owner, str):
        raise ConfigError(f"owner must be text that identifies a user or tenant, not {type(owner).__name__}")
    return owner


class RunOptions(ChatOptions, total=False):
    """The keywords that `run_tools` and `resume_tools` share; `run_tools` documents them."""

    external: Iterable[ToolLike]
    max_turns: int
    on_tool_error: OnToolError | None
    approve: Approve | None
    journal: CallJournal | None
    owner: str


_VERSION = 3


@dataclass(frozen=True, slots=True)
class RunState:
    """A run between two steps.

    Attributes:
        run_id: identifies the run; None for a conversation, which gets a new id.
        owner: the user or tenant whose run it is.
        began: when the run began, in seconds since 1970. A journal keeps what it knows of a run for some days, so that
            an older state is refused.
        messages: the conversation, with a message for each call of the last turn.
        max_turns: the maximum number of requests to the model.
        turns: how many were made.
        calls: the statuses of the calls of the last turn; None if all have results, or if they are not known.
        ended: the model has answered, or the run failed.
    """

    run_id: str | None
    messages: tuple[Message, ...]
    max_turns: int
    turns: int = 0
    calls: list[dict[str, Any]] | None = None
    ended: bool = False
    owner: str = ""
    began: float = 0.0

    def to_json(self) -> str:
        """Returns the state as text; `read_state` reads it."""
        return json.dumps(
            {
                "version": _VERSION,
                "run_id": self.run_id,
                "owner": self.owner,
                "began": self.began,
                "messages": [message.to_dict() for message in self.messages],
                "max_turns": self.max_turns,
                "turns": self.turns,
                "calls": self.calls,
                "ended": self.ended,
            }
        )


def read_state(text: str) -> RunState:
    """Reads what `RunState.to_json` wrote. Raises ConfigError that says what is wrong with it."""
    try:
        data = json.loads(text)
    except ValueError as exc:
        raise ConfigError(f"state is not what ToolRun.dump returned: {exc}") from exc
    if not isinstance(data, dict) or data.get("version") != _VERSION:
        raise ConfigError("state is not what ToolRun.dump of this version returned")
    try:
        messages = tuple(
            Message.from_dict(item, where=f"state.messages[{at}]") for at, item in enumerate(data["messages"])
        )
        turns, ended, owner = int(data["turns"]), bool(data["ended"]), str(data["owner"])
        limit, began = int(data["max_turns"]), float(data["began"])
        return RunState(str(data["run_id"]), messages, limit, turns, data["calls"], ended, owner, began)
    except (KeyError, TypeError, ValueError) as exc:
        if isinstance(exc, ConfigError):
            raise
        raise ConfigError(f"state is damaged: {type(exc).__name__}: {exc}") from exc
