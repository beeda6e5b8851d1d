"""Is a fragment a further piece of a call, or the head of another? Asked where an index or an id alone do not decide.

Every answer that joins names the server that needs it. What is in doubt stays apart: two calls that can't be run are
better than one that runs with another's arguments.
"""

from __future__ import annotations

from ..text import is_empty
from ..values import ToolCallDelta
from .incoming_call import IncomingCall
from .tool_names import ToolNames


def is_repeated_head(call: IncomingCall, part: ToolCallDelta, names: ToolNames, *, known: bool) -> bool:
    """Whether a fragment at the index of `call` begins another call there, although an index is one call's.

    Another id alone does not: Poolside changes it in the middle of a call (poolsideai/pool#9). It does if the
    arguments are complete, or a name comes with it.

    Args:
        known: the id of the fragment came with a name of this call before.
    """
    if part.whole:
        return False
    other_id = are_different_calls(call.id, part.id) and part.id != call.other_id and not known
    if not call.name:
        if not call.has_arguments:
            return other_id and bool(part.name)
        return other_id and call.has_all_arguments and part.arguments.lstrip().startswith("{")
    if not part.name:
        return other_id and call.has_all_arguments and not call.waits and not part.arguments.isspace()
    if other_id:
        return True
    if part.name == call.name:  # a server that gives ids would have given one to another call
        return not call.id and call.is_followed_by(part.arguments)
    known_id = bool(part.id) and bool(call.id)
    begun = call.is_complete() if known_id else bool(call.pieces) and not _is_next_piece(call, part)
    return begun or not names.is_piece(call.name, part.name)


def _is_next_piece(call: IncomingCall, part: ToolCallDelta) -> bool:
    """Whether the arguments go on inside an object that is open, and are no object themselves."""
    first = next((piece.lstrip() for piece in call.pieces if piece.strip()), "")
    return first.startswith("{") and not (call.waits or call.is_complete() or _begins_object(part))


def continues_call(call: IncomingCall, part: ToolCallDelta, names: ToolNames) -> bool:
    """Whether a fragment with the id of `call`, and nothing else in common, is a further piece of it."""
    if part.whole or not part.name or not call.name:
        return True
    if part.name != call.name:
        return not call.pieces and names.is_piece(call.name, part.name)
    return not call.is_followed_by(part.arguments)


def belongs_to_last(last: IncomingCall, part: ToolCallDelta, names: ToolNames) -> bool:
    """Whether the last call takes a fragment without an index: unless that brings what the call has already."""
    if part.id:
        return not last.id and (not part.name or (part.name == last.name and not last.pieces))
    if not part.name or not last.name:
        return True
    if part.name != last.name:
        return not last.pieces and names.is_declared_in_pieces(last.name, part.name)
    if last.index is not None:  # the calls had indices: this repeats one of them
        return not last.is_followed_by(part.arguments)
    if last.waits or not last.has_all_arguments:
        return bool(last.id) or _is_next_piece(last, part)
    return bool(last.id) and _begins_object(part) and not last.is_followed_by(part.arguments)  # all of it again


def _begins_object(part: ToolCallDelta) -> bool:
    return part.arguments.lstrip()[:1] in ("", "{")


def is_another_item(call: IncomingCall, part: ToolCallDelta) -> bool:
    """Whether a fragment under the output index of `call` is of another item: one index for all items.

    Item ids alone say little: GitHub's Copilot draws them anew in each event (fixtures/responses/id_and_call_id). So
    another one counts if the item of `call` is done, or something else is another, too.
    """
    other_id = are_different_calls(call.id, part.id)
    other_item = bool(part.item and call.items) and part.item not in call.items
    if not part.id and part.whole and call.has_text(part.arguments):
        return False
    if not part.name and not part.begins:
        return other_item and not part.id and (call.done or (call.came_whole and not part.whole))
    if call.name and part.name and part.name != call.name:
        return other_id or other_item or not (part.id and call.id)
    if part.begins:
        return other_id or (other_item and (call.done or part.id != call.id))
    other_text = not is_empty(part.arguments) and not call.has_text(part.arguments)
    return call.done and (other_id or (other_item and (part.id != call.id or other_text)))


def are_different_calls(one: str, other: str | None) -> bool:
    return bool(one and other) and one != other
