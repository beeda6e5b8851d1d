"""The class hierarchy of streamfold's exceptions, and "did you mean" hints for misspelled words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from .classification import ErrorClassification, ErrorInfo
from .pickling import PicklableError

if TYPE_CHECKING:
    from ..types import Attempt, PartialToolCall, RateLimit, Reply, ReplyWarning


_MOST = 20  # maximum number of items in an error message


def join_limited(items: Sequence[str], between: str = ", ", rest: str = "more") -> str:
    """Joins the first twenty items of a list to a text. The text ends with the number of omitted items.

    >>> join_limited([f"tools[{at}]" for at in range(22)])[-21:]
    'tools[19], and 2 more'
    """
    more = len(items) - _MOST
    return between.join([*items[:_MOST], *([f"and {more} {rest}"] if more > 0 else [])])


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Returns a "did you mean" question with the most similar of `words`, or "" if no word is similar.

    >>> did_you_mean("chatt", ["chat", "kimi"])
    " (did you mean 'chat'?)"
    >>> did_you_mean("nope", ["openai"])
    ''
    """
    words = list(words)
    by_small = {known.lower(): known for known in reversed(words)}
    close = by_small.get(word.lower()) or next(iter(get_close_matches(word, words, n=1, cutoff=0.66)), None)
    return f" (did you mean {close!r}?)" if close else ""


_FEW = 8  # maximum length of the list of words, if there is a similar word


def allowed_values_hint(word: str, words: Iterable[str], label: str = "Allowed") -> str:
    """Returns a hint for an unknown word: the most similar allowed word, and the list of allowed words if it is short
    or no word is similar.

    >>> allowed_values_hint("chatt", ["chat", "kimi"])
    " (did you mean 'chat'?). Allowed: chat, kimi"
    >>> allowed_values_hint("c1", [f"c{number}x" for number in range(9)])
    " (did you mean 'c1x'?)"
    """
    words = list(words)
    guess = did_you_mean(word, words)
    return guess if guess and len(words) > _FEW else f"{guess}. {label}: {', '.join(words) or 'none'}"


class StreamfoldError(PicklableError, Exception):
    """The base class of all exceptions in streamfold. Every instance can be pickled and copied."""


class ConfigError(StreamfoldError):
    """A setting or an argument is invalid. The error message contains the name of the setting, where it was set, and
    the allowed values.

    Attributes:
        hint: advice on what to change in the program. `str(error)` ends with the hint.
    """

    hint: str = ""

    @property
    def problem(self) -> str:
        """The error's message, without the hint."""
        return super().__str__()

    def __str__(self) -> str:
        return f"{self.problem}; {self.hint}" if self.hint else self.problem


class NotConfiguredError(ConfigError):
    """An environment variable that the configuration needs isn't set, such as an API key."""


# The tree of errors.
#     StreamfoldError
#         ConfigError: NotConfiguredError
#         APIError
#             APIStatusError: one class for each kind of status, LimitReachedError, BudgetExceededError
#             APIConnectionError: APITimeoutError, LimitStoreError
#             StreamError: IncompleteStreamError, UpstreamError, ProtocolError, EmptyResponseError
#             ContextLengthError, ContentFilterError, UnsupportedOptionError, ModelNotFoundError
#         InvalidToolArgumentsError, InvalidReplyError (also ValueErrors), TurnLimitError, CallInDoubtError

TimeoutPhase = Literal["connect", "first_event", "read", "stall", "total"]


class APIErrorDetails(TypedDict, total=False):
    """The keyword arguments that every `APIError` accepts."""

    provider: str | None
    request_id: str | None
    retryable: bool
    body: Any
    info: ErrorInfo | None
    partial: Reply | None


class APIError(StreamfoldError):
    """A request failed, or its answer is incomplete.

    Attributes:
        message: the server's error message, or streamfold's description of the failure.
        request_id: the server's id for the request. A provider's support team needs it to find the request.
        retryable: True if the same request may succeed later. Retrying is safe, because your program has received no
            complete tool calls before the error.
        body: the response body, up to the configured size limit. A JSON body is parsed.
        info: the error object, if the server sent one.
        partial: the part of the answer that arrived before the error, without tool calls. None if nothing had arrived.
        partial_tool_calls: the tool calls that the model hadn't finished, for display only.
        attempts: the earlier requests that failed, and the providers that streamfold skipped.
        retry_after: the time to wait before a retry, in seconds, if the server sent it.
        rate_limit: the provider's rate limits, from the response headers.
        warnings: what streamfold changed in the request, and what was wrong with the answer.
        url: the URL of the request without secrets, or None if no request was sent.
        hint: what to check. `str(error)` contains the hint and the URL.
    """

    attempts: Sequence[Attempt] = ()
    _local = frozenset({"continuation"})  # it refers to the provider
    continuation: Callable[[APIError], Any] | None = None  # set by the client; see `resume`
    retry_after: float | None = None
    rate_limit: RateLimit | None = None
    warnings: Sequence[ReplyWarning] = ()
    partial_tool_calls: tuple[PartialToolCall, ...] = ()
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

    def resume(self) -> Any:
        """Sends a request that continues the interrupted answer, if the provider supports this. See
        `ChatQuirks.continues`.

            except StreamError as error:
                async with error.resume() as stream: ...

        The request is sent when you read the first chunk. The chunks continue the text that had already arrived. The
        final reply contains the complete text, but only the last request's token counts. If the new stream fails, you
        can call `resume()` on the new error.

        Returns:
            A `ChatStream`, or the stream type of `streamfold.sync` if the synchronous API sent the request.

        Raises:
            StreamfoldError: the answer can't be continued, because no text had arrived, a tool call had begun, the
                provider doesn't support this, or the error was pickled.
        """
        if self.partial is None:
            raise StreamfoldError("resume(): no part of the answer had arrived: send the request again")
        if self.continuation is None:
            raise StreamfoldError(
                "resume(): this error has no provider to continue with, because it was pickled or a StreamDecoder"
                " raised it. Send the request again"
            )
        return self.continuation(self)

    def __str__(self) -> str:
        text = f"{self.provider}: {self.message}" if self.provider else self.message
        if self.url and self.hint:
            text = f"{text} (POST {self.url}: {self.hint})"
        return f"{text} (request id {self.request_id})" if self.request_id else text


class APIStatusError(APIError):
    """The server responded with an HTTP error status.

    Attributes:
        code: the error code in the response, or the error type if the response has no error code.
    """

    def __init__(
        self,
        message: str,
        *,
        status_code: int,
        code: str | None = None,
        retry_after: float | None = None,
        rate_limit: RateLimit | None = None,
        **details: Unpack[APIErrorDetails],
    ) -> None:
        super().__init__(message, **details)
        self.status_code = status_code
        self.code = code
        self.retry_after = retry_after
        self.rate_limit = rate_limit


class AuthenticationError(APIStatusError):
    """Status 401: the API key is missing, wrong, or belongs to another platform."""


class PermissionDeniedError(APIStatusError):
    """Status 403: the API key is valid, but isn't allowed to make this request."""


class NotFoundError(APIStatusError):
    """Status 404: the server doesn't know the model or the path."""

    hint = "check base_url and the model"


class BadRequestError(APIStatusError):
    """Another 4xx status: the request is invalid. A retry with the same request would fail too."""


class RateLimitError(APIStatusError):
    """Status 429: too many requests. Retry after `retry_after` seconds."""


class QuotaExceededError(APIStatusError):
    """The account has no credit or quota left. streamfold doesn't retry the request."""


class ServerError(APIStatusError):
    """A 5xx status: the server failed."""


class APIConnectionError(APIError):
    """Name resolution, TCP or TLS failed, or the connection broke before the response began."""


class APITimeoutError(APIConnectionError):
    """A timeout expired. `phase` is the name of the timeout in `Timeouts`: "connect", "first_event", "read" (no bytes
    arrived), "stall" (no events arrived) or "total"."""

    def __init__(self, message: str, *, phase: TimeoutPhase, **details: Unpack[APIErrorDetails]) -> None:
        super().__init__(message, **details)
        self.phase: TimeoutPhase = phase


class StreamError(APIError):
    """An error occurred after the answer had begun.

    Attributes:
        partial: the part of the answer that arrived before the error, without tool calls. Never None.
        transcript: the last SSE events that arrived, without secrets.
    """

    transcript: Sequence[str] = ()


class IncompleteStreamError(StreamError):
    """The stream ended before the response was complete. streamfold delivers no tool calls of the response."""


class UpstreamError(StreamError):
    """The server responded with status 200, and then sent an error. Attributes that the server didn't send are None."""

    def __init__(
        self,
        message: str,
        *,
        type: str | None = None,  # noqa: A002 - the word on the wire
        code: str | None = None,
        status_code: int | None = None,
        **details: Unpack[APIErrorDetails],
    ) -> None:
        super().__init__(message, **details)
        self.type = type
        self.code = code
        self.status_code = status_code


class ProtocolError(StreamError):
    """The response isn't in the format of the API, or exceeds a limit in `Limits`."""


class EmptyResponseError(StreamError):
    """The response was complete, but it had neither text nor tool calls."""


class ContextLengthError(APIError):
    """The prompt is too long for the model's context window. Also raised if the prompt and the maximum length of the
    answer together are too long.

    Attributes:
        tokens, limit: the number of tokens in the prompt and in the context window, if the server sent them.
    """

    def __init__(
        self, message: str, *, tokens: int | None = None, limit: int | None = None, **details: Unpack[APIErrorDetails]
    ) -> None:
        super().__init__(message, **details)
        self.tokens = tokens
        self.limit = limit


class ContentFilterError(APIError):
    """A content filter of the provider stopped the prompt or the answer. `categories` contains the server's names of
    the content filters."""

    def __init__(self, message: str, *, categories: tuple[str, ...] = (), **details: Unpack[APIErrorDetails]) -> None:
        super().__init__(message, **details)
        self.categories = categories


class UnsupportedOptionError(APIError):
    """The model doesn't accept an option, or doesn't accept the option's value.

    Attributes:
        param: the request field that the server's error names, in snake case.
    """

    def __init__(self, message: str, *, param: str | None = None, **details: Unpack[APIErrorDetails]) -> None:
        super().__init__(message, **details)
        self.param = param


class ModelNotFoundError(APIError):
    """The model doesn't exist, or the API key has no access to it. A wrong URL raises `NotFoundError` instead."""


class LimitReachedError(RateLimitError):
    """The request would exceed a limit that you configured, and waiting for it would take too long. `retry_after` is
    the time to wait, in seconds."""

    def __init__(self, message: str, *, retry_after: float, **details: Unpack[APIErrorDetails]) -> None:
        details.setdefault("retryable", True)
        super().__init__(message, status_code=429, code="rate_limit_exceeded", retry_after=retry_after, **details)


class BudgetExceededError(QuotaExceededError):
    """Today's budget is spent. `retry_after` is the time until the next day begins (UTC), in seconds."""

    def __init__(self, message: str, *, retry_after: float, **details: Unpack[APIErrorDetails]) -> None:
        super().__init__(message, status_code=429, code="budget_exceeded", retry_after=retry_after, **details)


class LimitStoreError(APIConnectionError):
    """The store of the rate limits and budgets can't be used, and the setting `on_store_error` is "refuse"."""


class TurnLimitError(StreamfoldError):
    """`run_tools` reached `max_turns`, and the model still called tools. The run's `messages` are the conversation."""


def failed_before_answer(error: APIError) -> bool:
    """Returns True if the request certainly failed before the model ran, so that the provider doesn't charge for it.
    Returns False after a timeout in any phase but `connect`, because the model may have run.
    """
    if isinstance(error, APITimeoutError):
        return error.phase == "connect"
    return isinstance(error, APIStatusError | APIConnectionError) and not isinstance(error, StreamError)


def is_rate_limit(error: APIError) -> bool:
    """Returns True if a rate limit of the server caused the error, and False for limits that streamfold itself
    enforces."""
    status = getattr(error, "status_code", None)
    return status == 429 and not isinstance(error, QuotaExceededError | LimitReachedError)


# Exceptions with the cause and the status: before the stream, a `ContextLengthError` is also a `BadRequestError`.
# Inside the stream, it is also an `UpstreamError`.


class RejectedRequest:
    """The exception classes for requests that a server rejected with an error status, by cause."""

    class ContextLengthError(ContextLengthError, BadRequestError):
        """The server rejected the request because the prompt is too long."""

    class ContentFilterError(ContentFilterError, BadRequestError):
        """The provider's content filter stopped the prompt."""

    class UnsupportedOptionError(UnsupportedOptionError, BadRequestError):
        """The server rejected the request because the model doesn't accept an option or its value."""

    class ModelNotFoundError(ModelNotFoundError, NotFoundError):
        """The server rejected the request because the model doesn't exist."""


class RejectedPermission:
    """The exception classes for requests that a server rejected with status 403, by cause."""

    class ContentFilterError(ContentFilterError, PermissionDeniedError):
        """The provider's content filter stopped the prompt. The API key is valid."""


class RejectedInStream:
    """The exception classes for errors that a server sent inside a stream, by cause."""

    class ContextLengthError(ContextLengthError, UpstreamError):
        """The server sent an error inside the stream, because the prompt is too long."""

    class ContentFilterError(ContentFilterError, UpstreamError):
        """The provider's content filter stopped the prompt or the answer."""

    class UnsupportedOptionError(UnsupportedOptionError, UpstreamError):
        """The server sent an error inside the stream, because the model doesn't accept an option or its value."""

    class ModelNotFoundError(ModelNotFoundError, UpstreamError):
        """The server sent an error inside the stream, because the model doesn't exist."""

    class QuotaExceededError(QuotaExceededError, UpstreamError):  # type: ignore[misc]  # its status is never None
        """The account has no credit or quota left. If the server sent no status, `status_code` is 402."""

        def __init__(
            self,
            message: str,
            *,
            type: str | None = None,  # noqa: A002 - the word on the wire
            status_code: int | None = None,
            **details: Any,
        ) -> None:
            super().__init__(message, status_code=status_code or 402, **details)
            self.type = type


def status_error(info: ErrorInfo, *, should_retry: bool | None = None, body: Any = None, **rest: Any) -> APIStatusError:
    """Creates the exception for a response whose status isn't 2xx.

    Args:
        should_retry: the value of the server's header `x-should-retry`. The header decides whether a retry may help,
            unless the account's quota is used up.
    """
    status, meaning = info.status or 0, info.meaning(body)
    quota = meaning is not None and meaning.kind == "quota"
    retryable = info.retryable and meaning is None
    kind = _REFUSED_BEFORE.get(meaning.kind, QuotaExceededError) if meaning else _by_status(info)
    if kind is RejectedRequest.ContentFilterError and status == 403:
        kind = RejectedPermission.ContentFilterError
    details = _details(meaning)
    named = details.get("param")
    member = f"{named}: " if named and named not in info.message else ""  # FastAPI servers send pydantic's errors
    return kind(
        f"{member}{info.message} (HTTP {status})",
        status_code=status,
        code=info.code or info.type,
        retryable=retryable if should_retry is None or quota else should_retry,
        info=info,
        body=body,
        **details,
        **rest,
    )


def upstream_error(info: ErrorInfo, *, body: Any = None, **rest: Any) -> UpstreamError:
    """Creates the exception for an error that the server sent inside an answer."""
    meaning = info.meaning(body)
    kind = _REFUSED_INSIDE.get(meaning.kind, UpstreamError) if meaning else UpstreamError
    return kind(
        info.message,
        type=info.type,
        code=info.code,
        status_code=info.status,
        retryable=info.retryable and meaning is None,
        info=info,
        body=body,
        **_details(meaning),
        **rest,
    )


def _details(meaning: ErrorClassification | None) -> dict[str, Any]:
    match meaning:
        case ErrorClassification("context_length", tokens, limit):
            return {"tokens": tokens, "limit": limit}
        case ErrorClassification("content_filter", categories=categories):
            return {"categories": categories}
        case ErrorClassification("unsupported_option", param=param):
            return {"param": param}
        case _:
            return {}


def _by_status(info: ErrorInfo) -> type[APIStatusError]:
    status = info.status or 0
    if status == 400 and info.type == "authentication_error":  # Google's error for a wrong key
        return AuthenticationError
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status >= 500:
        return ServerError
    return BadRequestError if status >= 400 and not info.retryable else APIStatusError


_BY_STATUS: dict[int, type[APIStatusError]] = {
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    429: RateLimitError,
}
_REFUSED_BEFORE: dict[str, type[APIStatusError]] = {
    "context_length": RejectedRequest.ContextLengthError,
    "content_filter": RejectedRequest.ContentFilterError,
    "unsupported_option": RejectedRequest.UnsupportedOptionError,
    "model_not_found": RejectedRequest.ModelNotFoundError,
}
_REFUSED_INSIDE: dict[str, type[UpstreamError]] = {
    "context_length": RejectedInStream.ContextLengthError,
    "content_filter": RejectedInStream.ContentFilterError,
    "unsupported_option": RejectedInStream.UnsupportedOptionError,
    "model_not_found": RejectedInStream.ModelNotFoundError,
    "quota": RejectedInStream.QuotaExceededError,
}
