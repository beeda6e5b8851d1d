"""The arguments of `chat_stream`, read and checked as far as that does not depend on the provider."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self, cast

from ..config import timeouts_over
from ..requests import ChatOptions, Options, Request, TimeoutOptions, check_stream, read_headers
from ..values import Messages, Timeouts, ToolChoice, ToolLike


@dataclass(frozen=True, slots=True)
class ChatParams:
    """What a caller asks for.

    Attributes:
        request: conversation, tools and options; its model is empty where the provider's own is meant.
        repair_history, partial_tool_calls, coalesce, timeouts, extra_headers: see `ChatOptions`.
        many: requests of many conversations come this way, so that one says nothing about the next one's cache.
        fail_fast: another model can answer, so that waiting for a limit of the server is an error instead.
    """

    request: Request
    repair_history: bool = False
    partial_tool_calls: bool = False
    coalesce: bool | None = None
    timeouts: Timeouts | TimeoutOptions | None = None
    extra_headers: Mapping[str, str] | None = field(default=None, repr=False)  # their values are often secrets
    many: bool = False
    fail_fast: bool = False

    @classmethod
    def read(
        cls,
        messages: Messages,
        tools: Iterable[ToolLike] | None,
        tool_choice: ToolChoice,
        given: ChatOptions,
        *,
        stream: bool = True,
    ) -> Self:
        """Reads and checks the arguments of `chat_stream`, or those of `chat`.

        Raises:
            ConfigError: something in them is wrong, whatever the provider.
        """
        check_stream(stream)
        options: dict[str, Any] = dict(given)
        model = options.pop("model", None)
        repair, fragments = bool(options.pop("repair_history", False)), bool(options.pop("partial_tool_calls", False))
        coalesce = options.pop("coalesce", None)
        timeouts, headers = options.pop("timeouts", None), options.pop("extra_headers", None)
        if headers is not None:
            read_headers(headers)
        if timeouts is not None:
            timeouts_over(Timeouts(), timeouts)
        request = Request.read(model or "", messages, tools, tool_choice, options, stream=stream)
        return cls(request, repair, fragments, None if coalesce is None else bool(coalesce), timeouts, headers)

    def given(self) -> ChatOptions:
        """The options as keywords for another model."""
        values = {each.name: getattr(self.request.options, each.name) for each in fields(Options)}
        options = {name: value for name, value in values.items() if value != getattr(_NONE, name)}
        names = ("repair_history", "partial_tool_calls", "coalesce", "timeouts", "extra_headers")
        chosen = {"model": self.request.model, **{name: getattr(self, name) for name in names}}
        return cast(
            "ChatOptions",
            options
            | {name: value for name, value in chosen.items() if value or (name == "coalesce" and value is False)},
        )


_NONE = Options()
