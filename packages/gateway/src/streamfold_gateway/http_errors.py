"""Converts errors to HTTP responses: the status, the error object and the headers, which also tell clients whether to
retry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from streamfold import APIError, APIStatusError, APITimeoutError, ConfigError, ReplyWarning, UpstreamError
from streamfold.serving import error_delta
from streamfold.types import ErrorInfo

_WARNINGS = "x-streamfold-warnings"
_LONGEST_HEADER = 2000  # characters of warnings


class HTTPError(Exception):
    """An error that the gateway sends to the client as an HTTP response.

    Attributes:
        status: the HTTP status of the response.
        info: the error that the response body describes.
        headers: additional headers of the response.
        cause: the exception that the response reports, for the log; None if the gateway itself rejects the request.
    """

    def __init__(
        self, status: int, info: ErrorInfo, headers: Mapping[str, str] | None = None, cause: Exception | None = None
    ) -> None:
        super().__init__(info.message)
        self.status = status
        self.info = info
        self.headers = headers or {}
        self.cause = cause


def http_error(
    status: int, message: str, code: str | None = None, *, cause: Exception | None = None, **headers: str
) -> HTTPError:
    """Returns an error response of the gateway itself. Other keyword arguments become headers: `retry_after="1"`."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    written = {name.replace("_", "-"): value for name, value in headers.items()}
    return HTTPError(status, ErrorInfo(message, kind, code), written, cause)


def misconfigured(cause: ConfigError) -> HTTPError:
    """Returns the error response for a mistake in the gateway's configuration. The cause is logged, but not sent."""
    text = "the server is misconfigured for this model; see the server's log"
    return http_error(500, text, cause=cause, x_should_retry="false")


# Statuses after which the SDKs of OpenAI and Anthropic retry, and Claude Code after a 401 too. All of them obey the
# header `x-should-retry`.
_SENT_AGAIN = (401, 408, 409, 429, *range(500, 600))
_NO_RETRY = {"x-should-retry": "false"}


def from_provider_error(error: APIError) -> HTTPError:
    """Returns the error response for an error of a provider or of the connection to it.

    The client receives the provider's status and error object, without secrets, and can handle the error as if it came
    from the provider directly. The statuses 401 and 403 become 502, because the provider rejected the gateway's API
    key, not the client's key.
    """
    info = error_delta(error).info
    status, headers = 502, {}
    match error:
        case APIStatusError(status_code=code, retry_after=retry_after):
            status = code if code >= 400 else 502
            headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
        case UpstreamError(status_code=int(code)):
            status = code
        case APITimeoutError():
            status = 504
    if status in (401, 403):
        status = 502
    headers |= warning_header(error.warnings)
    headers |= _NO_RETRY if status in _SENT_AGAIN and not error.retryable else {}
    return HTTPError(status, info if info.status is None else replace(info, status=status), headers, error)


def warning_header(warnings: Iterable[ReplyWarning]) -> dict[str, str]:
    """Returns the HTTP header that lists the warnings of a response; an empty dictionary if the response has no
    warnings.
    """
    return with_warning({}, "; ".join([f"{warning.code}: {warning.detail}" for warning in warnings]))


def with_warning(headers: Mapping[str, str], text: str) -> dict[str, str]:
    """Adds a warning to the HTTP header that lists a response's warnings. An empty `text` adds no warning."""
    listed = "; ".join(filter(None, [headers.get(_WARNINGS, ""), text]))[:_LONGEST_HEADER]
    return {**headers, _WARNINGS: listed} if listed else dict(headers)
