"""Encodes requests to Gemini's API: the body, contents, parts, tools, the generation config and the thinking config."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError
from ...jsontext import parse_object
from ...requests import read_response_format, with_raw_tools
from ...types import (
    INSTRUCTION_ROLES,
    AllowedTools,
    AudioPart,
    FilePart,
    ImagePart,
    MediaPart,
    Message,
    NamedTool,
    TextPart,
    Tool,
    continuation_token,
    to_base64,
    tool_result_content,
)
from ..content_blocks import arguments_object, blocks_of, read_parts
from ..encoding_report import EncodingReport
from ..prepared_request import deep_merged
from ..thought_signatures import PLACEHOLDER, SIGNATURE, signature_of
from .quirks import GeminiQuirks
from .tools import mixes_tools, tool_entries

if TYPE_CHECKING:
    from ...requests import Request


_SAYS_NOTHING = ("type", "title", "description", "$schema")  # of a function without parameters: it is sent none
_WITH_CACHE = ("systemInstruction", "tools", "toolConfig")


def encode_request(request: Request, quirks: GeminiQuirks, report: EncodingReport) -> dict[str, Any]:
    """Returns the JSON body of a request. Raises ConfigError if the API doesn't support some content of the request."""
    options = request.options
    continued = continued_turn(request)
    opening = next((n for n, message in enumerate(request.messages) if message.role not in INSTRUCTION_ROLES), 0)
    talk, system, late = list[tuple[int, Message]](), list[dict[str, Any]](), list[str]()
    for number, (at, message) in enumerate(request.numbered):
        if message is continued:
            continue  # the token stands for it
        report_unsent(message, f"messages[{at}]", request, quirks, report)
        if message.role not in INSTRUCTION_ROLES:
            talk.append((at, message))
            continue
        system += [part for part in content_parts(message, f"messages[{at}]") if part.get("text") != ""]
        if number > opening:
            late.append(f"messages[{at}]")
    if late:
        detail = f"{', '.join(late)}: a system message inside the conversation was sent with those before it"
        report.warn("history_mismatch", detail)
    contents = encode_contents(talk, request, quirks)
    if quirks.signatures == "required" and sign_open_calls(contents):
        report.warn(
            "lost_reasoning", "tool calls of this turn lack this model's thought signature: a placeholder was sent"
        )
    body: dict[str, Any] = {"contents": contents}
    if system and quirks.system_instruction:
        body["systemInstruction"] = {"parts": system}
    elif system:
        contents[0]["parts"] = [*system, *contents[0]["parts"]]
    if request.tools:
        body["tools"] = tool_entries(request, partial(_tool, quirks))
        functions = any(tool.hosted is None for tool in request.tools)
        if functions and (config := _calling(request, quirks)):
            body["toolConfig"] = {"functionCallingConfig": config}
    if mixes_tools(request, quirks):
        body["toolConfig"] = {**body.get("toolConfig", {}), "includeServerSideToolInvocations": True}
    if config := _generation(request, quirks):
        body["generationConfig"] = config
    body = deep_merged(body, with_raw_tools(body, options.extra_body))
    if continued is not None:
        body["continuationToken"] = continuation_token(continued.extras)
    if "cachedContent" in body and (beside := [name for name in _WITH_CACHE if name in body]):
        raise ConfigError(
            f"extra_body.cachedContent can't be combined with {', '.join(beside)}: put them into the cache"
        )
    return body


def _tool(quirks: GeminiQuirks, tool: Tool) -> dict[str, Any]:
    if tool.kind != "function":
        raise ConfigError(f"the tool {tool.name!r} is a {tool.kind!r}: pass it as HostedTool(...)")
    out: dict[str, Any] = {"name": tool.name, "description": tool.description}
    says = any(value for name, value in tool.parameters.items() if name not in _SAYS_NOTHING)
    if quirks.schemas == "openapi" and says:
        out["parameters"] = dict(tool.parameters)
    elif quirks.schemas == "json" and (says or "properties" not in tool.parameters):  # any members
        out["parametersJsonSchema"] = dict(tool.parameters)
    return out | dict(tool.extra)


def _generation(request: Request, quirks: GeminiQuirks) -> dict[str, Any]:
    options = request.options
    config: dict[str, Any] = {
        "temperature": options.temperature,
        "topP": options.top_p,
        "seed": options.seed,
        "maxOutputTokens": options.max_output_tokens,
        "stopSequences": options.stop_texts or None,
        "thinkingConfig": thinking_config(request),
    }
    wanted = read_response_format(options.response_format)
    if wanted is not None:
        config["responseMimeType"] = "application/json"
        if wanted.schema is not None:
            name = "responseSchema" if quirks.schemas == "openapi" else "responseJsonSchema"
            config[name] = dict(wanted.schema)
    return {name: value for name, value in config.items() if value is not None}


def continued_turn(request: Request) -> Message | None:
    """Returns the incomplete assistant message at the end of the conversation if it contains a continuation token,
    otherwise None.

    https://ai.google.dev/gemini-api/docs/generate-content/long-decode
    """
    last = request.messages[-1] if request.messages else None
    if last is None or not last.paused or not request.came_from_here(last):
        return None
    return last if continuation_token(last.extras) is not None else None


def _calling(request: Request, quirks: GeminiQuirks) -> dict[str, Any] | None:
    match request.tool_choice:
        case "none":
            return {"mode": "NONE"}
        case "required":
            return {"mode": "ANY"}
        case NamedTool(name, hosted=tool) if tool is not None:
            raise ConfigError(f"tool_choice names {name!r}, a hosted tool: only functions can be chosen")
        case NamedTool(name):
            return {"mode": "ANY", "allowedFunctionNames": [name]}
        case AllowedTools(names):
            return {"mode": "ANY", "allowedFunctionNames": list(names)}
        case _ if quirks.validated and any(tool.strict for tool in request.tools):
            return {"mode": "VALIDATED"}  # as AUTO, with the arguments held to their schemas
    return None


# Thinking as a level (Gemini 3) or as a budget of tokens (Gemini 2.5):
# https://ai.google.dev/gemini-api/docs/thinking.

_BUDGETS = {"minimal": 512, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 32768}


def thinking_config(request: Request) -> dict[str, Any] | None:
    """Returns the `thinkingConfig` for the request's effort level, or None if the request has no effort level."""
    effort, family = request.options.reasoning_effort, request.family
    if effort is None:
        return None
    if family.budget is None:
        return {"thinkingLevel": effort.upper(), "includeThoughts": True}
    if effort == "none" and family.thinking != "always":
        return {"thinkingBudget": 0}  # beside includeThoughts Vertex refuses it
    least, most = family.budget
    wanted = {"none": least, "max": most}.get(effort) or _BUDGETS[effort]
    return {"thinkingBudget": min(most, max(least, wanted)), "includeThoughts": True}


# The conversation as Gemini's contents: roles `user` and `model`, results in one content behind their calls.
# https://ai.google.dev/api/caching#Content is the format; the order is that of
# https://ai.google.dev/gemini-api/docs/function-calling.

_RESULT_KEYS = ("output", "error")  # they have a meaning: https://ai.google.dev/api/caching#FunctionResponse


def encode_contents(
    messages: Sequence[tuple[int, Message]], request: Request, quirks: GeminiQuirks
) -> list[dict[str, Any]]:
    """Converts messages to Gemini's contents. Consecutive messages with the same role become one content.

    Raises:
        ConfigError: the API would refuse the conversation.
    """
    contents: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    ids: dict[str, str] = {}
    kind = ""
    for run, group in _grouped(messages):
        if run == "tool":
            order = list(names)
            results = sorted(group, key=lambda found: order.index(found[1].tool_call_id or ""))
            parts = [_result(message, names, ids, f"messages[{at}]") for at, message in results]
        elif run == "model":
            names, ids = _calls(group, request, quirks)
            parts = [
                part for at, message in group for part in _model_parts(message, request, quirks, f"messages[{at}]")
            ]
        else:
            parts = [part for at, message in group for part in content_parts(message, f"messages[{at}]")]
        if not parts:
            continue
        if contents and kind == run != "tool":
            contents[-1]["parts"] += parts
        else:
            contents.append({"role": "model" if run == "model" else "user", "parts": parts})
        kind = run
    if not contents:
        raise ConfigError("messages: Gemini needs a conversation that begins with a user message")
    return contents


def _grouped(messages: Sequence[tuple[int, Message]]) -> Iterator[tuple[str, list[tuple[int, Message]]]]:
    group: list[tuple[int, Message]] = []
    kind = ""
    for at, message in messages:
        found = {"assistant": "model", "tool": "tool"}.get(message.role, "user")
        if found != kind and group:
            yield kind, group
            group = []
        kind = found
        group.append((at, message))
    if group:
        yield kind, group


def _calls(
    messages: Sequence[tuple[int, Message]], request: Request, quirks: GeminiQuirks
) -> tuple[dict[str, str], dict[str, str]]:
    """Returns two mappings for the tool calls in these messages: from ids to names, and from ids to the server's ids.

    If a tool call got a new id because the server used one id twice, the request still contains the server's id.
    """
    names: dict[str, str] = {}
    given: dict[str, str] = {}
    for _, message in messages:
        names |= {call.id: call.name for call in message.tool_calls}
        parts = original_payload(message, request) if quirks.call_ids else None
        for part, call in zip(_calls_for_client(parts or []), message.tool_calls, strict=False):
            if isinstance(own := part["functionCall"].get("id"), str):
                given[call.id] = own
    return names, given


# --- what the model said ----------------------------------------------------------------------------------------------


def _model_parts(message: Message, request: Request, quirks: GeminiQuirks, where: str) -> Iterator[dict[str, Any]]:
    came_as = original_payload(message, request)
    if came_as is not None:
        calls = iter(message.tool_calls)
        of_client = {id(part) for part in _calls_for_client(came_as)}
        for part in came_as:
            if id(part) in of_client:
                call, given = next(calls), part["functionCall"]
                kept = {name: value for name, value in given.items() if name != "id" or quirks.call_ids}
                yield {**part, "functionCall": {**kept, "name": call.name, "args": arguments_object(call)}}
            elif SIGNATURE in part or not (part.get("thought") or part.get("text") == ""):
                yield part  # summaries of thoughts are for people
        return
    yield from (part for part in content_parts(message, where) if part.get("text") != "")
    for call in message.tool_calls:
        part = {"functionCall": {"name": call.name, "args": arguments_object(call)}}
        signature = signature_of(call.extra) if request.came_from_here(message) else None
        yield {**part, SIGNATURE: signature} if signature else part


def original_payload(message: Message, request: Request) -> list[dict[str, Any]] | None:
    """Returns the parts of an assistant message as the API sent them, or None if the program has changed the
    message."""
    parts = blocks_of(message, request)
    if parts is None or any("type" in part for part in parts):  # which only blocks of another API have
        return None
    texts = (part.get("text") for part in parts if not part.get("thought"))
    text = "".join(text for text in texts if isinstance(text, str))  # a proxy may write null
    called = [part["functionCall"].get("name") for part in _calls_for_client(parts)]
    calls = [request.names.get(call.name, call.name) for call in message.tool_calls]
    return parts if (text, called) == (message.text, calls) else None


def report_unsent(message: Message, where: str, request: Request, quirks: GeminiQuirks, report: EncodingReport) -> None:
    """Adds the parts of a message that the request doesn't contain to `report`."""
    if original_payload(message, request) is None:
        report.add_message(message, where, request, lambda call: signature_of(call.extra) is not None)
    report.add_name_and_detail(message, where)
    for at, part in enumerate(message.content if isinstance(message.content, tuple) else ()):
        if isinstance(part, FilePart) and part.name is not None:
            report.members.append(f"{where}.content[{at}].name")


def _calls_for_client(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    calls = [part for part in parts if isinstance(part.get("functionCall"), dict)]
    for answer in (part["functionResponse"] for part in parts if isinstance(part.get("functionResponse"), dict)):
        by = "id" if answer.get("id") else "name"
        ran = next((part for part in calls if part["functionCall"].get(by) == answer.get(by)), None)
        calls = [part for part in calls if part is not ran]
    return calls


def sign_open_calls(contents: list[dict[str, Any]]) -> list[int]:
    """Adds Google's placeholder to tool calls without a signature, after the last user message.

    Only the first tool call in each content gets a placeholder, because the API refuses a placeholder on any other tool
    call (BerriAI/litellm#37541).

    Returns:
        The indexes of the contents that were changed.
    """
    changed = []
    for at in range(len(contents) - 1, -1, -1):
        content = contents[at]
        if content["role"] == "user":
            if not all("functionResponse" in part for part in content["parts"]):
                break
            continue
        first = next((i for i, part in enumerate(content["parts"]) if "functionCall" in part), None)
        if first is not None and not content["parts"][first].get(SIGNATURE):
            content["parts"][first] = {**content["parts"][first], SIGNATURE: PLACEHOLDER}
            changed.append(at)
    return changed


# --- what tools and users said ----------------------------------------------------------------------------------------


def _result(message: Message, names: Mapping[str, str], ids: Mapping[str, str], where: str) -> dict[str, Any]:
    call_id = message.tool_call_id or ""
    response: dict[str, Any] = {"name": names.get(call_id, message.name or ""), "response": _response(message)}
    if call_id in ids:
        response["id"] = ids[call_id]
    if media := [part for part in content_parts(message, where) if "text" not in part]:
        response["parts"] = media
    return {"functionResponse": response}


def _response(message: Message) -> dict[str, Any]:
    """Gemini requires a JSON object as a tool result."""
    text = "\n".join(part["text"] for part in content_parts(message, "") if "text" in part)
    if message.error:
        return {"error": text or str(tool_result_content(message))}
    try:
        value = parse_object(text or "null")
    except ValueError:
        value = text
    if isinstance(value, dict) and value.keys().isdisjoint(_RESULT_KEYS):
        return value
    # With one of the keys it would be read as a result, or a failure, in an object of Google's.
    return {"output": value if text else ""}


def content_parts(message: Message, where: str) -> Iterator[dict[str, Any]]:
    """Converts a message's content to Gemini's parts. Raises ConfigError for content that Gemini doesn't support."""
    for place, part in read_parts(message, where):
        match part:
            case TextPart(text) | {"type": "text", "text": str(text)}:
                yield {"text": text}
            case ImagePart() | FilePart() | AudioPart():
                yield _media(part)
            case _:
                raise ConfigError(f"{place} is {part!r:.120}, a part that Gemini doesn't support")


def _media(part: MediaPart) -> dict[str, Any]:
    if part.data is not None:
        return {"inlineData": {"mimeType": part.media_type, "data": to_base64(part.data)}}
    uri = part.url if part.url is not None else part.file_id
    kind = {"mimeType": part.media_type} if part.media_type else {}
    return {"fileData": {**kind, "fileUri": uri}}
