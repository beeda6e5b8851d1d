"""Stores streamfold's original assistant message in a framework's message, and restores the original if the program
hasn't changed the framework's message.

Providers need data for which frameworks have no field: signatures, encrypted reasoning, the original text of tool call
arguments. If a program changes the framework's message, streamfold sends the changed message.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Self, get_args

from pydantic_core import to_json

from streamfold import Message, ToolCall
from streamfold.serving import canonical_json, parse_object
from streamfold.types import CallKind

_OTHERS: dict[str, CallKind] = {kind: kind for kind in get_args(CallKind) if kind != "function"}
_KEY = "streamfold"  # the member of a framework's message with our data


@dataclass(frozen=True, slots=True)
class KeptTurn:
    """An original assistant message that is stored in a framework's message.

    Attributes:
        message: the original assistant message.
        digest: a hash of the framework message's content at the time when the original was stored in it.
    """

    message: Message
    digest: str

    @classmethod
    def load(cls, carried: Mapping[str, Any] | None) -> Self | None:
        """Returns the original message that is stored in a framework's message; None if it contains no original."""
        found = (carried or {}).get(_KEY)
        return cls(Message.from_dict(found["message"]), found["shown"]) if isinstance(found, dict) else None

    def shows(self, *shown: object) -> bool:
        """Returns True if the content of the framework's message hasn't changed since the original was stored in it."""
        return self.digest == _digest(shown)

    def call(self, call_id: str, name: str, arguments: Any) -> ToolCall | None:
        """Returns the original tool call with this id if its name and arguments are the same; otherwise None."""
        shown = (name, canonical_arguments(arguments))
        known = next((call for call in self.message.tool_calls if call.id == call_id), None)
        return known if known and (known.name, canonical_arguments(known.arguments_json)) == shown else None


def keep_turn(message: Message, *shown: object) -> dict[str, Any]:
    """Returns the data to store in a framework's message, from which `KeptTurn` restores the original message.

    Args:
        shown: the content of the framework's message, of any type.
    """
    return {_KEY: {"message": message.to_dict(), "shown": _digest(shown)}}


def _digest(shown: object) -> str:
    def as_json(value: object) -> Any:
        return json.loads(to_json(value, bytes_mode="base64", fallback=repr))

    return sha256(json.dumps(shown, sort_keys=True, default=as_json).encode()).hexdigest()


def canonical_arguments(arguments: str | Mapping[str, Any] | None) -> str:
    """Returns tool call arguments as canonical JSON text. Returns a text that isn't JSON unchanged."""
    try:
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return str(arguments)
    return json.dumps(value or {}, sort_keys=True)


def warn_left_out(kinds: Iterable[str], what: str, *, maker: str | None, changed: bool) -> None:
    """Warns that parts of a response can't be sent to the provider, because the response was changed or comes from
    another model.

    Args:
        kinds: the kinds of the parts that can't be sent.
        what: the framework's name for such parts, such as `blocks`.
        maker: the provider that sent the response, if known.
    """
    if names := sorted(set(kinds)):
        source = f"a {'changed ' if changed else ''}response from {maker or 'another model'}"
        text = f"streamfold leaves out these {what} of {source}, because it can't send them: {', '.join(names)}"
        warnings.warn(text, UserWarning, stacklevel=3)


def file_reference(file_id: str | None) -> dict[str, str | None]:
    """Returns the arguments with which a file part refers to an uploaded file. The ids of Google's files are URLs."""
    return {"url": file_id, "file_id": None} if file_id and "://" in file_id else {"file_id": file_id}


def argument_metadata(call: ToolCall) -> dict[str, Any]:
    """Returns the data with which `read_call` restores a tool call's kind and original argument text."""
    if call.kind != "function":
        return {"kind": call.kind}
    same = call.error or call.raw_arguments == _written(call.arguments)
    return {} if same else {"arguments": call.raw_arguments}


def read_call(call_id: str, name: str, value: Any, kept: dict[str, Any]) -> ToolCall:
    """Rebuilds a tool call from its parsed arguments. Unchanged arguments get the model's original text."""
    extra, text = kept.get("extra"), kept.get("arguments")
    extra = extra if isinstance(extra, dict) else None
    if (kind := _OTHERS.get(str(kept.get("kind")))) and isinstance(value, dict):
        raw = value.get("input") if kind == "custom" else _written(value)
        return ToolCall(call_id, name, value, raw if isinstance(raw, str) else "", extra, kind)
    if not isinstance(value, dict):
        raw = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return ToolCall(call_id, name, {"_raw": raw, "_error": "invalid_json"}, raw, extra)
    if isinstance(text, str) and _says(text, value):
        return ToolCall(call_id, name, value, text, extra)
    return ToolCall(call_id, name, value, _written(value), extra)


def _says(text: str, value: dict[str, Any]) -> bool:
    if text.strip() in ("", "null"):  # some models write this for no arguments
        return not value
    try:
        return canonical_json(parse_object(text)) == canonical_json(value)
    except ValueError:
        return False


def _written(value: Any) -> str:
    return canonical_json(value, sort=False)
