"""A base class for exceptions that can be pickled and copied, for example to return them from a worker process.

Python pickles an exception as its class and the positional arguments for `__init__`. Unpickling then fails if
`__init__` has keyword-only arguments. Therefore streamfold's errors are unpickled without `__init__`, from their
attributes, notes and cause.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from io import BytesIO
from typing import Any, ClassVar, Self

_ATOMS = (str, bytes, int, float, complex, type(None))


class PicklableError(Exception):
    """An exception that can be pickled and copied with its attributes, whatever arguments its `__init__` has.

    If an attribute can't be pickled, it is dropped, and the unpickled exception has a note with the attribute's name.
    The cause is pickled if it consists of plain data. If it doesn't, a note describes the cause, because exceptions of
    other libraries may contain connections and secrets.
    """

    _local: ClassVar[frozenset[str]] = frozenset()  # attributes that copies share and pickles don't contain

    def __reduce__(self) -> tuple[Any, ...]:
        state, lost = _attributes(self), []
        for name, value in list(state.items()):
            if name in self._local:
                del state[name]
            elif not _is_picklable(value):
                del state[name]
                lost.append(f"left out by pickle: the attribute {name!r}, {type(value).__name__}")
        cause = state.pop("__cause__", None) or self.__cause__
        if cause is not None:
            sealed = _pickled_cause(cause, {id(self)})
            if sealed is None:
                lost.append(f"left out by pickle: the cause, {type(cause).__name__}: {cause}")
            else:
                state = {"__cause__": sealed, **state}
        if lost:
            state["__notes__"] = [*state.get("__notes__", ()), *lost]
        args = tuple(arg if _is_picklable(arg) else repr(arg) for arg in self.args)
        return _made, (type(self), args), state

    def __setstate__(self, state: Mapping[str, Any] | None) -> None:
        for name, value in (state or {}).items():
            object.__setattr__(self, name, value)

    def __copy__(self) -> Self:
        made: Self = _made(type(self), self.args)
        made.__setstate__({"__cause__": self.__cause__, **_attributes(self)})
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made: Self = _made(type(self), self.args)
        memo[id(self)] = made
        state = {"__cause__": self.__cause__, **_attributes(self)}
        copies = {name: value if name in self._local else _deep(value, memo) for name, value in state.items()}
        made.__setstate__({"args": tuple(_deep(arg, memo) for arg in self.args), **copies})
        return made


def _made(kind: type[Any], args: tuple[Any, ...]) -> Any:
    error = kind.__new__(kind, *args)
    error.args = args
    return error


def _attributes(error: BaseException) -> dict[str, Any]:
    """Returns the exception's attributes, including slots. `__suppress_context__` comes last, because setting the cause
    changes it."""
    state: Any = object.__getstate__(error)
    plain, slots = state if isinstance(state, tuple) else (state, None)
    attributes = {**(plain or {}), **(slots or {})}
    if notes := attributes.get("__notes__"):
        attributes["__notes__"] = list(notes)
    return {**attributes, "__suppress_context__": error.__suppress_context__}


def _deep(value: Any, memo: dict[int, Any]) -> Any:
    try:
        return copy.deepcopy(value, memo)
    except Exception:  # the copy shares a lock or a connection
        return value


class _TrialPickler(pickle.Pickler):
    """Tests whether a value can be pickled. Errors of streamfold are assumed to be picklable."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, PicklableError):
            state = {name: inner for name, inner in _attributes(value).items() if name not in value._local}
            return _made, (type(value), value.args), state
        return NotImplemented


def _is_picklable(value: Any) -> bool:
    try:
        _loaded(value)
    except Exception:  # whatever its class raises
        return False
    return True


def _loaded(value: Any) -> Any:
    data = BytesIO()
    _TrialPickler(data).dump(value)
    return pickle.loads(data.getvalue())  # noqa: S301 - it was written one line above


class _PickledException:
    def __init__(self, error: BaseException, seen: set[int]) -> None:
        self._kind = type(error)
        self._args = tuple(_plain(arg, seen) for arg in error.args)
        attributes = _attributes(error).items()
        self._state = {name: _plain(value, seen) for name, value in attributes if _is_plain(value)}
        if error.__cause__ is not None and (cause := _pickled_cause(error.__cause__, seen)) is not None:
            self._state = {"__cause__": cause, **self._state}

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self._kind, self._args), self._state


def _pickled_cause(error: BaseException, seen: set[int]) -> Any:
    """Returns an object to pickle instead of a cause. Returns None if the cause couldn't be restored from the
    object."""
    if id(error) in seen:
        return None
    seen.add(id(error))
    if isinstance(error, PicklableError):
        return error
    as_it_is = [error] if _is_plain(list(vars(error).values())) else []  # necessary for pydantic's errors
    return next((sealed for sealed in (_PickledException(error, seen), *as_it_is) if _is_rebuilt(sealed, error)), None)


def _is_rebuilt(sealed: Any, error: BaseException) -> bool:
    try:
        made = _loaded(sealed)
        return type(made) is type(error) and str(made) == str(error)
    except Exception:  # whatever its class raises
        return False


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return type(value) is dict and _is_plain([*value, *value.values()])
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_plain, value))
    return isinstance(value, (*_ATOMS, BaseException))


def _plain(value: Any, seen: set[int]) -> Any:
    if isinstance(value, BaseException):
        return _pickled_cause(value, seen) or repr(value)
    if type(value) in (list, tuple):
        return type(value)(_plain(inner, seen) for inner in value)
    return value if _is_plain(value) else repr(value)
