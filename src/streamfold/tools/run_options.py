"""The keywords of `run_tools` as a type, for functions that hand them on."""

from __future__ import annotations

from collections.abc import Iterable

from ..requests import ChatOptions
from ..values import ConfigError, ToolLike
from .approval_rules import Approve
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
