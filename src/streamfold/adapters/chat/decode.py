"""Decodes streamed chunks and complete responses of Chat Completions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from ...deltas import (
    CallSummary,
    Delta,
    Failure,
    Finish,
    Meta,
    ReasoningDelta,
    RefusalDelta,
    StreamEnd,
    TextDelta,
    Warn,
    unknown_finish,
)
from ...errors import error_info, wrapped_error
from ...jsontext import (
    ERROR_KEYS,
    clean_json,
    int_or_none,
    is_done,
    join_surrogates,
    parse_event,
    parse_or_text,
    str_or_none,
    whole_number,
)
from ...types import ExtraPart, FinishReason, HostedPart, ToolCallDelta, guess_finish_reason
from ..odd_payloads import arguments_text, decode_odd_payload
from ..openai_usage import read_openai_usage, tool_requests

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent


def mark_whole(said: Iterable[Delta]) -> Iterator[Delta]:
    """Converts the deltas of a complete message so that they replace the message's earlier deltas."""
    texts: dict[type[TextDelta | ReasoningDelta | RefusalDelta], list[str]] = {}
    calls: list[ToolCallDelta] = []
    extras: dict[str, list[Any]] = {}
    rest: list[Delta] = []
    for delta in said:
        match delta:
            case TextDelta(text) | ReasoningDelta(text) | RefusalDelta(text):
                texts.setdefault(type(delta), []).append(text)
            case ToolCallDelta():
                calls.append(replace(delta, whole=True))
            case ExtraPart(name, value):
                extras.setdefault(name, []).append(value)
            case _:
                rest.append(delta)
    for kind, pieces in texts.items():
        text = "".join(pieces)
        yield kind(text, whole=bool(text))  # an empty text only says that the model reasoned
    if calls:
        yield CallSummary(calls)
    for name, values in extras.items():
        yield ExtraPart(name, values, whole=True)
    yield from rest


# Fields that few events have. One set operation finds out whether an event has any of them.
_ODD = frozenset({"error", "base_resp"})
# Fields with the reasoning, as text or as parts. Servers that send two of them send the same text in both, so the first
# one is used.
REASONING = ("reasoning_content", "reasoning", "reasoning_text", "thinking", "thought")
# Lists of reasoning, often signed, which later requests contain unchanged: OpenRouter and MiniMax, LiteLLM.
_REASONING_LISTS = ("reasoning_details", "thinking_blocks")
_EXTRAS = ("annotations", "audio", "reasoning_opaque", *_REASONING_LISTS)
# Sources of the complete response, repeated in every chunk: https://docs.perplexity.ai/docs/sonar/features. Perplexity
# itself has moved to the Responses API, but proxies still send them.
_SOURCES = ("search_results", "citations")
_MORE = frozenset({"refusal", "function_call", *REASONING, *_EXTRAS})


class ChatEventReader:
    """Decodes responses of Chat Completions."""

    def decode(self, event: ServerSentEvent) -> list[Delta]:
        failed, data = event.event == "error", event.data
        if data == "[DONE]":
            return [StreamEnd()]
        out: list[Delta] = []
        payload = parse_or_text(data)
        if payload is data and "\n" in data.strip() and not failed:
            # Zhipu's older servers put no blank line between events, so that their payloads arrive as lines of one
            # event. Each line must be a payload of its own.
            out.append(Warn("unseparated_events", "several payloads arrived without a blank line between them"))
            for line in data.split("\n"):
                if line.strip():
                    self._chunk("[DONE]" if is_done(line) else parse_event(line), out, failed=False)
        else:
            self._chunk(payload, out, failed=failed)
        return out

    def decode_body(self, body: Any) -> list[Delta]:
        out: list[Delta] = []
        # A body without choices is an error in the server's own format: {"code": 1302, "msg": "..."}.
        self._chunk(body, out, failed=not (isinstance(body, dict) and body.get("choices")))
        out.append(StreamEnd())
        return out

    def _chunk(self, chunk: Any, out: list[Delta], *, failed: bool) -> None:
        if failed or not isinstance(chunk, dict):
            out += decode_odd_payload(chunk, failed=failed)
            return
        get = chunk.get
        out.append(Meta(get("id"), get("model"), get("created")))
        usage, choices = get("usage"), get("choices") or ()
        if usage is not None:
            usage = _object(usage)
        failure = None if choices and _ODD.isdisjoint(chunk) else self._failure(chunk)
        if type(choices) is not list and choices:
            raise ValueError(f"choices must be a list, not {type(choices).__name__}")
        finish = None
        for choice in choices:
            if type(choice) is not dict:
                raise ValueError(f"a choice must be an object, not {choice!r}")
            get = choice.get
            if (number := get("index")) and (number := int_or_none(number)):
                if len(choices) > 1 or "message" not in choice:
                    ignored = f"choice {number} was sent and is ignored, because a stream has only one answer"
                    out.append(Warn("extra_choice", ignored))
                    continue
                used = f"choice {number} was sent and is used, because there is no other choice"
                out.append(Warn("extra_choice", used))
            # Perplexity and Writer repeat the text of `delta` in `message`, and Perplexity's complete responses have an
            # empty `delta` next to `message`. Azure's content filter sends no `delta` or null with a finish reason.
            delta = get("delta")
            if (delta is None or "message" in choice) and not _has_content(delta):
                delta = self._whole_message(choice, chunk, out)
            if type(delta) is dict:
                content = delta.get("content")
                if _MORE.isdisjoint(delta) and (not content or type(content) is str):  # nearly every event
                    if content:
                        out.append(TextDelta(content))
                    if "tool_calls" in delta and (entries := delta["tool_calls"]):
                        self._calls(entries, out)
                else:
                    self._delta(delta, out)
            elif delta:  # a list or a number, which clients can't read
                out.append(Warn("malformed_event", f"a delta that isn't an object was ignored: {delta!r:.80}"))
            if (ended := get("finish_reason")) and not (finish and _is_cut(finish)):  # of two choices without `index`
                finish = ended
            # Moonshot sends the usage inside the choice (fixtures/kimi/usage_in_choice).
            if "usage" in choice and (said := choice["usage"]):
                usage = usage or _object(said)
            if "error" in choice and (error := choice["error"]):  # OpenRouter
                failure = failure or Failure(error_info(error), error)
        for name in _SOURCES:
            if (sources := chunk.get(name)) and type(sources) is list:
                out.append(ExtraPart(name, clean_json(sources), whole=True))
        if not usage and "x_groq" in chunk and (own := _object(chunk["x_groq"])):
            usage = _object(own.get("usage"))
            if error := own.get("error"):
                failure = failure or Failure(error_info(error), chunk)
        if usage or finish or failure:
            self._end(usage, finish, failure, out)

    def _whole_message(self, choice: dict[str, Any], chunk: dict[str, Any], out: list[Delta]) -> Any:
        """Decodes a choice that contains a complete message instead of a delta.

        MiniMax sends a complete message after the deltas (fixtures/minimax/message_at_the_end). Some servers send only
        the complete message (fixtures/chunks/message_for_delta). Other servers send a delta in the field `message`.
        """
        message, text = choice.get("message"), choice.get("text")
        if message is None and isinstance(text, str):
            out.append(Warn("malformed_event", "the text of a choice was in `text`, as in the older Completions API"))
            return {"content": text}
        at_end = choice.get("finish_reason") or chunk.get("object") == "chat.completion"
        if not at_end or not isinstance(message, dict):
            return message if choice.get("delta") is None else None
        said: list[Delta] = []
        self._delta(message, said, whole=True)
        out += mark_whole(said)
        return None

    def _end(self, usage: dict[str, Any] | None, finish: Any, failure: Failure | None, out: list[Delta]) -> None:
        if usage:
            out.append(read_openai_usage(usage))
            out += tool_requests(usage)
        if finish and not isinstance(finish, str):
            raise ValueError(f"a finish reason must be a string, not {finish!r}")
        reason = _finish_reason(finish) if finish else None
        if reason == "error" and not failure:
            info = error_info({"message": f"the provider ended with finish reason {finish!r}", "type": finish})
            failure = Failure(info, reason=True)
        if failure:  # an error takes precedence over the finish reason in the same event
            out.append(failure)
        elif reason and reason != "error":
            if reason == "unknown":
                out.append(unknown_finish(finish))
            out.append(Finish(reason, join_surrogates(finish)))

    def _failure(self, chunk: dict[str, Any]) -> Failure | None:
        if error := chunk.get("error"):
            return Failure(error_info(error if isinstance(error, Mapping) else chunk), chunk)
        is_error = not chunk.get("choices") and any(chunk.get(key) for key in ERROR_KEYS)
        if chunk.get("code") in (0, "0"):  # iFlytek: {"code": 0, "message": "Success"}
            is_error = False
        if is_error or chunk.get("object") == "error" or wrapped_error(chunk):  # of older vLLM
            return Failure(error_info(chunk), chunk)
        return None

    def _delta(self, delta: dict[str, Any], out: list[Delta], *, whole: bool = False) -> None:
        content = delta.get("content")
        self._reasoning(delta, out, whole=whole)
        if content:
            if isinstance(content, str):
                out.append(TextDelta(content))
            else:
                _parts(content, out)
        refusal = delta.get("refusal")
        if refusal and isinstance(refusal, str):
            out.append(RefusalDelta(refusal))
        if entries := delta.get("tool_calls"):
            self._calls(entries, out)
        elif function := delta.get("function_call"):  # OpenAI's field before `tool_calls`, for a single call
            self._call({"index": 0, "function": function}, out)
        for name in _EXTRAS:
            value = delta.get(name)
            for item in value if isinstance(value, list) else [value] if value else ():
                out.append(ExtraPart(name, clean_json(item)))

    def _reasoning(self, delta: dict[str, Any], out: list[Delta], *, whole: bool) -> None:
        said = None
        for name in (*REASONING, *_REASONING_LISTS):
            value = delta.get(name)
            if name == "thinking_blocks" and isinstance(value, list) and not whole:
                # A signed block of a stream may repeat the text so far.
                value = [block for block in value if isinstance(block, dict) and not block.get("signature")]
            if (isinstance(value, str) or value) and (said := _text_of(value)):
                break
        if said is not None:
            out.append(ReasoningDelta(said))

    def _calls(self, entries: Any, out: list[Delta]) -> None:
        for entry in entries if type(entries) is list else [entries]:
            if type(entry) is dict:
                self._call(entry, out)

    def _call(self, entry: dict[str, Any], out: list[Delta]) -> None:
        get = entry.get
        custom = get("custom")
        if custom is not None or get("type") == "custom":  # free text: openai/openai-openapi#576
            said = custom if isinstance(custom, dict) else {}
            name, text = str_or_none(said.get("name")), said.get("input")
            place, text = whole_number(get("index")), text if isinstance(text, str) else ""
            out.append(ToolCallDelta(place, str_or_none(get("id")), name, text, custom=True))
            out.append(HostedPart("custom", "call", "client", call_id=str_or_none(get("id")), name=name, raw=entry))
            return
        function = get("function")
        if type(function) is not dict:  # null between pieces; Workers AI and Ollama's own API have no `function`
            function = entry
        arguments = function.get("arguments")
        if arguments is None and (arguments := function.get("parameters")) is not None:
            out.append(Warn("repaired_arguments", "the server sent the arguments in `parameters`"))
        if type(arguments) is not str and arguments is not None:
            arguments = arguments_text(arguments, out)
        number, call_id, name = get("index"), get("id"), function.get("name")
        signature = get("extra_content")  # Gemini requires its signature in the next request
        out.append(
            ToolCallDelta(
                number if type(number) is int else whole_number(number),
                None if call_id is None else str_or_none(call_id),
                None if name is None else str_or_none(name),
                arguments or "",
                extra={"extra_content": signature} if signature else None,
            )
        )


# These are OpenAI's finish reasons and those of https://openrouter.ai/docs/api-reference/overview (error),
# https://docs.z.ai (sensitive, network_error, model_context_window_exceeded), https://api-docs.deepseek.com
# (insufficient_system_resource), Mistral (model_length), vLLM and SGLang (abort), Anthropic (end_turn, refusal) and
# Gemini (safety to spii; the last three errors mean that it dropped a call, coder/coder#28470). Compatible servers pass
# on the words of their engines, some in capitals, some with hyphens.
_FINISH_WORDS: dict[FinishReason | Literal["error"], tuple[str, ...]] = {
    "stop": ("stop", "eos", "eos_token", "end_turn", "stop_sequence"),
    "tool_calls": ("tool_calls", "tool_call", "tool_use", "function_call"),
    "content_filter": (
        "content_filter", "sensitive", "refusal", "safety", "recitation", "blocklist", "prohibited_content", "spii",
    ),
    "error": (
        "error", "abort", "network_error", "insufficient_system_resource", "cancelled", "canceled",
        "function_call_filter", "malformed_function_call", "unexpected_tool_call",
    ),
}  # fmt: skip
_FINISH_REASONS = {word: reason for reason, words in _FINISH_WORDS.items() for word in words}


def _finish_reason(said: str) -> FinishReason | Literal["error"] | None:
    """Converts a server's finish reason to streamfold's. Returns None for "" and "null" (DashScope)."""
    word, _, _ = said.lower().partition(":")  # Gemini adds details: "function_call_filter: MALFORMED_..."
    word = word.strip().replace("-", "_")
    if word in ("", "null", "none"):
        return None
    return _FINISH_REASONS.get(word) or guess_finish_reason(word)


def _is_cut(said: Any) -> bool:
    return isinstance(said, str) and _finish_reason(said) in ("length", "content_filter", "error")


def _parts(content: Any, out: list[Delta]) -> None:
    # Mistral and Databricks send reasoning in content parts.
    for part in content if isinstance(content, list) else [content]:
        match part:
            case str():
                out.append(TextDelta(part))
            case int() | float():
                out.append(Warn("malformed_event", f"content that is neither text nor parts was ignored: {part!r:.80}"))
            case {"type": "thinking", "thinking": str() | list()}:
                out.append(ReasoningDelta(_text_of(part)))
            case {"type": "reasoning", "summary": list()}:  # Databricks (fixtures/databricks)
                out.append(ReasoningDelta(_text_of(part)))
                out.append(ExtraPart("reasoning_parts", clean_json(part)))
            case {"type": "refusal", "refusal": str(text)}:
                out.append(RefusalDelta(text))
            case {"text": str(text)}:
                out.append(TextDelta(text))
            case dict():
                out.append(ExtraPart("content", clean_json(part)))


def _has_content(delta: Any) -> bool:
    return any(value for name, value in delta.items() if name != "role") if isinstance(delta, dict) else bool(delta)


def _text_of(value: Any) -> str:
    match value:
        case str():
            return value
        case list():
            return "".join(_text_of(part) for part in value if isinstance(part, dict))
        case {"text": str(text)} | {"thinking": str(text)} | {"summary": str(text)}:
            return text
        case {"thinking": list(parts)} | {"summary": list(parts)} | {"content": list(parts)}:
            return _text_of(parts)
    return ""


def _object(value: Any) -> dict[str, Any] | None:
    return value if value and isinstance(value, dict) else None
