"""`trim_history`, which removes the oldest turns of a long conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import ConfigError, ModelNotFoundError, NotFoundError
from ..requests import Request, estimated_tokens, read_messages
from ..types import INSTRUCTION_ROLES, Message, Messages
from .chat_model import check_model
from .model_info import get_model_info

if TYPE_CHECKING:
    from .chat_model import ChatModel


async def trim_history(messages: Messages, max_tokens: int, *, model: ChatModel | None = None) -> list[Message]:
    """Removes the oldest turns of a conversation, so that the conversation has at most `max_tokens` tokens.

        history = await trim_history(history, 100_000, model=provider)

    System messages, the last turn and the newest compaction (the provider's summary of earlier turns) always stay, even
    if they exceed the limit. A question is removed together with its answer, and a tool call together with its results.

    Args:
        messages: the conversation. The list isn't changed.
        max_tokens: the maximum number of tokens. Choose a number that leaves enough tokens for the answer and the
            tools.
        model: the model whose provider counts the tokens, with one request for each count. Without a model, or if the
            provider can't count tokens, streamfold estimates one token for about four bytes of text.

    Raises:
        ConfigError: an argument is invalid.
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
        return trim_by_estimate(messages, max_tokens)  # the server has this API, but can't count tokens
    return list(kept)


def trim_by_estimate(messages: Messages, max_tokens: int) -> list[Message]:
    """Trims a conversation like `trim_history`, with estimated token counts."""
    kept, groups = _read(messages, max_tokens)
    return list(_without_oldest(kept, groups, estimated_tokens(Request("", kept)), max_tokens))


def _read(messages: Messages, max_tokens: object) -> tuple[tuple[Message, ...], list[list[Message]]]:
    if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1:
        raise ConfigError(f"max_tokens must be a whole number greater than 0, not {max_tokens!r:.40}")
    read = tuple(read_messages(messages))
    return read, _removable(read)


def _without_oldest(
    kept: tuple[Message, ...], groups: list[list[Message]], tokens: int, max_tokens: int
) -> tuple[Message, ...]:
    scale = tokens / estimated_tokens(Request("", kept))
    removed: list[Message] = []
    while tokens > max_tokens and groups:
        group = groups.pop(0)
        removed += group
        tokens -= max(1, round(scale * estimated_tokens(Request("", tuple(group)))))
    return tuple(message for message in kept if not any(message is each for each in removed))


def _removable(messages: Sequence[Message]) -> list[list[Message]]:
    """Returns the groups of messages that `trim_history` may remove, oldest first.

    Before the last user message, a group is a user message with its answer. After the last user message, a group is an
    assistant message with its tool results. The result contains neither the last group nor the group with the newest
    compaction.
    """
    talk = [message for message in messages if message.role not in INSTRUCTION_ROLES]
    last = next((at for at in reversed(range(len(talk))) if talk[at].role == "user"), -1)
    compacted = next((each for each in reversed(talk) if any(part.kind == "compaction" for part in each.hosted)), None)
    first = last
    while first > 0 and talk[first - 1].role == "user":  # several user messages belong to one turn
        first -= 1
    before = _grouped(talk[: max(first, 0)], "user")
    behind = _grouped(talk[last + 1 :], "assistant")
    return [group for group in [*before, *behind[:-1]] if not any(message is compacted for message in group)]


def _grouped(messages: Sequence[Message], begins: str) -> list[list[Message]]:
    # A group begins with a message of a role that follows a message of another role.
    groups: list[list[Message]] = []
    before = ""
    for message in messages:
        if not groups or (message.role == begins and before != begins):
            groups.append([])
        groups[-1].append(message)
        before = message.role
    return groups
