"""The exceptions for what a server said, before a stream and inside it.

Those by what was refused stand beside those by status: one that is raised is both, so that a program may catch the one
or the other. A `ContextLengthError` is a `BadRequestError` before the stream, and an `UpstreamError` inside it.
"""

from __future__ import annotations

from typing import Any

from . import errors
from .error_classification import ErrorClassification
from .error_info import ErrorInfo
from .errors import (
    APIStatusError,
    AuthenticationError,
    BadRequestError,
    NotFoundError,
    PermissionDeniedError,
    QuotaExceededError,
    RateLimitError,
    ServerError,
    UpstreamError,
)


class RejectedRequest:
    """What a refusal with an error status is raised as."""

    class ContextLengthError(errors.ContextLengthError, errors.BadRequestError):
        """The prompt is too long."""

    class ContentFilterError(errors.ContentFilterError, errors.BadRequestError):
        """A filter stopped the prompt."""

    class UnsupportedOptionError(errors.UnsupportedOptionError, errors.BadRequestError):
        """The model does not take an option."""

    class ModelNotFoundError(errors.ModelNotFoundError, errors.NotFoundError):
        """There is no such model."""


class RejectedPermission:
    """What a refusal with status 403 is raised as."""

    class ContentFilterError(errors.ContentFilterError, errors.PermissionDeniedError):
        """A filter stopped the prompt: the key is not the problem."""


class RejectedInStream:
    """What a refusal inside an answer is raised as."""

    class ContextLengthError(errors.ContextLengthError, errors.UpstreamError):
        """The prompt is too long."""

    class ContentFilterError(errors.ContentFilterError, errors.UpstreamError):
        """A filter stopped the prompt or the answer."""

    class UnsupportedOptionError(errors.UnsupportedOptionError, errors.UpstreamError):
        """The model does not take an option."""

    class ModelNotFoundError(errors.ModelNotFoundError, errors.UpstreamError):
        """There is no such model."""


def status_error(info: ErrorInfo, *, should_retry: bool | None = None, body: Any = None, **rest: Any) -> APIStatusError:
    """Returns the exception for an answer whose status is not 2xx.

    Args:
        should_retry: the server's own advice (`x-should-retry`), if it sent any. It is followed, except for quota
            errors, which are never retried.
    """
    status, meaning = info.status or 0, info.meaning(body)
    quota = meaning is not None and meaning.kind == "quota"
    retryable = info.retryable and meaning is None
    kind = _REFUSED_BEFORE.get(meaning.kind, QuotaExceededError) if meaning else _by_status(info)
    if kind is RejectedRequest.ContentFilterError and status == 403:
        kind = RejectedPermission.ContentFilterError
    return kind(
        f"{info.message} (HTTP {status})",
        status_code=status,
        code=info.code or info.type,
        retryable=retryable if should_retry is None or quota else should_retry,
        info=info,
        body=body,
        **_details(meaning),
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
}
