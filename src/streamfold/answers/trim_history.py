"""`trim_history`: conversations that are cut to a number of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import ConfigError, ModelNotFoundError, NotFoundError
from ..requests import Request, estimated_tokens, read_messages
from ..types import Message, Messages
from .chat_model import check_model
from .model_info import get_model_info

if TYPE_CHECKING:
    from .chat_model import ChatModel

_INSTRUCTIONS = ("system", "developer")


async def trim_history(messages: Messages, max_tokens: int, *, model: ChatModel | None = None) -> list[Message]:
    """Returns a conversation without its oldest turns, so that it has at most a number of tokens.

        history = await trim_history(history, 100_000, model=provider)

    System messages and the last turn of the user stay, also if they have more tokens. A question goes with its answer,
    and a call with its results: what is returned can be sent.

    Args:
        messages: the conversation. It is not changed.
        max_tokens: the most tokens. Leave room for the answer and the tools.
        model: counts the tokens where its provider's API can, with a request for each count. Without it, and elsewhere,
            they are estimated: about four bytes of text each.

    Raises:
        ConfigError: an argument is wrong.
        APIError: the request that counts the tokens failed.
    """
    if model is not None:
        check_model(model, "trim_history()")
    info = None if model is None else get_model_info(model)
    if info is None or info.count is None:
        return trim_by_estimate(messages, max_tokens)
    kept, groups = _read(messages, max_tokens)
    try:
        while (tokens := await info.count(Request("", kept), None)) > max_tokens and groups:
            kept = _without_oldest(kept, groups, tokens, max_tokens)
    except NotFoundError as error:
        if isinstance(error, ModelNotFoundError):
            raise
        return trim_by_estimate(messages, max_tokens)  # the server has the API, without the request for counts
    return list(kept)


def trim_by_estimate(messages: Messages, max_tokens: int) -> list[Message]:
    """Does what `trim_history` does without a model."""
    kept, groups = _read(messages, max_tokens)
    return list(_without_oldest(kept, groups, estimated_tokens(Request("", kept)), max_tokens))


def _read(messages: Messages, max_tokens: object) -> tuple[tuple[Message, ...], list[list[Message]]]:
    """Returns the messages, and the groups of them that may be removed. Raises ConfigError for a wrong argument."""
    if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1:
        raise ConfigError(f"max_tokens must be a whole number greater than 0, not {max_tokens!r:.40}")
    read = tuple(read_messages(messages))
    return read, _removable(read)


def _without_oldest(
    kept: tuple[Message, ...], groups: list[list[Message]], tokens: int, max_tokens: int
) -> tuple[Message, ...]:
    """Removes the oldest groups until about `max_tokens` are left of `tokens`."""
    scale = tokens / estimated_tokens(Request("", kept))
    removed: list[Message] = []
    while tokens > max_tokens and groups:
        group = groups.pop(0)
        removed += group
        tokens -= max(1, round(scale * estimated_tokens(Request("", tuple(group)))))
    return tuple(message for message in kept if not any(message is each for each in removed))


def _removable(messages: Sequence[Message]) -> list[list[Message]]:
    """Returns the groups that may be removed, the oldest first.

    Before the last turn of the user, a group is a question with its answer; behind it, a turn of the model with the
    results of its calls, but not the last one, to which the model is to answer.
    """
    talk = [message for message in messages if message.role not in _INSTRUCTIONS]
    last = next((at for at in reversed(range(len(talk))) if talk[at].role == "user"), -1)
    first = last
    while first > 0 and talk[first - 1].role == "user":  # several messages are one turn
        first -= 1
    before = _grouped(talk[: max(first, 0)], "user")
    behind = _grouped(talk[last + 1 :], "assistant")
    return [*before, *behind[:-1]]


def _grouped(messages: Sequence[Message], begins: str) -> list[list[Message]]:
    """Divides messages into groups, each of which begins with a message of a role that follows one of another role."""
    groups: list[list[Message]] = []
    before = ""
    for message in messages:
        if not groups or (message.role == begins and before != begins):
            groups.append([])
        groups[-1].append(message)
        before = message.role
    return groups
