"""What goes wrong, as an HTTP answer: the status, and an error object in the shape that both wires share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..adapters.emitting import error_body, error_delta, json_text
from ..values import APIError, APIStatusError, APITimeoutError, ErrorInfo, UpstreamError

__all__ = ["Refusal", "of_error", "refused"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that is an error."""

    status: int
    info: ErrorInfo
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        """The JSON body."""
        told = error_body(self.info)
        told["error"].pop("status", None)
        return json_text(told).encode()


def refused(status: int, message: str, code: str | None = None, **headers: str) -> Refusal:
    """A refusal in words of our own; `retry_after="1"` is a header."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return Refusal(
        status, ErrorInfo(message, kind, code), {name.replace("_", "-"): value for name, value in headers.items()}
    )


def of_error(error: APIError) -> Refusal:
    """The refusal for an answer that could not be got: the provider's own status where it had one.

    The provider's message goes to the client, who else could not tell what to change; secrets were taken out of it.
    """
    info = error_delta(error).info
    status = 502
    headers = {}
    match error:
        case APIStatusError(status_code=code, retry_after=retry_after):
            status = code if code >= 400 else 502
            headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
        case UpstreamError(status_code=int(code)):
            status = code
        case APITimeoutError():
            status = 504
    return Refusal(status, ErrorInfo(str(error), info.type, info.code), headers)
