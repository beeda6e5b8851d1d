"""Keeps a turn as the provider sent it inside a framework's message, and restores it if unchanged.

A provider wants more back than frameworks have a place for: signatures, encrypted reasoning, the model's own text of
arguments. Changes that a program makes in a framework's message have precedence.
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
    """A turn inside a framework's message.

    Attributes:
        message: the turn.
        digest: of what the framework's message showed.
    """

    message: Message
    digest: str

    @classmethod
    def load(cls, carried: Mapping[str, Any] | None) -> Self | None:
        """Returns the turn in what a framework's message carries for us; None if there is none."""
        found = (carried or {}).get(_KEY)
        return cls(Message.from_dict(found["message"]), found["shown"]) if isinstance(found, dict) else None

    def shows(self, *shown: object) -> bool:
        """Returns whether the framework's message still shows what it showed when the turn was kept."""
        return self.digest == _digest(shown)

    def call(self, call_id: str, name: str, arguments: Any) -> ToolCall | None:
        """Returns the call with this id, if it has the same name and arguments; None otherwise."""
        shown = (name, canonical_arguments(arguments))
        known = next((call for call in self.message.tool_calls if call.id == call_id), None)
        return known if known and (known.name, canonical_arguments(known.arguments_json)) == shown else None


def keep_turn(message: Message, *shown: object) -> dict[str, Any]:
    """Returns what a framework's message has to carry, so that `KeptTurn` finds the turn.

    Args:
        shown: what the framework's message shows of the turn. It need not be JSON data.
    """
    return {_KEY: {"message": message.to_dict(), "shown": _digest(shown)}}


def _digest(shown: object) -> str:
    text = json.dumps(shown, sort_keys=True, default=_as_json)
    return sha256(text.encode()).hexdigest()


def _as_json(value: object) -> Any:
    return json.loads(to_json(value, bytes_mode="base64", fallback=repr))


def canonical_arguments(arguments: str | Mapping[str, Any] | None) -> str:
    """Returns arguments as JSON text that is the same for the same value; a text that isn't JSON unchanged."""
    try:
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return str(arguments)
    return json.dumps(value or {}, sort_keys=True)


def warn_left_out(kinds: Iterable[str], what: str, *, maker: str | None, changed: bool) -> None:
    """Warns of parts of an answer that can't be sent: those of another model's answer, or of a changed one.

    Args:
        kinds: the kinds of the parts.
        what: the framework's word for parts.
        maker: who gave the answer, if known.
    """
    if names := sorted(set(kinds)):
        why = f"of an answer that {maker or 'another model'} gave{' and that was changed' if changed else ''}"
        text = f"{why}, streamfold can't send the {what} {', '.join(names)}: they are left out"
        warnings.warn(text, UserWarning, stacklevel=3)


def file_reference(file_id: str | None) -> dict[str, str | None]:
    """Returns the arguments of a file part for the id of an uploaded file. Google's ids are addresses."""
    return {"url": file_id, "file_id": None} if file_id and "://" in file_id else {"file_id": file_id}


def argument_metadata(call: ToolCall) -> dict[str, Any]:
    """Returns the kind of a call that isn't a function, or the text of arguments that their value doesn't give."""
    if call.kind != "function":
        return {"kind": call.kind}
    same = call.error or call.raw_arguments == _written(call.arguments)
    return {} if same else {"arguments": call.raw_arguments}


def read_call(call_id: str, name: str, value: Any, kept: dict[str, Any]) -> ToolCall:
    """Returns a call from the value of its arguments, with the model's own text if that has the same value."""
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
