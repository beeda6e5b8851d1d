"""Converts requests to JSON bodies of the Messages API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import dropwhile, groupby
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError
from ...requests import HostedForm, is_thinking_block, read_response_format, with_raw_tools, written_hosted
from ...types import (
    INSTRUCTION_ROLES,
    AudioPart,
    CacheMark,
    FilePart,
    HostedMcpServer,
    ImagePart,
    Message,
    NamedTool,
    TextPart,
    Tool,
    to_base64,
    tool_result_content,
)
from ..content_blocks import arguments_object, blocks_of, read_parts
from ..encoding_report import EncodingReport
from ..prepared_request import without_none
from .bound_thinking import BINDING_BETA, SentTurn, bind_thinking, drop_mismatched, leave_out_thinking
from .compaction import (
    ask_for_compaction,
    asks_for_compaction,
    compaction_betas,
    is_signed_compaction,
    threshold_members,
)
from .quirks import AnthropicQuirks
from .tools import MCP_BETA, hosted_forms, hosted_members

if TYPE_CHECKING:
    from ...requests import Request
    from ...types import ToolCall


_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 32768, "max": 64000}
SMALLEST_BUDGET = 1024
_DEFAULT_LIMIT = 4096  # output tokens of an unknown model


def encode_request(request: Request, quirks: AnthropicQuirks, report: EncodingReport) -> dict[str, Any]:
    """Returns the JSON body of a request. Raises ConfigError if the API doesn't support something in the request."""
    options, numbered = request.options, list(request.numbered)
    talk = list(dropwhile(lambda entry: entry[1].role in INSTRUCTION_ROLES, numbered))
    max_tokens = output_limit(request, quirks)
    body: dict[str, Any] = {"model": request.model, "max_tokens": max_tokens}
    system: list[dict[str, Any]] = []
    for at, message in numbered[: len(numbered) - len(talk)]:
        system += content_blocks(message, f"messages[{at}]", request, report)
    if system:
        body["system"] = system
    sent: list[SentTurn] = []
    with_blocks = [(n, message) for n, (_, message) in enumerate(talk) if "blocks" in message.extras]
    start = max((n for n, message in with_blocks if is_signed_compaction(message, request)), default=0)
    talk = talk[start:]  # the API refuses the messages that a signed compaction replaces
    body |= {"messages": encode_turns(talk, request, quirks, report, sent), "stream": request.stream}
    body |= hosted_members(request)
    if request.tools:
        forms = hosted_forms(quirks.web_search)
        body["tools"] = [_tool(tool, forms) for tool in request.tools]
        if choice := _tool_choice(request):
            body["tool_choice"] = choice
    stops = None if options.stop is None else options.stop_texts or None
    body |= without_none(temperature=options.temperature, top_p=options.top_p, stop_sequences=stops)
    body |= _thinking(request, quirks, max_tokens)
    wanted = read_response_format(options.response_format) if options.response_format is not None else None
    if wanted is not None and wanted.schema is not None:
        form = {"type": "json_schema", "schema": dict(wanted.schema)}
        body["output_config"] = {**body.get("output_config", {}), "format": form}
    if options.compact_threshold is not None:
        body |= threshold_members(request, report)
    if options.extra_body:
        _add_extra_body(body, options.extra_body)
    compacts = asks_for_compaction(request)
    if compacts:
        ask_for_compaction(body)
    if "messages" not in options.extra_body:
        binds, thinking = request.family.binds_thinking, body.get("thinking")
        decided = isinstance(thinking, Mapping) and "block_binding" in thinking  # the caller decides
        if binds is not None:
            bind_thinking(body, sent, report, checked=binds == "always" and not decided)
        if request.drop_bound_thinking and not decided and not drop_mismatched(body):
            leave_out_thinking(body)
        last = request.messages[-1]
        if body["messages"][-1]["role"] == "assistant" and not last.paused and not compacts:
            _check_prefill(body)
    return body if quirks.platform == "anthropic" else _for_platform(body, request, quirks)


def _for_platform(body: dict[str, Any], request: Request, quirks: AnthropicQuirks) -> dict[str, Any]:
    """Adapts a body to Bedrock or Vertex AI, which expect the API's version and beta features in the body instead of in
    headers, and the model's name in the URL path."""
    betas = requested_betas(request, quirks)
    version = "bedrock-2023-05-31" if quirks.platform == "bedrock" else "vertex-2023-10-16"
    left_out = ("model", "stream") if quirks.platform == "bedrock" else ("model",)
    out = {"anthropic_version": version, **({"anthropic_beta": betas} if betas else {})}
    return {**out, **{name: value for name, value in body.items() if name not in left_out}}


def requested_betas(request: Request, quirks: AnthropicQuirks) -> list[str]:
    """Returns the values of the header `anthropic-beta`: those in the quirks, those that the request needs, and the
    caller's `betas` in `extra_body`."""
    asked = request.options.extra_body.get("betas")
    mcp = [MCP_BETA] if any(isinstance(tool.hosted, HostedMcpServer) for tool in request.tools) else []
    binding = [BINDING_BETA] if request.drop_bound_thinking else []
    own = [*quirks.betas, *mcp, *binding, *compaction_betas(request)]
    return list(dict.fromkeys([*own, *(asked if isinstance(asked, list) else ())]))


def _add_extra_body(body: dict[str, Any], extra_body: Mapping[str, Any]) -> None:
    extra = _with_thinking_details(body, with_raw_tools(body, extra_body))
    for name, value in extra.items():
        if name == "container" and isinstance(value, Mapping) and "id" not in value and name in body:
            value = {"id": body[name], **value}  # adds skills to the known container
        mix = name == "output_config" and name in body and isinstance(value, Mapping)
        body[name] = {**body[name], **value} if mix else value
    body.pop("betas", None)  # see requested_betas


def _check_prefill(body: Mapping[str, Any]) -> None:
    thinking, output = body.get("thinking"), body.get("output_config")
    if isinstance(thinking, Mapping) and thinking.get("type") != "disabled":
        raise ConfigError("messages: a final assistant message can't be continued while thinking is on")
    if isinstance(output, Mapping) and "format" in output:
        raise ConfigError("messages: a final assistant message can't be continued with response_format")


# --- tools ------------------------------------------------------------------------------------------------------------


def _tool(tool: Tool, forms: Mapping[str, HostedForm]) -> dict[str, Any]:
    if tool.hosted is not None:
        return written_hosted(tool, forms) or {}
    if tool.kind != "function":
        raise ConfigError(f"the tool {tool.name!r} is a {tool.kind!r}: pass it as HostedTool(...)")
    out: dict[str, Any] = {"name": tool.name}
    if tool.description:
        out["description"] = tool.description
    out["input_schema"] = dict(tool.parameters)
    if tool.strict:
        out["strict"] = True
    return {**out, **tool.extra, **with_cache_control(tool.cache)}


def _tool_choice(request: Request) -> dict[str, Any] | None:
    one = {"disable_parallel_tool_use": True} if request.options.parallel_tool_calls is False else {}
    match request.tool_choice:
        case "none":
            return {"type": "none"}
        case "required":
            return {"type": "any", **one}
        case NamedTool(name):
            return {"type": "tool", "name": name, **one}
    return {"type": "auto", **one} if one else None


# --- thinking ---------------------------------------------------------------------------------------------------------


def output_limit(request: Request, quirks: AnthropicQuirks) -> int:
    """Returns the value of the field `max_tokens`, which the API requires in every request."""
    limits = (request.options.max_output_tokens, quirks.max_tokens, request.family.max_output_tokens)
    return next((limit for limit in limits if limit is not None), _DEFAULT_LIMIT)


def _thinking(request: Request, quirks: AnthropicQuirks, max_tokens: int) -> dict[str, Any]:
    effort, family = request.options.reasoning_effort, request.family
    if effort is None:
        return {}
    if effort == "none":
        return {"thinking": {"type": family.none_as or "disabled"}}
    if family.budget is not None:
        budget = min(_BUDGETS[effort], max_tokens - 1)
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}
    level = {"output_config": {"effort": effort}} if quirks.effort_grades and family.efforts else {}
    return {"thinking": {"type": "adaptive"}, **level}


def _with_thinking_details(body: Mapping[str, Any], extra: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the caller's `extra_body`. If its field `thinking` has no `type`, streamfold merges this field with the
    body's field `thinking`. If the body doesn't turn thinking on, streamfold leaves the caller's field out.

    The caller's `budget_tokens` is sent only if the model thinks with a token budget, and if the value is at least 1024
    and below `max_tokens`.
    """
    said, thinking = extra.get("thinking"), body.get("thinking", {})
    if not isinstance(said, Mapping) or "type" in said:
        return extra
    extra = {name: value for name, value in extra.items() if name != "thinking"}
    if thinking.get("type") not in ("adaptive", "enabled"):
        return extra
    budget, manual = said.get("budget_tokens"), thinking["type"] == "enabled"
    fits = manual and isinstance(budget, int) and SMALLEST_BUDGET <= budget < body["max_tokens"]
    details = {name: value for name, value in said.items() if name != "budget_tokens" or fits}
    return {**extra, "thinking": {**thinking, **details}}


# --- messages ---------------------------------------------------------------------------------------------------------


def with_cache_control(mark: CacheMark) -> dict[str, Any]:
    """Returns a dict with the field `cache_control` for a cache mark. Without a mark, the dict is empty."""
    if not mark:
        return {}
    lifetime = {"ttl": mark} if isinstance(mark, str) else {}
    return {"cache_control": {"type": "ephemeral", **lifetime}}


def cache_last_block(blocks: list[dict[str, Any]], mark: CacheMark) -> list[dict[str, Any]]:
    """Adds a cache mark to the last content block that isn't thinking. The API refuses marks on thinking blocks."""
    if mark:
        at = next((at for at in range(len(blocks) - 1, -1, -1) if not is_thinking_block(blocks[at])), None)
        if at is not None:
            blocks[at] = {**blocks[at], **with_cache_control(mark)}
    return blocks


def content_blocks(message: Message, where: str, request: Request, report: EncodingReport) -> list[dict[str, Any]]:
    """Converts a system or user message to content blocks. Omits empty texts, because the API refuses them.

    Raises:
        ConfigError: the API doesn't support a content part of the message.
    """
    _report(message, where, request, report)
    return cache_last_block(list(_blocks(message, where)), message.cache)


def _report(message: Message, where: str, request: Request, report: EncodingReport) -> None:
    report.add_message(message, where, request, lambda call: set(call.extra or ()) <= {*CALL_EXTRAS})
    report.add_name_and_detail(message, where, files=False)
    report.add_media_members(message, where, names=False)


def _blocks(message: Message, where: str) -> Iterator[dict[str, Any]]:
    if isinstance(message.content, str):  # the usual case
        if message.content:
            yield {"type": "text", "text": message.content}
        return
    for place, part in read_parts(message, where):
        block = _block(part, place)
        if block.get("type") != "text" or block.get("text"):
            yield block


def result_block(message: Message, where: str) -> dict[str, Any]:
    """Converts a tool message to a content block. The API accepts images and documents in a tool result, unless the
    result has `is_error`."""
    mark = with_cache_control(message.cache)
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": message.tool_call_id, **mark}
    is_text = isinstance(message.content, str | None) or all(isinstance(part, TextPart) for part in message.content)
    if message.error and is_text:
        block["is_error"] = True
    elif message.error:
        message = Message("tool", tool_result_content(message), tool_call_id=message.tool_call_id)
    content = message.content if isinstance(message.content, str) else list(_blocks(message, where))
    return {**block, "content": content} if content else block  # the API refuses an empty list


def _block(part: Any, where: str) -> dict[str, Any]:
    match part:
        case TextPart(text):
            return {"type": "text", "text": text, **with_cache_control(part.cache)}
        case ImagePart():
            return {"type": "image", "source": _source(part, where), **with_cache_control(part.cache)}
        case FilePart():
            block = {"type": "document", "source": _source(part, where), **without_none(title=part.name)}
            return {**block, **with_cache_control(part.cache)}
        case AudioPart():
            raise ConfigError(f"{where} is audio, which the Messages API doesn't support")
        case Mapping():
            return dict(part)  # a block that only this API has
    raise ConfigError(f"{where}: unknown content part {part!r:.80}")


def _source(part: ImagePart | FilePart, where: str) -> dict[str, Any]:
    if part.file_id is not None:
        return {"type": "file", "file_id": part.file_id}
    if part.url is not None:
        return {"type": "url", "url": part.url}
    data, kind = part.data or b"", part.media_type or ""
    binary = _IMAGES if isinstance(part, ImagePart) else ("application/pdf",)
    if kind in binary:
        return {"type": "base64", "media_type": kind, "data": to_base64(data)}
    if isinstance(part, ImagePart):
        raise ConfigError(f"{where} is an image of the type {part.media_type}. Allowed: {', '.join(_IMAGES)}")
    if kind.startswith("text/") or kind == "application/json":
        try:
            return {"type": "text", "media_type": "text/plain", "data": data.decode()}
        except UnicodeDecodeError as exc:
            raise ConfigError(f"{where} is a file of the type {kind}, and not UTF-8 text: {exc}") from None
    raise ConfigError(f"{where} is a file of the type {kind or 'unknown'}. Allowed: application/pdf, text/*")


# In the Messages API, `user` and `assistant` messages alternate, and a user message begins with its tool results:
# https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/implement-tool-use

CALL_EXTRAS = ("caller", "toolset_name")  # the API refuses other fields in a call


def inline_system_positions(messages: Sequence[tuple[int, Message]]) -> frozenset[int]:
    """Returns the positions of the system messages that the API accepts inside the conversation.

    The API accepts a system message between a user and an assistant message, or after a user message at the end.

    https://docs.anthropic.com/en/docs/build-with-claude/mid-conversation-system-messages
    """
    runs = [(system, list(run)) for system, run in groupby(messages, lambda entry: entry[1].role in INSTRUCTION_ROLES)]
    found: list[int] = []
    for before, (system, run), after in zip(runs, runs[1:], [*runs[2:], None], strict=False):
        follows_user = before[1][-1][1].role != "assistant"
        if system and follows_user and (after is None or after[1][0][1].role == "assistant"):
            found += [at for at, _ in run]
    return frozenset(found)


def encode_turns(
    messages: Sequence[tuple[int, Message]],
    request: Request,
    quirks: AnthropicQuirks,
    report: EncodingReport,
    sent: list[SentTurn],
) -> list[dict[str, Any]]:
    """Converts the conversation to the API's messages. Consecutive messages with the same role become one message,
    because several servers require alternating roles.

    Args:
        messages: the messages after the system messages at the beginning, each with its index in the caller's list.
        sent: a list to which this function appends the assistant messages and their content blocks.

    Raises:
        ConfigError: the conversation is empty, or the API doesn't support a content part.
    """
    turns: list[dict[str, Any]] = []
    inline = inline_system_positions(messages) if quirks.inline_system else ()
    late = [f"messages[{at}]" for at, message in messages if message.role in INSTRUCTION_ROLES and at not in inline]
    order: dict[str, int] = {}  # the position of each tool call, by its id
    for at, message in messages:
        where = f"messages[{at}]"
        match message.role:
            case "assistant":
                order |= {call.id: len(order) + nth for nth, call in enumerate(message.tool_calls)}
                blocks = list(assistant_blocks(message, where, request, quirks, report))
                role, blocks = "assistant", cache_last_block(blocks, message.cache)
                sent.append(SentTurn(at, message, tuple(blocks)))
            case "tool":
                _report(message, where, request, report)
                role, blocks = "user", [result_block(message, where)]
            case _:
                role = "system" if at in inline else "user"
                blocks = content_blocks(message, where, request, report)
        if not blocks:
            continue
        if turns and turns[-1]["role"] == role != "system":
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    if late:
        detail = f"{', '.join(late)}: a system message inside the conversation was sent as a user message"
        report.warn("history_mismatch", detail)
    for turn in turns:
        if turn["role"] == "user":  # results come first, in the order of their calls
            results = [block for block in turn["content"] if block.get("type") == "tool_result"]
            others = [block for block in turn["content"] if block.get("type") != "tool_result"]
            results.sort(key=lambda block: order.get(block["tool_use_id"], len(order)))
            turn["content"] = [*results, *others]
    if not turns:
        raise ConfigError("messages: the Messages API needs a conversation that begins with a user message")
    last = turns[-1]["content"][-1]
    is_text = turns[-1]["role"] == "assistant" and last.get("type") == "text"
    if is_text and not (messages[-1][1].paused or asks_for_compaction(request)):
        last["text"] = last["text"].rstrip()  # "final assistant content cannot end with trailing whitespace"
    return turns


# --- the assistant's turns --------------------------------------------------------------------------------------------


def assistant_blocks(
    message: Message,
    where: str,
    request: Request,
    quirks: AnthropicQuirks,
    report: EncodingReport,
) -> Iterator[dict[str, Any]]:
    """Yields the content blocks of an assistant message. If this endpoint wrote the message and the program hasn't
    changed it, the blocks are those of the original response."""
    required = quirks.thinking_history == "required"
    original = original_payload(message, request)
    if original is not None:
        report.add_name_and_detail(message, where, files=False)
        if not required and any(map(_lacks_signature, original)):
            report.reasoning.append(where)
        yield from _sent(original, message, quirks)
        return
    _report(replace(message, reasoning=None) if required else message, where, request, report)
    if required and (message.tool_calls or message.reasoning):
        yield {"type": "thinking", "thinking": message.reasoning or "", "signature": ""}
    yield from _blocks(message, where)
    for call in message.tool_calls:
        extra = {name: value for name, value in (call.extra or {}).items() if name in CALL_EXTRAS}
        extra = extra if request.came_from_here(message) else {}
        yield {"type": "tool_use", **_call_members(call), **extra}


def original_payload(message: Message, request: Request) -> list[dict[str, Any]] | None:
    """Returns the content blocks that this endpoint sent for an assistant message. Returns None if another endpoint
    wrote the message, or if the program has changed it."""
    blocks = blocks_of(message, request)
    if blocks is None or not all(isinstance(block.get("type"), str) for block in blocks):
        return None
    text = "".join(str(block.get("text", "")) for block in blocks if block["type"] == "text")
    called = [(block.get("id"), block.get("name")) for block in blocks if block["type"] == "tool_use"]
    calls = [(call.id, request.names.get(call.name, call.name)) for call in message.tool_calls]
    return blocks if (text, called) == (message.text, calls) else None


def _lacks_signature(block: Mapping[str, Any]) -> bool:
    """Returns True for thinking without a signature, which Anthropic ignores."""
    return block.get("type") == "thinking" and not block.get("signature")


def _sent(blocks: list[dict[str, Any]], message: Message, quirks: AnthropicQuirks) -> Iterator[dict[str, Any]]:
    needs_thinking = quirks.thinking_history == "required" and message.tool_calls
    if needs_thinking and not any(map(is_thinking_block, blocks)):
        yield {"type": "thinking", "thinking": message.reasoning or "", "signature": ""}
    calls = iter(message.tool_calls)
    for came in blocks:
        # Only the request's own cache marks are sent.
        block = {name: value for name, value in came.items() if name != "cache_control"}
        match block["type"]:
            case "text" if not block.get("text"):
                continue
            case "thinking":
                if not _lacks_signature(block) or quirks.thinking_history == "required":
                    yield {**block, "thinking": block.get("thinking", ""), "signature": block.get("signature") or ""}
            case "tool_use":
                yield {**block, **_call_members(next(calls))}
            case _:
                yield block


def _call_members(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "name": call.name, "input": arguments_object(call)}
