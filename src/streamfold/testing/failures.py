"""What a script lets go wrong: each failure as a server would bring it about, never as an exception that is thrown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..values import (
    APIError,
    APIStatusError,
    APITimeoutError,
    ConfigError,
    StreamError,
    StreamfoldError,
    UpstreamError,
    errors,
)

__all__ = ["Fail", "read_failure"]

How: TypeAlias = Literal["status", "event", "cut", "broken", "timeout", "empty", "garbage"]


@dataclass(frozen=True, slots=True, repr=False)
class Fail:
    """The end of an answer that goes wrong.

    Attributes:
        how: an HTTP status, an error event, the end of the body in the middle of the answer, a connection that breaks
            or never comes, one that does not come in time, a body without anything, or one that is no answer.
        kind: the word of the server for it, beside its code.
    """

    how: How
    message: str
    status: int | None = None
    kind: str | None = None
    code: str | None = None
    retry_after: float | None = None

    @property
    def only_first(self) -> bool:
        """Whether it stands in the place of the whole answer."""
        return self.how in ("status", "timeout", "empty")

    def __repr__(self) -> str:
        return f"fail({self.status or self.message!r})"


# The status and the server's word that make each of them, by `errors.status_error`.
_STATUSES: dict[type[StreamfoldError], tuple[int, str | None, str]] = {
    errors.AuthenticationError: (401, "invalid_api_key", "the key is wrong"),
    errors.PermissionDeniedError: (403, None, "the key is not for this"),
    errors.NotFoundError: (404, "model_not_found", "there is no such model"),
    errors.BadRequestError: (400, None, "the request is not acceptable"),
    errors.RateLimitError: (429, "rate_limit_exceeded", "too many requests"),
    errors.QuotaExceededError: (429, "insufficient_quota", "nothing is left of the quota"),
    errors.ServerError: (500, None, "the server failed"),
}
_OTHERS: dict[type[StreamfoldError], tuple[How, str]] = {
    errors.UpstreamError: ("event", "the server failed in the middle of the answer"),
    errors.IncompleteStreamError: ("cut", "the answer ends here"),
    errors.EmptyResponseError: ("empty", "nothing came"),
    errors.ProtocolError: ("garbage", "this is no event"),
    errors.APITimeoutError: ("timeout", "no connection in time"),
    errors.APIConnectionError: ("broken", "the connection broke"),
}


def read_failure(
    error: int | str | type[StreamfoldError] | StreamfoldError,
    message: str | None,
    code: str | None,
    retry_after: float | None,
) -> Fail:
    """A failure in any accepted spelling. Raises ConfigError for what no server can bring about."""
    if isinstance(error, StreamfoldError):
        return _of_instance(error, message, code, retry_after)
    made: Fail | None = None
    if isinstance(error, str):
        made = Fail("event", message or error, code=code)
    elif isinstance(error, int) and not isinstance(error, bool):
        if not 400 <= error <= 599:
            raise ConfigError(f"fail({error}): a status that fails is one from 400 to 599")
        made = Fail("status", message or f"status {error}", error, code=code, retry_after=retry_after)
    elif error in _STATUSES:
        status, word, told = _STATUSES[error]
        made = Fail("status", message or told, status, code=code or word, retry_after=retry_after)
    elif error in _OTHERS:
        how, told = _OTHERS[error]
        made = Fail(how, message or told, code=code)
    if made is None:
        names = ", ".join(sorted(kind.__name__ for kind in (*_STATUSES, *_OTHERS)))
        raise ConfigError(f"fail({error!r}): an answer fails with a status, a message, or one of {names}")
    if retry_after is not None and made.how != "status":
        raise ConfigError(f"{made!r}: only a status comes with retry_after")
    return made


def _of_instance(error: StreamfoldError, message: str | None, code: str | None, retry_after: float | None) -> Fail:
    text = message or (error.message if isinstance(error, APIError) else str(error))
    if isinstance(error, APIStatusError):
        text = text.removesuffix(f" (HTTP {error.status_code})")  # which is put there when it is raised
        wait = error.retry_after if retry_after is None else retry_after
        return Fail("status", text, error.status_code, code=code or error.code, retry_after=wait)
    if isinstance(error, UpstreamError):
        return Fail("event", text, error.status_code, error.type, code or error.code)
    if isinstance(error, APITimeoutError) and error.phase != "connect":
        raise ConfigError(
            f"an APITimeoutError of the phase {error.phase!r} is a matter of the provider's clocks: let the script"
            " pause(math.inf), and give the provider timeouts of its own"
        )
    kinds = [kind for kind in type(error).__mro__ if kind in _OTHERS and kind is not StreamError]
    return read_failure(kinds[0] if kinds else type(error), text, code, retry_after)
