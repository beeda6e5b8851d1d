"""Converts the state of a run to JSON text and back."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any

from ..errors import ConfigError
from ..types import Message

_VERSION = 3


@dataclass(frozen=True, slots=True)
class RunState:
    """The state of a run, as `ToolRun.dump` saves it.

    Attributes:
        run_id: the run's id. None if the state was created from a conversation, which has no id yet.
        owner: the user or tenant to which the run belongs.
        began: the time at which the run began, in seconds since 1970. A journal refuses a state that is too old.
        messages: the conversation, with a result message for each tool call of the last turn.
        max_turns: the maximum number of requests to the model.
        turns: the number of requests that the run has sent.
        calls: the status of each tool call in the last turn, or None if the state was created from a conversation.
        ended: True if the model has given its final answer.
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
        """Returns the state as JSON text, which `read_state` parses."""
        data = {member.name: getattr(self, member.name) for member in fields(self)}
        return json.dumps({"version": _VERSION, **data, "messages": [message.to_dict() for message in self.messages]})


def read_state(text: str) -> RunState:
    """Parses the output of `RunState.to_json`. Raises ConfigError for any other text."""
    try:
        data = json.loads(text)
    except ValueError as exc:
        raise ConfigError(f"the state wasn't created by ToolRun.dump: {exc}") from exc
    if not isinstance(data, dict) or data.get("version") != _VERSION:
        raise ConfigError("the state wasn't created by ToolRun.dump of this version")
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
