"""The optional conformance corpus: recorded and made answers, each beside a result that was derived independently."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import corpus
import scale
from folding import bytewise, check_chunks, random_cut
from streamfold import (
    EmptyResponseError,
    IncompleteStreamError,
    Provider,
    Reply,
    StreamChunk,
    StreamDecoder,
    StreamError,
    UpstreamError,
    tool_result,
    user,
)
from tables import each_row

RECORDED = {
    "chat": corpus.names("corpus/chat/*.sse"),
    "responses": corpus.names("corpus/responses/*.sse"),
    "anthropic": corpus.names("corpus/anthropic/*.sse"),
    "gemini": corpus.names("corpus/gemini/*.sse", "corpus/gemini/*-*.json"),  # not errors.json
    "interactions": corpus.names("corpus/interactions/*.sse"),
}
MADE = {
    "kimi": corpus.names("vectors/kimi-wire/*.sse"),
    "anthropic": corpus.names("vectors/anthropic-wire/*.sse"),
    "gemini": corpus.names("vectors/gemini-wire/*.sse", "vectors/gemini-wire/*.json"),
}
EACH_RECORDED, EACH_MADE = ([(api, name) for api in folder for name in folder[api]] for folder in (RECORDED, MADE))
CUT = ("length", "content_filter", "max_tokens", "model_context_window_exceeded", "refusal")
CUT += ("MAX_TOKENS", "SAFETY", "RECITATION", "PROHIBITED_CONTENT", "max_output_tokens")
CUT += ("incomplete", "budget_exceeded", "requires_continuation", "cancelled")
# The error stands bare behind the events; that the answer was not finished is right as well.
EITHER = ("25-error-bare-after-events.sse", "vertex-unknown-streaming-failure-error-mid-stream.sse")
TRUE_WARNINGS = {"empty_answer"}  # nothing but a hosted tool's item is in these answers


Outcome = tuple[list[StreamChunk], Reply, StreamError | None]


def read(api: str, pieces: list[bytes], request: dict[str, Any]) -> Outcome:
    """The chunks, the reply or the part of it before the error, and the error."""
    choice = request.get("tool_choice", "auto")
    choice = choice if isinstance(choice, str) else {"type": "function", "function": choice}
    tools = [{"type": "function", "function": {"name": name}} for name in request.get("tools", ()) if api == "kimi"]
    decoder = StreamDecoder(api, dialect="kimi" if api == "kimi" else None, tools=tools, tool_choice=choice)
    chunks: list[StreamChunk] = []
    try:
        for piece in pieces:
            chunks += decoder.feed(piece)
        chunks += decoder.end()
        decoder.close()
    except StreamError as error:
        return chunks, error.partial or Reply(), error
    return chunks, decoder.reply, None


def may_end_in(expected: dict[str, Any], name: str) -> set[type[StreamError] | None]:
    """The kinds of end that are right."""
    if name.endswith(EITHER):
        return {None, UpstreamError, IncompleteStreamError}
    if expected.get("finish"):
        return {None}
    if expected["ends"] == "error" or "error" in (expected.get("ends_also_acceptable") or ()):
        return {UpstreamError, *([] if expected["ends"] == "error" else [IncompleteStreamError])}
    if expected["ends"] == "no_terminator" and not expected["finish_reason"]:
        return {IncompleteStreamError}
    said = ("text", "reasoning", "refusal", "tool_calls", "finish_reason")
    if expected["ends"] == "complete" and not any(expected.get(name) for name in said):
        return {EmptyResponseError}  # the corpus tells what was sent: nothing
    return {None}


def check(api: str, name: str, pieces: list[bytes], expected: dict[str, Any]) -> None:
    """Text, reasoning, calls, usage and end are what was derived; of an answer that failed there are no calls."""
    chunks, reply, error = read(api, pieces, expected.get("request") or {})
    kind = UpstreamError if isinstance(error, UpstreamError) else type(error) if error else None
    assert kind in may_end_in(expected, name), error
    assert (reply.text, reply.reasoning) == (expected["text"], expected["reasoning"] or "")
    assert reply.refusal == expected.get("refusal", reply.refusal)
    if isinstance(error, UpstreamError) and isinstance(said := expected.get("error"), dict):
        assert said["message"] in str(error)
        if api == "responses":
            assert (error.message, error.type, error.code) == (said["message"], said.get("type"), said.get("code"))
    if error is None or api in ("chat", "kimi", "responses"):
        assert (dict(reply.usage.raw) if reply.usage else None) == expected["usage"]
    if error is not None:
        assert (reply.tool_calls, reply.text) == ([], "".join(chunk.delta for chunk in chunks))
        return
    check_chunks(chunks, reply)
    if api != "gemini" or expected["ends"] == "complete":
        assert reply.raw_finish_reason == (expected["finish_reason"] and str(expected["finish_reason"]))
    assert expected.get("finish") in (None, reply.finish_reason)
    check_calls(api, reply, [] if expected["finish_reason"] in CUT else expected["tool_calls"])
    more = {
        "responses": check_items,
        "anthropic": check_blocks,
        "gemini": check_signatures,
        "interactions": check_steps,
    }
    more.get(api, check_nothing)(reply, expected)
    never = {"kimi": {"late_content"}, "gemini": {"late_content", "missing_id"}}.get(api, set())
    assert never.isdisjoint(warning.code for warning in reply.warnings)


def check_calls(api: str, reply: Reply, wanted: list[dict[str, Any]]) -> None:
    """The calls of functions, with the server's ids where it gave some, and ids of our own where not."""
    made = [call for call in reply.tool_calls if call.kind == "function"]
    ids = [call.id for call in made]
    assert all(ids)
    assert len(set(ids)) == len(ids) == len(wanted)
    for call, right in zip(made, wanted, strict=True):
        assert (call.name, right["id"] in ("", "*", None, call.id)) == (right["name"], True)
        same = call.arguments == right["arguments"]
        assert same or (api == "gemini" and call.error and right["arguments"].get("_error"))
        assert call.raw_arguments == right.get("arguments_raw", call.raw_arguments)


def check_nothing(reply: Reply, expected: dict[str, Any]) -> None:
    """Chat Completions has nothing more."""


def check_items(reply: Reply, expected: dict[str, Any]) -> None:
    """Items of hosted and custom tools."""
    items = reply.extras.get("output", [])
    ours = ("message", "reasoning", "function_call")
    assert [item["type"] for item in items if item["type"] not in ours] == expected.get("hosted_items", [])
    customs = [item for item in items if item["type"] == "custom_tool_call"]
    found = [{"id": item["call_id"], "name": item["name"], "input": item["input"]} for item in customs]
    assert found == expected.get("custom_tool_calls", [])


def check_blocks(reply: Reply, expected: dict[str, Any]) -> None:
    """The blocks of the message, and the names of calls that were dropped."""
    if content := expected.get("content"):
        cut = expected["finish_reason"] in CUT
        assert reply.extras.get("blocks", []) == [b for b in content if not cut or b["type"] != "tool_use"]
    if dropped := expected.get("dropped_calls"):
        told = [warning.detail for warning in reply.warnings if warning.code == "calls_dropped"]
        assert all(name in told[0] for name in dropped)


def check_signatures(reply: Reply, expected: dict[str, Any]) -> None:
    """Each signature: the kind of part that it is on, and its hash."""
    found = []
    for part in reply.extras.get("blocks", []):
        if signature := part.get("thoughtSignature"):
            kinds = ("functionCall", "executableCode", "codeExecutionResult", "toolCall", "toolResponse")
            kind = next((kind for kind in kinds if kind in part), None)
            kind = kind or ("thought" if part.get("thought") else "text" if part.get("text") else "empty_text")
            found.append((kind, hashlib.sha256(signature.encode()).hexdigest()))
    if expected["finish_reason"] not in CUT and "signatures" in expected:
        signatures = [(s["on"], s.get("sha256") or s["value"]) for s in expected["signatures"]]
        assert found == [(on, h if len(h) == 64 else hashlib.sha256(h.encode()).hexdigest()) for on, h in signatures]


def check_steps(reply: Reply, expected: dict[str, Any]) -> None:
    """The steps go back as they came: each has its hash, in order. The id is kept, by which the maker knows them."""
    assert (reply.id or "", reply.model) == (expected["id"] or "", expected["model"])
    assert reply.extras.get("interaction_id", []) == ([expected["id"]] if expected["id"] else [])
    earlier = Provider.from_config({"base_url": "http://127.0.0.1:9", "model": "m", "adapter": "interactions"})
    sent = earlier.preview(
        [user("q"), reply.message, *(tool_result(call, "") for call in reply.tool_calls), user("go on")]
    )
    steps = [
        json.dumps(step, sort_keys=True, separators=(",", ":"), ensure_ascii=False) for step in sent.json()["input"]
    ]
    hashes = [hashlib.sha256(step.encode()).hexdigest() for step in steps]
    wanted = [step["echo_sha256"] for step in expected["steps"]]
    assert hashes[1 : len(wanted) + 1] == wanted
    assert len(hashes) == 1 + len(wanted) + len(reply.tool_calls) + 1


def ways(name: str, body: bytes) -> Iterator[list[bytes]]:
    """Whole, byte by byte if it is small, in two pieces, and in random ones."""
    yield [body]
    if len(body) < scale.pick(20_000, 4_000):
        yield bytewise(body)
    places = scale.spaced(range(1, len(body)), scale.pick(40, 8, most=20_000))
    yield from ([body[:at], body[at:]] for at in places if len(body) < 20_000)
    rng = random.Random(name)
    yield from (random_cut(body, rng) for _ in range(scale.pick(20, 4) if len(body) < 200_000 else 2))


def test_corpus_is_complete() -> None:
    """A corpus that is named must have every stream that its manifests list."""
    for api in ("chat", "responses", "anthropic"):
        manifest = corpus.read_json(f"corpus/manifest{'-anthropic' if api == 'anthropic' else ''}.json")
        listed = [Path(entry["output"]).stem for entry in manifest if entry.get("wire", api) == api]
        assert [Path(name).stem for name in RECORDED[api]] == sorted(listed)
    manifest = corpus.read_json("corpus/gemini-manifest.json")
    assert len(RECORDED["gemini"]) == len(manifest if isinstance(manifest, list) else manifest["cases"])
    least = {"chat": 208, "responses": 67, "anthropic": 131, "gemini": 161, "interactions": 15}
    assert not [api for api, count in least.items() if len(RECORDED[api]) < count]
    assert not [api for api, count in {"anthropic": 56, "gemini": 40}.items() if len(MADE[api]) < count]


@each_row(("api", "name"), [*EACH_RECORDED, *EACH_MADE], parts=8)
def test_stream_folds_to_the_expected_result(api: str, name: str, folded: Counter[str]) -> None:
    """However its bytes are cut: always what was derived from them."""
    body, expected = corpus.body(name), corpus.expected(name)
    for pieces in ways(name, body):
        check(api, name, pieces, expected)
        folded["ways of cutting them"] += 1
    folded[f"{api} streams"] += 1


@each_row(("api", "name"), [row for row in EACH_RECORDED if row[0] in ("responses", "anthropic", "interactions")])
def test_recorded_streams_give_no_false_warning(api: str, name: str) -> None:
    """A stream that is right is read without a warning; these servers say much twice, never two different things."""
    _, reply, error = read(api, [corpus.body(name)], {})
    cut = {"calls_dropped"} if reply.finish_reason in ("length", "content_filter") else set()
    assert error or {warning.code for warning in reply.warnings} <= TRUE_WARNINGS | cut
