"""Events of Chat Completions to deltas: https://platform.openai.com/docs/api-reference/chat-streaming."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from ...deltas import Call, Delta, Done, Extra, Failure, Finish, Meta, Reasoning, Refusal, Text, Usage, Warn
from ...errors import error_info
from ...jsontext import parse_event
from ...types import FinishReason
from ..values import ERROR_KEYS, count, index, is_done, keep, word

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

__all__ = ["EventReader"]


class EventReader:
    """The half of the adapter that reads answers."""

    def decode(self, event: ServerSentEvent) -> list[Delta]:
        """The facts of one event. Raises ValueError if it is not a chunk of this format."""
        data = event.data
        if not data or data.isspace():
            return [Failure(error_info(None))] if event.event == "error" else []
        if is_done(data):
            return [Done()]
        out: list[Delta] = []
        for payload in self._payloads(data, out, failed=event.event == "error"):
            if isinstance(payload, Done):
                out.append(payload)
            else:
                self._chunk(payload, out, failed=event.event == "error")
        return out

    def decode_body(self, body: Any) -> list[Delta]:
        """The facts of a whole completion, or of an error, that came as a plain JSON body."""
        out: list[Delta] = []
        # A body that is no completion is an error in words of its own: {"code": 1302, "msg": "..."}.
        self._chunk(body, out, failed=not (isinstance(body, dict) and body.get("choices")))
        out.append(Done())
        return out

    def _payloads(self, data: str, out: list[Delta], *, failed: bool) -> Iterator[Any]:
        try:
            yield parse_event(data)
            return
        except ValueError:
            if failed:  # `event: error` with plain words
                yield data
                return
            if "\n" not in data:
                raise
        # Zhipu's older servers put no blank line between events, so that their payloads arrive as lines of one event.
        # Pretty-printed JSON parsed above; here each line must be a payload of its own.
        payloads = [Done() if is_done(line) else parse_event(line) for line in data.split("\n") if line.strip()]
        out.append(Warn("unseparated_events", "several payloads came without a blank line between them"))
        yield from payloads

    def _chunk(self, chunk: Any, out: list[Delta], *, failed: bool) -> None:
        if failed or not isinstance(chunk, dict):
            if not failed and not isinstance(chunk, list):
                raise ValueError(f"a JSON object was expected, not {type(chunk).__name__}")
            out.append(Failure(error_info(chunk), chunk))
            return
        out.append(Meta(word(chunk.get("id")), word(chunk.get("model")), chunk.get("created")))
        usage = _object(chunk.get("usage"))
        finish: str | None = None
        failure = self._failure(chunk)
        choices = chunk.get("choices") or []
        if not isinstance(choices, list):
            raise ValueError(f"choices must be a list, not {type(choices).__name__}")
        for choice in choices:
            if not isinstance(choice, dict):
                raise ValueError(f"a choice must be an object, not {choice!r}")
            if number := index(choice.get("index")):
                out.append(
                    Warn("extra_choice", f"choice {number} was sent and is ignored: one stream carries one answer")
                )
                continue
            # Perplexity and Writer repeat in `message` what is in `delta`; a server that only pretends to stream sends
            # `message` alone. Azure's content filter sends `delta: null` or no delta at all beside a finish reason.
            delta = choice.get("delta")
            if delta is None:
                delta = choice.get("message")
            if isinstance(delta, dict):
                self._delta(delta, out)
            finish = choice.get("finish_reason") or finish
            # Moonshot puts it inside the choice (fixtures/kimi/usage_in_choice).
            usage = usage or _object(choice.get("usage"))
            if error := choice.get("error"):  # OpenRouter
                failure = failure or Failure(error_info(error), error)
        if not usage and isinstance(groq := chunk.get("x_groq"), dict):
            usage = _object(groq.get("usage"))
            if error := groq.get("error"):
                failure = failure or Failure(error_info(error), chunk)
        if usage:
            out.append(self._usage(usage))
        if finish and not isinstance(finish, str):
            raise ValueError(f"a finish reason must be a word, not {finish!r}")
        reason = _FINISH_REASONS.get(finish.lower(), "unknown") if finish else None
        if reason == "error" and not failure:
            failure = Failure(
                error_info({"message": f"the provider ended with finish reason {finish!r}", "type": finish})
            )
        if failure:  # an error beats the finish reason that came with it
            out.append(failure)
        elif reason and reason != "error" and finish:
            out.append(Finish(reason, finish))

    def _failure(self, chunk: dict[str, Any]) -> Failure | None:
        if error := chunk.get("error"):
            return Failure(error_info(error if isinstance(error, Mapping) else chunk), chunk)
        if chunk.get("object") == "error":  # older vLLM: the chunk is the error
            return Failure(error_info(chunk), chunk)
        if not chunk.get("choices") and any(chunk.get(key) for key in ERROR_KEYS):
            return Failure(error_info(chunk), chunk)
        base = chunk.get("base_resp")  # MiniMax: a status of its own beside the choices, 0 when all is well
        if isinstance(base, dict) and base.get("status_code"):
            return Failure(error_info({"message": base.get("status_msg"), "code": base["status_code"]}), chunk)
        return None

    def _delta(self, delta: dict[str, Any], out: list[Delta]) -> None:
        self._reasoning(delta, out)
        content = delta.get("content")
        if content:
            if isinstance(content, str):
                out.append(Text(content))
            else:
                _parts(content, out)
        refusal = delta.get("refusal")
        if refusal and isinstance(refusal, str):
            out.append(Refusal(refusal))
        entries = delta.get("tool_calls")
        if isinstance(entries, list | dict) and entries:
            for entry in [entries] if isinstance(entries, dict) else entries:
                if isinstance(entry, dict):
                    self._call(entry, out)
        elif function := delta.get("function_call"):  # the form before `tool_calls`; there was never more than one
            self._call({"index": 0, "function": function}, out)
        for name in ("annotations", "audio", "reasoning_details"):
            value = delta.get(name)
            for item in value if isinstance(value, list) else [value] if value else ():
                out.append(Extra(name, keep(item)))

    def _reasoning(self, delta: dict[str, Any], out: list[Delta]) -> None:
        # Servers that send two of these send the same text in both.
        said = None
        for name in ("reasoning_content", "reasoning", "thinking", "thought"):
            text = delta.get(name)
            if isinstance(text, str):
                said = text
                if text:
                    break
        if not said and (details := delta.get("reasoning_details")) and isinstance(details, list):
            texts = [item.get("text") or item.get("summary") for item in details if isinstance(item, dict)]
            said = "".join(text for text in texts if isinstance(text, str))
        if said is not None:
            out.append(Reasoning(said))

    def _call(self, entry: dict[str, Any], out: list[Delta]) -> None:
        if entry.get("type") == "custom":  # free text for a tool of another kind: not a function, nothing to parse
            out.append(Extra("custom_tool_calls", entry))
            return
        function = entry.get("function")
        if not isinstance(function, dict):  # `"function": null` between two fragments
            function = {}
        arguments = function.get("arguments")
        if arguments is not None and not isinstance(arguments, str):
            out.append(Warn("repaired_arguments", "the arguments came as an object instead of its text"))
            arguments = json.dumps(arguments, ensure_ascii=False)
        signature = entry.get(
            "extra_content"
        )  # Gemini refuses the next turn without it: ai.google.dev, thought signatures
        out.append(
            Call(
                index(entry.get("index")),
                word(entry.get("id")),
                word(function.get("name")),
                arguments or "",
                extra={"extra_content": signature} if signature else None,
            )
        )

    def _usage(self, usage: dict[str, Any]) -> Usage:
        prompt = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
        completion = usage.get("completion_tokens_details") or usage.get("output_tokens_details") or {}
        return Usage(
            input_tokens=count(usage, "prompt_tokens", "input_tokens"),
            output_tokens=count(usage, "completion_tokens", "output_tokens"),
            total_tokens=count(usage, "total_tokens"),
            # In the details (OpenAI), on top (Moonshot), or under a name of its own (DeepSeek).
            cached_tokens=count(
                {**usage, **(prompt if isinstance(prompt, dict) else {})}, "cached_tokens", "prompt_cache_hit_tokens"
            ),
            reasoning_tokens=count(
                {**usage, **(completion if isinstance(completion, dict) else {})}, "reasoning_tokens"
            ),
            raw=usage,
        )


# Beside OpenAI's own words: https://openrouter.ai/docs/api-reference/overview (error), https://docs.z.ai (sensitive,
# network_error), https://api-docs.deepseek.com (insufficient_system_resource), Mistral (model_length), vLLM and SGLang
# (abort), and the words of engines that leak through compatible fronts, some in capitals. A word that nobody knows is
# "unknown"; it is never taken for "stop".
_FINISH_REASONS: dict[str, FinishReason | Literal["error"]] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
    "sensitive": "content_filter",
    "safety": "content_filter",
    "error": "error",
    "abort": "error",
    "network_error": "error",
    "insufficient_system_resource": "error",
}


def _parts(content: Any, out: list[Delta]) -> None:
    """Content as a list of parts: Mistral's reasoning models, with the reasoning among them."""
    for part in content if isinstance(content, list) else [content]:
        match part:
            case str():
                out.append(Text(part))
            case {"type": "thinking", "thinking": str(text)}:
                out.append(Reasoning(text))
            case {"type": "thinking", "thinking": list(pieces)}:
                texts = (piece.get("text") for piece in pieces if isinstance(piece, dict))
                out.append(Reasoning("".join(text for text in texts if isinstance(text, str))))
            case {"type": "refusal", "refusal": str(text)}:
                out.append(Refusal(text))
            case {"text": str(text)}:
                out.append(Text(text))
            case dict():
                out.append(Extra("content", keep(part)))


def _object(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) and value else None
