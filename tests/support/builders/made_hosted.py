"""Answers with hosted tools, made from what makers document, and what a reply must say of them.

Each maker's blocks, parts or items are drawn at random, with texts in any script.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from random import Random
from typing import Any

LETTERS = ["a", "é", "ß", "中", "👋🏽", "👩\u200d👩\u200d👧", "é", "\u2028", "\n", "12°C", ""]
PAGE = "https://example.com/ü"


def words(rng: Random) -> str:
    return "".join(rng.choice(LETTERS) + rng.choice(["", " "]) for _ in range(rng.randint(1, 6))) + "x"


def sse(events: list[dict[str, Any]], *, ascii_only: bool) -> bytes:
    return "".join(f"data: {json.dumps(one, ensure_ascii=ascii_only)}\n\n" for one in events).encode()


def pieces(rng: Random, text: str) -> list[str]:
    at = sorted(rng.randint(0, len(text)) for _ in range(rng.randint(0, 3)))
    return [text[start:end] for start, end in zip([0, *at], [*at, len(text)], strict=True) if end > start]


@dataclass
class Made:
    """An answer, and what its reply must say."""

    body: bytes = b""
    text: str = ""
    hosted: list[tuple[str, str, str | None]] = field(default_factory=list)  # kind, part, error
    cited: list[tuple[str | None, int | None, int | None]] = field(default_factory=list)  # url and place
    files: list[tuple[str | None, bytes | None]] = field(default_factory=list)  # id, data
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    back: list[dict[str, Any]] = field(default_factory=list)  # what goes back to the maker


# --- Anthropic --------------------------------------------------------------------------------------------------------


def anthropic_blocks(rng: Random, made: Made) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for at in range(rng.randint(1, 6)):
        kind = rng.choice(["text", "text", "cited", "search", "failed", "fetch", "code", "mcp", "compaction", "file",
                           "thinking", "redacted", "unknown", "open"])  # fmt: skip
        use = {"type": "server_tool_use", "id": f"srvtoolu_{at}", "input": {"query": words(rng)}}
        match kind:
            case "text" | "cited":
                said = words(rng)
                block: dict[str, Any] = {"type": "text", "text": said}
                if kind == "cited":
                    place = {"type": "web_search_result_location", "url": PAGE, "title": words(rng), "cited_text": "x"}
                    block["citations"] = [{**place, "encrypted_index": "Eo8"} for _ in range(rng.randint(1, 2))]
                    start = len(made.text)
                    made.cited += [(PAGE, start, start + len(said)) for _ in block["citations"]]
                made.text += said
                blocks.append(block)
            case "thinking":
                blocks.append({"type": "thinking", "thinking": words(rng), "signature": "c2ln"})
            case "redacted":
                blocks.append({"type": "redacted_thinking", "data": "AAAA"})
            case "search" | "failed":
                found: Any = [{"type": "web_search_result", "url": PAGE, "title": "T", "encrypted_content": "EnB"}]
                if kind == "failed":
                    found = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
                result = {"type": "web_search_tool_result", "tool_use_id": use["id"], "content": found}
                blocks += [{**use, "name": "web_search"}, result]
                error = "max_uses_exceeded" if kind == "failed" else None
                made.hosted += [("web_search", "call", None), ("web_search", "result", error)]
            case "fetch":
                content = {"type": "web_fetch_result", "url": PAGE, "content": {"type": "document", "title": "é"}}
                result = {"type": "web_fetch_tool_result", "tool_use_id": use["id"], "content": content}
                blocks += [{**use, "name": "web_fetch"}, result]
                made.hosted += [("web_fetch", "call", None), ("web_fetch", "result", None)]
            case "code":
                output = [{"type": "bash_code_execution_output", "file_id": f"file_{at}"}]
                ran = {"type": "bash_code_execution_result", "stdout": words(rng), "stderr": "", "return_code": 0}
                content = {**ran, "content": output}
                result = {"type": "bash_code_execution_tool_result", "tool_use_id": use["id"], "content": content}
                blocks += [{**use, "name": "bash_code_execution"}, result]
                made.hosted += [("code_execution", "call", None), ("code_execution", "result", None)]
                made.files.append((f"file_{at}", None))
            case "mcp":
                call = {"type": "mcp_tool_use", "id": f"mcptoolu_{at}", "name": "ask", "server_name": "wiki"}
                said = words(rng)
                answer = {"type": "mcp_tool_result", "tool_use_id": call["id"], "is_error": True}
                blocks += [{**call, "input": {}}, {**answer, "content": [{"type": "text", "text": said}]}]
                made.hosted += [("mcp", "call", None), ("mcp", "result", said)]
            case "compaction":
                content = rng.choice([None, words(rng)])
                blocks.append({"type": "compaction", "content": content, "encrypted_content": "Enc" * 3})
                made.hosted.append(("compaction", "state", None))
            case "file":
                blocks.append({"type": "container_upload", "file_id": f"file_{at}"})
                made.hosted.append(("code_execution", "file", None))
            case "unknown":
                blocks.append({"type": "sketch_board", "id": f"sb_{at}", "strokes": [1.5, {"é": None}]})
                made.hosted.append(("unknown", "state", None))
            case "open":  # its result comes with the next answer
                blocks.append({**use, "name": "code_execution"})
                made.hosted.append(("code_execution", "call", None))
    for at in range(rng.choice([0, 0, 1, 2])):
        given = {"city": words(rng)}
        caller = rng.choice([{}, {"caller": {"type": "code_execution_20260120", "tool_id": "srvtoolu_0"}}])
        blocks.append({"type": "tool_use", "id": f"toolu_{at}", "name": "f", "input": given, **caller})
        made.calls.append(("f", given))
    return blocks


def anthropic(rng: Random) -> Made:
    made = Made()
    made.back = blocks = anthropic_blocks(rng, made)
    start = {"id": "msg_1", "model": "m", "content": [], "usage": {"input_tokens": 1, "output_tokens": 1}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for at, block in enumerate(blocks):
        begun, deltas = dict(block), list[dict[str, Any]]()
        match block["type"]:
            case "text":
                begun = {"type": "text", "text": ""}
                deltas += [{"type": "text_delta", "text": piece} for piece in pieces(rng, block["text"])]
                deltas += [{"type": "citations_delta", "citation": one} for one in block.get("citations", ())]
            case "thinking":
                begun = {"type": "thinking", "thinking": "", "signature": ""}
                deltas += [{"type": "thinking_delta", "thinking": piece} for piece in pieces(rng, block["thinking"])]
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            case "tool_use" | "server_tool_use" | "mcp_tool_use":
                begun["input"] = {}
                written = json.dumps(block["input"], ensure_ascii=False) if block["input"] else ""
                deltas += [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(rng, written)]
            case "compaction":
                begun = {"type": "compaction", "content": None, "encrypted_content": None}
                said = {name: block[name] for name in ("content", "encrypted_content")}
                deltas.append({"type": "compaction_delta", **said})
        events.append({"type": "content_block_start", "index": at, "content_block": begun})
        events += [{"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": at})
    reason = "tool_use" if made.calls else "end_turn"
    counts = {"input_tokens": 5, "output_tokens": 7, "server_tool_use": {"web_search_requests": 2}}
    events.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": counts})
    events.append({"type": "message_stop"})
    made.body = sse(events, ascii_only=rng.random() < 0.5)
    return made


# --- Gemini -----------------------------------------------------------------------------------------------------------


def gemini(rng: Random) -> Made:
    made = Made()
    parts: list[dict[str, Any]] = []
    for at in range(rng.randint(1, 6)):
        signed = rng.choice([{}, {"thoughtSignature": f"c2ln{at}"}])
        match rng.choice(["text", "text", "code", "failed", "search", "image", "call"]):
            case "text":
                said = words(rng)
                made.text += said
                parts.append({"text": said})
            case "code" | "failed" as how:
                outcome = "OUTCOME_OK" if how == "code" else "OUTCOME_FAILED"
                code = {"id": f"c{at}", "language": "PYTHON", "code": words(rng)}
                parts.append({"executableCode": code, **signed})
                parts.append({"codeExecutionResult": {"id": f"c{at}", "outcome": outcome, "output": words(rng)}})
                error = None if how == "code" else outcome
                made.hosted += [("code_execution", "call", None), ("code_execution", "result", error)]
            case "search":
                call = {"toolType": "GOOGLE_SEARCH_WEB", "id": f"t{at}", "args": {"queries": [words(rng)]}}
                parts.append({"toolCall": call, **signed})
                answer = {"toolType": "GOOGLE_SEARCH_WEB", "id": f"t{at}", "response": {"é": [1]}}
                parts.append({"toolResponse": answer})
                made.hosted += [("web_search", "call", None), ("web_search", "result", None)]
            case "image":
                parts.append({"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}, **signed})
                made.files.append((None, b"\x89PNG\r\n\x1a\n"))
            case "call":
                given = {"city": words(rng)}
                call = {"id": f"f{at}", "name": "f", "args": given}
                parts.append({"functionCall": call, "thoughtSignature": f"c2ln{at}"})  # as Gemini 3 does
                made.calls.append(("f", given))
    made.back = parts
    candidate: dict[str, Any] = {"finishReason": "STOP"}
    if made.text:
        start = rng.randint(0, len(made.text) - 1)
        end = rng.randint(start + 1, len(made.text))
        counted = {"startIndex": len(made.text[:start].encode()), "endIndex": len(made.text[:end].encode())}
        if not start:
            del counted["startIndex"]
        segment = {**counted, "text": made.text[start:end]}
        supports = [{"segment": segment, "groundingChunkIndices": [1, 0]}]
        chunks = [{"web": {"uri": PAGE, "title": "T"}}, {"web": {"uri": "https://b", "title": "é"}}]
        candidate["groundingMetadata"] = {"groundingChunks": chunks, "groundingSupports": supports}
        made.cited = [("https://b", start, end), (PAGE, start, end)]
    events: list[dict[str, Any]] = []
    for part in parts:
        split = [{"text": piece} for piece in pieces(rng, part["text"])] if "text" in part else [part]
        events += [{"candidates": [{"content": {"role": "model", "parts": [one]}}]} for one in split]
    usage = {"promptTokenCount": 5, "candidatesTokenCount": 7, "totalTokenCount": 12}
    events.append({"candidates": [candidate], "usageMetadata": usage, "responseId": "r", "modelVersion": "m"})
    made.body = sse(events, ascii_only=rng.random() < 0.5)
    return made


# --- OpenAI -----------------------------------------------------------------------------------------------------------


def openai(rng: Random) -> Made:
    made = Made()
    items: list[dict[str, Any]] = []
    for at in range(rng.randint(1, 6)):
        status = {"status": "completed"}
        match rng.choice(["text", "text", "search", "code", "image", "mcp", "list", "call", "compaction", "unknown"]):
            case "text":
                content: list[dict[str, Any]] = []
                for _ in range(rng.randint(1, 2)):
                    said = words(rng)
                    start = rng.randint(0, len(said) - 1)
                    end = rng.randint(start + 1, len(said))
                    cited = {"type": "url_citation", "url": PAGE, "title": "T", "start_index": start, "end_index": end}
                    found = [cited] if rng.random() < 0.6 else []
                    base = len(made.text)
                    made.cited += [(PAGE, base + start, base + end) for _ in found]
                    made.text += said
                    content.append({"type": "output_text", "text": said, "annotations": found})
                item: dict[str, Any] = {"id": f"msg_{at}", "type": "message", "role": "assistant", **status}
                item |= {"content": content, "phase": rng.choice(["commentary", "final_answer"])}
            case "search":
                action = {"type": "search", "query": words(rng)}
                item = {"id": f"ws_{at}", "type": "web_search_call", **status, "action": action}
                made.hosted.append(("web_search", "both", None))
            case "code":
                outputs = [{"type": "logs", "logs": words(rng)}]
                item = {"id": f"ci_{at}", "type": "code_interpreter_call", **status, "code": words(rng)}
                item |= {"container_id": "cntr_1", "outputs": outputs}
                made.hosted.append(("code_execution", "both", None))
            case "image":
                item = {"id": f"ig_{at}", "type": "image_generation_call", **status, "result": "iVBORw0KGgo="}
                made.hosted.append(("image_generation", "both", None))
                made.files.append((None, b"\x89PNG\r\n\x1a\n"))
            case "mcp":
                item = {"id": f"mcp_{at}", "type": "mcp_call", "status": "failed", "name": "ask", "server_label": "w"}
                item |= {"arguments": json.dumps({"q": words(rng)}), "output": None, "error": "no"}
                made.hosted.append(("mcp", "both", "no"))
            case "list":
                item = {"id": f"mcpl_{at}", "type": "mcp_list_tools", "server_label": "w", "tools": [{"name": "ask"}]}
                made.hosted.append(("mcp", "listing", None))
            case "call":
                given = {"city": words(rng)}
                written = json.dumps(given, ensure_ascii=False)
                item = {"id": f"fc_{at}", "type": "function_call", "call_id": f"call_{at}", "name": "f", **status}
                item |= {"arguments": written}
                made.calls.append(("f", given))
            case "compaction":
                item = {"id": f"cmp_{at}", "type": "compaction", "encrypted_content": "gAAA"}
                made.hosted.append(("compaction", "state", None))
            case _:
                item = {"id": f"x_{at}", "type": "acme:sketch", "strokes": [1.5, {"é": None}]}
                made.hosted.append(("unknown", "state", None))
        items.append(item)
    made.back = items
    made.body = responses_stream(rng, items)
    return made


def responses_stream(rng: Random, items: list[dict[str, Any]]) -> bytes:
    """The events of an answer with these items, in the order of the documentation."""
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": "r", "model": "m"}}]
    for at, item in enumerate(items):
        place = {"output_index": at, "item_id": item["id"]}
        events.append({"type": "response.output_item.added", "output_index": at, "item": begun(item)})
        of_message = item["type"] == "message"
        name = "response.output_text" if of_message else "response.reasoning_summary_text"
        for number, part in enumerate(item.get("content") or item.get("summary") or ()):
            where = {**place, "content_index" if of_message else "summary_index": number}
            events += [{"type": f"{name}.delta", **where, "delta": piece} for piece in pieces(rng, part["text"])]
            for annotation in part.get("annotations", ()):
                events.append({"type": "response.output_text.annotation.added", **where, "annotation": annotation})
            events.append({"type": f"{name}.done", **where, "text": part["text"]})
        for kind, member in (("function_call", "arguments"), ("custom_tool_call", "input")):
            if item["type"] == kind:
                name = f"response.{kind}_{member}"
                events += [{"type": f"{name}.delta", **place, "delta": piece} for piece in pieces(rng, item[member])]
                events.append({"type": f"{name}.done", **place, member: item[member]})
        done = {**item, "tools": []} if item["type"] == "mcp_list_tools" else item
        events.append({"type": "response.output_item.done", "output_index": at, "item": done})
    response = {"id": "r", "object": "response", "model": "m", "status": "completed", "output": items}
    events.append({"type": "response.completed", "response": response})
    return sse(events, ascii_only=rng.random() < 0.5)


def begun(item: dict[str, Any]) -> dict[str, Any]:
    """An item as it is when it begins."""
    empty: dict[str, Any] = {"content": [], "summary": [], "arguments": "", "input": ""}
    empty |= dict.fromkeys(("action", "code", "outputs", "result"))
    return {**item, **{name: value for name, value in empty.items() if name in item}, "status": "in_progress"}


MAKERS = {"anthropic": anthropic, "gemini": gemini, "responses": openai}
