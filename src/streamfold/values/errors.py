"""Every failure of a request, as one tree.

    StreamfoldError
    +- ConfigError                     something that was written down is wrong: where, and what is allowed
    |  +- NotConfiguredError           a key or another environment variable is not set: which one
    +- APIError                        something went wrong between here and the model
    |  +- APIStatusError               the server answered with a status that is not 2xx
    |  |  +- AuthenticationError, PermissionDeniedError, NotFoundError, BadRequestError,
    |  |     RateLimitError, QuotaExceededError, ServerError
    |  +- APIConnectionError           no answer: the network, or the server's end of it
    |  |  +- APITimeoutError           one of the clocks ran out; `phase` says which
    |  +- StreamError                  the answer began with a 2xx and went wrong afterwards; `partial` has what came
    |     +- IncompleteStreamError     it ended before it was finished
    |     +- UpstreamError             the server reported an error inside the stream
    |     +- ProtocolError             what came is not the protocol, or is over a limit
    |     +- EmptyResponseError        it ended in order and nothing was in it
    +- InvalidToolArgumentsError       the model's arguments do not fit the tool; also a ValueError
    +- InvalidReplyError               the text does not fit the model that it is to be read as; also a ValueError
    +- TurnLimitError                  the model still asked for tools when `run_tools` had no turn left

This is also the one place that says what a status code or an error type means, and whether a retry is worth it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from .jsontext import join_surrogates

if TYPE_CHECKING:
    from .ratelimit import RateLimit
    from .replies import Attempt, Reply, ToolCall

__all__ = [
    "APIConnectionError",
    "APIError",
    "APIStatusError",
    "APITimeoutError",
    "AuthenticationError",
    "BadRequestError",
    "ConfigError",
    "EmptyResponseError",
    "ErrorInfo",
    "IncompleteStreamError",
    "InvalidReplyError",
    "InvalidToolArgumentsError",
    "NotConfiguredError",
    "NotFoundError",
    "PermissionDeniedError",
    "ProtocolError",
    "QuotaExceededError",
    "RateLimitError",
    "ServerError",
    "StreamError",
    "StreamfoldError",
    "TimeoutPhase",
    "TurnLimitError",
    "UpstreamError",
    "error_info",
    "status_error",
]

TimeoutPhase = Literal["connect", "first_event", "read", "stall", "total"]


class StreamfoldError(Exception):
    """The base of every error that streamfold raises on purpose."""


class ConfigError(StreamfoldError):
    """Something that was written down can't be used: the message says what, where, and what is allowed."""


class NotConfiguredError(ConfigError):
    """A provider lacks its key, or an environment variable that its configuration refers to is not set."""


class APIError(StreamfoldError):
    """A request did not bring a whole answer.

    Attributes:
        message: what happened, in the server's own words where it had some.
        provider: the name of the provider's configuration, once a provider is involved.
        request_id: the server's id for the request, the one that its support asks for.
        retryable: whether the same request may succeed later. Nothing was executed, whatever the answer.
        body: what the server sent, parsed if it was JSON, cut to the configured limit.
        info: the server's error object as it was read; None if the server sent none.
        partial: what had been received, without tool calls; None before the first chunk.
        attempts: what was tried before this, in vain.
        url: the address that was asked, without secrets, where a request was made.
        hint: what to check; shown with the address at the end of the text.
    """

    attempts: Sequence[Attempt] = ()
    url: str | None = None
    hint: str | None = None

    def __init__(
        self,
        message: str,
        *,
        provider: str | None = None,
        request_id: str | None = None,
        retryable: bool = False,
        body: Any = None,
        info: ErrorInfo | None = None,
        partial: Reply | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.provider = provider
        self.request_id = request_id
        self.retryable = retryable
        self.body = body
        self.info = info
        self.partial = partial

    def __str__(self) -> str:
        text = f"{self.provider}: {self.message}" if self.provider else self.message
        if self.url and self.hint:
            text = f"{text} (POST {self.url}: {self.hint})"
        return f"{text} (request id {self.request_id})" if self.request_id else text


class APIStatusError(APIError):
    """The server refused the request.

    Attributes:
        status_code: the HTTP status.
        code: the server's code for the error, else its type.
        retry_after: seconds after which the server asks for the next try; None if it does not say.
        rate_limit: the provider's rate limits, from the response headers; None if it sent none.
    """

    def __init__(
        self,
        message: str,
        *,
        status_code: int,
        code: str | None = None,
        retry_after: float | None = None,
        rate_limit: RateLimit | None = None,
        **rest: Any,
    ) -> None:
        super().__init__(message, **rest)
        self.status_code = status_code
        self.code = code
        self.retry_after = retry_after
        self.rate_limit = rate_limit


class AuthenticationError(APIStatusError):
    """401: the key is missing, wrong, or belongs to another platform."""


class PermissionDeniedError(APIStatusError):
    """403: the key is good, but not for this."""


class NotFoundError(APIStatusError):
    """404: no such model or path."""

    hint = "check base_url and the model"


class BadRequestError(APIStatusError):
    """Another 4xx: the request itself is not acceptable; sending it again will not help."""


class RateLimitError(APIStatusError):
    """429: too fast. Worth a retry after `retry_after` seconds."""


class QuotaExceededError(APIStatusError):
    """The account has no money or quota left. Not a matter of speed, so never retried."""


class ServerError(APIStatusError):
    """5xx: the server failed."""


class APIConnectionError(APIError):
    """No answer came: name resolution, TCP, TLS, or a connection that broke before the answer began."""


class APITimeoutError(APIConnectionError):
    """A clock ran out. `phase`: connect, first_event, read (no bytes), stall (no events) or total."""

    def __init__(self, message: str, *, phase: TimeoutPhase, **rest: Any) -> None:
        super().__init__(message, **rest)
        self.phase: TimeoutPhase = phase


class StreamError(APIError):
    """The answer began and did not end well. `partial` is always set; `transcript` has the last events as received."""

    transcript: Sequence[str] = ()


class IncompleteStreamError(StreamError):
    """The stream ended before the answer was finished. No tool call of it is handed out."""


class UpstreamError(StreamError):
    """The server reported an error inside a 200 answer: its message, and its type, code and status if it named them."""

    def __init__(
        self,
        message: str,
        *,
        type: str | None = None,  # noqa: A002 - the word on the wire
        code: str | None = None,
        status_code: int | None = None,
        **rest: Any,
    ) -> None:
        super().__init__(message, **rest)
        self.type = type
        self.code = code
        self.status_code = status_code


class ProtocolError(StreamError):
    """What came is not an answer in this wire format, or is larger than a limit allows."""


class EmptyResponseError(StreamError):
    """The answer ended in order, and there was nothing in it."""


class InvalidToolArgumentsError(StreamfoldError, ValueError):
    """The arguments of `call` do not fit. The message is fit to be sent back to the model as the tool's result."""

    def __init__(self, message: str, call: ToolCall) -> None:
        super().__init__(message)
        self.call = call


class InvalidReplyError(StreamfoldError, ValueError):
    """The text of `reply` does not fit. The message is fit to be sent back to the model."""

    def __init__(self, message: str, reply: Reply) -> None:
        super().__init__(message)
        self.reply = reply


class TurnLimitError(StreamfoldError):
    """The model still asked for tools in the last turn that `run_tools` was allowed. The history is on the run."""


# --- What a server's error says --------------------------------------------------------------------------------------

# Words that servers put into `code` or `type`, lower case. They decide before the status does: one provider's 429
# means "slow down", another's means "pay", and only the word tells (dialects of OpenAI, Moonshot, vLLM, OpenRouter).
_QUOTA = {
    "insufficient_quota",
    "exceeded_current_quota_error",
    "billing_hard_limit_reached",
    "billing_not_active",
    "insufficient_balance",
    "insufficient_credits",
}
_TRANSIENT = {
    "rate_limit_error",
    "rate_limit_exceeded",
    "rate_limit_reached_error",
    "too_many_requests",
    "engine_overloaded_error",
    "overloaded",
    "overloaded_error",
    "server_error",
    "server_overloaded",
    "internal_error",
    "internal_server_error",
    "internalservererror",
    "api_error",
    "service_unavailable",
    "service_unavailable_error",
    "unexpected_output",
    "timeout",
    "timeout_error",
    "insufficient_system_resource",
    "network_error",
    "malformed_function_call",
    "function_call_filter: malformed_function_call",
}
_LONGEST_MESSAGE = 4000  # characters; all of it is in the error's body
_DEEPEST_MESSAGE = 8  # objects inside objects

_FINAL = {
    "invalid_request_error",
    "badrequesterror",
    "context_length_exceeded",
    "authentication_error",
    "invalid_authentication_error",
    "incorrect_api_key_error",
    "invalid_api_key",
    "permission_error",
    "permission_denied_error",
    "not_found_error",
    "resource_not_found_error",
    "model_not_found",
    "content_filter",
    "content_policy_violation",
}


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """An error object of a server: its message, the words that classify it, and the member that it is about."""

    message: str
    type: str | None = None
    code: str | None = None
    status: int | None = None
    param: str | None = None
    retry: bool | None = None  # what is known of another try, if the words don't tell

    @property
    def quota(self) -> bool:
        """True if it is about money."""
        return self.status == 402 or not _QUOTA.isdisjoint(self._words())

    @property
    def retryable(self) -> bool:
        """True if the same request may succeed later: by code, then by type, then by status."""
        if self.retry is not None or self.quota:
            return bool(self.retry)
        for word in self._words():
            if word in _TRANSIENT:
                return True
            if word in _FINAL:
                return False
        return self.status is not None and (self.status in (408, 409, 425, 429) or self.status >= 500)

    def _words(self) -> list[str]:
        return [word.lower() for word in (self.code, self.type) if word]


def error_info(body: Any, *, status: int | None = None) -> ErrorInfo:
    """Reads an error object in any of the shapes that servers use, down to a bare string. Always has a message.

    >>> error_info({"error": {"message": "slow down", "type": "rate_limit_error"}}).message
    'slow down'
    >>> error_info({"detail": [{"msg": "field required"}]}).message
    'field required'
    """
    outer = body if isinstance(body, Mapping) else {}
    inner = outer.get("error") or body
    while isinstance(inner, list) and inner:  # Google wraps the object in a list
        inner = inner[0].get("error", inner[0]) if isinstance(inner[0], Mapping) else inner[0]
    fields = {**outer, **inner} if isinstance(inner, Mapping) else outer
    code = fields.get("code") or outer.get("code")
    for candidate in (fields.get("status_code"), fields.get("status"), code):
        if status is None:
            status = _http_status(candidate)
    return ErrorInfo(
        message=_short(join_surrogates(_message(inner) or _message(outer) or "the server gave no message")),
        type=_word(fields.get("type")),
        code=_word(str(code) if type(code) is int else code) if _http_status(code) is None else None,
        status=status,
        param=_word(fields.get("param")),
    )


def status_error(info: ErrorInfo, *, should_retry: bool | None = None, **rest: Any) -> APIStatusError:
    """The exception for an answer whose status is not 2xx.

    Args:
        should_retry: what the server itself says of another try (`x-should-retry`), if it says anything. It knows more
            than its status tells; but a quota is no matter of trying again.
    """
    status = info.status or 0
    kind = _BY_STATUS.get(status, APIStatusError)
    if info.quota:
        kind = QuotaExceededError
    elif kind is APIStatusError and status >= 500:
        kind = ServerError
    elif kind is APIStatusError and 400 <= status < 500 and not info.retryable:
        kind = BadRequestError
    return kind(
        f"{info.message} (HTTP {status})",
        status_code=status,
        code=info.code or info.type,
        retryable=info.retryable if should_retry is None or info.quota else should_retry,
        info=info,
        **rest,
    )


_BY_STATUS: dict[int, type[APIStatusError]] = {
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    429: RateLimitError,
}


def _message(value: Any, depth: int = 0) -> str | None:
    if depth > _DEEPEST_MESSAGE:
        return None
    match value:
        case str():
            return value.strip() or None
        case Mapping():
            keys = ("message", "msg", "detail", "error", "error_message", "error_msg", "errors", "title", "reason")
            return next((text for key in keys if (text := _message(value.get(key), depth + 1))), None)
        case [first, *_]:
            return _message(first, depth + 1)
        case _:
            return None


def _short(message: str) -> str:
    return message if len(message) <= _LONGEST_MESSAGE else message[:_LONGEST_MESSAGE] + "..."


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _http_status(value: Any) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) == 3:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599 else None
