"""What the tests of the written APIs share: writing an answer, reading it back, and what other people's clients and
types say of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from enum import EnumMeta
from functools import cache
from importlib import import_module
from typing import Any, get_args

from folding import fold_chunks
from sdks import openai
from streamfold import Reply, StreamChunk, Usage
from streamfold.deltas import Delta
from streamfold.jsontext.parsing import join_surrogates
from streamfold.serving.anthropic import AnthropicSerializer
from streamfold.serving.chat.serializer import ChatSerializer
from streamfold.serving.gemini import GeminiSerializer
from streamfold.serving.reply_deltas import end_deltas, reply_deltas
from streamfold.serving.reply_writer import chunk_deltas
from streamfold.serving.responses.serializer import ResponsesSerializer
from streamfold.serving.stream_serializer import StreamSerializer

APIS = ("chat", "responses")


def serializer(api: str, **rest: Any) -> StreamSerializer:
    """A serializer for this API; `include_usage` is for the one that asks."""
    if api == "anthropic":
        rest.pop("include_usage", None)
        return AnthropicSerializer(**{"id": "msg_0", "model": "m", **rest})
    if api == "gemini":
        rest.pop("include_usage", None)
        return GeminiSerializer(**{"id": "r-0", "model": "m", **rest})
    if api == "responses":
        rest.pop("include_usage", None)
        return ResponsesSerializer(**{"id": "resp_0", "model": "m", "created": 1, **rest})
    return ChatSerializer(**{"id": "chatcmpl-0", "model": "m", "created": 1, "include_usage": True, **rest})


def emit(api: str, deltas: Iterable[Delta], **rest: Any) -> bytes:
    """The body of an answer with these deltas."""
    made = serializer(api, **rest)
    return made.feed_all(deltas) + made.finish()


def emit_chunks(api: str, chunks: Iterable[StreamChunk], reply: Reply, **rest: Any) -> bytes:
    """The body of an answer that came as chunks and a reply, as a gateway gets it."""
    made = serializer(api, **{"id": reply.id or "id_0", "model": reply.model or "m", **rest})
    body = b"".join([made.feed_all(chunk_deltas(chunk)) for chunk in chunks])
    return body + made.feed_all(end_deltas(reply)) + made.finish()


def emit_reply(api: str, reply: Reply, **rest: Any) -> bytes:
    """The body of an answer that is there already."""
    return emit(api, reply_deltas(reply), **rest)


def whole(api: str, reply: Reply, **rest: Any) -> dict[str, Any]:
    """The body of an answer that is there already, for a client that asked for no stream."""
    made = serializer(api, **rest)
    return made.serialize_whole([*chunk_deltas(StreamChunk(reply.text, reasoning=reply.reasoning)), *end_deltas(reply)])


def payloads(body: bytes) -> list[dict[str, Any]]:
    """The payloads of a body's events, without `[DONE]`."""
    lines = [line[6:] for line in body.decode().replace("\r\n", "\n").split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def types(body: bytes) -> list[str]:
    """The types of the events of a response, without their common beginning."""
    return [payload["type"].removeprefix("response.") for payload in payloads(body)]


def written_calls(body: bytes) -> dict[str, str]:
    """The text of the arguments of each call that a body begins, on any of the written APIs, by the call's id."""
    texts: dict[str, str] = {}
    places: dict[Any, str] = {}

    def add(place: Any, call_id: str | None, piece: str) -> None:
        if call_id:
            places[place] = call_id
        if place in places:  # else it is the input of a tool that the server runs
            texts[places[place]] = texts.get(places[place], "") + piece

    for payload in payloads(body):
        for choice in payload.get("choices", ()):
            for entry in choice["delta"].get("tool_calls", ()):
                add(entry["index"], entry.get("id"), entry["function"]["arguments"])
        match payload.get("type"):
            case "response.output_item.added" if payload["item"]["type"] == "function_call":
                add(payload["output_index"], payload["item"]["call_id"], "")
            case "response.function_call_arguments.delta":
                add(payload["output_index"], None, payload["delta"])
            case "content_block_start" if payload["content_block"]["type"] == "tool_use":
                add(payload["index"], payload["content_block"]["id"], "")
            case "content_block_delta" if payload["delta"]["type"] == "input_json_delta":
                add(payload["index"], None, payload["delta"]["partial_json"])
    return texts


def open_calls(body: bytes) -> list[str]:
    """The arguments of the calls that a body begins and does not end.

    On Chat Completions nothing says where a call ends but what comes behind it: the last one is open, if it was the
    last thing that came.
    """
    texts = written_calls(body)
    last = next((one["choices"][0]["delta"] for one in reversed(payloads(body)) if one.get("choices")), None)
    return list(texts.values()) if last is None else list(texts.values())[-1:] if last.get("tool_calls") else []


def looks_whole(arguments: str) -> bool:
    """Whether a client may take a text for the arguments of a call: an object, or nothing at all."""
    try:
        return not arguments.strip() or isinstance(json.loads(arguments), dict)
    except ValueError:
        return False


def comments(body: bytes) -> list[str]:
    """The comments of a body."""
    return [line[2:] for line in body.decode().split("\n") if line.startswith(": ")]


def read(api: str, body: bytes, pieces: Iterable[bytes] | None = None, **decoder: Any) -> Reply:
    """What our own decoder makes of a body."""
    return fold_chunks(body, pieces, adapter=api, **decoder)[1]


def facts(reply: Reply) -> dict[str, Any]:
    """What an answer says, apart from how it was said."""
    return {
        "text": reply.text,
        "reasoning": reply.reasoning,
        "reasoned": reply.reasoned,
        "refusal": reply.refusal,
        "calls": [(call.id, call.name, call.raw_arguments) for call in reply.tool_calls],
        "finish_reason": reply.finish_reason,
        "usage": reply.usage and replace(reply.usage, raw={}, tools={}, details={}),
        "id": reply.id,
        "model": reply.model,
    }


def on(api: str, said: dict[str, Any]) -> dict[str, Any]:
    """What these facts are on an API: where it demands a number there is one, and it has one word for a good end."""
    usage: Usage | None = said["usage"]
    if usage is not None:
        sums = ("input_tokens", "output_tokens", "total_tokens")
        names = (*sums, "cached_tokens", "reasoning_tokens", "cache_write_tokens") if api == "responses" else sums
        usage = replace(usage, **{name: getattr(usage, name) or 0 for name in names})
    told = {**said, "usage": usage}
    if said["finish_reason"] == "tool_calls" and not said["calls"]:
        told["finish_reason"] = "stop"  # calls that were promised and did not come
    if api == "chat":
        return told
    reason = told["finish_reason"]
    told["finish_reason"] = ("tool_calls" if said["calls"] else "stop") if reason == "unknown" else reason
    if said["calls"] and not said["text"].strip():
        told["text"] = ""  # white space alone is no message
    return told


# --- other people's readers -------------------------------------------------------------------------------------------


def _client(body: bytes) -> openai.OpenAI:
    library = import_module(openai.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0])

    def answer(_: Any) -> Any:
        return library.Response(200, headers={"content-type": "text/event-stream"}, content=body)

    transport = library.MockTransport(answer)
    return openai.OpenAI(api_key="none", base_url="http://test/v1", http_client=library.Client(transport=transport))


def openai_chat(body: bytes) -> Any:
    """The completion that OpenAI's own accumulator makes of a body."""
    for payload in payloads(body):
        if "error" not in payload:
            openai.types.chat.ChatCompletionChunk.model_validate(payload)
    with _client(body).chat.completions.stream(model="m", messages=[{"role": "user", "content": "?"}]) as stream:
        stream.until_done()
        return stream.get_final_completion()


def openai_done(body: bytes) -> list[tuple[str, str]]:
    """The calls in the order in which OpenAI's own helper says that their arguments are done."""
    with _client(body).chat.completions.stream(model="m", messages=[{"role": "user", "content": "?"}]) as stream:
        return [(one.name, one.arguments) for one in stream if one.type == "tool_calls.function.arguments.done"]


def openai_response(body: bytes, *, check: bool = True) -> Any:
    """The response that OpenAI's own accumulator makes of a body, after checking every event against its types.

    Args:
        check: False for answers that failed with a code of another provider, of which the types know nothing.
    """
    for payload in payloads(body) if check else ():
        _by_type("openai")[payload["type"]].model_validate(payload, strict=True)
    last: Any = None
    with _client(body).responses.stream(model="m", input="?") as stream:
        for event in stream:
            last = event
    return last.response


@cache
def _by_type(package: str) -> dict[str, Any]:
    """The models of events, by the type that they are of."""
    if package == "openai":
        models = get_args(get_args(openai.types.responses.ResponseStreamEvent)[0])
    else:  # https://www.openresponses.org
        package_types = import_module(package)
        models = [getattr(package_types, name) for name in dir(package_types) if name.endswith("StreamingEvent")]
    made = {}
    for model in models:
        kind = model.model_fields["type"].annotation
        made[str(next(iter(kind)) if isinstance(kind, EnumMeta) else get_args(kind)[0])] = model
    return made


def check_open_responses(body: bytes) -> None:
    """Every event is one that the specification knows, with every member that it demands."""
    for payload in payloads(body):
        _by_type("openresponses_types")[payload["type"]].model_validate(payload)


def check_response_events(body: bytes) -> dict[str, Any]:
    """What is true of every response: numbers rise by one, what is opened is closed, in order, and all that is said
    twice is said alike. Returns the response."""
    found = payloads(body)
    assert [payload["sequence_number"] for payload in found] == list(range(len(found)))
    assert [payload["type"] for payload in found[:2]] == ["response.created", "response.in_progress"]
    last = found[-1]
    assert last["type"] in ("response.completed", "response.incomplete", "response.failed")
    assert last["response"]["status"] == last["type"].removeprefix("response.")
    if last["response"].get("error"):  # for clients that raise nothing for the last event
        error = found.pop(-2)
        assert (error["type"], error["message"]) == ("error", last["response"]["error"]["message"])
        assert error["error"].items() >= last["response"]["error"].items()
    items: dict[int, dict[str, Any]] = {}
    said: dict[tuple[int, int], str] = {}
    parts: dict[tuple[int, int], str] = {}
    done: dict[int, dict[str, Any]] = {}
    for payload in found[2:-1]:
        kind, index = payload["type"].removeprefix("response."), payload["output_index"]
        number = payload.get("content_index", payload.get("summary_index", 0))
        if kind == "output_item.added":
            assert index == len(items)
            items[index] = payload["item"]
            continue
        assert index in items
        assert index not in done
        if kind == "output_item.done":
            assert payload["item"].get("id") == items[index].get("id")  # search results of Perplexity have none
            done[index] = payload["item"]
            continue
        assert payload["item_id"] == items[index]["id"]
        key = (index, number)
        if kind.endswith("part.added"):
            assert key not in parts
            parts[key] = "open"
        elif kind.endswith(".delta"):
            assert parts.get(key, "open") == "open"
            said[key] = said.get(key, "") + payload["delta"]
        elif kind.endswith("part.done"):
            assert parts[key] == "said"
            parts[key] = "done"
            part = payload["part"]
            assert part.get("text", part.get("refusal")) == join_surrogates(said[key])
        elif kind.endswith(".done"):
            whole = next(payload[name] for name in ("arguments", "input", "text", "refusal") if name in payload)
            assert whole == join_surrogates(said.get(key, ""))
            parts[key] = "said"
    output = last["response"]["output"]
    for index in items.keys() - done.keys():  # cut off; half of a text may be one that can be run
        assert last["type"] == "response.failed" or output[index]["type"] in ("custom_tool_call", "function_call")
        assert (output[index].get("status", "incomplete"), output[index].get("input", "")) == ("incomplete", "")
    assert len(items) == len(output)
    assert [done[index] for index in sorted(done)] == [output[index] for index in sorted(done)]
    for index, item in done.items():
        texts = [part.get("text", part.get("refusal")) for part in item.get("content", item.get("summary", ()))]
        texts += [item[name] for name in ("arguments", "input") if isinstance(item.get(name), str)]
        assert texts == [join_surrogates(said.get((index, at), "")) for at in range(len(texts))]
    response: dict[str, Any] = last["response"]
    return response
