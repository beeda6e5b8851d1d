"""Four wire formats: reads their requests and writes whole and streamed answers."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from simulated_endpoints.model import Answer, Call, Json, Message, Request, Tool, dumps, loads

if TYPE_CHECKING:
    from simulated_endpoints.serving import Endpoint

CREATED = 1764374400  # 29 November 2025: a server's clock is no part of its faithfulness


def arguments_of(text: Json) -> Call:
    """Reads the arguments of a call of the history."""
    try:
        return Call("", loads(text) if isinstance(text, str) else text)
    except ValueError:
        return Call("", {}, cut=text)


def text_of(content: Json) -> str:
    """Returns the text of a content: a string, or the texts of its parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))


def sse(event: Json, name: str = "") -> bytes:
    return (f"event: {name}\n" if name else "").encode() + b"data: " + dumps(event).encode() + b"\n\n"


def seal(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def unseal(text: Json) -> str | None:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (ValueError, TypeError):
        return None


def pieces(endpoint: Endpoint, text: str) -> list[str]:
    """Groups the tokens of a text into the deltas of a stream."""
    parts = endpoint.tokens(text)
    size = max(1, len(parts) // 400 + 1)
    return ["".join(parts[at : at + size]) for at in range(0, len(parts), size)]


class Chat:
    """OpenAI's Chat Completions."""

    name = "chat"

    def read(self, body: Json, model: str) -> Request:
        messages = []
        for one in body["messages"]:
            role = {"function": "tool"}.get(one["role"], one["role"])
            thought = one.get("reasoning_content", one.get("reasoning"))
            calls = tuple(
                replace(
                    arguments_of(call["function"].get("arguments") or "{}"),
                    name=call["function"]["name"],
                    id=call.get("id", ""),
                )
                for call in one.get("tool_calls") or []
            )
            messages.append(Message(role, text_of(one.get("content")), thought, calls, one.get("tool_call_id", "")))
        tools = tuple(
            Tool(
                one["function"]["name"],
                one["function"].get("description") or "",
                one["function"].get("parameters") or {},
            )
            for one in body.get("tools") or []
            if one.get("type") == "function"
        )
        choice = body.get("tool_choice") or "auto"
        if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
            allowed = [one["function"]["name"] for one in choice["allowed_tools"]["tools"]]
            tools = tuple(one for one in tools if one.name in allowed)
            choice = choice["allowed_tools"].get("mode", "auto")
        if isinstance(choice, dict):
            choice = "=" + choice["function"]["name"]
        stop = body.get("stop") or ()
        effort = body.get("reasoning_effort") or (body.get("reasoning") or {}).get("effort")
        if effort is None and isinstance(body.get("thinking"), dict):
            effort = {"enabled": "medium", "disabled": "none"}.get(body["thinking"].get("type"))
        form = body.get("response_format") or {}
        schema = form["json_schema"].get("schema", {}) if form.get("type") == "json_schema" else None
        return Request(
            self.name,
            model,
            tuple(messages),
            tools,
            choice,
            body.get("parallel_tool_calls") is not False,
            body.get("max_completion_tokens") or body.get("max_tokens"),
            (stop,) if isinstance(stop, str) else tuple(stop),
            effort,
            {} if form.get("type") == "json_object" else schema,
            bool(body.get("stream")),
            body,
        )

    def usage(self, answer: Answer) -> Json:
        use = answer.usage
        return {
            "prompt_tokens": use.input,
            "completion_tokens": use.output,
            "total_tokens": use.input + use.output,
            "prompt_tokens_details": {"cached_tokens": use.cached},
            "completion_tokens_details": {"reasoning_tokens": use.reasoning},
        }

    def finish(self, answer: Answer) -> str:
        return "stop" if answer.finish == "stop_sequence" else answer.finish

    def whole(self, endpoint: Endpoint, request: Request, answer: Answer) -> Json:
        message: dict[str, Json] = {"role": "assistant", "content": answer.text or (None if answer.calls else "")}
        if answer.reasoning:
            message["reasoning_content"] = answer.reasoning
        if answer.calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.text}}
                for call in answer.calls
            ]
        return {
            "id": endpoint.new_id("chatcmpl-"),
            "object": "chat.completion",
            "created": CREATED,
            "model": endpoint.served_model(request),
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": self.finish(answer)}],
            "usage": self.usage(answer),
        }

    def stream(self, endpoint: Endpoint, request: Request, answer: Answer) -> Iterator[bytes]:
        base = {
            "id": endpoint.new_id("chatcmpl-"),
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": endpoint.served_model(request),
        }

        def chunk(delta: Json, finish: str | None = None) -> bytes:
            return sse({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

        yield chunk({"role": "assistant", "content": ""})
        for piece in pieces(endpoint, answer.reasoning):
            yield chunk({"reasoning_content": piece})
        for piece in pieces(endpoint, answer.text):
            yield chunk({"content": piece})
        for index, call in enumerate(answer.calls):
            function = {"name": call.name, "arguments": call.text if endpoint.whole_calls else ""}
            yield chunk({"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]})
            for piece in () if endpoint.whole_calls else pieces(endpoint, call.text):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield chunk({}, self.finish(answer))
        if (request.body.get("stream_options") or {}).get("include_usage"):
            yield sse({**base, "choices": [], "usage": self.usage(answer)})
        yield b"data: [DONE]\n\n"

    def error(self, status: int, message: str) -> Json:
        kind = "invalid_request_error" if status < 500 else "server_error"
        return {
            "error": {
                "message": message,
                "type": kind,
                "param": None,
                "code": "model_not_found" if status == 404 else None,
            }
        }


class Responses:
    """OpenAI's Responses."""

    name = "responses"

    def read(self, body: Json, model: str) -> Request:
        messages = [Message("system", body["instructions"])] if body.get("instructions") else []
        given = body.get("input") or []
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        waiting = Message("assistant")
        for one in [*items, {"type": "end"}]:
            kind = one.get("type", "message")
            role = one.get("role", "")
            if waiting != Message("assistant") and not (kind in ("function_call", "reasoning") or role == "assistant"):
                messages.append(waiting)
                waiting = Message("assistant")
            if kind == "reasoning":
                shown = text_of(one.get("content")) or text_of(one.get("summary"))
                waiting = replace(
                    waiting, reasoning=(waiting.reasoning or "") + (unseal(one.get("encrypted_content")) or shown)
                )
            elif kind == "function_call":
                call = replace(arguments_of(one.get("arguments") or "{}"), name=one["name"], id=one["call_id"])
                waiting = replace(waiting, calls=(*waiting.calls, call))
            elif kind == "function_call_output":
                messages.append(Message("tool", text_of(one.get("output")), call_id=one["call_id"]))
            elif role == "assistant":
                waiting = replace(waiting, text=waiting.text + text_of(one.get("content")))
            elif role:
                messages.append(Message(role, text_of(one.get("content"))))
        tools = tuple(
            Tool(one["name"], one.get("description") or "", one.get("parameters") or {})
            for one in body.get("tools") or []
            if one.get("type") == "function"
        )
        choice = body.get("tool_choice") or "auto"
        if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
            allowed = [one["name"] for one in choice["tools"]]
            tools = tuple(one for one in tools if one.name in allowed)
            choice = choice.get("mode", "auto")
        if isinstance(choice, dict):
            choice = "=" + choice["name"]
        form = (body.get("text") or {}).get("format") or {}
        schema = (
            form.get("schema")
            if form.get("type") == "json_schema"
            else {}
            if form.get("type") == "json_object"
            else None
        )
        effort = (body.get("reasoning") or {}).get("effort")
        return Request(
            self.name,
            model,
            tuple(messages),
            tools,
            choice,
            body.get("parallel_tool_calls") is not False,
            body.get("max_output_tokens"),
            (),
            effort,
            schema,
            bool(body.get("stream")),
            body,
        )

    def usage(self, answer: Answer) -> Json:
        use = answer.usage
        return {
            "input_tokens": use.input,
            "input_tokens_details": {"cached_tokens": use.cached},
            "output_tokens": use.output,
            "output_tokens_details": {"reasoning_tokens": use.reasoning},
            "total_tokens": use.input + use.output,
        }

    def items(self, endpoint: Endpoint, request: Request, answer: Answer) -> list[Json]:
        items: list[Json] = []
        status = "incomplete" if answer.finish == "length" else "completed"
        if answer.reasoning:
            item: dict[str, Json] = {"type": "reasoning", "id": endpoint.new_id("rs_"), "summary": []}
            if (request.body.get("reasoning") or {}).get("summary"):
                item["summary"] = [{"type": "summary_text", "text": answer.reasoning}]
            if "reasoning.encrypted_content" in (request.body.get("include") or []):
                item["encrypted_content"] = seal(answer.reasoning)
            items.append(item)
        if answer.text or not answer.calls:
            part = {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
            items.append(
                {
                    "type": "message",
                    "id": endpoint.new_id("msg_"),
                    "role": "assistant",
                    "status": status,
                    "content": [part],
                }
            )
        for call in answer.calls:
            state = "completed" if call.cut is None else "incomplete"
            items.append(
                {
                    "type": "function_call",
                    "id": endpoint.new_id("fc_"),
                    "call_id": call.id,
                    "name": call.name,
                    "arguments": call.text,
                    "status": state,
                }
            )
        return items

    def whole(self, endpoint: Endpoint, request: Request, answer: Answer) -> Json:
        whole = self._frame(endpoint, request, self.items(endpoint, request, answer), answer)
        endpoint.memory[whole["id"]] = [
            *request.messages,
            Message("assistant", answer.text, answer.reasoning or None, answer.calls),
        ]
        return whole

    def _frame(self, endpoint: Endpoint, request: Request, items: list[Json], answer: Answer | None) -> dict[str, Json]:
        cut = answer is not None and answer.finish == "length"
        return {
            "id": endpoint.new_id("resp_"),
            "object": "response",
            "created_at": CREATED,
            "status": "in_progress" if answer is None else "incomplete" if cut else "completed",
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "instructions": request.body.get("instructions"),
            "max_output_tokens": request.max_tokens,
            "model": endpoint.served_model(request),
            "output": items,
            "parallel_tool_calls": request.parallel,
            "previous_response_id": request.body.get("previous_response_id"),
            "reasoning": {"effort": request.effort, "summary": None},
            "store": request.body.get("store", True),
            "temperature": 1,
            "text": request.body.get("text") or {"format": {"type": "text"}},
            "tool_choice": request.body.get("tool_choice", "auto"),
            "tools": request.body.get("tools") or [],
            "top_p": 1,
            "truncation": "disabled",
            "usage": None if answer is None else self.usage(answer),
            "metadata": {},
        }

    def stream(self, endpoint: Endpoint, request: Request, answer: Answer) -> Iterator[bytes]:
        counter = itertools.count()

        def event(kind: str, **rest: Json) -> bytes:
            return sse({"type": kind, "sequence_number": next(counter), **rest}, kind)

        final = self.whole(endpoint, request, answer)
        begun = {**final, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
        yield event("response.created", response=begun)
        yield event("response.in_progress", response=begun)
        for index, item in enumerate(final["output"]):
            where = {"item_id": item["id"], "output_index": index}
            if item["type"] == "reasoning":
                yield event("response.output_item.added", output_index=index, item={**item, "summary": []})
                for number, part in enumerate(item["summary"]):
                    place = {**where, "summary_index": number}
                    yield event(
                        "response.reasoning_summary_part.added", **place, part={"type": "summary_text", "text": ""}
                    )
                    for piece in pieces(endpoint, part["text"]):
                        yield event("response.reasoning_summary_text.delta", **place, delta=piece)
                    yield event("response.reasoning_summary_text.done", **place, text=part["text"])
                    yield event("response.reasoning_summary_part.done", **place, part=part)
            elif item["type"] == "message":
                yield event(
                    "response.output_item.added",
                    output_index=index,
                    item={**item, "status": "in_progress", "content": []},
                )
                place = {**where, "content_index": 0}
                part = item["content"][0]
                yield event("response.content_part.added", **place, part={**part, "text": ""})
                for piece in pieces(endpoint, part["text"]):
                    yield event("response.output_text.delta", **place, delta=piece, logprobs=[])
                yield event("response.output_text.done", **place, text=part["text"], logprobs=[])
                yield event("response.content_part.done", **place, part=part)
            else:
                yield event(
                    "response.output_item.added",
                    output_index=index,
                    item={**item, "status": "in_progress", "arguments": ""},
                )
                for piece in [item["arguments"]] if endpoint.whole_calls else pieces(endpoint, item["arguments"]):
                    yield event("response.function_call_arguments.delta", **where, delta=piece)
                yield event(
                    "response.function_call_arguments.done", **where, name=item["name"], arguments=item["arguments"]
                )
            yield event("response.output_item.done", output_index=index, item=item)
        yield event("response.incomplete" if final["status"] == "incomplete" else "response.completed", response=final)

    error = Chat.error


class Messages:
    """Anthropic's Messages."""

    name = "messages"

    def read(self, body: Json, model: str) -> Request:
        messages = [Message("system", text_of(body["system"]))] if body.get("system") else []
        for one in body["messages"]:
            content = one["content"]
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            texts, thoughts, calls = [], [], []
            for part in parts:
                if part["type"] == "text":
                    texts.append(part["text"])
                elif part["type"] == "thinking":
                    thoughts.append(part["thinking"])
                elif part["type"] == "tool_use":
                    calls.append(Call(part["name"], part["input"], part["id"]))
                elif part["type"] == "tool_result":
                    messages.append(Message("tool", text_of(part.get("content")), call_id=part["tool_use_id"]))
            if texts or thoughts or calls:
                messages.append(
                    Message(one["role"], "\n".join(texts), "".join(thoughts) if thoughts else None, tuple(calls))
                )
        tools = tuple(
            Tool(one["name"], one.get("description") or "", one.get("input_schema") or {})
            for one in body.get("tools") or []
        )
        said = body.get("tool_choice") or {"type": "auto"}
        choice = {"any": "required", "tool": "=" + said.get("name", "")}.get(said["type"], said["type"])
        thinking = body.get("thinking") or {}
        settings = body.get("output_config") or {}
        effort = None
        if thinking.get("type") in ("enabled", "adaptive"):
            budget = thinking.get("budget_tokens") or 0
            effort = settings.get("effort") or ("high" if budget >= 8000 else "medium" if budget >= 3000 else "low")
        form = settings.get("format") or body.get("output_format") or {}
        return Request(
            self.name,
            model,
            tuple(messages),
            tools,
            choice,
            not said.get("disable_parallel_tool_use"),
            body.get("max_tokens"),
            tuple(body.get("stop_sequences") or ()),
            effort,
            form.get("schema") if form.get("type") == "json_schema" else None,
            bool(body.get("stream")),
            body,
        )

    def usage(self, answer: Answer) -> Json:
        use = answer.usage
        return {
            "input_tokens": use.input - use.cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": use.cached,
            "output_tokens": use.output,
        }

    def finish(self, answer: Answer) -> str:
        return {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}.get(answer.finish, answer.finish)

    def blocks(self, answer: Answer) -> list[tuple[Json, str]]:
        """Returns the blocks of an answer, each with the text that its deltas carry."""
        blocks: list[tuple[Json, str]] = []
        if answer.reasoning:
            blocks.append(
                (
                    {"type": "thinking", "thinking": answer.reasoning, "signature": seal(answer.reasoning)},
                    answer.reasoning,
                )
            )
        if answer.text or not (answer.calls or answer.reasoning):
            blocks.append(({"type": "text", "text": answer.text}, answer.text))
        for call in answer.calls:
            value = call.arguments if call.cut is None else {}
            blocks.append(({"type": "tool_use", "id": call.id, "name": call.name, "input": value}, call.text))
        return blocks

    def whole(self, endpoint: Endpoint, request: Request, answer: Answer) -> Json:
        return {
            "id": endpoint.new_id("msg_"),
            "type": "message",
            "role": "assistant",
            "model": endpoint.served_model(request),
            "content": [block for block, _ in self.blocks(answer)],
            "stop_reason": self.finish(answer),
            "stop_sequence": answer.matched if answer.finish == "stop_sequence" else None,
            "usage": self.usage(answer),
        }

    def stream(self, endpoint: Endpoint, request: Request, answer: Answer) -> Iterator[bytes]:
        def event(kind: str, **rest: Json) -> bytes:
            return sse({"type": kind, **rest}, kind)

        final = self.whole(endpoint, request, answer)
        begun = {
            **final,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {**final["usage"], "output_tokens": 1},
        }
        yield event("message_start", message=begun)
        yield event("ping")
        for index, (block, text) in enumerate(self.blocks(answer)):
            kind = block["type"]
            if kind == "thinking":
                yield event(
                    "content_block_start", index=index, content_block={"type": kind, "thinking": "", "signature": ""}
                )
                for piece in pieces(endpoint, text):
                    yield event("content_block_delta", index=index, delta={"type": "thinking_delta", "thinking": piece})
                yield event(
                    "content_block_delta",
                    index=index,
                    delta={"type": "signature_delta", "signature": block["signature"]},
                )
            elif kind == "text":
                yield event("content_block_start", index=index, content_block={"type": kind, "text": ""})
                for piece in pieces(endpoint, text):
                    yield event("content_block_delta", index=index, delta={"type": "text_delta", "text": piece})
            else:
                yield event("content_block_start", index=index, content_block={**block, "input": {}})
                for piece in [text] if endpoint.whole_calls else pieces(endpoint, text):
                    yield event(
                        "content_block_delta", index=index, delta={"type": "input_json_delta", "partial_json": piece}
                    )
            yield event("content_block_stop", index=index)
        delta = {"stop_reason": final["stop_reason"], "stop_sequence": final["stop_sequence"]}
        yield event("message_delta", delta=delta, usage=final["usage"])
        yield event("message_stop")

    def error(self, status: int, message: str) -> Json:
        kind = {404: "not_found_error"}.get(status, "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": message}}


class Gemini:
    """Google's generateContent."""

    name = "gemini"

    def read(self, body: Json, model: str) -> Request:
        messages = []
        system = body.get("systemInstruction") or body.get("system_instruction")
        if system:
            messages.append(Message("system", text_of(system["parts"])))
        for one in body["contents"]:
            texts, thoughts, calls, seals = [], [], [], []
            for part in one.get("parts") or []:
                seals += [unseal(part.get("thoughtSignature")) or ""]
                if "functionCall" in part:
                    call = part["functionCall"]
                    calls.append(Call(call["name"], call.get("args") or {}, call.get("id", "")))
                elif "functionResponse" in part:
                    result = part["functionResponse"]["response"]
                    only = next(iter(result.values())) if len(result) == 1 else result
                    messages.append(
                        Message(
                            "tool",
                            only if isinstance(only, str) else dumps(only),
                            call_id=part["functionResponse"].get("id", ""),
                        )
                    )
                elif "text" in part:
                    (thoughts if part.get("thought") else texts).append(part["text"])
            thought = "".join(seals) or "".join(thoughts)
            if texts or calls or thought:
                role = "assistant" if one.get("role") == "model" else "user"
                messages.append(Message(role, "".join(texts), thought or None, tuple(calls)))
        tools = tuple(
            Tool(
                one["name"],
                one.get("description") or "",
                lower_types(one.get("parametersJsonSchema") or one.get("parameters") or {}),
            )
            for group in body.get("tools") or []
            for one in group.get("functionDeclarations") or group.get("function_declarations") or []
        )
        calling = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
        allowed = calling.get("allowedFunctionNames") or []
        choice = {"ANY": "required", "NONE": "none"}.get(calling.get("mode", "AUTO"), "auto")
        if choice == "required" and allowed:
            tools = tuple(one for one in tools if one.name in allowed)
        settings = body.get("generationConfig") or {}
        thinking = settings.get("thinkingConfig") or {}
        effort = str(thinking["thinkingLevel"]).lower() if thinking.get("thinkingLevel") else None
        if "thinkingBudget" in thinking:
            effort = (
                "none"
                if thinking["thinkingBudget"] == 0
                else "high"
                if thinking["thinkingBudget"] >= 8000
                else "medium"
            )
        schema = settings.get("responseJsonSchema") or settings.get("responseSchema")
        if schema is None and settings.get("responseMimeType") == "application/json":
            schema = {}
        return Request(
            self.name,
            model,
            tuple(messages),
            tools,
            choice,
            True,
            settings.get("maxOutputTokens"),
            tuple(settings.get("stopSequences") or ()),
            effort,
            lower_types(schema) if schema is not None else None,
            False,
            body,
        )

    def usage(self, answer: Answer) -> Json:
        use = answer.usage
        counted = {
            "promptTokenCount": use.input,
            "candidatesTokenCount": use.output - use.reasoning,
            "totalTokenCount": use.input + use.output,
        }
        if use.reasoning:
            counted["thoughtsTokenCount"] = use.reasoning
        if use.cached:
            counted["cachedContentTokenCount"] = use.cached
        return counted

    def parts(self, request: Request, answer: Answer) -> list[Json]:
        parts: list[Json] = []
        shows = ((request.body.get("generationConfig") or {}).get("thinkingConfig") or {}).get("includeThoughts")
        if answer.reasoning and shows:
            parts.append({"text": answer.reasoning, "thought": True})
        if answer.text or not answer.calls:
            parts.append({"text": answer.text})
        parts += [
            {"functionCall": {"name": call.name, "args": call.arguments}} for call in answer.calls if call.cut is None
        ]
        if answer.reasoning and parts and not parts[-1].get("thought"):
            first = next((part for part in parts if "functionCall" in part), parts[-1])
            first["thoughtSignature"] = seal(answer.reasoning)
        return parts

    def whole(self, endpoint: Endpoint, request: Request, answer: Answer) -> Json:
        return self._frame(endpoint, request, self.parts(request, answer), answer, endpoint.new_id("r"))

    def _frame(self, endpoint: Endpoint, request: Request, parts: list[Json], answer: Answer | None, new: str) -> Json:
        candidate: dict[str, Json] = {"content": {"role": "model", "parts": parts}, "index": 0}
        if answer is not None:
            candidate["finishReason"] = "MAX_TOKENS" if answer.finish == "length" else "STOP"
        frame = {"candidates": [candidate], "modelVersion": endpoint.served_model(request), "responseId": new}
        return frame if answer is None else {**frame, "usageMetadata": self.usage(answer)}

    def stream(self, endpoint: Endpoint, request: Request, answer: Answer) -> Iterator[bytes]:
        new = endpoint.new_id("r")
        for part in self.parts(request, answer):
            if "text" not in part:
                yield sse(self._frame(endpoint, request, [part], None, new))
                continue
            rest = {key: part[key] for key in part if key != "text"}
            for piece in pieces(endpoint, part["text"]):
                sealed = {key: rest[key] for key in rest if key == "thought"}
                yield sse(self._frame(endpoint, request, [{"text": piece, **sealed}], None, new))
            if "thoughtSignature" in rest:
                yield sse(
                    self._frame(
                        endpoint, request, [{"text": "", "thoughtSignature": rest["thoughtSignature"]}], None, new
                    )
                )
        yield sse(self._frame(endpoint, request, [{"text": ""}], answer, new))

    def error(self, status: int, message: str) -> Json:
        return {
            "error": {
                "code": status,
                "message": message,
                "status": "NOT_FOUND" if status == 404 else "INVALID_ARGUMENT",
            }
        }


def lower_types(schema: Json) -> Json:
    """Writes the types of Google's schemas as JSON Schema does."""
    if isinstance(schema, list):
        return [lower_types(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: schema[key].lower() if key == "type" and isinstance(schema[key], str) else lower_types(schema[key])
        for key in schema
    }


CHAT, RESPONSES, MESSAGES, GEMINI = Chat(), Responses(), Messages(), Gemini()


def error_body(api: Json, status: int, message: str) -> bytes:
    return json.dumps(api.error(status, message), ensure_ascii=False).encode()
