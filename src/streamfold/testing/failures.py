"""Failures in a script. Each is caused as a server would cause it; none is raised directly."""

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

How: TypeAlias = Literal["status", "event", "cut", "broken", "timeout", "empty", "garbage"]


@dataclass(frozen=True, slots=True, repr=False)
class Fail:
    """The failure at the end of an answer.

    Attributes:
        how: "status": an HTTP error; "event": an error event; "cut": the body ends early; "broken": the connection
            breaks, or there is none; "timeout": no connection in time; "empty": an empty body; "garbage": a malformed
            event.
        kind: the `type` in the server's error object.
    """

    how: How
    message: str
    status: int | None = None
    kind: str | None = None
    code: str | None = None
    retry_after: float | None = None

    @property
    def only_first(self) -> bool:
        """Whether it takes the place of the whole answer."""
        return self.how in ("status", "timeout", "empty")

    def __repr__(self) -> str:
        return f"fail({self.status or self.message!r})"


# The status and the code from which `status_error` makes each of these.
_STATUSES: dict[type[StreamfoldError], tuple[int, str | None, str]] = {
    errors.ContextLengthError: (400, "context_length_exceeded", "the prompt is too long"),
    errors.ContentFilterError: (400, "content_filter", "blocked by content filtering policy"),
    errors.UnsupportedOptionError: (400, "unsupported_parameter", "unsupported parameter: 'seed'"),
    errors.ModelNotFoundError: (404, "model_not_found", "the model does not exist"),
    errors.AuthenticationError: (401, "invalid_api_key", "the key is wrong"),
    errors.PermissionDeniedError: (403, None, "the key has no permission for this"),
    errors.NotFoundError: (404, None, "there is no such path"),
    errors.BadRequestError: (400, None, "the request is invalid"),
    errors.RateLimitError: (429, "rate_limit_exceeded", "too many requests"),
    errors.QuotaExceededError: (429, "insufficient_quota", "the quota is used up"),
    errors.ServerError: (500, None, "the server failed"),
}
_OTHERS: dict[type[StreamfoldError], tuple[How, str]] = {
    errors.UpstreamError: ("event", "the server failed in the middle of the answer"),
    errors.IncompleteStreamError: ("cut", "the answer ends here"),
    errors.EmptyResponseError: ("empty", "the body is empty"),
    errors.ProtocolError: ("garbage", "not an event"),
    errors.APITimeoutError: ("timeout", "no connection in time"),
    errors.APIConnectionError: ("broken", "the connection broke"),
}


def read_failure(
    error: int | str | type[StreamfoldError] | StreamfoldError,
    message: str | None,
    code: str | None,
    retry_after: float | None,
) -> Fail:
    """Returns a failure, given in any accepted form. Raises ConfigError if a server can't fail in this way."""
    if isinstance(error, StreamfoldError):
        return _of_instance(error, message, code, retry_after)
    made: Fail | None = None
    if isinstance(error, str):
        made = Fail("event", message or error, code=code)
    elif isinstance(error, int) and not isinstance(error, bool):
        if not 400 <= error <= 599:
            raise ConfigError(f"fail({error}): an error status is a number from 400 to 599")
        made = Fail("status", message or f"status {error}", error, code=code, retry_after=retry_after)
    elif error in _STATUSES:
        status, word, text = _STATUSES[error]
        made = Fail("status", message or text, status, code=code or word, retry_after=retry_after)
    elif error in _OTHERS:
        how, text = _OTHERS[error]
        made = Fail(how, message or text, code=code)
    if made is None:
        names = ", ".join(sorted(kind.__name__ for kind in (*_STATUSES, *_OTHERS)))
        raise ConfigError(f"fail({error!r}): not a failure. Allowed: a status, a message, or one of {names}")
    if retry_after is not None and made.how != "status":
        raise ConfigError(f"{made!r}: retry_after is only allowed with a status")
    return made


def _of_instance(error: StreamfoldError, message: str | None, code: str | None, retry_after: float | None) -> Fail:
    text = message or (error.message if isinstance(error, APIError) else str(error))
    if isinstance(error, APIStatusError):
        text = text.removesuffix(f" (HTTP {error.status_code})")  # which is added when it is raised
        wait = error.retry_after if retry_after is None else retry_after
        return Fail("status", text, error.status_code, code=code or error.code, retry_after=wait)
    if isinstance(error, UpstreamError):
        return Fail("event", text, error.status_code, error.type, code or error.code)
    if isinstance(error, APITimeoutError) and error.phase != "connect":
        raise ConfigError(
            f"an APITimeoutError of the phase {error.phase!r} comes from the provider's own timeouts: use"
            " pause(math.inf) in the script, and set timeouts="
        )
    kinds = [kind for kind in type(error).__mro__ if kind in {**_STATUSES, **_OTHERS} and kind is not StreamError]
    return read_failure(kinds[0] if kinds else type(error), text, code, retry_after)
