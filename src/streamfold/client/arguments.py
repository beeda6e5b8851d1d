"""The arguments of `chat_stream`, read and checked as far as that does not depend on the provider."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self, cast

from ..config import laid_over
from ..requests import ChatOptions, Request, TimeoutOptions
from ..values import ConfigError, Messages, Timeouts, ToolChoice, ToolLike
from .prepare import checked_headers

__all__ = ["Arguments", "with_hidden_headers"]


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a caller asks for.

    Attributes:
        request: conversation, tools and options; its model is empty where the provider's own is meant.
        options: the options of the request's body as they were given. A provider may have defaults for the others.
        given: all options, for a model that this one hands the request on to.
    """

    request: Request
    options: Mapping[str, Any]
    given: ChatOptions
    repair: bool
    timeouts: Timeouts | TimeoutOptions | None
    extra_headers: Mapping[str, str] | None

    @classmethod
    def read(
        cls, messages: Messages, tools: Iterable[ToolLike] | None, tool_choice: ToolChoice, given: ChatOptions
    ) -> Self:
        """Reads and checks the arguments.

        Raises:
            ConfigError: something in them is wrong, whatever the provider.
        """
        options: dict[str, Any] = dict(given)
        model, repair = options.pop("model", None), options.pop("repair", False)
        timeouts, headers = options.pop("timeouts", None), options.pop("extra_headers", None)
        if model is not None and not isinstance(model, str):
            raise ConfigError(f"model must be the name of a model, not {type(model).__name__}")
        checked_headers(headers)
        laid_over(Timeouts(), timeouts)
        request = Request.read(model or "", messages, tools, tool_choice, options)
        return cls(request, options, given, bool(repair), timeouts, headers)


def with_hidden_headers(options: ChatOptions) -> ChatOptions:
    """The options with headers that are not in their repr: they may hold keys, and tracebacks can show variables."""
    headers = options.get("extra_headers")
    if not isinstance(headers, Mapping):
        return options
    return cast("ChatOptions", {**options, "extra_headers": _HiddenHeaders(headers)})


class _HiddenHeaders(Mapping[str, str]):
    """Headers whose values are not shown."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = headers

    def __getitem__(self, name: str) -> str:
        return self._headers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._headers)

    def __len__(self) -> int:
        return len(self._headers)

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{name!r}: ***' for name in self._headers)}}}"
