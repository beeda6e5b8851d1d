"""All errors, as one tree.

StreamfoldError
+- ConfigError                     a setting or an argument is wrong: which one, where, and what is allowed
|  +- NotConfiguredError           a key or another environment variable is not set
+- APIError                        a request did not get a complete answer
|  +- APIStatusError               the server answered with a status that is not 2xx
|  |  +- AuthenticationError, PermissionDeniedError, NotFoundError, BadRequestError,
|  |     RateLimitError, QuotaExceededError, ServerError
|  |     +- LimitReachedError, BudgetExceededError   a limit of one's own: nothing was sent
|  +- APIConnectionError           there was no answer: the network failed
|  |  +- APITimeoutError           a timeout ran out; `phase` says which
|  |  +- LimitStoreError           the store that counts limits can't be used: nothing was sent
|  +- StreamError                  the answer began and did not end well; `partial` has what arrived
|     +- IncompleteStreamError     it ended before it was finished
|     +- UpstreamError             the server reported an error inside the stream
|     +- ProtocolError             it is not in this wire format, or larger than a limit
|     +- EmptyResponseError        it ended normally and was empty
|  +- ContextLengthError, ContentFilterError, UnsupportedOptionError, ModelNotFoundError
|                                   what the server refused, wherever it said so: before the stream they are also a
|                                   BadRequestError (or the class of their status), inside it an UpstreamError
+- InvalidToolArgumentsError       the arguments of a call do not fit the tool; also a ValueError
+- InvalidReplyError               the text of a reply does not fit the model it is parsed as; also a ValueError
+- TurnLimitError                  the model still asked for tools in the last turn of `run_tools`
+- CallInDoubtError                another run of the same state has started a call, and has no result yet
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from .config_errors import StreamfoldError
from .error_info import ErrorInfo

if TYPE_CHECKING:
    from .partial_calls import PartialToolCall
    from .rate_limit import RateLimit
    from .replies import Attempt, Reply, ReplyWarning

TimeoutPhase = Literal["connect", "first_event", "read", "stall", "total"]


class APIErrorDetails(TypedDict, total=False):
    """Keyword arguments that every `APIError` takes; see there."""

    provider: str | None
    request_id: str | None
    retryable: bool
    body: Any
    info: ErrorInfo | None
    partial: Reply | None


class APIError(StreamfoldError):
    """A request did not get a complete answer.

    Attributes:
        message: what happened, in the server's own words if it sent any.
        provider: name of the provider.
        request_id: the server's id for the request, which its support asks for.
        retryable: whether the same request may succeed later. No tool call was handed out, so nothing runs twice.
        body: what the server sent, parsed if it is JSON, cut to the configured limit.
        info: the server's error object as it was read; None if the server sent none.
        partial: what had arrived, without tool calls; None before the first chunk.
        partial_tool_calls: the tool calls that the model was writing, for showing; empty if there were none.
        attempts: earlier attempts that failed, and providers that were passed over.
        warnings: what had to be changed in the request, and what was odd in the answer.
        url: the address of the request, without secrets; None if no request was made.
        hint: what to check; shown with the address at the end of the text.
    """

    attempts: Sequence[Attempt] = ()
    _local = frozenset({"continuation"})  # it holds the provider
    continuation: Callable[[APIError], Any] | None = None  # made by the client; see `resume`
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
        """Continues the answer where it broke off, with the providers that continue a text: see `ChatQuirks.continues`.

            except StreamError as error:
                async with error.resume() as stream: ...

        Nothing is sent before the first chunk is asked for. The chunks go on behind those that were read; the reply at
        the end is the whole answer, with the usage of its last part. If this fails too, its error can be resumed.

        Returns:
            A `ChatStream`, or one of `streamfold.sync` where the answer came from there.

        Raises:
            StreamfoldError: the answer can't be continued: no text had arrived, a tool call had begun, the provider
                continues none, or the error was pickled and has no provider. The message says which.
        """
        if self.partial is None:
            raise StreamfoldError("resume(): nothing of the answer had arrived: send the request again")
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
        **details: Unpack[APIErrorDetails],
    ) -> None:
        super().__init__(message, **details)
        self.status_code = status_code
        self.code = code
        self.retry_after = retry_after
        self.rate_limit = rate_limit


class AuthenticationError(APIStatusError):
    """Status 401: the key is missing, wrong, or belongs to another platform."""


class PermissionDeniedError(APIStatusError):
    """Status 403: the key is valid, but not allowed to do this."""


class NotFoundError(APIStatusError):
    """Status 404: there is no such model or path."""

    hint = "check base_url and the model"


class BadRequestError(APIStatusError):
    """Another 4xx status: the request itself is wrong. Sending it again will not help."""


class RateLimitError(APIStatusError):
    """Status 429: too many requests. Retry after `retry_after` seconds."""


class QuotaExceededError(APIStatusError):
    """The account has no credit or quota left. Never retried."""


class ServerError(APIStatusError):
    """A 5xx status: the server failed."""


class APIConnectionError(APIError):
    """There was no answer: name resolution, TCP or TLS failed, or the connection broke before the answer began."""


class APITimeoutError(APIConnectionError):
    """A timeout ran out. `phase` says which: connect, first_event, read (no bytes), stall (no events) or total."""

    def __init__(self, message: str, *, phase: TimeoutPhase, **details: Unpack[APIErrorDetails]) -> None:
        super().__init__(message, **details)
        self.phase: TimeoutPhase = phase


class StreamError(APIError):
    """The answer began and did not end well.

    Attributes:
        partial: what had arrived, without tool calls; never None. The calls that had begun are in `partial_tool_calls`.
        transcript: the last events as they were received, without secrets.
    """

    transcript: Sequence[str] = ()


class IncompleteStreamError(StreamError):
    """The stream ended before the answer was finished. None of its tool calls is handed out."""


class UpstreamError(StreamError):
    """The server reported an error inside an answer with status 200.

    Attributes:
        type, code, status_code: as the server named them; None if it did not.
    """

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
    """The prompt, or the prompt and the answer that was asked for, is longer than the model's window.

    Attributes:
        tokens: the size of the prompt, as the server counted it; None if it did not say.
        limit: the size of the window; None if the server did not say.
    """

    def __init__(
        self, message: str, *, tokens: int | None = None, limit: int | None = None, **details: Unpack[APIErrorDetails]
    ) -> None:
        super().__init__(message, **details)
        self.tokens = tokens
        self.limit = limit


class ContentFilterError(APIError):
    """A filter of the provider stopped the prompt or the answer. An answer that ends so has a finish reason instead.

    Attributes:
        categories: what it found, in the server's own words; empty if it did not say.
    """

    def __init__(self, message: str, *, categories: tuple[str, ...] = (), **details: Unpack[APIErrorDetails]) -> None:
        super().__init__(message, **details)
        self.categories = categories


class UnsupportedOptionError(APIError):
    """The model does not take an option, or not with this value.

    Attributes:
        param: the member of the request, as the server named it, written with underscores; None if it did not say.
    """

    def __init__(self, message: str, *, param: str | None = None, **details: Unpack[APIErrorDetails]) -> None:
        super().__init__(message, **details)
        self.param = param


class ModelNotFoundError(APIError):
    """There is no such model, or the key has no access to it. A wrong path is a `NotFoundError` alone."""


class TurnLimitError(StreamfoldError):
    """The model still asked for tools in the last turn of `run_tools`. The run has the conversation so far."""


def failed_before_answer(error: APIError) -> bool:
    """Returns whether a model can't have run: nothing is billed. After a timeout, nobody knows."""
    if isinstance(error, APITimeoutError):
        return error.phase == "connect"
    return isinstance(error, APIStatusError | APIConnectionError)
