"""Requests of Gemini's API, read: the inverse of `encode`, for a body that somebody else wrote.

Members are read in camel case and in snake case, as Google reads them. What would change the meaning if it were left
out is refused with its path: several candidates, log probabilities, and before other providers what only Google's
servers have. Other members that only this API has stay in `extra_body`.
"""

from __future__ import annotations

from typing import Any

from ...errors import ConfigError
from ...requests import ObjectReader, Options, Request, ResponseFormat
from ...requests.schema import from_openapi
from ...types import AllowedTools, HostedTool, Message, NamedTool, ReadToolChoice, Tool, hosted_tool, system
from ..openai_request import read_stop
from .camel_case import camel_case
from .parse_contents import parse_contents, parts_of

_LEVELS = ("minimal", "low", "medium", "high")
_NO_TOOLS: dict[str, Any] = {"type": "object", "properties": {}}


def parse_gemini_request(body: Any, model: str, *, native: bool = False) -> Request:
    """Returns the request that a body is. The model is in the path.

    Args:
        native: the provider speaks this API: tools that Google runs, and cached content, are sent as they came.

    Raises:
        ConfigError: it is not a request, or it can't be answered here. The message begins with the path.
    """
    fields = ObjectReader(camel_case(body))
    fields.any("model")  # which some clients repeat
    messages = tuple(parse_conversation(fields.any("systemInstruction"), fields.any("contents")))
    entries = fields.items("tools") or []
    tools, hosted = _tools(entries)
    if hosted and not native:
        raise ConfigError(f"{hosted} is a tool of Google's servers, which this model can't use")
    if not native and fields.any("cachedContent") is not None:
        raise ConfigError("cachedContent: the provider does not have it; send the content itself")
    calling = ObjectReader(camel_case(fields.any("toolConfig") or {}), "toolConfig")
    choice = _choice(calling.any("functionCallingConfig"), tools)
    if left := calling.rest():
        fields.put("toolConfig", left)
    config = ObjectReader(camel_case(fields.any("generationConfig") or {}), "generationConfig")
    if config.any("candidateCount") not in (None, 1):
        raise ConfigError("generationConfig.candidateCount is always 1: one stream carries one answer")
    if config.flag("responseLogprobs"):
        raise ConfigError("generationConfig.responseLogprobs: log probabilities are not passed on")
    options = Options(
        temperature=config.number("temperature"),
        top_p=config.number("topP"),
        max_output_tokens=config.limit("maxOutputTokens"),
        stop=read_stop(config.items("stopSequences")),
        seed=config.count("seed"),
        reasoning_effort=_effort(config.any("thinkingConfig")),  # type: ignore[arg-type]
        response_format=_format(config),
        extra_body=_rest(fields, config),
    )
    return Request(model, messages, tools, choice, options)


def parse_conversation(system_instruction: Any, contents: Any) -> list[Message]:
    """Returns the messages of a conversation, given the members `systemInstruction` and `contents` of a request.

    Raises:
        ConfigError: something in them can't be read. The message begins with the path.
    """
    return [*_system(system_instruction), *parse_contents(contents)]


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
    """The tools, and the path of the first one that Google's servers run."""
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
    mode, names = (fields.text("mode") or "AUTO").upper(), fields.items("allowedFunctionNames") or []
    known = [tool.name for tool in tools if tool.hosted is None]
    for name in names:
        if name not in known:
            raise ConfigError(f"{where}.allowedFunctionNames: there is no function {name!r}")
    match mode:
        case "NONE":
            return "none"
        case "ANY" if not known:
            raise ConfigError(f"{where}.mode demands a call, and there are no functions")
        case "ANY":
            return (
                NamedTool(names[0])
                if len(names) == 1
                else AllowedTools(tuple(names), "required")
                if names
                else "required"
            )
        case "AUTO" | "VALIDATED" | "MODE_UNSPECIFIED":
            return AllowedTools(tuple(names)) if names else "auto"
    raise ConfigError(f"{where}.mode: unknown mode {mode!r}. Allowed: AUTO, ANY, NONE, VALIDATED")


# --- options ----------------------------------------------------------------------------------------------------------


def _effort(given: Any) -> str | None:
    """A thinking level (Gemini 3), or a budget of tokens (Gemini 2.5) as the nearest one."""
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
        raise ConfigError(f"{where}: {kind!r} can't be asked for here. Allowed: text/plain, application/json")
    if schema is None and older is not None:
        schema = from_openapi(older)
    return ResponseFormat() if schema is None else ResponseFormat(schema)


def _rest(fields: ObjectReader, config: ObjectReader) -> dict[str, Any]:
    rest, left = fields.rest(), config.rest()
    if left.get("responseModalities") == ["TEXT"]:
        del left["responseModalities"]
    return {**rest, "generationConfig": left} if left else rest
