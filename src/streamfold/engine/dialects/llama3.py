"""Llama 3: the whole message is a JSON object with `name` and `parameters`, or a list of Python calls.

An answer may be JSON as well, and a user waits for it. So an object is held back only as long as it can be a call: as
its first key is one of a call's. Python is read by its literals. Nothing is ever evaluated.
"""

from __future__ import annotations

import ast
import json
import re
import warnings

from .entries import read_entry
from .reader import Family, Reader, Verdict
from .scanner import NOT_SPACE, Reading, drop, markers

__all__ = ["Llama3"]

PYTHON_TAG = "<|python_tag|>"


class Llama3(Family):
    """Both forms, at the head of the message; further objects behind it, with a semicolon or white space between."""

    heads = (PYTHON_TAG, "{", "[")
    followers = (";", "{")
    thinks = False

    def read(self, text: Reader, marker: str) -> Reading[Verdict]:
        if marker in (PYTHON_TAG, ";"):
            yield from text.span(NOT_SPACE, drop)
            marker = yield from text.expect(markers("{") if marker == ";" else markers("{", "["))
        if marker == "{":
            return (yield from self._object(text))
        if marker == "[":
            return (yield from self._python(text))
        return Verdict.DECLINED

    def _object(self, text: Reader) -> Reading[Verdict]:
        begun = ["{"]
        yield from text.span(NOT_SPACE, begun.append)
        key = yield from text.expect(_KEYS)
        begun.append(key)
        yield from text.span(NOT_SPACE, begun.append)
        if not key or not (yield from text.expect(markers(":"))):
            return Verdict.DECLINED
        value, closed = yield from text.value("".join(begun) + ":")
        if not closed:
            # Servers write the name first; anything else that is cut off was an answer in JSON.
            return text.unfinished("a tool call") if key == '"name"' else Verdict.TEXT
        try:
            entry = read_entry(value, ("parameters", "arguments"))
        except ValueError:
            return Verdict.TEXT
        if entry is None or entry.arguments is None:
            return Verdict.TEXT
        return text.call(entry.name, entry.arguments)

    def _python(self, text: Reader) -> Reading[Verdict]:
        begun = ["["]
        yield from text.span(NOT_SPACE, begun.append)
        name: list[str] = []
        yield from text.span(_NO_NAME, name.append)
        begun += name
        yield from text.span(NOT_SPACE, begun.append)
        named = "".join(name).replace(".", "_").isidentifier()
        if not named or not (yield from text.expect(markers("("))):
            return Verdict.DECLINED
        value, closed = yield from text.value("".join(begun) + "(", "\"'")
        if not closed:
            return text.unfinished("a list of tool calls")
        try:
            calls = _python_calls(value)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            return Verdict.TEXT
        for function, arguments in calls:
            text.call(function, arguments)
        return Verdict.TAKEN


_KEYS = markers('"name"', '"parameters"', '"arguments"', '"type"')
_NO_NAME = re.compile(r"[^\w.]")


def _python_calls(source: str) -> list[tuple[str, str]]:
    """The names and arguments of a list of calls with keywords and literals; any exception if it is anything else."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a pattern such as "\d" is no fault of ours
        tree = ast.parse(source, mode="eval").body
    if not isinstance(tree, ast.List):
        raise ValueError("not a list")
    calls = []
    for call in tree.elts:
        if not isinstance(call, ast.Call) or call.args:
            raise ValueError("not a call with keywords")
        arguments = {}
        for keyword in call.keywords:
            if keyword.arg is None:
                raise ValueError("not a keyword")
            arguments[keyword.arg] = ast.literal_eval(keyword.value)
        calls.append((_dotted(call.func), json.dumps(arguments, ensure_ascii=False, allow_nan=False)))
    return calls


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    raise ValueError("not a name")
