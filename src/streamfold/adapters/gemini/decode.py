"""Converts the events of Gemini's `streamGenerateContent` to deltas: https://ai.google.dev/api/generate-content.

Each event contains new parts of the response. Parts have no index, so a text part always continues the text part before
it. A part with a thought signature is never joined with another part, because later requests must send the signature in
the same part (https://ai.google.dev/gemini-api/docs/thought-signatures).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ...deltas import (
    Block,
    BlockEnd,
    BlockKind,
    BlockPiece,
    Delta,
    Failure,
    Finish,
    Meta,
    RanOnServer,
    RefusalDelta,
    ToolRequests,
    UsageUpdate,
    Warn,
    unknown_finish,
)
from ...errors import ErrorInfo
from ...jsontext import PathValue, clean_json, dump_compact, int_or_none, parse_or_text, partial_value, str_or_none
from ...types import PAUSED, ExtraPart, FinishReason, ToolCall, ToolCallDelta, guess_finish_reason
from ..content_blocks import arguments_object
from ..google_usage import GEMINI_USAGE
from ..odd_payloads import decode_odd_payload
from ..thought_signatures import SIGNATURE
from .errors import read_google_error

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

# https://ai.google.dev/api/generate-content#FinishReason. Some proxies send the enum's numbers.
FINISH_REASONS: dict[str, FinishReason] = {
    **dict.fromkeys(["STOP", "1"], "stop"),
    **dict.fromkeys(["MAX_TOKENS", "2"], "length"),
    **dict.fromkeys(["SAFETY", "3", "RECITATION", "4", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"], "content_filter"),
    **dict.fromkeys(["LANGUAGE", "MODEL_ARMOR", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT"], "content_filter"),
    "IMAGE_RECITATION": "content_filter",
}
# Finish reasons of failed answers. With True, the same request may succeed later.
_FAILURES = {
    **dict.fromkeys(["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"], True),
    **dict.fromkeys(["TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE"], False),
}
# Known finish reasons of the API for which streamfold has no finish reason.
OTHER_REASONS = frozenset([*_FAILURES, "OTHER", "FINISH_REASON_UNSPECIFIED", "NO_IMAGE", "IMAGE_OTHER", "CONTINUATION"])
ABOUT_CANDIDATE = ("groundingMetadata", "citationMetadata", "urlContextMetadata")
_MEMBERS = frozenset(["candidates", "promptFeedback", "usageMetadata", "modelVersion", "responseId"])
_TEXT = Block(None, "text", {"text": ""}, "text")


class GeminiEventReader:
    """Converts responses of Gemini's API to deltas."""

    def decode(self, event: ServerSentEvent) -> list[Delta]:
        payload = parse_or_text(event.data)
        if not isinstance(payload, dict):
            return decode_odd_payload(payload, failed=event.event == "error", read_error=read_google_error)
        out: list[Delta] = []
        _chunk(payload, out)
        return out

    def decode_body(self, body: Any) -> list[Delta]:
        """Converts a JSON response body to deltas. The body is a list of chunks if a stream's URL lacks `alt=sse`."""
        out: list[Delta] = []
        for chunk in body if isinstance(body, list) else [body]:
            _chunk(chunk, out)
        return out


_BRACES = re.compile(r'"(?:[^"\\]|\\.)*+"?|([{}])', re.DOTALL)  # braces outside of strings


def without_open_part(deltas: Iterable[Delta], text: str) -> list[Delta]:
    """Removes the last part from a truncated response's deltas if the part's JSON object is incomplete. Its text may be
    reasoning, because the field `thought` usually follows `text`."""
    found = list(deltas)
    open_objects: list[int] = []
    for brace in _BRACES.finditer(text):
        if brace[1] == "{":
            open_objects.append(brace.start())
        elif brace[1] and open_objects:
            open_objects.pop()
    begun = [partial_value(text[at:]) for at in open_objects]
    if any(isinstance(value, dict) and value.get("text") for value in begun):
        for at in reversed(range(len(found))):
            if isinstance(found[at], Block | BlockPiece):
                return found[:at] + found[at + 1 :]
    return found


def _chunk(chunk: Any, out: list[Delta]) -> None:
    if type(chunk) is not dict:
        raise ValueError(f"a chunk must be an object, not {type(chunk).__name__}")
    if "response" in chunk and isinstance(inner := chunk["response"], dict):  # Google's Code Assist wraps chunks
        chunk = inner
    get = chunk.get
    if get("error") or _MEMBERS.isdisjoint(chunk):
        out.append(Failure(read_google_error(chunk), chunk))
        return
    try:
        out.append(_meta(get("responseId"), get("modelVersion"), get("createTime")))
    except TypeError:  # an unhashable id or name, such as a list
        out.append(Meta())
    ends: list[Delta] = []
    read = False
    candidates = get("candidates") or ()
    if not isinstance(candidates, list | tuple):
        raise ValueError(f"candidates must be a list, not {type(candidates).__name__}")
    for position, candidate in enumerate(candidates):
        if not isinstance(candidate, dict):
            raise ValueError(f"a candidate must be an object, not {candidate!r:.80}")
        number = int_or_none(candidate.get("index"))
        if number is None:  # Google omits the index 0
            number = position if read else 0
        if number:
            out.append(Warn("extra_choice", f"candidate {number} was sent and is ignored"))
        else:
            read = True
            _candidate(candidate, out, ends)
    if isinstance(usage := get("usageMetadata"), dict):
        out.append(UsageUpdate(usage, GEMINI_USAGE.read, whole=True))
    feedback = get("promptFeedback")
    if isinstance(feedback, dict) and (blocked := str_or_none(feedback.get("blockReason"))):
        out.append(ExtraPart("promptFeedback", [clean_json(feedback)], whole=True))
        if text := str_or_none(feedback.get("blockReasonMessage")):  # Vertex
            out.append(RefusalDelta(text))
        ends.append(Finish("content_filter", blocked, more=True))
    out += ends


@lru_cache(64)  # the same in every chunk of an answer
def _meta(response_id: Any, model: Any, created: Any) -> Meta:
    return Meta(str_or_none(response_id), str_or_none(model), str_or_none(created))


def _candidate(candidate: dict[str, Any], out: list[Delta], ends: list[Delta]) -> None:
    content = candidate.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    if isinstance(parts, list):
        _parts(parts, out)
    for name in ABOUT_CANDIDATE:
        if candidate.get(name):
            out.append(ExtraPart(name, [clean_json(candidate[name])], whole=True))
            _add_requests(candidate[name], out)
    reason = str_or_none(candidate.get("finishReason"))
    if token := str_or_none(candidate.get("continuationToken")):  # also with MAX_TOKENS, and in the middle of a stream
        out.append(ExtraPart("continuationToken", [token], whole=True))
    if reason is None:
        return
    if reason in PAUSED:  # https://ai.google.dev/gemini-api/docs/generate-content/long-decode
        out.append(ExtraPart("finishReason", [reason], whole=True))
        ends.append(Finish("unknown", reason, more=True, continues=True))
        return
    message = str_or_none(candidate.get("finishMessage"))
    meaning = FINISH_REASONS.get(reason) or guess_finish_reason(reason)
    if reason in _FAILURES or meaning == "error":
        again = _FAILURES.get(reason, False)
        text = message or f"the model ended with the finish reason {reason}"
        ends.append(Failure(ErrorInfo(text, "server_error" if again else None, reason, retry=again), candidate))
    else:
        if meaning == "unknown" and reason not in OTHER_REASONS:
            out.append(unknown_finish(reason))
        ends.append(Finish(meaning, reason, more=True))


def _parts(parts: list[Any], out: list[Delta]) -> None:
    for part in parts:
        if not isinstance(part, dict):
            raise ValueError(f"a part must be an object, not {part!r:.80}")
        if len(part) == 1 and type(text := part.get("text")) is str:  # nearly every part
            if text:
                out.append(BlockPiece(None, "text", "text", text, opens=_TEXT))
            continue
        if isinstance(part.get("functionCall"), dict):
            part = clean_json(part)
            _call(part, part["functionCall"], out)
        else:
            _part(part, out)


_COUNTED = {"webSearchQueries": "web_search", "urlMetadata": "web_fetch"}


def _add_requests(about: Any, out: list[Delta]) -> None:
    """Counts the requests of hosted tools: the search queries and the URLs that Gemini lists."""
    for name, kind in _COUNTED.items() if isinstance(about, dict) else ():
        if isinstance(found := about.get(name), list):
            out.append(ToolRequests(kind, len(found)))


def _part(part: dict[str, Any], out: list[Delta]) -> None:
    if isinstance(answer := part.get("functionResponse"), dict):
        # Google ran this call itself (on a hosted MCP server), so the client must not run it.
        out.append(RanOnServer(str_or_none(answer.get("id")), str_or_none(answer.get("name"))))
    text = part.get("text")
    if isinstance(text, str):
        kind: BlockKind = "reasoning" if part.get("thought") else "text"
        if part.keys() <= {"text", "thought"}:
            if text:  # may end inside a surrogate pair, so the engine joins the texts
                begun = Block(None, kind, clean_json({**part, "text": ""}), "text")
                out.append(BlockPiece(None, kind, "text", text, opens=begun))
            return
        out.append(Block(None, kind, clean_json(part), "text"))
    elif any(value is not None for value in part.values()):
        out.append(Block(None, "other", clean_json(part)))
    else:
        return  # an empty part, which the API would refuse in the next request
    out.append(BlockEnd(None))


def _call(part: dict[str, Any], call: dict[str, Any], out: list[Delta]) -> None:
    """Converts a part with a tool call. The call is complete, unless the request asked for streamed arguments."""
    name, goes_on = str_or_none(call.get("name")), call.get("willContinue") is True
    values: list[PathValue] = []
    if isinstance(pieces := call.get("partialArgs"), list):
        values = [_path_value(piece) for piece in pieces if isinstance(piece, dict)]
    args = call.get("args")
    if name is not None:
        id_ = str_or_none(call.get("id"))
        text = "" if args is None else args if isinstance(args, str) else dump_compact(args)
        # Most calls have no id here, so a missing id causes no warning.
        extra = {SIGNATURE: signature} if (signature := part.get(SIGNATURE)) else None
        made = ToolCallDelta(None, id_, name, text, False, extra, None, id_ is None)
        whole = not (values or goes_on)  # nearly every call
        out.append(Block(None, "call", part, "args", made, _write_call, True, whole))
        if whole:
            return
    elif isinstance(args, dict):
        values = [PathValue(f"$[{json.dumps(key)}]", value) for key, value in args.items()] + values
    for value in values:
        out.append(BlockPiece(None, "call", "args", value, "path"))
    if name is None and not values and not goes_on and call:
        out.append(BlockPiece(None, "call", "args", "", "path"))
    if not goes_on:
        out.append(BlockEnd(None, call=True))


def _write_call(part: dict[str, Any], call: ToolCall) -> dict[str, Any]:
    written = dict(part["functionCall"])
    for name in ("partialArgs", "willContinue", "args"):
        written.pop(name, None)
    written["name"], written["args"] = call.name, arguments_object(call)
    part["functionCall"] = written
    return part


def _path_value(piece: dict[str, Any]) -> PathValue:
    path = piece.get("jsonPath")
    if not isinstance(path, str):
        raise ValueError(f"a piece of arguments has no jsonPath: {piece!r:.120}")
    for name in ("stringValue", "numberValue", "boolValue"):
        if name in piece:
            return PathValue(path, piece[name], name == "stringValue" and piece.get("willContinue") is True)
    return PathValue(path, None)
