"""Parses the requests that clients of Gemini's API send. Field names may be in camel case or snake case."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...adapters.gemini import SIGNATURE
from ...errors import ConfigError
from ...jsontext import dump_compact
from ...requests import ObjectReader, Options, Request, ResponseFormat, kind_of
from ...requests.schema import from_openapi
from ...types import (
    AudioPart,
    FilePart,
    HostedTool,
    ImagePart,
    MediaPart,
    Message,
    ReadToolChoice,
    TextPart,
    Tool,
    ToolCall,
    hosted_tool,
    system,
)
from ..request_parsing import STANDARD_ALPHABET, read_google_base64, read_google_choice, read_stop, unread_fields

_MEDIA = {"image": ImagePart, "audio": AudioPart}
_UNDERSCORE = re.compile(r"_([a-z0-9])")


def camel_case(value: Any) -> Any:
    """Converts the field names of an object to camel case. Nested objects and other values stay unchanged.

    >>> camel_case({"inline_data": {"mime_type": "image/png"}})
    {'inlineData': {'mime_type': 'image/png'}}
    """
    if not isinstance(value, Mapping):
        return value
    return {camel_name(str(name)): member for name, member in value.items()}


def camel_name(name: str) -> str:
    """Returns a name in camel case.

    >>> camel_name("generation_config")
    'generationConfig'
    """
    return _UNDERSCORE.sub(lambda found: found[1].upper(), name)


def parts_of(content: Any, where: str) -> list[Any]:
    """Returns the parts of an entry of `contents`, with field names in camel case."""
    parts = ObjectReader(camel_case(content), where).any("parts")
    if isinstance(parts, Mapping):
        parts = [parts]
    if not isinstance(parts, list):
        problem = "is missing" if parts is None else f"is {kind_of(parts)}"
        raise ConfigError(f"{where}.parts {problem}: it must be a list")
    return [camel_case({"text": part} if isinstance(part, str) else part) for part in parts]


@dataclass(slots=True)
class _Turn:
    """A message of the model that isn't complete yet, because the next entry of `contents` may continue the message."""

    text: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    parts: list[dict[str, Any]] = field(default_factory=list)


class _Reader:
    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._turn: _Turn | None = None
        self._open: list[ToolCall] = []  # calls of the last turn without a result
        self._made = 0

    def messages(self) -> list[Message]:
        self._end_turn()
        return self._messages

    def read(self, content: Any, where: str) -> None:
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
        turn, self._turn = self._turn, None
        if turn is not None and any(part != {"text": ""} for part in turn.parts):
            self._open = list(turn.calls)
            text, reasoning = "".join(turn.text) or None, "".join(turn.thoughts) if turn.thoughts else None
            extras = {"blocks": turn.parts}
            self._messages.append(Message("assistant", text, tuple(turn.calls), reasoning=reasoning, extras=extras))

    def _said(self, turn: _Turn, part: Any, where: str) -> None:
        fields = ObjectReader(part, where)
        part = dict(part)
        if isinstance(signature := part.get(SIGNATURE), str):
            part[SIGNATURE] = signature.translate(STANDARD_ALPHABET)
        if (called := fields.object("functionCall")) is not None:
            call_id, name, arguments = called.text("id"), called.need("name"), called.mapping("args") or {}
            if not call_id:
                self._made += 1
                call_id = f"call_{self._made}_{name}"  # the same in every request that sends this conversation
            call = ToolCall.from_text(call_id, name, dump_compact(arguments))
            turn.calls.append(call)
            part["functionCall"] = {**part["functionCall"], "name": call.name, "args": call.arguments}
        elif (text := fields.text("text")) is not None:
            (turn.thoughts if fields.flag("thought") else turn.text).append(text)
        turn.parts.append(part)

    def _asked(self, parts: list[Any], where: str) -> list[Message]:
        """Converts an entry of `contents` with the role `user` to a tool message for each tool result, followed by a
        user message with the other parts."""
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
            call_id, name = found.id, ""  # other APIs have no field for the name
        text, failed = _result_text(fields.mapping("response") or {})
        media = [
            _part(camel_case(part), fields.at(f"parts[{at}]")) for at, part in enumerate(fields.items("parts") or ())
        ]
        content = (*([TextPart(text)] if text else []), *media) if media else text
        return Message("tool", content, tool_call_id=call_id or name, name=name or None, error=failed)


def _result_text(response: dict[str, Any]) -> tuple[str, bool]:
    """Returns the text of a tool result, and True if the tool failed.

    If the object has only the field `output` or only `error`, the text is this field's value. Otherwise the text is the
    whole object: https://ai.google.dev/api/caching#FunctionResponse
    """
    if response.keys() == {"output"} or response.keys() == {"error"}:
        ((name, value),) = response.items()
        return value if isinstance(value, str) else dump_compact(value), name == "error"
    return dump_compact(response), "error" in response


def _part(part: Any, where: str) -> TextPart | MediaPart:
    match part:
        case {"text": _}:
            return TextPart(ObjectReader(part, where).string("text"))
        case {"inlineData": Mapping() as blob}:
            fields = ObjectReader(camel_case(blob), f"{where}.inlineData")
            kind, data = fields.need("mimeType"), read_google_base64(fields.string("data"), fields.at("data"))
            return _media(kind, data=data, name=fields.text("displayName"))
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


# The parser refuses fields without which the request has another meaning: several candidates, log probabilities and,
# for other providers, tools and caches of Google. Other fields that only this API has stay in `extra_body`.

_LEVELS = ("minimal", "low", "medium", "high")
_NO_TOOLS: dict[str, Any] = {"type": "object", "properties": {}}


def parse_gemini_request(body: Any, model: str, *, native: bool = False) -> Request:
    """Parses the JSON body of a request to Gemini's API.

    Args:
        model: the model's name, which a client sends in the path of the URL.
        native: True if the provider has Gemini's API. Tools that Google runs, and cached content, are then sent to the
            provider unchanged.

    Raises:
        ConfigError: the body isn't a valid request, or contains something that the provider doesn't support. The error
            message begins with the path of the field.
    """
    fields = ObjectReader(camel_case(body))
    fields.any("model")  # some clients repeat the model
    messages = tuple(parse_conversation(fields.any("systemInstruction"), fields.any("contents")))
    entries = fields.items("tools") or []
    tools, hosted = _tools(entries)
    if hosted and not native:
        raise ConfigError(f"{hosted} is a hosted tool of Google, which this model doesn't support")
    if not native and fields.any("cachedContent") is not None:
        raise ConfigError("cachedContent isn't supported by this provider: send the content itself")
    calling = ObjectReader(camel_case(fields.any("toolConfig") or {}), "toolConfig")
    choice = _choice(calling.any("functionCallingConfig"), tools)
    config = ObjectReader(camel_case(fields.any("generationConfig") or {}), "generationConfig")
    if config.any("candidateCount") not in (None, 1):
        raise ConfigError("generationConfig.candidateCount must be 1: each request gets one answer")
    if config.flag("responseLogprobs"):
        raise ConfigError("generationConfig.responseLogprobs can't be requested: log probabilities are not supported")
    if (modalities := config.any("responseModalities")) != ["TEXT"]:
        config.put("responseModalities", modalities)
    options = Options(
        temperature=config.number("temperature"),
        top_p=config.number("topP"),
        max_output_tokens=config.limit("maxOutputTokens"),
        stop=read_stop(config.items("stopSequences")),
        seed=config.count("seed"),
        reasoning_effort=_effort(config.any("thinkingConfig")),  # type: ignore[arg-type]
        response_format=_format(config),
        extra_body=unread_fields(fields, toolConfig=calling, generationConfig=config),
    )
    return Request(model, messages, tools, choice, options)


def parse_conversation(system_instruction: Any, contents: Any) -> list[Message]:
    """Converts the request fields `systemInstruction` and `contents` to messages.

    Consecutive contents with the role `model` are converted to one message. A tool call without an id gets an id from
    streamfold. A tool result without an id belongs to the first tool call of the same name that has no result yet.

    Raises:
        ConfigError: a field is invalid. The error message begins with the path of the field.
    """
    opening = _system(system_instruction)
    if isinstance(contents, str):
        contents = [{"role": "user", "parts": [{"text": contents}]}]
    elif isinstance(contents, Mapping):
        contents = [contents]
    if not isinstance(contents, list | None):
        raise ConfigError(f"contents must be a list, not {kind_of(contents)}")
    if not contents:
        raise ConfigError(f"contents is {'missing' if contents is None else 'empty'}: there is nothing to answer")
    reader = _Reader()
    for at, content in enumerate(contents):
        reader.read(content, f"contents[{at}]")
    return [*opening, *reader.messages()]


def _system(given: Any) -> list[Message]:
    if given is None:
        return []
    if isinstance(given, str):
        return [system(given)] if given else []
    parts = parts_of(given, "systemInstruction")
    texts = [ObjectReader(part, f"systemInstruction.parts[{at}]").text("text") or "" for at, part in enumerate(parts)]
    text = "\n\n".join(filter(None, texts))
    return [system(text)] if text else []


# --- tools ------------------------------------------------------------------------------------------------------------


def _tools(entries: list[Any]) -> tuple[tuple[Tool, ...], str | None]:
    """Converts the tools of a request. Also returns the path of the first tool that Google runs, or None."""
    found, hosted = list[Tool](), None
    for at, entry in enumerate(entries):
        fields = ObjectReader(camel_case(entry), f"tools[{at}]")
        for number, declared in enumerate(fields.items("functionDeclarations") or ()):
            found.append(_tool(declared, f"tools[{at}].functionDeclarations[{number}]"))
        for name, value in fields.rest().items():
            hosted = hosted or f"tools[{at}].{name}"
            found.append(hosted_tool(HostedTool({name: value})))
    return tuple(found), hosted


def _tool(declared: Any, where: str) -> Tool:
    fields = ObjectReader(camel_case(declared), where)
    schema, older = fields.mapping("parametersJsonSchema"), fields.mapping("parameters")
    if schema is None and older is not None:
        schema = from_openapi(older)
    name, about = fields.need("name"), fields.text("description") or ""
    return Tool(name, about, schema or _NO_TOOLS, extra=fields.rest())


def _choice(given: Any, tools: tuple[Tool, ...]) -> ReadToolChoice:
    where = "toolConfig.functionCallingConfig"
    fields = ObjectReader(camel_case(given or {}), where)
    given_mode, names = (fields.text("mode") or "AUTO").upper(), fields.items("allowedFunctionNames") or []
    mode = "auto" if given_mode == "MODE_UNSPECIFIED" else given_mode.lower()
    choice = read_google_choice(mode, names, tools, f"{where}.mode", f"{where}.allowedFunctionNames")
    if choice is None:
        raise ConfigError(f"{where}.mode: unknown mode {given_mode!r}. Allowed: AUTO, ANY, NONE, VALIDATED")
    return choice


# --- options ----------------------------------------------------------------------------------------------------------


def _effort(given: Any) -> str | None:
    """Converts a thinking level (Gemini 3) or a token budget (Gemini 2.5) to a reasoning effort."""
    fields = ObjectReader(camel_case(given or {}), "generationConfig.thinkingConfig")
    level, budget = (fields.text("thinkingLevel") or "").lower(), fields.count("thinkingBudget")
    if level in _LEVELS:
        return level
    if level and not level.endswith("unspecified"):
        allowed = ", ".join(_LEVELS).upper()
        raise ConfigError(f"{fields.at('thinkingLevel')}: unknown level {level.upper()!r}. Allowed: {allowed}")
    if budget is None or budget < 0:  # -1: the model decides
        return None
    return "none" if budget == 0 else "low" if budget < 4096 else "medium" if budget < 16384 else "high"


def _format(config: ObjectReader) -> ResponseFormat | None:
    kind, schema = config.text("responseMimeType") or "text/plain", config.mapping("responseJsonSchema")
    older = config.mapping("responseSchema")
    if kind == "text/plain":
        return None
    if kind != "application/json":
        where = config.at("responseMimeType")
        raise ConfigError(f"{where}: {kind!r} can't be requested here. Allowed: text/plain, application/json")
    if schema is None and older is not None:
        schema = from_openapi(older)
    return ResponseFormat() if schema is None else ResponseFormat(schema)
