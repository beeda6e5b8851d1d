"""Faults as text, for the command line: `status(429, times=2)` is read as it is written in Python, and not run."""

from __future__ import annotations

import ast
from collections.abc import Callable
from inspect import signature

from ..values import ConfigError, did_you_mean
from .vocabulary import FAULTS, Fault


def read_fault(text: str) -> Fault:
    """Reads a fault.

    >>> read_fault("stall(2.5, after_events=1)")
    stall(after_events=1, seconds=2.5)

    Raises:
        ConfigError: the text is not a fault; the message has the allowed names.
    """
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if isinstance(call, ast.Name):  # without arguments, the brackets may be left out
            call = ast.Call(call, [], [])
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise ValueError("it is not written as a call")
        arguments = [ast.literal_eval(each) for each in call.args]
        options = {each.arg: ast.literal_eval(each.value) for each in call.keywords if each.arg}
        if len(options) < len(call.keywords):
            raise ValueError("options have names")
    except (ValueError, SyntaxError, RecursionError) as exc:
        raise ConfigError(f"a fault is written as in Python, as status(429, times=2), not as {text!r}") from exc
    name = call.func.id
    if name not in FAULTS:
        raise ConfigError(f"unknown fault {name!r}{did_you_mean(name, FAULTS)}. Allowed: {', '.join(FAULTS)}")
    kind: Callable[..., Fault] = FAULTS[name]
    try:
        return kind(*arguments, **options)
    except TypeError as exc:
        known = list(signature(kind).parameters)
        wrong = next((f"{option!r}{did_you_mean(option, known)}" for option in options if option not in known), None)
        why = f"unknown option {wrong}" if wrong else str(exc).partition("__init__() ")[2] or str(exc)
        raise ConfigError(f"{text!r}: {why}; {name} takes {', '.join(known)}") from exc
