"""All exceptions as one tree, with the variants before and inside a stream; "did you mean"."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from .classification import ErrorClassification, ErrorInfo
from .pickling import PicklableError

if TYPE_CHECKING:
    from ..types import Attempt, PartialToolCall, RateLimit, Reply, ReplyWarning


_MOST = 20  # items of a list


def join_limited(items: Sequence[str], between: str = ", ", rest: str = "more") -> str:
    """Joins the first twenty items of a list, and appends the number of the remaining ones.

    >>> join_limited([f"tools[{at}]" for at in range(22)])[-21:]
    'tools[19], and 2 more'
    """
    more = len(items) - _MOST
    return between.join([*items[:_MOST], *([f"and {more} {rest}"] if more > 0 else [])])


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Returns the most similar word as a question; "" if none is similar.

    >>> did_you_mean("chatt", ["chat", "kimi"])
    " (did you mean 'chat'?)"
    >>> did_you_mean("nope", ["openai"])
    ''
    """
    words = list(words)
    by_small = {known.lower(): known for known in reversed(words)}
    close = by_small.get(word.lower()) or next(iter(get_close_matches(word, words, n=1, cutoff=0.66)), None)
    return f" (did you mean {close!r}?)" if close else ""


_FEW = 8  # words that are all listed beside a guess


def allowed_values_hint(word: str, words: Iterable[str], label: str = "Allowed") -> str:
    """Returns a hint for an unknown word: the most similar allowed word, and the list of allowed words if it is short.

    >>> allowed_values_hint("chatt", ["chat", "kimi"])
    " (did you mean 'chat'?). Allowed: chat, kimi"
    >>> allowed_values_hint("c1", [f"c{number}x" for number in range(9)])
    " (did you mean 'c1x'?)"
    """
    words = list(words)
    guess = did_you_mean(word, words)
    return guess if guess and len(words) > _FEW else f"{guess}. {label}: {', '.join(words) or 'none'}"


class StreamfoldError(PicklableError, Exception):
    """Base class of all errors of streamfold. Every error can be pickled and copied."""


class ConfigError(StreamfoldError):
    """A setting or an argument is wrong. The message names the setting, its position and the allowed values.

    Attributes:
        hint: what to change in the program; it is the end of the message.
    """

    hint: str = ""

    @property
    def problem(self) -> str:
        """The message without the hint."""
        return super().__str__()

    def __str__(self) -> str:
        return f"{self.problem}; {self.hint}" if self.hint else self.problem


class NotConfiguredError(ConfigError):
    """An API key or another environment variable of the configuration is not set."""


# The tree of errors. `LimitReachedError`, `BudgetExceededError` and `LimitStoreError` are in `limits`.
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
    """Keyword arguments of every `APIError`."""

    provider: str | None
    request_id: str | None
    retryable: bool
    body: Any
    info: ErrorInfo | None
    partial: Reply | None


class APIError(StreamfoldError):
    """A request did not get a complete answer.

    Attributes:
        message: the server's error message, or a description of the failure.
        request_id: the server's id for the request, for support.
        retryable: whether the same request may succeed later. A retry runs no tool twice, because no tool call was
            delivered.
        body: the response body, parsed if it is JSON, up to the configured limit.
        info: the server's error object, if it sent one.
        partial: the part of the answer that had arrived, without tool calls; None if no answer had begun.
        partial_tool_calls: the unfinished tool calls, for display only.
        attempts: earlier failed attempts, and skipped providers.
        retry_after: seconds to wait before a retry, if the server sent them.
        rate_limit: the provider's rate limits, from the response headers.
        warnings: changes of the request and mistakes in the answer.
        url: the address of the request, without secrets, if one was sent.
        hint: what to check; shown with the address at the end of the error's text.
    """

    attempts: Sequence[Attempt] = ()
    _local = frozenset({"continuation"})  # it holds the provider
    continuation: Callable[[APIError], Any] | None = None  # made by the client; see `resume`
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
        """Continues the interrupted answer, with providers that support it: see `ChatQuirks.continues`.

            except StreamError as error:
                async with error.resume() as stream: ...

        The request is sent when the first chunk is read. The new chunks continue the ones already read. The final reply
        has the whole answer, and the usage of the last request. If the new stream fails, its error can be resumed, too.

        Returns:
            A `ChatStream`, or one of `streamfold.sync` for an answer of that API.

        Raises:
            StreamfoldError: the answer can't be continued: no text had arrived, a tool call had begun, the provider
                doesn't support it, or the error was pickled.
        """
        if self.partial is None:
            raise StreamfoldError("resume(): no part of the answer had arrived: send the request again")
        if self.continuation is None:
            raise StreamfoldError(
                "resume(): this error has no provider to continue with; it was pickled, or comes from a bare"
                " StreamDecoder: send the request again"
            )
        return self.continuation(self)

    def __str__(self) -> str:
        text = f"{self.provider}: {self.message}" if self.provider else self.message
        if self.url and self.hint:
            text = f"{text} (POST {self.url}: {self.hint})"
        return f"{text} (request id {self.request_id})" if self.request_id else text


class APIStatusError(APIError):
    """The server answered with an error status.

    Attributes:
        code: the server's code for the error, else its type.
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
    """Status 404: the model or the path doesn't exist."""

    hint = "check base_url and the model"


class BadRequestError(APIStatusError):
    """Another 4xx status: the request is wrong, and would fail again."""


class RateLimitError(APIStatusError):
    """Status 429: too many requests. Retry after `retry_after` seconds."""


class QuotaExceededError(APIStatusError):
    """The account has no credit or quota left. Not retried."""


class ServerError(APIStatusError):
    """A 5xx status: the server failed."""


class APIConnectionError(APIError):
    """Name resolution, TCP or TLS failed, or the connection broke before the response."""


class APITimeoutError(APIConnectionError):
    """A timeout expired. `phase` names it: connect, first_event, read (no bytes), stall (no events) or total."""

    def __init__(self, message: str, *, phase: TimeoutPhase, **details: Unpack[APIErrorDetails]) -> None:
        super().__init__(message, **details)
        self.phase: TimeoutPhase = phase


class StreamError(APIError):
    """The answer began and failed.

    Attributes:
        partial: the part of the answer that had arrived, without tool calls; never None.
        transcript: the last events as received, without secrets.
    """

    transcript: Sequence[str] = ()


class IncompleteStreamError(StreamError):
    """The stream ended before the response was complete. None of its tool calls is delivered."""


class UpstreamError(StreamError):
    """The server reported an error inside a response with status 200. Attributes that the server didn't send are
    None."""

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
    """The answer is not in the expected wire format, or is larger than a limit."""


class EmptyResponseError(StreamError):
    """The answer ended normally and was empty."""


class ContextLengthError(APIError):
    """The prompt, or the prompt and the requested answer, exceeds the context window.

    Attributes:
        tokens, limit: the sizes of the prompt and of the window, if the server named them.
    """

    def __init__(
        self, message: str, *, tokens: int | None = None, limit: int | None = None, **details: Unpack[APIErrorDetails]
    ) -> None:
        super().__init__(message, **details)
        self.tokens = tokens
        self.limit = limit


class ContentFilterError(APIError):
    """A filter of the provider stopped the prompt or the answer. `categories` are the names that the server sent."""

    def __init__(self, message: str, *, categories: tuple[str, ...] = (), **details: Unpack[APIErrorDetails]) -> None:
        super().__init__(message, **details)
        self.categories = categories


class UnsupportedOptionError(APIError):
    """The model does not accept an option, or not with this value.

    Attributes:
        param: the field of the request, with underscores, if the server named it.
    """

    def __init__(self, message: str, *, param: str | None = None, **details: Unpack[APIErrorDetails]) -> None:
        super().__init__(message, **details)
        self.param = param


class ModelNotFoundError(APIError):
    """The model doesn't exist, or the API key has no access to the model. A wrong URL raises only a `NotFoundError`."""


class TurnLimitError(StreamfoldError):
    """The model still called tools in the last allowed turn of `run_tools`. The run object has the conversation so
    far."""


def failed_before_answer(error: APIError) -> bool:
    """Returns whether the request failed before the model can have run, so that it isn't billed. Unknown after a
    timeout."""
    if isinstance(error, APITimeoutError):
        return error.phase == "connect"
    return isinstance(error, APIStatusError | APIConnectionError) and not isinstance(error, StreamError)


# Exceptions by cause, combined with those by status: a `ContextLengthError` is a `BadRequestError` before the stream,
# and an `UpstreamError` inside it.


class RejectedRequest:
    """Errors of requests that were refused with an error status, by cause."""

    class ContextLengthError(ContextLengthError, BadRequestError):
        """The prompt is too long."""

    class ContentFilterError(ContentFilterError, BadRequestError):
        """A filter stopped the prompt."""

    class UnsupportedOptionError(UnsupportedOptionError, BadRequestError):
        """The model doesn't accept an option or its value."""

    class ModelNotFoundError(ModelNotFoundError, NotFoundError):
        """The model doesn't exist."""


class RejectedPermission:
    """Errors of requests that were refused with status 403, by cause."""

    class ContentFilterError(ContentFilterError, PermissionDeniedError):
        """A filter stopped the prompt. The API key isn't the cause."""


class RejectedInStream:
    """Errors that were reported inside a stream, by cause."""

    class ContextLengthError(ContextLengthError, UpstreamError):
        """The prompt is too long."""

    class ContentFilterError(ContentFilterError, UpstreamError):
        """A filter stopped the prompt or the answer."""

    class UnsupportedOptionError(UnsupportedOptionError, UpstreamError):
        """The model doesn't accept an option or its value."""

    class ModelNotFoundError(ModelNotFoundError, UpstreamError):
        """The model doesn't exist."""

    class QuotaExceededError(QuotaExceededError, UpstreamError):  # type: ignore[misc]  # its status is never None
        """The account has no credit or quota left. An error without a status counts as 402."""

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
    """Returns the exception for a status that isn't 2xx.

    Args:
        should_retry: the server's advice (`x-should-retry`), which is followed except for quota errors.
    """
    status, meaning = info.status or 0, info.meaning(body)
    quota = meaning is not None and meaning.kind == "quota"
    retryable = info.retryable and meaning is None
    kind = _REFUSED_BEFORE.get(meaning.kind, QuotaExceededError) if meaning else _by_status(info)
    if kind is RejectedRequest.ContentFilterError and status == 403:
        kind = RejectedPermission.ContentFilterError
    details = _details(meaning)
    named = details.get("param")
    member = f"{named}: " if named and named not in info.message else ""  # as pydantic's errors of FastAPI servers
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
    """Returns the exception for an error inside an answer."""
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
    kind = _BY_STATUS.get(status, APIStatusError)
    if status == 400 and info.type == "authentication_error":  # what Google calls a wrong key
        return AuthenticationError
    if kind is APIStatusError and status >= 500:
        return ServerError
    if kind is APIStatusError and 400 <= status < 500 and not info.retryable:
        return BadRequestError
    return kind


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
