"""Fourteen scenes, and a server that plays them on four APIs, written from the public documentation of each.

The model of a request names the scene. Once a request has results of calls, the answer is a text that repeats them, so
that what a client sends in its second turn can be seen in what it reads.

    Chat Completions  https://platform.openai.com/docs/api-reference/chat (`reasoning_content` is DeepSeek's)
    Responses         https://platform.openai.com/docs/api-reference/responses-streaming
    Messages          https://docs.anthropic.com/en/docs/build-with-claude/streaming
    Gemini            https://ai.google.dev/api/generate-content
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

__all__ = ["APIS", "SCENES", "Answer", "Failure", "scripted_server"]

JSON = dict[str, Any]
APIS = ("chat", "responses", "messages", "gemini")
INPUT, CACHED, OUTPUT, REASONING = 20, 4, 10, 6  # tokens; cached ones are part of the input, reasoning of the output


@dataclass(frozen=True)
class Answer:
    """What the model says.

    Attributes:
        calls: name and arguments of each.
        truncated: the limit of tokens was reached.
        cut: the body ends inside the last call.
        failed: an error takes the place of the end.
    """

    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, JSON], ...] = ()
    truncated: bool = False
    cut: bool = False
    failed: bool = False


@dataclass(frozen=True)
class Failure:
    """A status instead of an answer, with the type that OpenAI, Anthropic and Google give such an error."""

    status: int
    openai: str
    anthropic: str
    google: str
    code: str | None = None


OSLO, LIMA, TOKYO = (("get_weather", {"city": city}) for city in ("Oslo", "Lima", "東京"))
CITY = {"name": "Oslo", "population": 717710}

SCENES: dict[str, Answer | Failure] = {
    "text": Answer("Grüße from Oslo: 18 degrees."),
    "reasoning": Answer("It is mild.", reasoning="The user asks about Oslo."),
    "call": Answer("I will look.", calls=(OSLO,)),
    "parallel": Answer(calls=(OSLO, LIMA, TOKYO)),
    "reasoned-call": Answer(reasoning="I need the weather.", calls=(OSLO,)),
    "no-arguments": Answer(calls=(("get_time", {}),)),
    "truncated": Answer("Oslo is the capital of", truncated=True),
    "structured": Answer(json.dumps(CITY)),
    "cut": Answer("I will look.", calls=(OSLO,), cut=True),
    "failed": Answer("Oslo is", failed=True),
    "429": Failure(429, "rate_limit_error", "rate_limit_error", "RESOURCE_EXHAUSTED", "rate_limit_exceeded"),
    "400": Failure(400, "invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT"),
    "401": Failure(401, "invalid_request_error", "authentication_error", "UNAUTHENTICATED", "invalid_api_key"),
    "500": Failure(500, "server_error", "api_error", "INTERNAL"),
}


def scripted_server() -> Starlette:
    """The four APIs under one address."""

    async def play(request: Request) -> Response:
        api, model, stream = _addressed(request, body := json.loads(await request.body()))
        scene = SCENES[model]
        if isinstance(scene, Failure):
            error = _error(api, scene)
            return Response(json.dumps(error), scene.status, media_type="application/json")
        if results := list(_results(api, body)):
            scene = Answer(f"The tools say: {' | '.join(results)}.")
        elif model == "structured" and (tool := _only_tool(body)):
            scene = Answer(calls=((tool, CITY),))
        return _stream(api, scene, body) if stream else _whole(api, scene)

    paths = ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1beta/models/{method}", "/v1/models/{method}")
    return Starlette(routes=[Route(path, play, methods=["POST"]) for path in paths])


def _addressed(request: Request, body: JSON) -> tuple[str, str, bool]:
    """The API, the model and whether the answer is streamed."""
    if "method" in request.path_params:
        model, _, method = request.path_params["method"].rpartition(":")
        return "gemini", model, method == "streamGenerateContent"
    api = {"completions": "chat"}.get(last := request.url.path.rsplit("/", 1)[1], last)
    return api, body["model"], bool(body.get("stream"))


def _only_tool(body: JSON) -> str | None:
    """The name of the tool by which a client asks for structured output, where it does not ask for a format."""
    for tool in body.get("tools") or ():
        declared = tool.get("function") or (tool.get("functionDeclarations") or [tool])[0]
        return str(declared["name"])
    return None


def _results(api: str, body: JSON) -> Iterator[str]:
    """The results of calls in a request, as text."""
    match api:
        case "chat":
            yield from (_text(entry["content"]) for entry in body["messages"] if entry["role"] == "tool")
        case "responses":
            items = body["input"] if isinstance(body["input"], list) else []
            yield from (_text(item["output"]) for item in items if item.get("type") == "function_call_output")
        case "messages":
            blocks = [block for entry in body["messages"] for block in entry["content"] if isinstance(block, dict)]
            yield from (_text(block["content"]) for block in blocks if block["type"] == "tool_result")
        case "gemini":
            parts = [part for content in body["contents"] for part in content["parts"]]
            yield from (_text(part["functionResponse"]["response"]) for part in parts if "functionResponse" in part)


def _text(content: Any) -> str:
    """A result as text: APIs and clients wrap it in lists of parts and in objects of different names."""
    if isinstance(content, str) and content.startswith("{"):
        content = json.loads(content)  # an object, as Gemini has results, that was sent to another API
    match content:
        case list():
            return "".join(_text(part) for part in content)
        case {"text": text}:
            return str(text)
        case dict():
            return "".join(_text(value) for key, value in content.items() if key not in ("name", "type"))
    return str(content)


def _error(api: str, failure: Failure) -> JSON:
    message = f"the scene of status {failure.status}"
    if api == "messages":
        return {"type": "error", "error": {"type": failure.anthropic, "message": message}, "request_id": "req_1"}
    if api == "gemini":
        return {"error": {"code": failure.status, "message": message, "status": failure.google}}
    return {"error": {"message": message, "type": failure.openai, "param": None, "code": failure.code}}


def _whole(api: str, answer: Answer) -> Response:
    data = json.dumps(_WHOLE[api](replace(answer, cut=False)))
    return Response(data[: len(data) // 2] if answer.cut else data, media_type="application/json")


def _stream(api: str, answer: Answer, body: JSON) -> Response:
    events = list(_EVENTS[api](answer))
    if api == "chat" and not (body.get("stream_options") or {}).get("include_usage"):
        events = [event for event in events if not event.get("usage")]
    named = api in ("responses", "messages")
    lines = [(f"event: {event['type']}\n" if named else "") + f"data: {json.dumps(event)}\n\n" for event in events]
    if api == "chat" and not (answer.cut or answer.failed):
        lines.append("data: [DONE]\n\n")
    return Response("".join(lines), media_type="text/event-stream")


def _pieces(text: str) -> list[str]:
    return re.findall(r".{1,7}", text, re.DOTALL)


def _reasoning_tokens(answer: Answer) -> int:
    return REASONING if answer.reasoning else 0


# Chat Completions


def _chat_usage(answer: Answer) -> JSON:
    return {
        "prompt_tokens": INPUT,
        "completion_tokens": OUTPUT,
        "total_tokens": INPUT + OUTPUT,
        "prompt_tokens_details": {"cached_tokens": CACHED, "cache_write_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": _reasoning_tokens(answer)},
    }


def _chat_finish(answer: Answer) -> str:
    return "length" if answer.truncated else "tool_calls" if answer.calls else "stop"


def _chat_whole(answer: Answer) -> JSON:
    message: JSON = {"role": "assistant", "content": answer.text or None, "refusal": None}
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    if answer.calls:
        message["tool_calls"] = [
            {"id": f"call_{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for at, (name, arguments) in enumerate(answer.calls)
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _chat_finish(answer)}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1764000000, "model": "m"}
    return {**head, "choices": [choice], "usage": _chat_usage(answer)}


def _chat_events(answer: Answer) -> Iterator[JSON]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1764000000, "model": "m"}

    def chunk(delta: JSON, finish: str | None = None) -> JSON:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": None}

    yield chunk({"role": "assistant", "content": ""})
    for piece in _pieces(answer.reasoning):
        yield chunk({"reasoning_content": piece})
    for piece in _pieces(answer.text):
        yield chunk({"content": piece})
    if answer.failed:
        yield {"error": {"message": "the scene fails", "type": "server_error", "param": None, "code": "server_error"}}
        return
    for at, (name, arguments) in enumerate(answer.calls):
        function = {"name": name, "arguments": ""}
        yield chunk({"tool_calls": [{"index": at, "id": f"call_{at}", "type": "function", "function": function}]})
        pieces = _pieces(json.dumps(arguments))
        for piece in pieces[:-1] if answer.cut else pieces:
            yield chunk({"tool_calls": [{"index": at, "function": {"arguments": piece}}]})
    if not answer.cut:
        yield chunk({}, _chat_finish(answer))
        yield {**head, "choices": [], "usage": _chat_usage(answer)}


# Responses


def _responses_items(answer: Answer) -> list[JSON]:
    items: list[JSON] = []
    status = "incomplete" if answer.truncated else "completed"
    if answer.reasoning:
        summary = [{"type": "summary_text", "text": answer.reasoning}]
        items.append({"id": "rs_1", "type": "reasoning", "summary": summary, "encrypted_content": "c2NlbmU="})
    if answer.text:
        content = [{"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}]
        message = {"id": "msg_1", "type": "message", "role": "assistant", "status": status, "content": content}
        items.append(message)
    for at, (name, arguments) in enumerate(answer.calls):
        call = {"call_id": f"call_{at}", "name": name, "arguments": json.dumps(arguments)}
        items.append({"id": f"fc_{at}", "type": "function_call", "status": status, **call})
    return items


def _responses_whole(answer: Answer) -> JSON:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1764000000,
        "status": "incomplete" if answer.truncated else "completed",
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if answer.truncated else None,
        "instructions": None,
        "metadata": {},
        "model": "m",
        "output": _responses_items(answer),
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": INPUT,
            "input_tokens_details": {"cached_tokens": CACHED, "cache_write_tokens": 0},
            "output_tokens": OUTPUT,
            "output_tokens_details": {"reasoning_tokens": _reasoning_tokens(answer)},
            "total_tokens": INPUT + OUTPUT,
        },
    }


def _responses_events(answer: Answer) -> Iterator[JSON]:
    for number, event in enumerate(_responses_unnumbered(answer)):
        yield {**event, "sequence_number": number}


def _responses_unnumbered(answer: Answer) -> Iterator[JSON]:
    whole = _responses_whole(answer)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(whole["output"]):
        at = {"item_id": item["id"], "output_index": index}
        empty = {"reasoning": {"summary": []}, "message": {"content": []}, "function_call": {"arguments": ""}}
        state = {} if item["type"] == "reasoning" else {"status": "in_progress"}
        begun_item = {**item, **empty[item["type"]], **state}
        yield {"type": "response.output_item.added", "output_index": index, "item": begun_item}
        match item["type"]:
            case "reasoning":
                part, at = item["summary"][0], {**at, "summary_index": 0}
                yield {"type": "response.reasoning_summary_part.added", **at, "part": {**part, "text": ""}}
                for piece in _pieces(part["text"]):
                    yield {"type": "response.reasoning_summary_text.delta", **at, "delta": piece}
                yield {"type": "response.reasoning_summary_text.done", **at, "text": part["text"]}
                yield {"type": "response.reasoning_summary_part.done", **at, "part": part}
            case "message":
                part, at = item["content"][0], {**at, "content_index": 0}
                yield {"type": "response.content_part.added", **at, "part": {**part, "text": ""}}
                for piece in _pieces(part["text"]):
                    yield {"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []}
                if answer.failed:
                    error = {"code": "server_error", "message": "the scene fails"}
                    yield {"type": "error", "error": {"type": "server_error", "param": None, **error}}
                    yield {"type": "response.failed", "response": {**begun, "status": "failed", "error": error}}
                    return
                yield {"type": "response.output_text.done", **at, "text": part["text"], "logprobs": []}
                yield {"type": "response.content_part.done", **at, "part": part}
            case "function_call":
                pieces = _pieces(item["arguments"])
                for piece in pieces[:-1] if answer.cut else pieces:
                    yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
                if answer.cut:
                    return
                said = {"name": item["name"], "arguments": item["arguments"]}
                yield {"type": "response.function_call_arguments.done", **at, **said}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{whole['status']}", "response": whole}


# Messages


def _messages_usage(answer: Answer) -> JSON:
    return {
        "input_tokens": INPUT - CACHED,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": CACHED,
        "output_tokens": OUTPUT,
        "output_tokens_details": {"thinking_tokens": _reasoning_tokens(answer)},
    }


def _messages_whole(answer: Answer) -> JSON:
    content: list[JSON] = []
    if answer.reasoning:
        content.append({"type": "thinking", "thinking": answer.reasoning, "signature": "c2NlbmU="})
    if answer.text:
        content.append({"type": "text", "text": answer.text})
    for at, (name, arguments) in enumerate(answer.calls):
        content.append({"type": "tool_use", "id": f"toolu_{at}", "name": name, "input": arguments})
    reason = "max_tokens" if answer.truncated else "tool_use" if answer.calls else "end_turn"
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content}
    return {**head, "stop_reason": reason, "stop_sequence": None, "usage": _messages_usage(answer)}


def _messages_events(answer: Answer) -> Iterator[JSON]:
    whole = _messages_whole(answer)
    usage = {**whole["usage"], "output_tokens": 1, "output_tokens_details": None}
    yield {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None, "usage": usage}}
    for index, block in enumerate(whole["content"]):
        deltas: list[JSON]
        match block["type"]:
            case "thinking":
                empty = {"thinking": "", "signature": ""}
                deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"])]
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            case "text":
                empty = {"text": ""}
                deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
            case _:
                empty = {"input": {}}
                pieces = ["", *_pieces(json.dumps(block["input"]) if block["input"] else "")]
                deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        cut = answer.cut and block["type"] == "tool_use"
        yield {"type": "content_block_start", "index": index, "content_block": {**block, **empty}}
        for delta in deltas[:-1] if cut else deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        if cut:
            return
        if answer.failed:
            yield {"type": "error", "error": {"type": "api_error", "message": "the scene fails"}}
            return
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": whole["usage"]}
    yield {"type": "message_stop"}


# Gemini


def _gemini_parts(answer: Answer) -> list[JSON]:
    parts: list[JSON] = []
    if answer.reasoning:
        parts.append({"text": answer.reasoning, "thought": True})
    if answer.text:
        parts.append({"text": answer.text})
    signature = {"thoughtSignature": "c2NlbmU="} if answer.reasoning else {}
    for at, (name, arguments) in enumerate(answer.calls):  # the first of parallel calls is signed
        parts.append({"functionCall": {"name": name, "args": arguments}, **({} if at else signature)})
    return parts


def _gemini_chunk(parts: list[JSON], answer: Answer, finish: str | None) -> JSON:
    candidate = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    thoughts = _reasoning_tokens(answer)
    usage = {
        "promptTokenCount": INPUT,
        "cachedContentTokenCount": CACHED,
        "candidatesTokenCount": OUTPUT - thoughts,
        "totalTokenCount": INPUT + OUTPUT,
        **({"thoughtsTokenCount": thoughts} if thoughts else {}),
    }
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m", "responseId": "r1"}


def _gemini_whole(answer: Answer) -> JSON:
    return _gemini_chunk(_gemini_parts(answer), answer, "MAX_TOKENS" if answer.truncated else "STOP")


def _gemini_events(answer: Answer) -> Iterator[JSON]:
    for part in _gemini_parts(answer):
        if "functionCall" in part:
            if answer.cut:
                return  # a call is one part: the body ends before it
            yield _gemini_chunk([part], answer, None)
        else:
            for piece in _pieces(part["text"]):
                yield _gemini_chunk([{**part, "text": piece}], answer, None)
    if answer.failed:
        yield {"error": {"code": 500, "message": "the scene fails", "status": "INTERNAL"}}
    else:
        yield _gemini_chunk([{"text": ""}], answer, "MAX_TOKENS" if answer.truncated else "STOP")


_WHOLE: dict[str, Callable[[Answer], JSON]] = {
    "chat": _chat_whole, "responses": _responses_whole, "messages": _messages_whole, "gemini": _gemini_whole,
}  # fmt: skip
_EVENTS: dict[str, Callable[[Answer], Iterator[JSON]]] = {
    "chat": _chat_events, "responses": _responses_events, "messages": _messages_events, "gemini": _gemini_events,
}  # fmt: skip
