"""`extract`, which validates structured output, and requests it again if it is invalid."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from ..errors import ConfigError
from ..net import scrubs_traceback
from ..requests import ChatOptions, read_messages
from ..types import (
    FixedPricing,
    InvalidReplyError,
    Message,
    Messages,
    Reply,
    ToolLike,
    is_truncated,
    read_conversation,
    total_cost,
    total_usage,
    user,
)
from .chat_model import check_model

if TYPE_CHECKING:
    from .chat_model import ChatModel

T = TypeVar("T")


@overload
async def extract(
    model: ChatModel,
    /,
    form: type[T],
    messages: Messages,
    tools: Iterable[ToolLike] | None = None,
    *,
    attempts: int = 3,
    with_reply: Literal[False] = False,
    **options: Unpack[ChatOptions],
) -> T: ...


@overload
async def extract(
    model: ChatModel,
    /,
    form: type[T],
    messages: Messages,
    tools: Iterable[ToolLike] | None = None,
    *,
    attempts: int = 3,
    with_reply: Literal[True],
    **options: Unpack[ChatOptions],
) -> tuple[T, Reply]: ...


@overload
async def extract(
    model: ChatModel,
    /,
    form: Any,
    messages: Messages,
    tools: Iterable[ToolLike] | None = None,
    *,
    attempts: int = 3,
    with_reply: bool = False,
    **options: Unpack[ChatOptions],
) -> Any: ...


@scrubs_traceback
async def extract(
    model: ChatModel,
    /,
    form: type[T],
    messages: Messages,
    tools: Iterable[ToolLike] | None = None,
    *,
    attempts: int = 3,
    with_reply: bool = False,
    **options: Unpack[ChatOptions],
) -> T | tuple[T, Reply]:
    """Returns the model's answer as a value of a type. If an answer is invalid, streamfold sends it back to the model
    together with the validation error.

        city = await extract(model, City, "Where is the Louvre?")
        cities, reply = await extract(model, list[City], "Which cities have a Louvre?", with_reply=True)
        print(cities, reply.usage, reply.cost)

    Args:
        model: the model that answers.
        form: a pydantic model, another type that pydantic validates (a dataclass, a TypedDict, `list[City]`, a union),
            or a JSON schema. pydantic runs the type's validators.
        messages, tools, options: as for `Provider.chat`.
        attempts: the maximum number of requests.
        with_reply: True to return the last reply too. The reply's `usage` and `cost` are totals over all attempts.

    Returns:
        The value. With `with_reply=True`, a tuple of the value and the reply.

    Raises:
        InvalidReplyError: all answers were invalid, the model refused, or the answer was truncated. `error.reply` is
            the last reply.
        ConfigError: an argument is invalid, or the model doesn't support the request.
        APIError: a request failed.
    """
    check_model(model, "extract()")
    if isinstance(form, str):
        raise ConfigError(f"extract() needs a type or a JSON schema, not {form!r:.80}")
    if attempts < 1:
        raise ConfigError(f"extract(): attempts must be at least 1, not {attempts}")
    conversation: list[Message] = [*read_messages(messages)]
    if (given := options.get("conversation")) is not None:
        options["conversation"] = read_conversation(given)  # all requests share one object
    replies: list[Reply] = []
    while True:
        options["response_format"] = form
        reply = await model.chat(conversation, tools, **options)
        replies.append(reply)
        try:
            value = reply.parse_as(form)
        except InvalidReplyError as error:
            if len(replies) == attempts or not can_ask_again(reply):
                raise
            conversation += ask_again(reply, error)
        else:
            break
    if not with_reply:
        return value
    if len(replies) == 1:
        return value, reply
    cost = total_cost(replies)
    return value, replace(reply, usage=total_usage(replies), pricing=None if cost is None else FixedPricing(cost))


def can_ask_again(reply: Reply) -> bool:
    """Returns whether another request may get a valid answer. After a refusal or a truncated answer, no request can."""
    return not (reply.refusal or is_truncated(reply.finish_reason) or reply.tool_calls)


def ask_again(reply: Reply, error: InvalidReplyError) -> list[Message]:
    return [reply.message, user(f"{error}\nAnswer again, in the requested format.")]
