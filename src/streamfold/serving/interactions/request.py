"""Parses the requests that clients of Google's Interactions API send. The input is a text, a list of contents, or a
list of steps.

The parser raises ConfigError for a field that it can't leave out without changing the meaning of the request. Such
fields request interactions that Google stores or runs in the background. If the provider has another API, the parser
also raises ConfigError for tools that Google runs. Other fields that only the Interactions API has go to `extra_body`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...errors import ConfigError
from ...jsontext import dump_compact
from ...requests import ObjectReader, Options, Request, ResponseFormat, kind_of
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
from ..request_parsing import read_function, read_google_base64, read_google_choice, read_stop, unread_fields

_MEDIA: dict[str, type[MediaPart]] = {
    "image": ImagePart, "audio": AudioPart, "document": FilePart, "video": FilePart,
}  # fmt: skip
_STORED = ("previous_interaction_id", "background", "agent", "environment", "continuation_token")
_LEVELS = ("minimal", "low", "medium", "high", "xhigh")
_PLAIN = {"model_output": {"type", "content"}, "thought": {"type", "summary"}, "function_call": None}


def parse_interactions_request(body: Any, *, native: bool = False, stored: bool = False) -> Request:
    """Parses the JSON body of a request to the Interactions API.

    Args:
        native: True if the provider has the Interactions API. Tools that Google runs, and response formats other than
            text, are then sent to the provider unchanged.
        stored: True if the client may use interactions that the provider stores. With False, the function raises
            ConfigError for fields that need stored interactions.

    Raises:
        ConfigError: the body isn't a valid request, or contains something that the provider doesn't support. The error
            message begins with the path of the field.
    """
    fields = ObjectReader(body)
    fields.flag("stream")
    model = fields.text("model") or ""
    if not stored:
        fields.any("store")  # a later request that needs a stored interaction is refused
        if asked := [name for name in _STORED if fields.any(name)]:
            raise ConfigError(f"{asked[0]}: interactions aren't stored here; send the whole conversation to a model")
    elif (agent := fields.text("agent")) is not None:
        model = f"agents/{agent}"
    messages = tuple(parse_conversation(fields.any("system_instruction"), fields.any("input")))
    tools = _tools(fields.items("tools") or [], native=native)
    config = ObjectReader(fields.any("generation_config") or {}, "generation_config")
    config.any("thinking_summaries")
    level = config.text("thinking_level")
    if level is not None and level not in _LEVELS:
        allowed = ", ".join(_LEVELS)
        raise ConfigError(f"generation_config.thinking_level: unknown level {level!r}. Allowed: {allowed}")
    choice = _choice(config.any("tool_choice"), tools)
    options = Options(
        temperature=config.number("temperature"),
        top_p=config.number("top_p"),
        max_output_tokens=config.limit("max_output_tokens"),
        stop=read_stop(config.items("stop_sequences")),
        seed=config.count("seed"),
        reasoning_effort=level,  # type: ignore[arg-type]
        response_format=_format(fields, native=native),
        extra_body=unread_fields(fields, generation_config=config),
    )
    return Request(model, messages, tools, choice, options)


def wants_thoughts(body: Mapping[str, Any]) -> bool:
    """Returns True if the client requested summaries of the model's thoughts."""
    config = body.get("generation_config")
    return isinstance(config, Mapping) and config.get("thinking_summaries") == "auto"


# --- the conversation -------------------------------------------------------------------------------------------------


def parse_conversation(instructions: Any, given: Any) -> list[Message]:
    """Converts the request fields `system_instruction` and `input` to messages.

    Raises:
        ConfigError: a field is invalid. The error message begins with the path of the field.
    """
    if not isinstance(instructions, str | None):
        raise ConfigError(f"system_instruction must be a string, not {kind_of(instructions)}")
    opening = [system(instructions)] if instructions else []
    if isinstance(given, str):
        return [*opening, Message("user", given)]
    entries = [given] if isinstance(given, Mapping) else given
    if not isinstance(entries, list) or not entries:
        problem = "missing" if given is None else "empty" if given == [] else kind_of(given)
        raise ConfigError(f"input is {problem}: it must be a text, a list of contents, or a list of steps")
    if all(isinstance(entry, Mapping) and entry.get("type") in ("text", *_MEDIA) for entry in entries):
        return [*opening, _user(entries, "input")]
    return [*opening, *_turns(entries)]


def _turns(steps: list[Any]) -> Iterator[Message]:
    turn: list[dict[str, Any]] = []
    for at, step in enumerate(steps):
        fields = ObjectReader(step, f"input[{at}]")
        kind = fields.need("type")
        if kind not in ("user_input", "function_result") or _ran_on_server(step, turn):
            turn.append(dict(step))
            continue
        if turn:
            yield _turn(turn, at - len(turn))
            turn = []
        if kind == "user_input":
            yield _user(fields.any("content"), f"input[{at}].content")
        else:
            yield _result(fields)
    if turn:
        yield _turn(turn, len(steps) - len(turn))


def _ran_on_server(step: Mapping[str, Any], turn: list[dict[str, Any]]) -> bool:
    """Returns True if a step is the result of a function that Google ran. The model's turn continues after such a
    result."""
    calls = [made.get("id") for made in turn if made.get("type") == "function_call"]
    return step.get("type") == "function_result" and bool(calls) and step.get("call_id") not in calls


def _user(given: Any, where: str) -> Message:
    if isinstance(given, str):
        return Message("user", given)
    parts = _parts(given, where)
    return Message("user", parts[0].text if len(parts) == 1 and isinstance(parts[0], TextPart) else tuple(parts))


def _turn(steps: list[dict[str, Any]], first: int) -> Message:
    texts, thoughts, calls = list[str](), list[str](), list[ToolCall]()
    for at, step in enumerate(steps):
        fields = ObjectReader(step, f"input[{first + at}]")
        match step["type"]:
            case "model_output":
                texts += _texts(fields, "content")
            case "thought":
                thoughts += _texts(fields, "summary")
            case "function_call":
                text = dump_compact(fields.mapping("arguments") or {})
                call = ToolCall.from_text(fields.need("id"), fields.need("name"), text)
                calls.append(call)
                steps[at] = {**step, "name": call.name, "arguments": call.arguments}
    says_more = any(_says_more(step) for step in steps)
    return Message(
        "assistant",
        "".join(texts) or None,
        tuple(calls),
        reasoning="".join(thoughts) if thoughts else None,
        extras={"steps": steps} if says_more else {},
    )


def _says_more(step: dict[str, Any]) -> bool:
    if (known := _PLAIN.get(step["type"], set())) is None:
        return bool(step.get("signature"))
    if not step.keys() <= known:
        return True
    contents = step.get("content") or step.get("summary") or []
    return not isinstance(contents, str) and any(
        not isinstance(one, dict) or not one.keys() <= {"type", "text"} for one in contents
    )


def _texts(fields: ObjectReader, name: str) -> list[str]:
    contents = fields.any(name)
    if isinstance(contents, str):
        return [contents]
    if not isinstance(contents, list | None):
        raise ConfigError(f"{fields.at(name)} must be a string or a list of contents, not {kind_of(contents)}")
    found = (one.get("text") for one in contents or () if isinstance(one, Mapping))
    return [text for text in found if isinstance(text, str)]


def _result(fields: ObjectReader) -> Message:
    call_id, result = fields.need("call_id"), fields.any("result")
    failed = bool(fields.flag("is_error"))
    if isinstance(result, list) and result and all(isinstance(one, Mapping) and "type" in one for one in result):
        return Message("tool", tuple(_parts(result, fields.at("result"))), tool_call_id=call_id, error=failed)
    text = result if isinstance(result, str) else "" if result is None else dump_compact(result)
    return Message("tool", text, tool_call_id=call_id, error=failed)


def _parts(contents: Any, where: str) -> list[TextPart | MediaPart]:
    contents = [contents] if isinstance(contents, Mapping) else contents
    if not isinstance(contents, list):
        raise ConfigError(f"{where} must be a list of contents, not {kind_of(contents)}")
    return [_part(content, f"{where}[{at}]") for at, content in enumerate(contents)]


def _part(content: Any, where: str) -> TextPart | MediaPart:
    fields = ObjectReader(content, where)
    kind = fields.need("type")
    if kind == "text":
        return TextPart(fields.string("text"))
    if (made := _MEDIA.get(kind)) is None:
        raise ConfigError(f"{where}.type is {kind!r}. Allowed: text, {', '.join(_MEDIA)}")
    source: dict[str, Any] = {}
    if made is ImagePart and (level := fields.text("resolution")) in ("low", "high"):
        source["detail"] = level
    if (data := fields.text("data")) is None:
        return made(url=fields.need("uri"), media_type=fields.text("mime_type"), **source)
    return made(data=read_google_base64(data, fields.at("data")), media_type=fields.need("mime_type"), **source)


# --- tools and options ------------------------------------------------------------------------------------------------


def _tools(entries: list[Any], *, native: bool) -> tuple[Tool, ...]:
    found = []
    for at, entry in enumerate(entries):
        fields = ObjectReader(entry, f"tools[{at}]")
        if (kind := fields.any("type")) == "function":
            found.append(read_function(fields))
        elif native:
            found.append(hosted_tool(HostedTool(entry)))
        else:
            raise ConfigError(f"tools[{at}].type is {kind!r}, a tool of Google's servers, which this model can't use")
    return tuple(found)


def _choice(given: Any, tools: tuple[Tool, ...]) -> ReadToolChoice:
    where = "generation_config.tool_choice"
    mode, names = "auto" if given is None else given, list[Any]()
    if isinstance(given, Mapping):
        fields = ObjectReader(given.get("allowed_tools") or {}, f"{where}.allowed_tools")
        mode, names = fields.text("mode") or "auto", fields.items("tools") or []
    choice = read_google_choice(mode, names, tools, where, f"{where}.allowed_tools.tools")
    if choice is None:
        raise ConfigError(f"{where}: unknown mode {mode!r}. Allowed: auto, any, none, validated")
    return choice


def _format(fields: ObjectReader, *, native: bool) -> ResponseFormat | None:
    given = fields.any("response_format")
    entries = given if isinstance(given, list) else [given] if given else []
    if native and (len(entries) > 1 or any(isinstance(one, Mapping) and one.get("type") != "text" for one in entries)):
        fields.put("response_format", given)  # images and speech
        return None
    found = None
    for at, entry in enumerate(entries):
        form = ObjectReader(entry, f"response_format[{at}]" if isinstance(given, list) else "response_format")
        kind, media_type, schema = form.text("type"), form.text("mime_type") or "text/plain", form.mapping("schema")
        if kind not in (None, "text") or media_type not in ("text/plain", "application/json"):
            raise ConfigError(f"{form.at('type')}: only text and JSON can be requested here")
        if media_type == "application/json" or schema is not None:
            found = ResponseFormat() if schema is None else ResponseFormat(schema)
    return found
