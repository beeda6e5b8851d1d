"""Answers of each API with nothing wrong in them, generated from its documentation."""

from __future__ import annotations

import json
import random
from typing import Any

Made = tuple[dict[str, Any], bytes]  # the members of a request, and its answer
WORDS = ["Hi", " there", "\n", " ", "日本", "{", "null", "é", "<b>", "\u2028", '"q"', "🙂"]
ARGUMENTS = ["{}", '{"city": "Oslo"}', '{"a": [1, {"b": null}], "c": "x y"}', ' {"n":1.50}', '{\n"t": "\\u00e9 }"\n}']
FUNCTION = {"name": "f", "parameters": {"type": "object", "properties": {}}}


def cut(pick: random.Random, text: str) -> list[str]:
    """Cuts a text in pieces, none of them empty."""
    places = sorted(pick.sample(range(1, len(text)), pick.randrange(min(4, len(text))))) if len(text) > 1 else []
    return [text[begin:end] for begin, end in zip([0, *places], [*places, len(text)], strict=True) if text[begin:end]]


def words(pick: random.Random) -> str:
    return "".join(pick.choices(WORDS, k=pick.randrange(1, 6)))


def written(pick: random.Random, payload: Any, name: str | None = None, line_end: str = "\n") -> bytes:
    text = json.dumps(payload, ensure_ascii=pick.random() < 0.3, separators=pick.choice([(",", ":"), (", ", ": ")]))
    head = f"event: {name}{line_end}" if name else ""
    return f"{head}data: {text}{line_end}{line_end}".encode()


# --- Chat Completions: https://platform.openai.com/docs/api-reference/chat -------------------------------------------


def chat(pick: random.Random, *, stream: bool) -> Made:
    kind = pick.choice(["text", "calls", "text and calls", "refusal", "function", "custom", "forced", "nothing", "cut"])
    text = words(pick) if "text" in kind or (kind in ("function", "calls") and pick.random() < 0.2) else ""
    calls = [
        {"id": f"call_{n}", "type": "function", "function": {"name": "f", "arguments": pick.choice(ARGUMENTS)}}
        for n in range(pick.randrange(1, 4) if "calls" in kind else kind == "forced")
    ]
    if kind == "custom":
        calls = [{"id": "call_c", "type": "custom", "custom": {"name": "run", "input": words(pick)}}]
    function = {"name": "f", "arguments": pick.choice(ARGUMENTS)} if kind == "function" else None
    refusal = words(pick) if kind == "refusal" else None
    request: dict[str, Any] = {"model": "m", "stream": stream}
    if function:
        request["functions"] = [FUNCTION]
        request |= pick.choice([{}, {"function_call": "auto"}, {"function_call": {"name": "f"}}])
    elif calls and kind != "custom":
        request["tools"] = [{"type": "function", "function": FUNCTION}]
        request |= {"tool_choice": {"type": "function", "function": {"name": "f"}}} if kind == "forced" else {}
    end = "tool_calls" if calls else "function_call" if function else "stop"
    end = "stop" if kind == "forced" or isinstance(request.get("function_call"), dict) else end
    end = {"cut": "length", "nothing": "content_filter"}.get(kind, end)
    text = words(pick) if kind == "cut" else text
    about: dict[str, Any] = {"id": "chatcmpl-1", "created": 17, "model": "m-1"}
    about |= pick.choice([{}, {"system_fingerprint": "fp_1"}, {"system_fingerprint": None, "service_tier": "default"}])
    beside = pick.choice([{}, {"logprobs": None}, {"logprobs": None, "content_filter_results": {"hate": {"f": False}}}])
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    reasoning = {"reasoning_content": words(pick)} if pick.random() < 0.2 else {}
    if not stream:
        message: dict[str, Any] = {"role": "assistant", "content": text or None, **reasoning}
        message |= pick.choice([{}, {"refusal": None, "annotations": []}])
        message |= {"refusal": refusal} if refusal else {}
        message |= {"tool_calls": calls} if calls else {}
        message |= {"function_call": function} if function else {}
        if kind == "nothing":
            choice = {"index": 0, "finish_reason": end, **pick.choice([{}, {"message": message}]), **beside}
        else:
            choice = {"index": 0, "message": message, **beside, "finish_reason": end}
        body = {**about, "object": "chat.completion", "choices": [choice], "usage": usage}
        spaces = pick.choice([(",", ":"), (", ", ": ")])
        return request, json.dumps(body, ensure_ascii=pick.random() < 0.3, separators=spaces).encode()
    with_usage = pick.random() < 0.5
    request |= {"stream_options": {"include_usage": True}} if with_usage else {}

    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, **beside, "finish_reason": reason}
        null = {"usage": None} if with_usage else {}
        return written(pick, {**about, "object": "chat.completion.chunk", "choices": [choice], **null})

    out = [chunk({"role": "assistant", "content": "" if pick.random() < 0.5 else None})]
    if kind == "function" and pick.random() < 0.5:
        out = []
    for name, value in reasoning.items():
        out += [chunk({name: piece}) for piece in cut(pick, value)]
    out += [chunk({"content": piece}) for piece in cut(pick, text)]
    out += [chunk({"refusal": piece}) for piece in cut(pick, refusal or "")]
    for n, call in enumerate(calls):
        kind_of = "function" if "function" in call else "custom"
        member = "arguments" if kind_of == "function" else "input"
        begun = {"index": n, **call, kind_of: {**call[kind_of], member: ""}}
        out.append(chunk({"tool_calls": [begun]}))
        for piece in cut(pick, call[kind_of][member]):
            out.append(chunk({"tool_calls": [{"index": n, kind_of: {member: piece}}]}))
    if function:
        first = {"role": "assistant", "content": None} if not out else {}
        out.append(chunk({**first, "function_call": {"name": "f", "arguments": ""}}))
        out += [chunk({"function_call": {"arguments": piece}}) for piece in cut(pick, function["arguments"])]
    out.append(chunk({}, end))
    if with_usage:
        out.append(written(pick, {**about, "object": "chat.completion.chunk", "choices": [], "usage": usage}))
    return request, b"".join(out) + b"data: [DONE]\n\n"


# --- Responses: https://platform.openai.com/docs/api-reference/responses-streaming -----------------------------------


def responses(pick: random.Random, *, stream: bool) -> Made:
    items = [_item(pick, n) for n in range(pick.randrange(1, 5))]
    response = {"id": "resp_1", "object": "response", "created_at": 17, "model": "m-1", "status": "completed"}
    response |= {"output": items, "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}, "error": None}
    request = {"model": "m", "stream": stream, "tools": [{"type": "function", **FUNCTION}]}
    if not stream:
        return request, json.dumps(response, ensure_ascii=pick.random() < 0.3).encode()
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [
        {"type": f"response.{name}", "response": begun} for name in ("created", "in_progress")
    ]
    for n, item in enumerate(items):
        events += _item_events(pick, n, item)
    events.append({"type": "response.completed", "response": response})
    numbered = [{**one, "sequence_number": n} for n, one in enumerate(events)]
    return request, b"".join([written(pick, one, one["type"]) for one in numbered])


def _item(pick: random.Random, n: int) -> dict[str, Any]:
    match pick.choice(["message", "message", "reasoning", "function_call", "custom_tool_call", "web_search_call"]):
        case "message":
            phase = pick.choice([{}, {"phase": "commentary"}, {"phase": "final_answer"}])
            parts = [_part(pick) for _ in range(pick.randrange(1, 4))]
            return {
                "id": f"msg_{n}",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": parts,
                **phase,
            }
        case "reasoning":
            summary = [{"type": "summary_text", "text": words(pick)} for _ in range(pick.randrange(3))]
            return {
                "id": f"rs_{n}",
                "type": "reasoning",
                "summary": summary,
                **pick.choice([{}, {"encrypted_content": "x"}]),
            }
        case "function_call":
            said = {"call_id": f"call_{n}", "name": "f", "arguments": pick.choice(ARGUMENTS)}
            return {"id": f"fc_{n}", "type": "function_call", "status": "completed", **said}
        case "custom_tool_call":
            return {
                "id": f"ctc_{n}",
                "type": "custom_tool_call",
                "call_id": f"call_{n}",
                "name": "run",
                "input": words(pick),
            }
    action = {"type": "search", "query": "x"}
    return {"id": f"ws_{n}", "type": "web_search_call", "status": "completed", "action": action}


def _part(pick: random.Random) -> dict[str, Any]:
    if pick.random() < 0.3:
        return {"type": "refusal", "refusal": words(pick)}
    text = words(pick)
    cited = {"type": "url_citation", "url": "https://a.test", "title": "t", "start_index": 0, "end_index": 1}
    more = pick.choice([{}, {"logprobs": []}])
    return {"type": "output_text", "text": text, "annotations": [cited] * pick.randrange(3), **more}


def _item_events(pick: random.Random, n: int, item: dict[str, Any]) -> list[dict[str, Any]]:
    kind, at = item["type"], {"item_id": item["id"], "output_index": n}
    empty = {"message": {"content": []}, "reasoning": {"summary": []}, "function_call": {"arguments": ""}}
    empty |= {"custom_tool_call": {"input": ""}}
    begun = {**item, **empty.get(kind, {}), **({"status": "in_progress"} if "status" in item else {})}
    begun.pop("encrypted_content", None)
    out: list[dict[str, Any]] = [{"type": "response.output_item.added", "output_index": n, "item": begun}]
    for number, part in enumerate(item.get("content", ())):
        where = {**at, "content_index": number}
        name = "refusal" if part["type"] == "refusal" else "output_text"
        member = "refusal" if name == "refusal" else "text"
        blank = {**part, member: "", **({"annotations": []} if name == "output_text" else {})}
        out.append({"type": "response.content_part.added", **where, "part": blank})
        out += [{"type": f"response.{name}.delta", **where, "delta": piece} for piece in cut(pick, part[member])]
        for m, one in enumerate(part.get("annotations", ())):
            noted = {**where, "annotation_index": m, "annotation": one}
            out.append({"type": "response.output_text.annotation.added", **noted})
        out.append({"type": f"response.{name}.done", **where, member: part[member]})
        out.append({"type": "response.content_part.done", **where, "part": part})
    for number, part in enumerate(item.get("summary", ())):
        where = {**at, "summary_index": number}
        out.append({"type": "response.reasoning_summary_part.added", **where, "part": {**part, "text": ""}})
        out += [
            {"type": "response.reasoning_summary_text.delta", **where, "delta": one} for one in cut(pick, part["text"])
        ]
        out.append({"type": "response.reasoning_summary_text.done", **where, "text": part["text"]})
        out.append({"type": "response.reasoning_summary_part.done", **where, "part": part})
    if kind in ("function_call", "custom_tool_call"):
        name = "function_call_arguments" if kind == "function_call" else "custom_tool_call_input"
        member = "arguments" if kind == "function_call" else "input"
        out += [{"type": f"response.{name}.delta", **at, "delta": piece} for piece in cut(pick, item[member])]
        out.append({"type": f"response.{name}.done", **at, member: item[member]})
    if kind == "web_search_call":
        out += [
            {"type": f"response.web_search_call.{word}", **at} for word in ("in_progress", "searching", "completed")
        ]
    return [*out, {"type": "response.output_item.done", "output_index": n, "item": item}]


# --- Messages: https://docs.anthropic.com/en/docs/build-with-claude/streaming ----------------------------------------


def messages(pick: random.Random, *, stream: bool) -> Made:
    blocks = [_block(pick, n) for n in range(pick.randrange(1, 5))]
    has_call = any(block["type"] == "tool_use" for block in blocks)
    reason = "tool_use" if has_call else pick.choice(["end_turn", "max_tokens", "stop_sequence", "refusal"])
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "c-1", "content": blocks}
    message |= {"stop_reason": reason, "stop_sequence": "END" if reason == "stop_sequence" else None}
    message |= {"usage": {"input_tokens": 3, "output_tokens": 2}}
    request = {"model": "c", "stream": stream, "tools": [{"name": "f", "input_schema": FUNCTION["parameters"]}]}
    if not stream:
        return request, json.dumps(message, ensure_ascii=pick.random() < 0.3).encode()
    begun = {
        **message,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 1},
    }
    out: list[dict[str, Any]] = [{"type": "message_start", "message": begun}]
    out += [{"type": "ping"}] if pick.random() < 0.5 else []
    for n, block in enumerate(blocks):
        start, deltas = _block_deltas(pick, block)
        out.append({"type": "content_block_start", "index": n, "content_block": start})
        out += [{"type": "content_block_delta", "index": n, "delta": delta} for delta in deltas]
        out.append({"type": "content_block_stop", "index": n})
    ends = {name: message[name] for name in ("stop_reason", "stop_sequence")}
    out.append({"type": "message_delta", "delta": ends, "usage": {"output_tokens": 2}})
    out.append({"type": "message_stop"})
    return request, b"".join([written(pick, one, one["type"]) for one in out])


def _block(pick: random.Random, n: int) -> dict[str, Any]:
    match pick.choice(["text", "text", "thinking", "redacted_thinking", "tool_use", "server_tool_use"]):
        case "text":
            cited = {
                "type": "char_location",
                "cited_text": "x",
                "document_index": 0,
                "start_char_index": 0,
                "end_char_index": 1,
            }
            return {
                "type": "text",
                "text": words(pick),
                **pick.choice([{}, {"citations": [cited]}, {"citations": None}]),
            }
        case "thinking":
            return {"type": "thinking", "thinking": pick.choice([words(pick), ""]), "signature": "sig"}
        case "redacted_thinking":
            return {"type": "redacted_thinking", "data": "opaque"}
        case "tool_use":
            return {"type": "tool_use", "id": f"toolu_{n}", "name": "f", "input": json.loads(pick.choice(ARGUMENTS))}
    return {"type": "server_tool_use", "id": f"srvtoolu_{n}", "name": "web_search", "input": {"query": "x"}}


def _block_deltas(pick: random.Random, block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match block:
        case {"type": "text", "text": text}:
            cited = [{"type": "citations_delta", "citation": one} for one in block.get("citations") or ()]
            pieces: list[dict[str, Any]] = [{"type": "text_delta", "text": piece} for piece in cut(pick, text)]
            return {"type": "text", "text": "", **({"citations": []} if cited else {})}, [*cited, *pieces]
        case {"type": "thinking", "thinking": text}:
            pieces = [{"type": "thinking_delta", "thinking": piece} for piece in cut(pick, text)]
            begun = {"type": "thinking", "thinking": "", "signature": ""}
            return begun, [*pieces, {"type": "signature_delta", "signature": "sig"}]
        case {"input": given}:
            text = json.dumps(given) if given else ""
            return {**block, "input": {}}, [
                {"type": "input_json_delta", "partial_json": piece} for piece in ["", *cut(pick, text)]
            ]
    return block, []


# --- Gemini: https://ai.google.dev/api/generate-content --------------------------------------------------------------


def gemini(pick: random.Random, *, stream: bool) -> Made:
    chunks = []
    for n in range(pick.randrange(1, 5) if stream else 1):
        parts = [_gemini_part(pick, n) for _ in range(pick.randrange(1, 3))]
        chunks.append(
            {
                "candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0}],
                "modelVersion": "g-1",
                "responseId": "r",
            }
        )
    has_call = "functionCall" in json.dumps(chunks)  # a call behind which the limit is reached is dropped
    chunks[-1]["candidates"][0]["finishReason"] = "STOP" if has_call else pick.choice(["STOP", "MAX_TOKENS"])
    counts = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}
    for chunk in chunks if pick.random() < 0.5 else chunks[-1:]:
        chunk["usageMetadata"] = counts
    request = {"contents": [], "tools": [{"functionDeclarations": [FUNCTION]}]}
    if not stream:
        return request, json.dumps(chunks[0], ensure_ascii=pick.random() < 0.3, indent=2).encode()
    return request, b"".join([written(pick, one, line_end="\r\n") for one in chunks])


def _gemini_part(pick: random.Random, n: int) -> dict[str, Any]:
    match pick.choice(["text", "text", "thought", "call", "code"]):
        case "text":
            return {"text": words(pick)} | pick.choice([{}, {"thoughtSignature": "c2ln"}])
        case "thought":
            return {"text": words(pick), "thought": True}
        case "call":
            made = {"functionCall": {"name": "f", "args": json.loads(pick.choice(ARGUMENTS))}}
            return made | pick.choice([{}, {"thoughtSignature": "c2ln"}])
    return {"executableCode": {"language": "PYTHON", "code": "print(1)"}}


APIS = {"chat": chat, "responses": responses, "anthropic": messages, "gemini": gemini}
