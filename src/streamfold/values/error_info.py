"""What a server's error says: the meaning of error objects and status codes, and whether a retry is worthwhile."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..text import join_surrogates
from .error_classification import ErrorClassification, classify_error, is_transient

_LONGEST_MESSAGE = 4000  # characters; all of it is in the error's body
_DEEPEST_MESSAGE = 8  # objects inside objects
_WORDLESS = "the server gave no message"
_SPEAKING = (  # the members that may hold the message, the best first
    "message", "msg", "detail", "error", "error_message", "error_msg", "error_description", "errors", "title", "reason",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """An error object of a server.

    Attributes:
        type, code: the words that classify the error.
        status: the HTTP status that it names.
        param: the member of the request that it is about.
        retry: whether a retry is worthwhile, where that is known otherwise than by the words.
        retry_after: seconds to wait before it, where the error object says so.
    """

    message: str
    type: str | None = None
    code: str | None = None
    status: int | None = None
    param: str | None = None
    retry: bool | None = None
    retry_after: float | None = None

    def meaning(self, body: Any = None) -> ErrorClassification | None:
        """Returns what the server has refused, as far as its words say it; None: something else is wrong.

        Args:
            body: the whole error body, where some servers say more.
        """
        if self.status == 402:
            return ErrorClassification("quota")
        found = classify_error(self._words(), self.message, param=self.param, status=self.status, body=body)
        if found is None and (inner := _passed_on(body)) is not None:
            return inner.meaning()
        return found

    @property
    def quota(self) -> bool:
        """Whether the account has no credit or quota left."""
        found = self.meaning()
        return found is not None and found.kind == "quota"

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later: by what it means, by code, by type, then by status."""
        if self.retry is not None or self.meaning() is not None:
            return bool(self.retry)
        for word in self._words():
            if (passes := is_transient(word)) is not None:
                return passes
        return self.status is not None and (self.status in (408, 409, 425, 429) or self.status >= 500)

    def _words(self) -> list[str]:
        return [word.lower() for word in (self.code, self.type) if word]


def error_info(body: Any, status: int | None = None) -> ErrorInfo:
    """Reads an error object in any of the shapes that servers use, down to a bare string. The result has a message.

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
        message=_short(join_surrogates(_message_of(outer, inner))),
        type=_word(fields.get("type")),
        code=_word(str(code) if type(code) is int else code) if _http_status(code) is None else None,
        status=status,
        param=_word(fields.get("param")),
    )


def _passed_on(body: Any) -> ErrorInfo | None:
    """Returns the error of the provider behind a router that has put its text into `metadata.raw` (OpenRouter)."""
    error = body.get("error") if isinstance(body, Mapping) else None
    metadata = error.get("metadata") if isinstance(error, Mapping) else None
    raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
    if not isinstance(raw, str):
        return None
    try:
        return error_info(json.loads(raw))
    except (ValueError, RecursionError):
        return error_info(raw)


def _message_of(outer: Mapping[str, Any], inner: Any) -> str:
    said = _message(inner) or _message(outer)
    if isinstance(inner, str) and outer:  # the name of the status, beside what is said of it: Spring, NestJS, OAuth
        beside = _message({key: value for key, value in outer.items() if key != "error"})
        return f"{said}: {beside}" if beside and said and beside not in said else said or beside or _WORDLESS
    if said:
        return said
    try:
        return f"{_WORDLESS}: {json.dumps(inner, ensure_ascii=False)}" if _has_words(inner) else _WORDLESS
    except RecursionError:
        return _WORDLESS


def _has_words(value: Any, depth: int = 0) -> bool:
    if depth > _DEEPEST_MESSAGE:
        return False
    values = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return bool(isinstance(value, str) and value.strip()) or any(_has_words(inner, depth + 1) for inner in values)


def _message(value: Any, depth: int = 0) -> str | None:
    if depth > _DEEPEST_MESSAGE:
        return None
    match value:
        case str():
            return value.strip() or None
        case Mapping():
            return next((text for key in _SPEAKING if (text := _message(value.get(key), depth + 1))), None)
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
