"""Errors and values go through pickle and copy, as worker processes, task queues and test runners send them."""

from __future__ import annotations

import copy
import importlib
import multiprocessing
import pickle
import pkgutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from inspect import Parameter, signature
from threading import Lock
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

import streamfold
from scale import pick
from streamfold import (
    APIError,
    IncompleteStreamError,
    InvalidReplyError,
    PartialToolCall,
    RateLimitError,
    Reply,
    ReplyWarning,
    StreamError,
    StreamfoldError,
    ToolCall,
    Usage,
)
from streamfold.errors import ErrorInfo
from streamfold.errors.exceptions import RejectedInStream, RejectedPermission, RejectedRequest
from streamfold.testing import ScriptedProvider, fail, say
from streamfold.types import Attempt, RateLimit, RateLimitWindow
from tables import each_row

CALL = ToolCall("a", "f", {"x": 1}, '{"x": 1}', extra={"s": "t"})
PARTIAL = Reply(text="It", usage=Usage(1, 2, 3), warnings=[ReplyWarning("missing_id", "d")], reasoned=True)
# What the errors are made with, by the names of the arguments of their `__init__`.
SAMPLES: dict[str, Any] = {
    "message": "slow down",
    "request": None,
    "status": 429,
    "status_code": 429,
    "code": "c",
    "retry_after": 1.5,
    "rate_limit": RateLimit((RateLimitWindow("tokens", 5.0),)),
    "phase": "read",
    "type": "t",
    "call": CALL,
    "reply": PARTIAL,
    "headers": {"retry-after": "1"},
    "diff": "-a\n+b",
    "provider": "acme",
    "request_id": "req_1",
    "retryable": True,
    "body": {"error": {"message": "slow down"}},
    "info": ErrorInfo("slow down", "t", "c", 429),
    "partial": PARTIAL,
    "tokens": 5,
    "limit": 4,
    "categories": ("violence",),
    "param": "seed",
    "found": {"a": b"1"},
}
ROUND_TRIPS: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{f"pickle {n}": (lambda value, n=n: pickle.loads(pickle.dumps(value, n))) for n in range(2, 6)},
}


def error_classes() -> list[type[BaseException]]:
    """All exceptions that the package defines, wherever they are."""
    found: dict[str, type[BaseException]] = {}
    for module in pkgutil.walk_packages(streamfold.__path__, "streamfold."):
        try:
            members = list(vars(importlib.import_module(module.name)).values())
        except ImportError:  # of an extra that is not installed
            continue
        members += [
            inner for space in (RejectedRequest, RejectedPermission, RejectedInStream) for inner in vars(space).values()
        ]
        for member in members:
            if isinstance(member, type) and issubclass(member, BaseException):
                found[f"{member.__module__}.{member.__qualname__}"] = member
    return [kind for name, kind in sorted(found.items()) if name.startswith("streamfold.")]


def made(kind: type[BaseException]) -> BaseException:
    """An exception with what its `__init__` takes, a note, a cause, and the attributes that are set afterwards."""
    taken = list(signature(kind.__init__).parameters.values())[1:] if kind.__module__ != "builtins" else []
    first = [each.name for each in taken if each.kind is Parameter.POSITIONAL_OR_KEYWORD] or ["message"]
    named = {each.name for each in taken if each.kind is Parameter.KEYWORD_ONLY}
    if issubclass(kind, APIError):
        named |= {"provider", "request_id", "body", "info", "partial"}
    if "." in kind.__qualname__:  # it has two bases, each with arguments of its own
        inherited = [signature(base.__init__).parameters.values() for base in kind.__mro__ if "__init__" in vars(base)]
        named |= {each.name for taken in inherited for each in taken if each.kind is Parameter.KEYWORD_ONLY}
    error = kind(*(SAMPLES[name] for name in first), **{name: SAMPLES[name] for name in named})
    if isinstance(error, APIError):
        error.attempts = (Attempt("a", "b", "RateLimitError", 1.0),)
        error.warnings = (ReplyWarning("option_dropped", "d"),)
        error.partial_tool_calls = (PartialToolCall("f", '{"x"'),)
        error.url, error.hint = "https://example.com", "look"
    if isinstance(error, StreamError):
        error.transcript = ("data: {}",)
    error.add_note("a note")
    if isinstance(error, StreamfoldError):  # Python itself does not pickle causes
        error.__cause__ = ValueError("why")
    return error


def said(error: BaseException) -> tuple[Any, ...]:
    """All that an exception says."""
    chained = error.__cause__ and said(error.__cause__)
    return type(error), str(error), repr(error), error.args, vars(error), error.__suppress_context__, chained


@each_row("how", ROUND_TRIPS)
@each_row("kind", error_classes(), ids=lambda kind: kind.__name__)
def test_every_error_survives(kind: type[BaseException], how: str) -> None:
    """An exception comes back from every pickle protocol and from copy with all that it says."""
    error = made(kind)
    assert said(ROUND_TRIPS[how](error)) == said(error)


class AskedTooOftenError(RateLimitError):
    """A user's own error: an `__init__` that takes other things, and a slot."""

    __slots__ = ("where",)

    def __init__(self, *, where: str) -> None:
        super().__init__(f"too often: {where}", status_code=429)
        self.where = where
        self.lock: Any = Lock()


def test_errors_of_users() -> None:
    """Classes that users derive from ours survive too, without what can't be pickled; a note says what that was."""
    error = AskedTooOftenError(where="here")
    loaded = pickle.loads(pickle.dumps(error))
    assert (type(loaded), str(loaded), loaded.where, loaded.status_code) == (type(error), str(error), "here", 429)
    assert loaded.__notes__ == ["left out by pickle: the attribute 'lock', lock"]
    assert not hasattr(loaded, "lock")
    assert copy.copy(error).lock is copy.deepcopy(error).lock is error.lock


def test_groups() -> None:
    """A group of errors survives, as a member of another error's chain too."""
    group = ExceptionGroup("both", [made(RateLimitError), ExceptionGroup("inner", [made(IncompleteStreamError)])])
    error = APIError("failed", provider="acme")
    error.__cause__ = group
    for loaded in (pickle.loads(pickle.dumps(group)), pickle.loads(pickle.dumps(error)).__cause__):
        first, inner = loaded.exceptions
        assert said(first) == said(group.exceptions[0])
        assert said(inner.exceptions[0]) == said(made(IncompleteStreamError))


def test_causes() -> None:
    """A chain of causes is rebuilt without the requests in it, whose headers hold the key."""
    error, middle = StreamfoldError("first"), RateLimitError("second", status_code=429)
    request = httpx.Request("POST", "https://example.com", headers={"Authorization": "Bearer sk-secret"})
    third = httpx.ReadTimeout("third", request=request)
    error.__cause__, middle.__cause__, third.__cause__ = middle, third, OSError(5, "fourth")
    data = pickle.dumps(error)
    assert b"sk-secret" not in data
    loaded, chain = pickle.loads(data), []
    while loaded is not None:
        chain.append((type(loaded), str(loaded)))
        loaded = loaded.__cause__
    assert chain[:2] == [(StreamfoldError, "first"), (RateLimitError, "second")]
    assert chain[2:] == [(httpx.ReadTimeout, "third"), (OSError, "[Errno 5] fourth")]


def test_causes_that_cannot_be_rebuilt() -> None:
    """Of such a cause its text is kept, in a note."""

    class HiddenError(Exception):
        pass

    error = StreamfoldError("first")
    error.__cause__ = HiddenError("why")
    loaded = pickle.loads(pickle.dumps(error))
    assert (loaded.__cause__, loaded.__notes__) == (None, ["left out by pickle: the cause, HiddenError: why"])


def test_errors_that_lead_to_each_other() -> None:
    """A circle of causes is pickled and copied like any other object."""
    first, second = StreamfoldError("first"), StreamfoldError("second")
    first.__cause__, second.__cause__, first.me = second, first, first  # type: ignore[attr-defined]
    for loaded in (pickle.loads(pickle.dumps(first)), copy.deepcopy(first)):
        assert loaded.__cause__.__cause__ is loaded is loaded.me is not first


def test_the_error_of_a_value_that_does_not_fit() -> None:
    """The pydantic error behind it is kept."""

    class Row(BaseModel):
        a: int

    with pytest.raises(InvalidReplyError) as caught:
        Reply(text='{"a": "x"}').parse_as(Row)
    loaded = pickle.loads(pickle.dumps(caught.value))
    assert str(loaded.__cause__) == str(caught.value.__cause__)
    assert loaded.reply == caught.value.reply


async def test_resume_after_pickle() -> None:
    """A pickled error holds no provider, and says so when it is asked to continue."""
    async with ScriptedProvider([say("It"), fail("overloaded")]) as model:
        with pytest.raises(StreamError) as caught:
            await model.chat("Hi")
    error = caught.value
    assert error.continuation is not None is not copy.copy(error).continuation
    assert copy.deepcopy(error).continuation is error.continuation
    loaded = pickle.loads(pickle.dumps(error))
    assert (loaded.partial, loaded.continuation, str(loaded)) == (error.partial, None, str(error))
    with pytest.raises(StreamfoldError, match="was pickled"):
        loaded.resume()


def refused() -> None:
    """What a worker process does."""
    raise made(RateLimitError)


@pytest.mark.slow
@pytest.mark.parametrize("method", pick(multiprocessing.get_all_start_methods(), ["spawn"]))
def test_pools_of_processes(method: str) -> None:
    """Pools hand an error on from the process in which it was raised."""
    context = multiprocessing.get_context(method)
    with context.Pool(1) as pool, pytest.raises(RateLimitError) as caught:
        pool.apply(refused)
    with ProcessPoolExecutor(1, mp_context=context) as executor, pytest.raises(RateLimitError) as other:
        executor.submit(refused).result()
    for error in (caught.value, other.value):
        assert (str(error), error.partial, error.status_code) == (str(made(RateLimitError)), PARTIAL, 429)
