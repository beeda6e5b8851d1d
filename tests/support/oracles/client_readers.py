"""Strict readers of the four APIs that clients speak, written from their public documentation alone.

Each returns what a client has in the end, and raises AssertionError where a stream breaks a rule of its API.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Read:
    """What a client has of an answer."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: list[tuple[str, str, str]] = field(default_factory=list)  # id, name, arguments as JSON text
    finish: str | None = None
    usage: dict[str, Any] | None = None
    citations: list[dict[str, Any]] = field(default_factory=list)
    items: list[dict[str, Any]] = field(default_factory=list)
    error: Any = None


def sse(body: bytes) -> list[tuple[str, str]]:
    """Returns (event name, data) of each event, by the standard; half an event at the end counts for nothing."""
    found = []
    name, data = "", []
    for line in body.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n")[:-1]:
        if not line:
            if data:
                found.append((name, "\n".join(data)))
            name, data = "", []
            continue
        member, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if member == "data":
            data.append(value)
        elif member == "event":
            name = value
    return found


def so_far(api: str, body: bytes) -> Read:
    """Returns the texts of a stream that may have been cut, without any check."""
    read = Read()
    for _, data in sse(body):
        event = {} if data == "[DONE]" else json.loads(data)
        if api in ("chat", "kimi"):
            for choice in event.get("choices", []):
                read.text += choice["delta"].get("content") or ""
                read.reasoning += choice["delta"].get("reasoning_content") or ""
                read.refusal += choice["delta"].get("refusal") or ""
        elif api == "responses":
            for kind, member in (
                ("output_text", "text"),
                ("reasoning_summary_text", "reasoning"),
                ("refusal", "refusal"),
            ):
                if event["type"] == f"response.{kind}.delta":
                    setattr(read, member, getattr(read, member) + event["delta"])
        elif api == "anthropic":
            delta = event.get("delta", {})
            read.text += delta.get("text", "")
            read.reasoning += delta.get("thinking", "")
        else:
            for candidate in event.get("candidates", []):
                for part in candidate.get("content", {}).get("parts", []):
                    if part.get("thought"):
                        read.reasoning += part.get("text", "")
                    else:
                        read.text += part.get("text", "")
    return read


def read_chat(body: bytes, streamed: bool) -> Read:
    """Chat Completions: one choice, calls by their index, one finish reason, then usage and [DONE]."""
    read = Read()
    if not streamed:
        (choice,) = json.loads(body)["choices"]
        message = choice["message"]
        assert message["role"] == "assistant"
        _chat_message(read, message)
        read.calls = [_chat_call(call) for call in message.get("tool_calls") or ()]
        read.finish, read.usage = choice["finish_reason"], json.loads(body).get("usage")
        return read
    events = [data for _, data in sse(body)]
    if '"error"' in events[-1] and "error" in json.loads(events[-1]):
        read.error = json.loads(events[-1])["error"]
        return read
    assert events[-1] == "[DONE]", events[-1]
    ids = set()
    calls: dict[int, dict[str, Any]] = {}
    for at, data in enumerate(events[:-1]):
        chunk = json.loads(data)
        assert chunk["object"] == "chat.completion.chunk"
        ids.add((chunk["id"], chunk["model"]))
        if chunk.get("usage"):
            assert read.usage is None, "usage twice"
            read.usage = chunk["usage"]
        if not chunk["choices"]:
            continue
        (choice,) = chunk["choices"]
        assert choice["index"] == 0
        assert read.finish is None, f"a chunk behind the finish reason: {data}"
        delta = choice["delta"]
        assert at or delta.get("role") == "assistant", "the first chunk has the role"
        _chat_message(read, delta)
        for fragment in delta.get("tool_calls") or ():
            call = calls.get(fragment["index"])
            if call is None:
                assert fragment["index"] == len(calls)
                call = calls[fragment["index"]] = {
                    "id": fragment["id"],
                    "type": fragment["type"],
                    "function": {"arguments": ""},
                }
                call["function"]["name"] = fragment["function"]["name"]
            else:
                assert not fragment.get("id") or fragment["id"] == call["id"]
            call["function"]["arguments"] += fragment["function"].get("arguments") or ""
        read.finish = choice["finish_reason"]
    assert len(ids) == 1, ids
    read.calls = [_chat_call(call) for call in calls.values()]
    return read


def _chat_message(read: Read, message: dict[str, Any]) -> None:
    read.text += message.get("content") or ""
    read.reasoning += message.get("reasoning_content") or ""
    read.refusal += message.get("refusal") or ""
    for annotation in message.get("annotations") or ():
        read.citations.append(
            {key: annotation["url_citation"][key] for key in ("url", "title", "start_index", "end_index")}
        )


def _chat_call(call: dict[str, Any]) -> tuple[str, str, str]:
    assert call["type"] == "function"
    return call["id"], call["function"]["name"], call["function"]["arguments"]


def read_responses(body: bytes, streamed: bool) -> Read:
    """The Responses API: numbered events, items and parts in order, and the whole response at the end."""
    if not streamed:
        return _response(json.loads(body))
    items: dict[int, dict[str, Any]] = {}
    done: dict[int, dict[str, Any]] = {}
    last: dict[str, Any] = {}
    read = None
    for number, (name, data) in enumerate(event for event in sse(body)):
        event = json.loads(data)
        assert read is None, f"an event behind the end: {data}"
        assert event["type"] == name
        assert event["sequence_number"] == number, (event["sequence_number"], number)
        kind = event["type"].removeprefix("response.")
        index = event.get("output_index")
        if number == 0:
            assert kind == "created"
            assert event["response"]["output"] == []
        elif kind in ("in_progress", "queued"):
            pass
        elif kind == "output_item.added":
            assert index == len(items)
            items[index] = event["item"]
        elif kind == "output_item.done":
            assert index not in done
            _same(event["item"], items[index])
            done[index] = event["item"]
        elif kind in ("completed", "incomplete", "failed"):
            last = event["response"]
            read = _response(last)
        else:
            assert index not in done
            assert items[index]["id"] == event["item_id"]
            _grow(items[index], kind, event)
    assert read is not None, "the stream has no end"
    if last["status"] != "failed":
        assert [item for _, item in sorted(done.items())] == last["output"]
    return read


def _grow(item: dict[str, Any], kind: str, event: dict[str, Any]) -> None:
    if kind.startswith("reasoning_summary"):
        parts, at, member = item["summary"], event["summary_index"], "text"
    elif kind.startswith("reasoning_text"):
        parts, at, member = item.setdefault("content", []), event["content_index"], "text"
    elif kind.startswith(("content_part", "output_text", "refusal")):
        parts, at = item["content"], event["content_index"]
        refusal = kind.startswith("refusal") or event.get("part", {}).get("type") == "refusal"
        member = "refusal" if refusal else "text"
    else:
        assert kind.startswith("function_call_arguments"), kind
        if kind.endswith("delta"):
            item["arguments"] += event["delta"]
        else:
            assert event["arguments"] == item["arguments"]
        return
    if kind.endswith("part.added"):
        assert at == len(parts)
        assert event["part"][member] == ""
        parts.append(event["part"])
    elif kind.endswith("annotation.added"):
        assert event["annotation_index"] == len(parts[at]["annotations"])
        parts[at]["annotations"].append(event["annotation"])
    elif kind.endswith("part.done"):
        assert event["part"] == parts[at]
    elif kind.endswith("done"):
        assert event[member] == parts[at][member], (event[member], parts[at][member])
    else:
        assert kind.endswith("delta"), kind
        parts[at][member] += event["delta"]


def _same(item: dict[str, Any], grown: dict[str, Any]) -> None:
    members = {
        "message": ("id", "role", "content"),
        "function_call": ("id", "call_id", "name", "arguments"),
        "reasoning": ("id", "summary"),
    }
    for member in members[item["type"]]:
        assert item[member] == grown[member], (member, item, grown)


def _response(response: dict[str, Any]) -> Read:
    read = Read(
        finish=response["status"], usage=response.get("usage"), items=response["output"], error=response["error"]
    )
    if read.finish == "incomplete":
        read.finish = response["incomplete_details"]["reason"]
    ids = [item["id"] for item in read.items]
    assert len(set(ids)) == len(ids), ids
    for item in read.items:
        if item["type"] == "message":
            assert item["role"] == "assistant"
            for part in item["content"]:
                if part["type"] == "output_text":
                    for annotation in part["annotations"]:
                        place = {key: annotation[key] + len(read.text) for key in ("start_index", "end_index")}
                        read.citations.append({"url": annotation["url"], "title": annotation["title"]} | place)
                    read.text += part["text"]
                else:
                    assert part["type"] == "refusal"
                    read.refusal += part["refusal"]
        elif item["type"] == "function_call":
            read.calls.append((item["call_id"], item["name"], item["arguments"]))
        else:
            assert item["type"] == "reasoning", item
            read.reasoning += "".join(part["text"] for part in item["summary"])
    return read


def read_anthropic(body: bytes, streamed: bool) -> Read:
    """The Messages API: blocks one behind the other, then the stop reason, then the end of the message."""
    if not streamed:
        message = json.loads(body)
        return _message(message, message["content"])
    message, blocks, state = {}, [], "start"
    for name, data in sse(body):
        event = json.loads(data)
        assert event["type"] == name
        kind = name.removeprefix("content_block_")
        if kind == "ping":
            continue
        if kind == "error":
            return Read(error=event["error"])
        if kind == "message_start":
            assert state == "start"
            message, state = event["message"], "between"
            assert message["content"] == []
        elif kind == "start":
            assert state == "between"
            assert event["index"] == len(blocks)
            state = "inside"
            blocks.append(event["content_block"] | {"json": ""})
        elif kind == "delta":
            assert state == "inside"
            assert event["index"] == len(blocks) - 1
            _block_delta(blocks[-1], event["delta"])
        elif kind == "stop":
            assert state == "inside"
            assert event["index"] == len(blocks) - 1
            state = "between"
            if blocks[-1]["type"] == "tool_use" and blocks[-1]["json"]:
                blocks[-1]["input"] = json.loads(blocks[-1]["json"])
        elif kind == "message_delta":
            assert state == "between"
            state = "ending"
            message |= event["delta"]
            message["usage"] |= {key: value for key, value in event["usage"].items() if value is not None}
        else:
            assert (kind, state) == ("message_stop", "ending")
            state = "end"
    assert state == "end", state
    return _message(message, blocks)


def _block_delta(block: dict[str, Any], delta: dict[str, Any]) -> None:
    kinds = {"text_delta": ("text", "text"), "thinking_delta": ("thinking", "thinking"),
             "signature_delta": ("thinking", "signature"), "input_json_delta": ("tool_use", "partial_json"),
             "citations_delta": ("text", "citation")}  # fmt: skip
    of, member = kinds[delta["type"]]
    assert block["type"] == of
    if member == "citation":
        block["citations"] = [*(block.get("citations") or []), delta["citation"]]
    elif member == "partial_json":
        block["json"] += delta["partial_json"]
    else:
        block[member] = block.get(member, "") + delta[member]


def _message(message: dict[str, Any], blocks: list[dict[str, Any]]) -> Read:
    assert (message["type"], message["role"]) == ("message", "assistant")
    read = Read(finish=message["stop_reason"], usage=message["usage"], items=blocks)
    for block in blocks:
        if block["type"] == "text":
            assert block["text"], "an empty text block"
            assert block.get("citations") != []
            read.text += block["text"]
            read.citations += [
                {"url": cited.get("url"), "title": cited.get("title")} for cited in block.get("citations") or ()
            ]
        elif block["type"] == "thinking":
            read.reasoning += block["thinking"]
        else:
            assert block["type"] == "tool_use", block
            read.calls.append((block["id"], block["name"], json.dumps(block["input"])))
    return read


def read_gemini(body: bytes, streamed: bool) -> Read:
    """Gemini's API: parts of one candidate, and its finish reason on the last response."""
    responses = [json.loads(data) for _, data in sse(body)] if streamed else [json.loads(body)]
    read = Read()
    for response in responses:
        if "error" in response:
            read.error = response["error"]
            return read
        if response.get("usageMetadata"):
            read.usage = response["usageMetadata"]
        for candidate in response.get("candidates", []):
            assert candidate.get("index", 0) == 0
            assert read.finish is None, "something behind the finish reason"
            for part in candidate.get("content", {}).get("parts", []):
                if call := part.get("functionCall"):
                    read.calls.append((call.get("id", ""), call["name"], json.dumps(call.get("args", {}))))
                elif part.get("thought"):
                    read.reasoning += part["text"]
                else:
                    read.text += part.get("text", "")
            read.finish = candidate.get("finishReason")
            for chunk in candidate.get("groundingMetadata", {}).get("groundingChunks", []):
                read.citations.append({"url": chunk["web"]["uri"], "title": chunk["web"]["title"]})
    return read


READERS = {"chat": read_chat, "responses": read_responses, "anthropic": read_anthropic, "gemini": read_gemini}
