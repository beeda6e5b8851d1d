"""What happens to an answer on its way, for whoever wants to watch: hooks of one's own, and the log.

Hooks belong to a provider and to nothing else: there is no global list of them. They are plain functions, called where
the thing happens, so they must not block. What a hook raises goes to the caller of the stream, as with the hooks of
httpx: a watcher that fails is a mistake, and mistakes are shown.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..requests import Request
    from ..values import APIError, Attempt, Reply

__all__ = ["LOG", "Asked", "Hooks"]

_logger = logging.getLogger("streamfold")


@dataclass(slots=True, eq=False)
class Asked:
    """One answer that is asked for. All hooks of one answer are given the same object.

    Attributes:
        provider: its name.
        adapter: the wire format, by name.
        url: where the request goes, with what comes from the environment as `${NAME}`.
        request: model, messages, tools and options as they were asked for.
        notes: for the hooks' own use, from one call to the next.
    """

    provider: str
    adapter: str
    url: str
    request: Request = field(repr=False)
    notes: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def model(self) -> str:
        """The model that is asked."""
        return self.request.model


@dataclass(frozen=True, slots=True)
class Hooks:
    """Functions that are called as an answer goes its way; each is given the `Asked` first.

    Attributes:
        on_request: a request is about to be sent: the first one, and each that repeats it.
        on_first_chunk: the answer begins; with the seconds since it was asked for.
        on_retry: an attempt failed and another will follow; with the `Attempt`.
        on_finish: the answer is whole; with the `Reply`.
        on_error: there will be no whole answer; with the error that the caller gets.
        on_close: the last one, always, also for an answer that was left before its end.
    """

    on_request: Callable[[Asked], object] | None = None
    on_first_chunk: Callable[[Asked, float], object] | None = None
    on_retry: Callable[[Asked, Attempt], object] | None = None
    on_finish: Callable[[Asked, Reply], object] | None = None
    on_error: Callable[[Asked, APIError], object] | None = None
    on_close: Callable[[Asked], object] | None = None


# --- The log ---------------------------------------------------------------------------------------------------------
# Names, numbers and the texts of errors, from which secrets have been taken; never content.


def _log_request(asked: Asked) -> None:
    tools = len(asked.request.tools)
    _logger.debug(
        "%s: POST %s model=%s messages=%d tools=%d",
        asked.provider, asked.url, asked.model, len(asked.request.messages), tools,
    )  # fmt: skip


def _log_first_chunk(asked: Asked, seconds: float) -> None:
    _logger.debug("%s: first chunk after %.3f s", asked.provider, seconds)


def _log_retry(asked: Asked, attempt: Attempt) -> None:
    _logger.warning(
        "%s: %s: %s; next try in %.3g s", asked.provider, attempt.error, attempt.problem, attempt.pause or 0.0
    )


def _log_finish(asked: Asked, reply: Reply) -> None:
    for warning in reply.warnings:
        _logger.info("%s: %s: %s", asked.provider, warning.code, warning.detail)
    timing, usage = reply.timing, reply.usage
    _logger.debug(
        "%s: finished reason=%s calls=%d seconds=%.3f input_tokens=%s output_tokens=%s request_id=%s",
        asked.provider, reply.finish_reason, len(reply.tool_calls), (timing and timing.total) or 0.0,
        usage and usage.input_tokens, usage and usage.output_tokens, reply.request_id,
    )  # fmt: skip


def _log_error(asked: Asked, error: APIError) -> None:
    _logger.debug("%s: %s: %s", asked.provider, type(error).__name__, error.message)


LOG = Hooks(_log_request, _log_first_chunk, _log_retry, _log_finish, _log_error)
