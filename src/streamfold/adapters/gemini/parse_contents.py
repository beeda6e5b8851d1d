"""Gemini's contents as a conversation: the inverse of `encode_contents.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...errors import ConfigError
from ...jsontext import dump_compact, read_arguments
from ...requests import ObjectReader, kind_of
from ...types import AudioPart, FilePart, ImagePart, MediaPart, Message, TextPart, ToolCall, from_base64
from .camel_case import camel_case
from .signatures import SIGNATURE

_STANDARD = str.maketrans("-_", "+/")  # Google's client for Python writes the alphabet of URLs
_MEDIA = {"image": ImagePart, "audio": AudioPart}


def parse_contents(given: Any) -> list[Message]:
    """Returns the messages that contents are. Neighbouring contents of the model are one turn.

    Calls without an id get one, and a result without one belongs to the first open call of its name.

    Raises:
        ConfigError: something in them can't be read. The message begins with the path.
    """
    if isinstance(given, str):
        given = [{"role": "user", "parts": [{"text": given}]}]
    elif isinstance(given, Mapping):
        given = [given]
    if not isinstance(given, list | None):
        raise ConfigError(f"contents must be a list, not {kind_of(given)}")
    if not given:
        raise ConfigError(f"contents is {'missing' if given is None else 'empty'}: there is nothing to answer")
    reader = _Reader()
    for at, content in enumerate(given):
        reader.read(content, f"contents[{at}]")
    return reader.messages()


def parts_of(content: Any, where: str) -> list[Any]:
    """Returns the parts of a content, each with its members in camel case."""
    parts = ObjectReader(camel_case(content), where).any("parts")
    if isinstance(parts, Mapping):
        parts = [parts]
    if not isinstance(parts, list):
        problem = "is missing" if parts is None else f"is {kind_of(parts)}"
        raise ConfigError(f"{where}.parts {problem}: it must be a list")
    return [camel_case({"text": part} if isinstance(part, str) else part) for part in parts]


@dataclass(slots=True)
class _Turn:
    """A turn of the model that is being read."""

    text: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    parts: list[dict[str, Any]] = field(default_factory=list)

    def message(self) -> Message:
        return Message(
            "assistant",
            "".join(self.text) or None,
            tuple(self.calls),
            reasoning="".join(self.thoughts) if self.thoughts else None,
            extras={"blocks": self.parts} if self.parts else {},
        )


class _Reader:
    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._turn: _Turn | None = None
        self._open: list[ToolCall] = []  # calls of the last turn that have no result yet
        self._made = 0

    def messages(self) -> list[Message]:
        """Returns the messages so far."""
        self._end_turn()
        return self._messages

    def read(self, content: Any, where: str) -> None:
        """Reads the next content."""
        role = ObjectReader(content, where).text("role") or "user"
        parts = parts_of(content, where)
        if role == "model":
            self._turn = self._turn or _Turn()
            for at, part in enumerate(parts):
                self._said(self._turn, part, f"{where}.parts[{at}]")
        elif role in ("user", "function"):  # older clients send results as "function"
            self._end_turn()
            self._messages += self._asked(parts, where)
        else:
            raise ConfigError(f"{where}.role: unknown role {role!r}. Allowed: user, model")

    def _end_turn(self) -> None:
        if self._turn is not None and any(part != {"text": ""} for part in self._turn.parts):
            self._open = list(self._turn.calls)
            self._messages.append(self._turn.message())
        self._turn = None

    def _said(self, turn: _Turn, part: Any, where: str) -> None:
        fields = ObjectReader(part, where)
        part = dict(part)
        if isinstance(signature := part.get(SIGNATURE), str):
            part[SIGNATURE] = signature.translate(_STANDARD)
        if (called := fields.object("functionCall")) is not None:
            call = self._call(called)
            turn.calls.append(call)
            part["functionCall"] = {**part["functionCall"], "name": call.name, "args": call.arguments}
        elif (text := fields.text("text")) is not None:
            (turn.thoughts if fields.flag("thought") else turn.text).append(text)
        turn.parts.append(part)

    def _call(self, fields: ObjectReader) -> ToolCall:
        call_id, name, given = fields.text("id"), fields.need("name"), fields.mapping("args") or {}
        if not call_id:
            self._made += 1
            call_id = f"call_{self._made}_{name}"  # the same in every request that sends this conversation
        text = dump_compact(given)
        return ToolCall(call_id, name, read_arguments([text], repair=False).value, text)

    def _asked(self, parts: list[Any], where: str) -> list[Message]:
        """The results of tools, each a message, and then the rest."""
        results, rest = list[Message](), list[TextPart | MediaPart]()
        for at, part in enumerate(parts):
            fields = ObjectReader(part, f"{where}.parts[{at}]")
            if (result := fields.object("functionResponse")) is not None:
                results.append(self._result(result))
            else:
                rest.append(_part(part, f"{where}.parts[{at}]"))
        if not rest:
            return results
        is_text = len(rest) == 1 and isinstance(rest[0], TextPart)
        return [*results, Message("user", rest[0].text if is_text else tuple(rest))]  # type: ignore[union-attr]

    def _result(self, fields: ObjectReader) -> Message:
        call_id, name = fields.text("id") or "", fields.text("name") or ""
        found = next((call for call in self._open if call_id and call.id == call_id), None)
        found = found or next((call for call in self._open if call.name == name), None)
        if found is not None:
            self._open = [call for call in self._open if call is not found]
            call_id, name = found.id, ""  # other APIs have no place for the name
        text, failed = _result_text(fields.mapping("response") or {})
        media = [
            _part(camel_case(part), fields.at(f"parts[{at}]")) for at, part in enumerate(fields.items("parts") or ())
        ]
        content = (*([TextPart(text)] if text else []), *media) if media else text
        return Message("tool", content, tool_call_id=call_id or name, name=name or None, error=failed)


def _result_text(response: dict[str, Any]) -> tuple[str, bool]:
    """What a function has returned, and whether it is an error.

    "Use "output" key to specify function output and "error" key to specify error details": any other object is the
    output itself. https://ai.google.dev/api/caching#FunctionResponse
    """
    if response.keys() == {"output"} or response.keys() == {"error"}:
        ((name, value),) = response.items()
        return value if isinstance(value, str) else dump_compact(value), name == "error"
    return dump_compact(response), "error" in response


def _part(part: Any, where: str) -> TextPart | MediaPart:
    match part:
        case {"text": str(text)}:
            return TextPart(text)
        case {"inlineData": Mapping() as blob}:
            fields = ObjectReader(camel_case(blob), f"{where}.inlineData")
            kind, data = fields.need("mimeType"), fields.string("data")
            try:
                return _media(kind, data=from_base64(data.translate(_STANDARD)), name=fields.text("displayName"))
            except ValueError as exc:
                raise ConfigError(f"{where}.inlineData.data is {exc}") from None
        case {"fileData": Mapping() as file}:
            fields = ObjectReader(camel_case(file), f"{where}.fileData")
            return _media(fields.text("mimeType"), url=fields.need("fileUri"), name=fields.text("displayName"))
    kinds = ", ".join(part) if isinstance(part, Mapping) else kind_of(part)
    raise ConfigError(
        f"{where} is {kinds or 'empty'}: it can't be sent to this model. Allowed: text, inlineData, fileData,"
        " functionResponse"
    )


def _media(kind: str | None, *, name: str | None, **source: Any) -> MediaPart:
    made = _MEDIA.get((kind or "").partition("/")[0])
    return made(media_type=kind, **source) if made else FilePart(media_type=kind, name=name, **source)
