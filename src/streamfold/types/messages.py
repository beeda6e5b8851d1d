"""Messages of a conversation, independent of the provider's API."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, get_args

from ..errors import ConfigError, did_you_mean
from .content import (
    AudioPart,
    CacheMark,
    ContentPart,
    FilePart,
    ImagePart,
    TextPart,
    check_cache_mark,
    part_schema,
    read_part,
    write_part,
)
from .hosted_parts import HostedPart
from .hosted_reading import hosted_parts, is_paused
from .hosted_tools import HostedTool
from .mcp_content import read_mcp_result
from .pydantic_support import json_schema_type
from .tool_calls import ToolCall
from .tools import Tool, ToolLike, as_tools

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

Role: TypeAlias = Literal["system", "developer", "user", "assistant", "tool", "function"]
Part: TypeAlias = ContentPart | Mapping[str, Any]
Content: TypeAlias = str | tuple[Part, ...] | None

_ROLES = get_args(Role)
INSTRUCTION_ROLES = ("system", "developer")  # synonyms; only newer models of OpenAI accept the second
_PARTS = (TextPart, ImagePart, FilePart, AudioPart)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation.

    Attributes:
        content: a text, or a sequence of parts. Each part is a `TextPart`, `ImagePart`, `FilePart` or `AudioPart`, or a
            dict in the format of Chat Completions.
        tool_calls: the tool calls of an assistant message. Requests contain their `raw_arguments` exactly as the model
            wrote them.
        tool_call_id: on a tool message, the id of the tool call that produced this result.
        reasoning: the reasoning of an assistant message. `""` if the provider hides the reasoning, None if the model
            didn't reason.
        extras: other fields of the message, under the API's names. streamfold sends your own extras unchanged, and
            extras from an answer only if the provider requires them.
        partial: True if this is the last message and the model must continue its text. Not every API supports
            continuing a text.
        error: True if this is a tool message and the tool failed. The content then describes the failure.
        cache: True, or a lifetime such as "5m" or "1h", to store the conversation up to this message in the provider's
            prompt cache. Message parts and tools have the attribute `cache` too.
        origin: the adapter and the endpoint that returned the message. streamfold sends encrypted reasoning, items and
            signatures only to this endpoint, or to every endpoint if `origin` is None.
        prefix: digests of the earlier messages, for models such as Claude 5.1, which accept their reasoning only after
            the same messages. If a digest no longer matches, streamfold leaves the reasoning out.
        tools: on a system or developer message, functions that the model may call from this message on. On OpenAI's
            Responses API, adding tools here keeps the beginning of the prompt in the cache. On other APIs, streamfold
            adds the functions to the request's list of tools.

    Raises:
        ConfigError: the role or the content is invalid.
    """

    role: Role
    content: str | Sequence[Part] | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)
    partial: bool = False
    error: bool = False
    origin: str | None = field(default=None, compare=False, repr=False)
    cache: CacheMark = field(default=False, kw_only=True)
    prefix: str | None = field(default=None, compare=False, repr=False, kw_only=True)
    tools: tuple[Tool, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if self.role not in _ROLES:
            hint = did_you_mean(str(self.role), _ROLES)
            raise ConfigError(f"the role of a message must be one of {', '.join(_ROLES)}, not {self.role!r}{hint}")
        check_cache_mark(self.cache, "a message")
        if not isinstance(self.content, str | None):
            object.__setattr__(self, "content", _as_parts(self.content, "the content of a message"))
        calls: tuple[Any, ...] = self.tool_calls
        for call in calls:
            if not isinstance(call, ToolCall):
                raise ConfigError(
                    f"the tool calls of a message must be ToolCalls, not {type(call).__name__}: {call!r:.80}"
                )
        if self.tools != ():
            if self.role not in INSTRUCTION_ROLES:
                raise ConfigError(
                    f"only system and developer messages can add tools, and the role of this message is {self.role!r}"
                )
            object.__setattr__(self, "tools", as_tools(self.tools))
            for tool in self.tools:
                if tool.kind != "function" and not isinstance(tool.hosted, HostedTool):
                    raise ConfigError(
                        f"the tools of a message must be functions or HostedTool(...): {tool.name!r} is neither"
                    )

    @property
    def text(self) -> str:
        """The text of all text parts together, or "" if the message has no text parts. Other parts, such as images, are
        ignored."""
        if isinstance(self.content, str | None):
            return self.content or ""
        return "".join(map(_text_of, self.content))

    @property
    def hosted(self) -> tuple[HostedPart, ...]:
        """The steps of hosted tools in this message; see `Reply.hosted`."""
        return hosted_parts(self.extras, {call.id for call in self.tool_calls})

    @property
    def paused(self) -> bool:
        """True if the model hasn't finished this turn; see `Reply.paused`."""
        return self.role == "assistant" and is_paused(self.extras)

    def to_dict(self) -> dict[str, Any]:
        """Returns the message as JSON data. The dict has no keys for empty fields. Bytes are encoded as base64."""
        out: dict[str, Any] = {"role": self.role}
        if self.content is not None:
            parts = self.content
            out["content"] = parts if isinstance(parts, str) else [write_part(part) for part in parts]
        if self.tool_calls:
            out["tool_calls"] = [_write_call(call) for call in self.tool_calls]
        for name in _WORDS:
            if (value := getattr(self, name)) is not None:
                out[name] = value
        if self.extras:
            out["extras"] = dict(self.extras)
        for name in (*_FLAGS, "cache"):
            if value := getattr(self, name):
                out[name] = value
        if self.tools:
            out["tools"] = [_write_tool(tool) for tool in self.tools]
        return out

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, where: str = "message") -> Self:
        """Parses the output of `to_dict`. Raises ConfigError if a field is invalid. The error message contains the name
        of the field."""
        if not isinstance(data, Mapping):
            raise ConfigError(f"{where} must be an object, not {type(data).__name__}")
        _check(data, _MEMBERS, where)
        if (role := data.get("role")) not in _ROLES:
            raise ConfigError(f"{where}.role must be one of {', '.join(_ROLES)}, not {role!r}")
        content, calls = data.get("content"), data.get("tool_calls", [])
        if isinstance(content, list):
            content = tuple(read_part(part, f"{where}.content[{at}]") for at, part in enumerate(content))
        members = {name: value for name, value in data.items() if name not in ("content", "tool_calls")}
        read = tuple(_read_call(call, f"{where}.tool_calls[{at}]") for at, call in enumerate(calls))
        return cls(content=content, tool_calls=read, **members)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> CoreSchema:
        return json_schema_type(cls, cls.from_dict, cls.to_dict, _schema())

    def to_json(self) -> str:
        """Returns the message as JSON text. Raises TypeError if the extras can't be converted to JSON."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Parses the output of `to_json`. Raises ConfigError if the text isn't the JSON text of a message."""
        try:
            data = json.loads(text)
        except ValueError as exc:
            raise ConfigError(f"the text is not a message in JSON: {exc}") from exc
        return cls.from_dict(data)


MessageLike: TypeAlias = Message | Mapping[str, Any]
Messages: TypeAlias = str | Iterable[MessageLike]

_WORDS = ("tool_call_id", "name", "reasoning", "refusal", "origin", "prefix")
_FLAGS = ("partial", "error")
_MEMBERS: dict[str, tuple[type, ...]] = {
    "role": (str,),
    "content": (str, list),
    "tool_calls": (list,),
    **dict.fromkeys(_WORDS, (str,)),
    "extras": (dict,),
    **dict.fromkeys(_FLAGS, (bool,)),
    "cache": (bool, str),
    "tools": (list,),
}
_CALL: dict[str, tuple[type, ...]] = {
    "id": (str,),
    "name": (str,),
    "arguments": (dict,),
    "raw_arguments": (str,),
    "extra": (dict,),
    "kind": (str,),
}
_TYPES: dict[type, str] = {str: "string", dict: "object", bool: "boolean", list: "array"}
_NAMES: dict[type, str] = {str: "a string", list: "a list", dict: "an object", bool: "true or false"}


def _schema() -> dict[str, Any]:
    parts: dict[str, Any] = {"anyOf": [*map(part_schema, _PARTS), {"type": "object"}]}
    call = {
        "type": "object",
        "properties": {name: {"type": _TYPES[kinds[0]]} for name, kinds in _CALL.items()},
        "required": ["id", "name", "arguments", "raw_arguments"],
        "additionalProperties": False,
    }
    members: dict[str, Any] = {name: {"type": _TYPES[kinds[0]]} for name, kinds in _MEMBERS.items()}
    members["role"] = {"enum": list(_ROLES)}
    members["content"] = {"anyOf": [{"type": "string"}, {"type": "array", "items": parts}]}
    members["tool_calls"] = {"type": "array", "items": call}
    members["cache"] = {"enum": [False, True, "5m", "1h"]}
    members["tools"] = {"type": "array", "items": {"type": "object"}}
    return {"type": "object", "properties": members, "required": ["role"], "additionalProperties": False}


def system(content: str | None = None, *, cache: CacheMark = False, tools: Iterable[ToolLike] = ()) -> Message:
    """Creates a system message. See `Message` for `cache` and `tools`."""
    if content is None and tools == ():
        raise ConfigError("system() needs text or tools")
    return Message("system", content, cache=cache, tools=as_tools(tools))


def user(*content: str | Part | Sequence[str | Part], cache: CacheMark = False) -> Message:
    """Creates a user message from texts and parts. A part may be a dict in the format of Chat Completions.

    >>> [type(part).__name__ for part in user("What is this?", ImagePart(url="https://example.com/a.png")).content]
    ['TextPart', 'ImagePart']

    Raises:
        ConfigError: an argument is neither text nor a part. To pass a file path or bytes, call `image`, `file` or
            `audio`.
    """
    if not content:
        raise ConfigError("user() needs text or parts")
    if len(content) == 1 and isinstance(content[0], str):
        return Message("user", content[0], cache=cache)
    parts: list[Any] = []
    for given in content:
        parts += given if isinstance(given, list | tuple) else [given]
    return Message("user", _as_parts(parts, "user()"), cache=cache)


def assistant(
    content: str | None = None,
    *,
    tool_calls: Iterable[ToolCall] = (),
    reasoning: str | None = None,
    partial: bool = False,
) -> Message:
    """Creates an assistant message. To add a reply to the history, use `reply.message` instead.

    Args:
        partial: True if the model must continue this text (Kimi's partial mode). The model's answer won't repeat the
            text.
    """
    if isinstance(tool_calls, ToolCall):
        raise ConfigError("assistant(): tool_calls must be a list of tool calls, not a single tool call")
    return Message("assistant", content, tuple(tool_calls), reasoning=reasoning, partial=partial)


def tool_result(
    call: ToolCall,
    content: object,
    *,
    error: bool = False,
    cache: CacheMark = False,
    acknowledge: bool | Sequence[Mapping[str, Any]] = False,
) -> Message:
    """Creates the tool message that contains a tool's result.

    Args:
        content: a string, a part, a list of texts and parts, or a tool result of the MCP SDK. A value of any other type
            is converted to JSON text.
        error: True if the tool failed. Most APIs have no field for a failure, so streamfold says in the text of the
            message that the tool failed.
        acknowledge: for a tool call of the kind "computer", the safety checks that a person has acknowledged. True
            means all of `ToolCall.pending_safety_checks`.

    Raises:
        ConfigError: the content can't be converted to JSON, or the tool call has no safety checks to acknowledge.
    """
    if not isinstance(call, ToolCall):
        raise ConfigError(f"tool_result() needs the ToolCall that produced the result, not {type(call).__name__}")
    if (result := read_mcp_result(content)) is not None:
        content, error = result.content, error or result.error
    if acknowledge and call.kind != "computer":
        raise ConfigError(
            f"tool_result(acknowledge=...) is only for computer calls: {call.name!r} is a {call.kind} call"
        )
    checks = [dict(check) for check in (call.pending_safety_checks if acknowledge is True else acknowledge or ())]
    extras = {"acknowledged_safety_checks": checks} if checks else {}
    made: str | tuple[Part, ...]
    parts = content if isinstance(content, list | tuple) else [content]
    if any(isinstance(part, _PARTS) for part in parts) and all(isinstance(part, (str, *_PARTS)) for part in parts):
        made = _as_parts(parts, "tool_result()")
    elif isinstance(content, str):
        made = content
    else:
        try:
            made = json.dumps(content, ensure_ascii=False)
        except (TypeError, ValueError) as exc:
            raise ConfigError(f"the result of {call.name!r} is neither text, nor parts, nor JSON data: {exc}") from exc
    return Message("tool", made, tool_call_id=call.id, error=error, cache=cache, extras=extras)


def tool_result_content(message: Message) -> Content:
    """Returns the content of a tool message as requests contain it. If the tool failed, the text begins with an error
    mark.
    """
    content = message.content if isinstance(message.content, str | None) else tuple(message.content)
    if not message.error:
        return content
    if isinstance(content, tuple):
        return (TextPart("Error:"), *content)
    said = content or ""
    if said.lstrip().lower().startswith("error"):
        return said
    return f"Error: {said}" if said else "Error:"


def _text_of(part: Part) -> str:
    text = part.get("text") if isinstance(part, Mapping) else getattr(part, "text", None)
    return text if isinstance(text, str) else ""


def _as_parts(given: Any, where: str) -> tuple[Part, ...]:
    if not isinstance(given, list | tuple):
        raise ConfigError(f"{where} must be text or a list of parts, not {type(given).__name__}: {given!r:.80}")
    for at, part in enumerate(given):
        if not isinstance(part, (str, Mapping, *_PARTS)):
            raise ConfigError(
                f"{where}: part {at} must be text, a part or a dict, not {type(part).__name__}; for a path or"
                " bytes, call image(), file() or audio()"
            )
    return tuple(TextPart(part) if isinstance(part, str) else part for part in given)


def _write_tool(tool: Tool) -> dict[str, Any]:
    if isinstance(tool.hosted, HostedTool):
        return dict(tool.hosted.raw)
    said: dict[str, Any] = {"description": tool.description or None, "strict": tool.strict}
    given = {name: value for name, value in said.items() if value is not None}
    late = {"async": True} if tool.background else {}
    made = {"type": "function", "name": tool.name, **given, **late, "parameters": dict(tool.parameters)}
    if not tool.cache:
        return made
    ttl = {} if tool.cache is True else {"ttl": tool.cache}
    return {**made, "cache_control": {"type": "ephemeral", **ttl}}


def _write_call(call: ToolCall) -> dict[str, Any]:
    out: dict[str, Any] = {
        "id": call.id,
        "name": call.name,
        "arguments": call.arguments,
        "raw_arguments": call.raw_arguments,
    }
    if call.kind != "function":
        out["kind"] = call.kind
    return out if call.extra is None else {**out, "extra": call.extra}


def _read_call(data: Any, where: str) -> ToolCall:
    if not isinstance(data, dict):
        raise ConfigError(f"{where} must be an object, not {type(data).__name__}")
    _check(data, _CALL, where)
    for name in ("id", "name", "arguments", "raw_arguments"):
        if name not in data:
            raise ConfigError(f"{where}.{name} is missing")
    return ToolCall(**data)


def _check(data: Mapping[str, Any], known: Mapping[str, tuple[type, ...]], where: str) -> None:
    for name, value in data.items():
        if name not in known:
            raise ConfigError(f"{where}.{name} is unknown. Allowed: {', '.join(known)}")
        if not isinstance(value, known[name]):
            allowed = " or ".join(_NAMES[kind] for kind in known[name])
            raise ConfigError(f"{where}.{name} must be {allowed}, not {type(value).__name__}")
