"""Converts requests to JSON bodies of Gemini's API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

from ...errors import ConfigError
from ...jsontext import parse_object
from ...requests import read_response_format, with_raw_tools
from ...types import (
    INSTRUCTION_ROLES,
    AllowedTools,
    Message,
    NamedTool,
    TextPart,
    continuation_token,
    to_base64,
    tool_result_content,
)
from ..content_blocks import arguments_object, blocks_of, continued_turn, read_text_and_media
from ..encoding_report import EncodingReport
from ..prepared_request import deep_merged, without_none
from ..thought_signatures import PLACEHOLDER, SIGNATURE, signature_of
from .quirks import GeminiQuirks
from .tools import mixes_tools, tool_entries

if TYPE_CHECKING:
    from ...requests import Request


_WITH_CACHE = ("systemInstruction", "tools", "toolConfig")


def encode_request(request: Request, quirks: GeminiQuirks, report: EncodingReport) -> dict[str, Any]:
    """Returns the JSON body of a request. Raises ConfigError if the API doesn't support something in the request."""
    options = request.options
    continued = continued_turn(request)
    talk, system, late = list[tuple[int, Message]](), list[dict[str, Any]](), list[str]()
    for at, message in request.numbered:
        if message is continued:
            continue  # the continuation token replaces the message
        report_unsent(message, f"messages[{at}]", request, quirks, report)
        if message.role not in INSTRUCTION_ROLES:
            talk.append((at, message))
            continue
        system += [part for part in content_parts(message, f"messages[{at}]") if part.get("text") != ""]
        if talk:
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
        body["tools"] = tool_entries(request, quirks)
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


def _generation(request: Request, quirks: GeminiQuirks) -> dict[str, Any]:
    options = request.options
    config = without_none(
        temperature=options.temperature,
        topP=options.top_p,
        seed=options.seed,
        maxOutputTokens=options.max_output_tokens,
        stopSequences=options.stop_texts or None,
        thinkingConfig=thinking_config(request),
    )
    wanted = read_response_format(options.response_format)
    if wanted is not None:
        config["responseMimeType"] = "application/json"
        if wanted.schema is not None:
            name = "responseSchema" if quirks.schemas == "openapi" else "responseJsonSchema"
            config[name] = dict(wanted.schema)
    return config


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
            return {"mode": "VALIDATED"}  # as AUTO, but arguments follow the tools' schemas
    return None


# Thinking as a level (Gemini 3) or as a budget of tokens (Gemini 2.5):
# https://ai.google.dev/gemini-api/docs/thinking.

_BUDGETS = {"minimal": 512, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 32768}


def thinking_config(request: Request) -> dict[str, Any] | None:
    """Returns the field `thinkingConfig` for `reasoning_effort`, or None if the request doesn't set this option."""
    effort, family = request.options.reasoning_effort, request.family
    if effort is None:
        return None
    if family.budget is None:
        return {"thinkingLevel": effort.upper(), "includeThoughts": True}
    if effort == "none" and family.thinking != "always":
        return {"thinkingBudget": 0}  # Vertex AI refuses includeThoughts with this budget
    least, most = family.budget
    wanted = {**_BUDGETS, "none": least, "max": most}[effort]
    return {"thinkingBudget": min(most, max(least, wanted)), "includeThoughts": True}


# Gemini's messages are called contents. Their roles are `user` and `model`. The results of all tool calls of a content
# are in the next content: https://ai.google.dev/api/caching#Content,
# https://ai.google.dev/gemini-api/docs/function-calling.

_Calls: TypeAlias = dict[str, tuple[str, Any]]  # a call's name and Gemini's id, by our id
_KINDS = {"assistant": "model", "tool": "tool"}
_RESULT_KEYS = ("output", "error")  # Gemini interprets these keys: https://ai.google.dev/api/caching#FunctionResponse


def encode_contents(
    messages: Sequence[tuple[int, Message]], request: Request, quirks: GeminiQuirks
) -> list[dict[str, Any]]:
    """Converts messages to the list in Gemini's field `contents`. Consecutive messages with the same role become one
    entry of this list.

    Raises:
        ConfigError: the conversation is empty, or Gemini doesn't support a content part.
    """
    contents: list[dict[str, Any]] = []
    calls: _Calls = {}
    previous = ""
    for kind, entries in groupby(messages, lambda entry: _KINDS.get(entry[1].role, "user")):
        group = list(entries)
        if kind == "tool":
            order = list(calls)
            group.sort(key=lambda entry: order.index(entry[1].tool_call_id or ""))
            parts = [_result(message, calls, f"messages[{at}]") for at, message in group]
        elif kind == "model":
            calls, parts = {}, []
            for at, message in group:
                parts += _model_parts(message, request, quirks, f"messages[{at}]", calls)
        else:
            parts = [part for at, message in group for part in content_parts(message, f"messages[{at}]")]
        if not parts:
            continue
        if contents and previous == kind != "tool":
            contents[-1]["parts"] += parts
        else:
            contents.append({"role": "model" if kind == "model" else "user", "parts": parts})
        previous = kind
    if not contents:
        raise ConfigError("messages: Gemini needs a conversation that begins with a user message")
    return contents


# --- messages of the model --------------------------------------------------------------------------------------------


def _model_parts(
    message: Message, request: Request, quirks: GeminiQuirks, where: str, calls: _Calls
) -> Iterator[dict[str, Any]]:
    """Yields the parts of an assistant message, and adds its tool calls to `calls`.

    A tool call is sent back with Gemini's id. If Gemini used the same id twice, `ToolCall.id` differs from Gemini's id.
    """
    came_as = original_payload(message, request)
    if came_as is not None:
        waiting = iter(message.tool_calls)
        of_client = {id(part) for part in _calls_for_client(came_as)}
        for part in came_as:
            if id(part) in of_client:
                call, given = next(waiting), part["functionCall"]
                kept = {name: value for name, value in given.items() if name != "id" or quirks.call_ids}
                calls[call.id] = (call.name, kept.get("id"))
                yield {**part, "functionCall": {**kept, "name": call.name, "args": arguments_object(call)}}
            elif SIGNATURE in part or not (part.get("thought") or part.get("text") == ""):
                yield part  # thought summaries without a signature are left out
        return
    yield from (part for part in content_parts(message, where) if part.get("text") != "")
    for call in message.tool_calls:
        calls[call.id] = (call.name, None)
        part = {"functionCall": {"name": call.name, "args": arguments_object(call)}}
        signature = signature_of(call.extra) if request.came_from_here(message) else None
        yield {**part, SIGNATURE: signature} if signature else part


def original_payload(message: Message, request: Request) -> list[dict[str, Any]] | None:
    """Returns the parts that this endpoint sent for an assistant message. Returns None if another endpoint wrote the
    message, or if the program has changed it."""
    parts = blocks_of(message, request)
    if parts is None or any("type" in part for part in parts):  # blocks of another API
        return None
    texts = (part.get("text") for part in parts if not part.get("thought"))
    text = "".join(text for text in texts if isinstance(text, str))  # a proxy may send null
    called = [part["functionCall"].get("name") for part in _calls_for_client(parts)]
    calls = [request.names.get(call.name, call.name) for call in message.tool_calls]
    return parts if (text, called) == (message.text, calls) else None


def report_unsent(message: Message, where: str, request: Request, quirks: GeminiQuirks, report: EncodingReport) -> None:
    """Records in `report` which fields and content of a message the request leaves out."""
    if original_payload(message, request) is None:
        report.add_message(message, where, request, lambda call: signature_of(call.extra) is not None)
    report.add_name_and_detail(message, where)


def _calls_for_client(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    calls = [part for part in parts if isinstance(part.get("functionCall"), dict)]
    for answer in (part["functionResponse"] for part in parts if isinstance(part.get("functionResponse"), dict)):
        by = "id" if answer.get("id") else "name"
        ran = next((part for part in calls if part["functionCall"].get(by) == answer.get(by)), None)
        calls = [part for part in calls if part is not ran]
    return calls


def sign_open_calls(contents: list[dict[str, Any]]) -> bool:
    """Adds a placeholder to tool calls after the last user message that lack their thought signature. Returns True if
    a signature was missing.

    Only the first tool call of each model message gets the placeholder, because the API refuses it on other tool calls
    (BerriAI/litellm#37541).
    """
    missing = False
    for content in reversed(contents):
        parts = content["parts"]
        if content["role"] == "user":
            if not all("functionResponse" in part for part in parts):
                break
            continue
        first = next((i for i, part in enumerate(parts) if "functionCall" in part), None)
        if first is not None and not parts[first].get(SIGNATURE):
            parts[first] = {**parts[first], SIGNATURE: PLACEHOLDER}
            missing = True
    return missing


# --- messages of tools and users --------------------------------------------------------------------------------------


def _result(message: Message, calls: _Calls, where: str) -> dict[str, Any]:
    name, server_id = calls[message.tool_call_id or ""]
    response: dict[str, Any] = {"name": name, "response": _response(message), **without_none(id=server_id)}
    if media := [part for part in content_parts(message, where) if "text" not in part]:
        response["parts"] = media
    return {"functionResponse": response}


def _response(message: Message) -> dict[str, Any]:
    """Returns a tool message's content as a JSON object, because Gemini requires an object."""
    text = "\n".join(part["text"] for part in content_parts(message, "") if "text" in part)
    if message.error:
        return {"error": text or str(tool_result_content(message))}
    try:
        value = parse_object(text or "null")
    except ValueError:
        value = text
    if isinstance(value, dict) and value.keys().isdisjoint(_RESULT_KEYS):
        return value
    # Gemini would read an object with one of these keys as a wrapped result or error.
    return {"output": value if text else ""}


def content_parts(message: Message, where: str) -> Iterator[dict[str, Any]]:
    """Yields the content of a message as Gemini's parts. Raises ConfigError for content that Gemini doesn't support."""
    for part in read_text_and_media(message, where, "Gemini"):
        if isinstance(part, TextPart):
            yield {"text": part.text}
        elif part.data is not None:
            yield {"inlineData": {"mimeType": part.media_type, "data": to_base64(part.data)}}
        else:
            uri = part.url if part.url is not None else part.file_id
            yield {"fileData": {**without_none(mimeType=part.media_type or None), "fileUri": uri}}
