"""The options of a run, checked, and its saved state as text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from types import UnionType
from typing import Any

from ..errors import ConfigError
from ..requests import ChatOptions
from ..types import Message, Tool, ToolChoice, ToolLike, as_tools, read_tools
from .approvals import Approve
from .journal import CallJournal
from .tool_results import OnToolError, tools_by_name

MAX_TURNS = 10


class RunOptions(ChatOptions, total=False):
    """The keywords that `run_tools` and `resume_tools` share; `run_tools` documents them."""

    external: Iterable[ToolLike]
    max_turns: int
    on_tool_error: OnToolError | None
    approve: Approve | None
    journal: CallJournal | None
    owner: str
    output_type: type[object] | UnionType | None


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The checked options of a run.

    Attributes:
        tools: with the external ones. A set of tools, such as `McpTools`, may change during the run.
        external: the names of the external tools.
        output_type: the type of the final answer; None: text.
        request_options: sent with every request.
    """

    tools: Sequence[Tool | Iterable[Tool]]
    external: frozenset[str]
    tool_choice: ToolChoice
    max_turns: int
    on_tool_error: OnToolError | None
    approve: Approve | None
    journal: CallJournal | None
    owner: str
    output_type: type[object] | UnionType | None
    request_options: ChatOptions

    @classmethod
    def from_options(
        cls, tools: Iterable[ToolLike], options: RunOptions, *, tool_choice: ToolChoice = "auto"
    ) -> RunSettings:
        """Checks the options of a run. Raises ConfigError for an invalid one."""
        rest = options.copy()
        external = as_tools(rest.pop("external", ()))
        external_names = frozenset(tool.name for tool in external)
        settings = cls(
            (*read_tools(tools), *external),
            external_names,
            tool_choice,
            rest.pop("max_turns", MAX_TURNS),
            rest.pop("on_tool_error", None),
            rest.pop("approve", None),
            rest.pop("journal", None),
            rest.pop("owner", ""),
            rest.pop("output_type", None),
            rest,
        )
        if settings.output_type is not None:
            if rest.get("response_format") is not None:
                raise ConfigError("output_type is the response_format of the run: pass one of them")
            rest["response_format"] = settings.output_type
        if settings.max_turns < 1:
            raise ConfigError(f"max_turns must be at least 1, not {settings.max_turns}")
        for name, function in (("on_tool_error", settings.on_tool_error), ("approve", settings.approve)):
            if function is not None and not callable(function):
                raise ConfigError(f"{name} must be a function, not {type(function).__name__}")
        if not isinstance(settings.owner, str):  # None would be one owner for all
            kind = type(settings.owner).__name__
            raise ConfigError(f"owner must be text that identifies a user or tenant, not {kind}")
        return settings

    def current_tools(self) -> dict[str, Tool]:
        """Returns the tools of this moment by name. Raises ConfigError for equal names."""
        return tools_by_name(as_tools(self.tools), self.external)


_VERSION = 3


@dataclass(frozen=True, slots=True)
class RunState:
    """The saved state of a run.

    Attributes:
        run_id: identifies the run; None for a conversation, which gets a new id.
        owner: the user or tenant whose run it is.
        began: when the run began, in seconds since 1970. Journals keep runs for some days and refuse older states.
        messages: the conversation, with a message for each call of the last turn.
        max_turns: the maximum number of requests to the model.
        turns: the number of requests so far.
        calls: the statuses of the calls of the last turn; None for a conversation.
        ended: the model has answered.
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
        data = {member.name: getattr(self, member.name) for member in fields(self)}
        return json.dumps({"version": _VERSION, **data, "messages": [message.to_dict() for message in self.messages]})


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
