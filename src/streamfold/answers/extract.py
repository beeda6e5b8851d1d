"""Structured output that is asked for again until it fits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar, Unpack

from ..errors import ConfigError
from ..requests import ChatOptions, read_messages
from ..types import InvalidReplyError, Message, Messages, ToolLike, user
from .chat_model import check_model

if TYPE_CHECKING:
    from pydantic import BaseModel

    from .chat_model import ChatModel

    M = TypeVar("M", bound=BaseModel)

_FINAL = ("length", "content_filter")  # a cut or a filtered answer would be so again


async def extract(
    model: ChatModel,
    /,
    form: type[M],
    messages: Messages,
    tools: Iterable[ToolLike] | None = None,
    *,
    attempts: int = 3,
    **options: Unpack[ChatOptions],
) -> M:
    """Asks for an answer in the form of a pydantic model, and again with the error while it does not fit.

        city = await extract(model, City, "Where is the Louvre?")

    Args:
        model: the model to ask.
        form: the pydantic model. It is the `response_format` of the request; its validators are run.
        messages, tools, options: as for `Provider.chat`.
        attempts: how many answers are asked for at most.

    Returns:
        The instance.

    Raises:
        InvalidReplyError: no answer fitted, or the model refused, or its answer was cut off; `reply` is the last one.
        ConfigError: an argument is wrong, or the model can't take the request.
        APIError: a request failed.
    """
    check_model(model, "extract()")
    if attempts < 1:
        raise ConfigError(f"extract(): attempts is at least 1, not {attempts}")
    conversation: list[Message] = [*read_messages(messages)]
    while True:
        options["response_format"] = form
        reply = await model.chat(conversation, tools, **options)
        attempts -= 1
        try:
            return reply.parse_as(form)
        except InvalidReplyError as error:
            if not attempts or reply.refusal or reply.finish_reason in _FINAL or reply.tool_calls:
                raise
            conversation += [reply.message, user(f"{error}\nAnswer again, in the form that was asked for.")]
