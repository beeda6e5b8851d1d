"""Where a fragment of a tool call went, and why: what `Calls` returns, and what explains a stream to a reader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..values import ReplyWarning, ToolCallDelta
from .incoming_call import IncomingCall

# The rows of the tables in `tool_call_assembly.py`. The inspector of the lab has a sentence for each.
MatchRule: TypeAlias = Literal[
    # the fragment continues a call
    "item",  # its item is known
    "index",  # its index is in use
    "changed_id",  # its index is in use, and the id changed
    "id",  # its id is known
    "last",  # nothing tells it from the last call
    "turn",  # the index says whose turn it is
    # it opens a call
    "first",  # no call is open
    "index_taken",  # its index is in use by another call
    "id_taken",  # its id is in use by another call
    "another",  # without an index, it brings an id or a name, and the last call has one
    "new_index",  # nobody opened its index
    "new_item",  # nobody opened its item
    # the server's own list of the calls, at the end of the answer
    "listed_id",
    "listed_item",
    "listed_index",
    "listed_name",
    "listed_new",
]


@dataclass(slots=True)
class CallMatch:
    """Where a fragment went.

    Attributes:
        call: the call that it belongs to.
        rule: the row of the table that decided it.
        part: the fragment.
        opened: whether it opened the call.
        rival: another call that has its index or its id.
    """

    call: IncomingCall
    rule: MatchRule
    part: ToolCallDelta
    opened: bool = False
    rival: IncomingCall | None = None


Listener: TypeAlias = Callable[[CallMatch | tuple[ReplyWarning, IncomingCall | None]], None]
"""Called with every placement of a fragment, and with every warning and the call that it is about."""
