"""Classifies the error object in a provider's response: its message, its cause (such as context length or quota), and
whether a retry may help.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any, Literal

from ..catalogue_path import catalogue_folder
from ..jsontext import join_surrogates

# `providers/facts/errors.toml` contains the texts of errors. The code takes precedence over the type, and the type
# over the message.

MeaningKind = Literal["context_length", "content_filter", "unsupported_option", "model_not_found", "quota"]

_GROUPS = {  # no group begins inside a word or a number, so that matching takes linear time
    "tokens": r"(?<!\d)\d{1,3}(?:[,_]\d{3})+|(?<!\d)\d{1,12}",
    "limit": r"(?<!\d)\d{1,3}(?:[,_]\d{3})+|(?<!\d)\d{1,12}",
    "least": r"-?\d{1,15}(?:\.\d{1,9})?",
    "most": r"-?\d{1,15}(?:\.\d{1,9})?",
    "bound": "inclusive|exclusive",
    "param": r"(?<![\w.\]-])\w(?:[\w.\[\]-]{0,98}[\w\]])?",
    "name": r"(?<!\w)(?-i:[a-z]+(?:_[a-z]+)+|[a-z]+(?:[A-Z][a-z]+)+|temperature|seed|stop|effort|thinking|reasoning)",
    "instead": r"\w{1,100}",
    "loc": r"[\w'\", .-]{1,300}",
    "allowed": r"['\"`][\w'\"`, -]{1,300}",
    "category": r"\w{1,100}",
}
_PLACEHOLDER = re.compile(f"<({'|'.join(_GROUPS)})>")
_QUOTED = re.compile(r"""['"`](\w+)['"`]""")
_NUMBERED = re.compile(r"_\d+$")
# Some servers respond with status 500 to a prompt that is too long, so these kinds are recognized with any status.
_BY_ANY_STATUS: tuple[MeaningKind, ...] = ("context_length", "content_filter")


@dataclass(frozen=True, slots=True)
class ErrorClassification:
    """The reason why a provider rejected a request.

    Attributes:
        tokens, limit: the number of tokens in the prompt, and the maximum that the model accepts.
        categories: the names of the content filters that stopped the request.
        param: the path of the request field that the provider rejected, in snake case.
        instead: the field name that the server expects instead of `param`.
        least, most, allowed: the minimum, the maximum and the list of accepted values of the field, if the server's
            error states them.
    """

    kind: MeaningKind
    tokens: int | None = None
    limit: int | None = None
    categories: tuple[str, ...] = ()
    param: str | None = None
    instead: str | None = None
    least: float | None = None
    most: float | None = None
    allowed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Row:
    kind: str
    words: tuple[str, ...]
    says: re.Pattern[str] | None
    has: str | None
    member: str | None
    param: str | None

    def fits(self, message: str, body: Any) -> re.Match[str] | bool | None:
        if self.has is not None:
            return any(path == self.has or path.endswith(f".{self.has}") for path, _ in _members(body))
        if self.says is None:
            return bool(self.words)
        if self.member is not None:
            ends = f".{self.member}"
            named = (value for path, value in _members(body) if path.endswith(ends) and isinstance(value, str))
            return any(self.says.search(value) for value in named)
        return self.says.search(message)


def classify_error(
    words: Sequence[str], message: str, *, param: str | None = None, status: int | None = None, body: Any = None
) -> ErrorClassification | None:
    """Classifies an error by its code, type and message. Returns None if the cause is unknown.

    Args:
        words: the error's code, then its type.
        param: the request field that the server's error names.
        body: the complete error body.

    >>> classify_error([], "prompt is too long: 210000 tokens > 200000 maximum").limit
    200000
    >>> classify_error(["unsupported_value"], "no", param="temperature").param
    'temperature'
    """
    row = _deciding(words, message, status, body)
    if row is None and status in (None, 400, 422):
        return next((_option(found, None) for found in _invalid_members(body)), None)
    if row is None or row.kind == "none":
        return None
    found: dict[str, str] = {}
    for other in _rows():
        if other.kind == row.kind and other.says is not None and other.member is None:
            match = other.says.search(message)
            for name, value in (match.groupdict() if match else {}).items():
                if value is not None:
                    found.setdefault(_NUMBERED.sub("", name), value)
    if row.kind == "unsupported_option":
        return _option(found, row.param or param or None)
    kind: Any = row.kind
    tokens, limit = _number(found.get("tokens")), _number(found.get("limit"))
    said = (found["category"],) if "category" in found else ()
    return ErrorClassification(kind, tokens, limit, (*said, *_categories(body)) if kind == "content_filter" else ())


def _deciding(words: Sequence[str], message: str, status: int | None, body: Any) -> _Row | None:
    rows = [row for row in _rows() if _possible(row, status)]
    for word in words:
        named = [row for row in rows if word.lower() in row.words and row.fits(message, body)]
        if named:
            return named[0]
    if status == 401:
        return None
    return next((row for row in rows if not row.words and row.fits(message, body)), None)


def _possible(row: _Row, status: int | None) -> bool:
    if row.kind in ("quota", "none") or status is None:
        return True
    return row.kind in _BY_ANY_STATUS if status >= 500 else status not in (401, 429)


def _option(found: Mapping[str, str], param: str | None) -> ErrorClassification:
    place = [part.strip("'\" ") for part in found.get("loc", "").split(",")]
    param = param or ".".join(part for part in place if part != "body") or found.get("param") or found.get("name")
    least, most = (float(found[name]) if name in found else None for name in ("least", "most"))
    if most is not None and found.get("bound") == "exclusive":
        most = most - 1 if most.is_integer() else int(most * 100) / 100
    return ErrorClassification(
        "unsupported_option",
        param=param and re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: f"_{found[1].lower()}", param),
        instead=found.get("instead"),
        least=least,
        most=most,
        allowed=tuple(_QUOTED.findall(found.get("allowed", ""))),
    )


def _invalid_members(body: Any) -> Iterator[dict[str, str]]:
    """Yields the fields that a list of pydantic errors reports as invalid. Mistral and servers built with FastAPI send
    such a list."""
    for _, value in _members(body):
        if not isinstance(value, Mapping) or not isinstance(place := value.get("loc"), list):
            continue
        names = [str(part) for part in place if part != "body"]
        context = value.get("ctx")
        bounds: Mapping[str, Any] = context if isinstance(context, Mapping) else {}
        wanted = {"most": bounds.get("le"), "least": bounds.get("ge"), "allowed": bounds.get("expected")}
        kind, found = value.get("type"), {name: str(each) for name, each in wanted.items() if each is not None}
        if kind == "extra_forbidden" or (len(names) == 1 and found):
            yield {"param": ".".join(names), **found}


def _categories(body: Any) -> Iterator[str]:
    """Yields the names of the content filters that stopped the request, from an error of Azure or OpenRouter."""
    for path, value in _members(body):
        if path.endswith("metadata.reasons") and isinstance(value, list):
            yield from (reason for reason in value if isinstance(reason, str))
        parent, _, name = path.rpartition(".")
        if parent.endswith(("content_filter_result", "content_filter_results")) and isinstance(value, Mapping):
            yield from (name for mark in ("filtered", "detected") if value.get(mark) is True)


def _members(body: Any) -> Iterator[tuple[str, Any]]:
    waiting: list[tuple[str, Any]] = [("", body)]
    while waiting:
        path, value = waiting.pop(0)
        yield path, value
        if isinstance(value, Mapping):
            waiting += [(f"{path}.{name}", inner) for name, inner in value.items()]
        elif isinstance(value, list):
            waiting += [(f"{path}.{at}", inner) for at, inner in enumerate(value)]


def _number(text: str | None) -> int | None:
    return None if text is None else int(re.sub(r"\D", "", text))


@cache
def _table() -> dict[str, Any]:
    import tomllib  # not needed unless a server sends an error

    return tomllib.loads((catalogue_folder() / "facts" / "errors.toml").read_text("utf-8"))


@cache
def _rows() -> tuple[_Row, ...]:
    return tuple(
        _Row(
            row["kind"],
            tuple(word.lower() for word in row.get("words", ())),
            _compiled(row["says"]) if "says" in row else None,
            row.get("has"),
            row.get("member"),
            row.get("param"),
        )
        for row in _table()["errors"]
    )


@cache
def _compiled(text: str) -> re.Pattern[str]:
    """Compiles a pattern. Adds a number to each group name, because Python requires unique names."""
    numbers = count()
    written = _PLACEHOLDER.sub(lambda found: f"(?P<{found[1]}_{next(numbers)}>{_GROUPS[found[1]]})", text)
    return re.compile(written, re.IGNORECASE | re.DOTALL)


_LONGEST_MESSAGE = 4000  # characters; `APIError.body` contains the complete message
_DEEPEST_MESSAGE = 8  # levels of nesting
_WORDLESS = "the server gave no message"
_SPEAKING = (  # fields that may contain the message, the best first
    "message", "msg", "detail", "error", "error_message", "error_msg", "error_description", "errors", "title", "reason",
    "status_msg", "Message",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """The error object that a server sent.

    Attributes:
        type, code: the server's identifiers for the kind of error.
        param: the request field that caused the error, if the server names one.
        retry: True if a retry may help, False if no retry helps, or None to decide by code, type and status.
        retry_after: the time to wait before a retry, in seconds.
    """

    message: str
    type: str | None = None
    code: str | None = None
    status: int | None = None
    param: str | None = None
    retry: bool | None = None
    retry_after: float | None = None

    def meaning(self, body: Any = None) -> ErrorClassification | None:
        """Returns the reason why the server rejected the request, or None if the error isn't a rejection.

        Args:
            body: the complete error body, which may contain more details.
        """
        if self.status == 402:
            return ErrorClassification("quota")
        found = classify_error(self._words(), self.message, param=self.param, status=self.status, body=body)
        if found is None and (inner := _passed_on(body)) is not None:
            return inner.meaning()
        return found

    def required_api(self, called: str) -> str | None:
        """Returns the name of the API to use instead, if the server's error says that the model is served only by
        another API.

        Args:
            called: the name of the adapter that sent the request.

        >>> ErrorInfo("This model is only supported in v1/responses", status=404).required_api("chat")
        'responses'
        """
        if self.retryable or self.status in (401, 403):
            return None
        meaning = self.meaning()
        about_option = meaning is not None and meaning.kind == "unsupported_option"
        for row in _table()["apis"]:
            if not (row.get("model") and about_option) and _compiled(row["says"]).search(self.message):
                api: str = row["api"]
                return api if api != called else None
        return None

    @property
    def quota(self) -> bool:
        found = self.meaning()
        return found is not None and found.kind == "quota"

    @property
    def retryable(self) -> bool:
        """True if the same request may succeed later. The decision depends on the cause of the error if it is known, or
        else on the error's code, type or status.
        """
        if self.retry is not None or self.meaning() is not None:
            return bool(self.retry)
        for word in self._words():
            if word in _table()["transient"]:
                return True
            if word in _table()["final"]:
                return False
        return self.status is not None and (self.status in (408, 409, 425, 429) or self.status >= 500)

    def _words(self) -> list[str]:
        """Returns `type:code`, the code and the type. `type:code` comes first, because the same code may have several
        meanings.
        """
        both = f"{self.type}:{self.code}" if self.type and self.code else None
        return [word.lower() for word in (both, self.code, self.type) if word]


def error_info(body: Any, status: int | None = None) -> ErrorInfo:
    """Parses an error object in any known format, including a bare string. The result always has a `message`.

    >>> error_info({"error": {"message": "slow down", "type": "rate_limit_error"}}).message
    'slow down'
    >>> error_info({"detail": [{"msg": "field required"}]}).message
    'field required'
    """
    outer = body if isinstance(body, Mapping) else {}
    wrapped = wrapped_error(outer)
    inner = outer.get("error") or wrapped or body
    while isinstance(inner, list) and inner:  # Google wraps the object in a list
        inner = inner[0].get("error", inner[0]) if isinstance(inner[0], Mapping) else inner[0]
    fields = {**outer, **inner} if isinstance(inner, Mapping) else outer
    code = fields.get("code") or outer.get("code") or fields.get("Code")
    if wrapped and wrapped is inner and "base_resp" in outer:
        fields, code = {"type": "base_resp", **fields}, wrapped.get("status_code")
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


def wrapped_error(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns an error object that the server sent under a key other than `error`. MiniMax sends a status in
    `base_resp`, next to `choices`. The status 0 means success
    (https://platform.minimax.io/docs/api-reference/errorcode). Tencent Cloud sends `Response.Error`
    (https://cloud.tencent.com/document/api/1729/101843).
    """
    base, response = body.get("base_resp"), body.get("Response")
    found = response.get("Error") if isinstance(response, Mapping) else None
    if isinstance(base, Mapping) and base.get("status_code"):
        found = base
    return found if isinstance(found, Mapping) else None


def _passed_on(body: Any) -> ErrorInfo | None:
    """Parses the error of the provider behind OpenRouter, which is in `metadata.raw`."""
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
    if isinstance(inner, str) and outer:  # the name of the status, next to a message: Spring, NestJS, OAuth
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
