"""Recorded streams with tools that the provider runs: what they did, what was cited, which files, which counters.

What each stream must give was derived from the recording, in the words of its own API. Positions there are as sent.
"""

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
from folding import bytewise, random_cut
from streamfold import HostedPart, Provider, Reply, StreamDecoder, tool_result, user
from streamfold.adapters.anthropic import AnthropicEventReader
from tables import each_row


class _MessagesAsEvents(AnthropicEventReader):
    """The reading half of the adapter, which comes as server-sent events."""

    framing = None


_APIS: dict[str, Any] = {
    "hosted-openai": "responses",
    "hosted-anthropic": "anthropic",
    "hosted-gemini": "gemini",
    "interactions": "interactions",
    "responses": "responses",
    "anthropic": "anthropic",
    "gemini": "gemini",
}
_OWN = ("hosted-", "interactions")  # what each stream of these folders must give stands beside it
_HOSTED = corpus.names(*(f"corpus/{folder}/*.sse" for folder in _APIS if folder.startswith(_OWN)))


def _overlay() -> dict[str, dict[str, Any]]:
    """What the older recordings must give beyond what stands beside them."""
    found: dict[str, dict[str, Any]] = corpus.read_json("corpus/hosted-overlay.json")
    return found


def _wanted(name: str) -> dict[str, Any]:
    folder, file = name.split("/")[-2:]
    said = corpus.expected(name)
    return said if folder.startswith(_OWN) else {**said, **_overlay()[f"{folder}/{file}"]}


def _fold(adapter: Any, pieces: list[bytes]) -> tuple[Reply, list[HostedPart]]:
    decoder = StreamDecoder(adapter)
    shown: list[HostedPart] = []
    for piece in pieces:
        shown += [part for chunk in decoder.feed(piece) for part in chunk.hosted]
    shown += [part for chunk in decoder.close() for part in chunk.hosted]
    return decoder.reply, shown


# --- what the recording says, as we say it ----------------------------------------------------------------------------

_SAME = ("kind", "part", "id", "name", "server", "input")
_FILES = {"container_file": "file"}


def _part(part: dict[str, Any]) -> dict[str, Any]:
    return {**{name: part.get(name) for name in _SAME}, "call_id": part.get("call_id") or part.get("for")}


def _ours(part: HostedPart) -> dict[str, Any]:
    call_id = None if part.call_id == part.id else part.call_id  # Gemini has one id for both
    return {**{name: getattr(part, name) for name in _SAME}, "call_id": call_id}


def _check_hosted(reply: Reply, wanted: dict[str, Any]) -> None:
    expected = wanted.get("hosted", [])
    assert [_ours(part) for part in reply.hosted] == [_part(part) for part in expected]
    assert [part.runs for part in reply.hosted] == [part["runs"] for part in expected]
    for part, said in zip(reply.hosted, expected, strict=True):
        if said.get("error"):
            assert part.error == said["error"]
        assert bool(part.error) == bool(said.get("error"))
    of_client = [part for part in expected if part["runs"] == "client"]
    calls = [call for call in reply.tool_calls if call.kind != "function"]
    assert [call.id for call in calls] == [part.get("call_id") or part["id"] for part in of_client]
    kinds = ["approval" if part["part"] == "approval" else part["kind"] for part in of_client]
    assert [call.kind for call in calls] == kinds
    for call, part in zip(calls, of_client, strict=True):
        assert call.arguments == ({"input": part["input"]} if call.kind == "custom" else part["input"])
        assert call.error is None
    assert not of_client or reply.finish_reason == "tool_calls"


def _spans(reply: Reply, wanted: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The citations of a recording with their places in characters of the whole text."""
    text, found = reply.text, list[tuple[Any, ...]]()
    if "supports" in wanted:
        sources, data = wanted["citations"], text.encode()
        for support in wanted["supports"]:
            start, end = (len(data[: support[name]].decode()) for name in ("start", "end"))
            found += [(sources[at]["url"], sources[at].get("title"), start, end) for at in support["sources"]]
        used = {at for support in wanted["supports"] for at in support["sources"]}
        return found + [(s["url"], s.get("title"), None, None) for at, s in enumerate(sources) if at not in used]
    for said in wanted.get("citations", []):
        title = said.get("title") or said.get("file") or said.get("document_title")
        if "text_before" in said:
            block = reply.extras["blocks"][said["block"]]
            span: tuple[Any, Any] = said["text_before"], said["text_before"] + len(block["text"])
        elif "step" in said:
            steps = reply.extras["steps"]
            before = "".join("".join(_texts_of_step(step)) for step in steps[: said["step"]])
            data = "".join(_texts_of_step(steps[said["step"]])).encode()
            start, end = (len(data[: said.get(name, 0)].decode()) for name in ("start", "end"))
            span = len(before) + start, len(before) + end
        elif "end" in said:
            item = reply.extras["output"][said["item"]]
            before = [*_texts(reply.extras["output"][: said["item"]]), *_texts([item])[: said["part"]]]
            size = sum(map(len, before))
            span = size + said.get("start", 0), size + said["end"]
        else:
            span = None, None
        found.append((said.get("url"), title, *span))
    return found


def _texts_of_step(step: dict[str, Any]) -> list[str]:
    contents = step.get("content", []) if step["type"] == "model_output" else []
    return [content["text"] for content in contents if content["type"] == "text"]


def _texts(items: list[dict[str, Any]]) -> list[str]:
    return [part["text"] for item in items if item["type"] == "message" for part in item["content"] if "text" in part]


def _check_citations(reply: Reply, wanted: dict[str, Any]) -> None:
    assert [(one.url, one.title, one.start, one.end) for one in reply.citations] == _spans(reply, wanted)
    if "supports" not in wanted:
        said = wanted.get("citations", [])
        assert [one.kind for one in reply.citations] == [_FILES.get(one["kind"], one["kind"]) for one in said]
        assert [one.cited_text for one in reply.citations] == [one.get("cited_text") for one in said]


def _check_files(reply: Reply, wanted: dict[str, Any]) -> None:
    for file, said in zip(reply.files, wanted.get("files", []), strict=True):
        if "sha256" in said:
            assert file.data is not None
            assert hashlib.sha256(file.data).hexdigest() == said["sha256"]
            assert file.media_type == said["mime_type"]
        else:
            assert (file.file_id, file.container_id, file.name) == (
                said["file_id"],
                said.get("container_id"),
                said.get("name"),
            )


def _check_counters(reply: Reply, wanted: dict[str, Any]) -> None:
    said, counted = wanted.get("tool_usage", {}), dict(reply.usage.tools) if reply.usage else {}
    for name, number in said.items():
        match name, number:
            case (("web_search_requests" | "web_fetch_requests"), int()):
                assert counted.get(name.removesuffix("_requests"), 0) == number
            case "tool_usage", dict():
                searches = number.get("web_search", {}).get("num_requests", 0)
                assert not searches or counted["web_search"] == searches
            case "toolUsePromptTokenCount", int():
                assert reply.usage is not None
                assert reply.usage.raw[name] == number
                assert reply.usage.input_tokens == reply.usage.raw["promptTokenCount"] + number
    ours = [part for part in wanted.get("hosted", []) if part["runs"] == "server" and part["part"] in ("call", "both")]
    for kind in {part["kind"] for part in ours if reply.usage is not None}:
        assert counted.get(kind), (kind, counted)


def _check_phases(reply: Reply, wanted: dict[str, Any]) -> None:
    assert list(reply.phases) == wanted.get("phases", [])


# --- what goes back ---------------------------------------------------------------------------------------------------


def _hashes(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        yield hashlib.sha256(text.encode()).hexdigest()
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _hashes(inner)


def _check_echo(adapter: str, reply: Reply, wanted: dict[str, Any]) -> None:
    settings = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "adapter": adapter, "api_key": "x"}
    answers: dict[str, Any] = {"approval": True, "tool_search": []}
    results = [tool_result(call, answers.get(call.kind, "done")) for call in reply.tool_calls]
    sent = Provider.from_config(settings).preview([user("q"), reply.message, *(results or [user("go on")])]).json()
    there = set(_hashes(sent))
    missing = [part for part in wanted.get("hosted", []) if part["echo_sha256"] not in there]
    assert missing == []


def _check(name: str, pieces: list[bytes], wanted: dict[str, Any]) -> Reply:
    api = _APIS[Path(name).parent.name]
    reply, shown = _fold(_MessagesAsEvents() if api == "anthropic" else api, pieces)
    _check_hosted(reply, wanted)
    _check_citations(reply, wanted)
    _check_files(reply, wanted)
    _check_counters(reply, wanted)
    _check_phases(reply, wanted)
    assert {part.kind for part in shown} == {part.kind for part in reply.hosted}
    return reply


def _check_stream(name: str, folded: Counter[str]) -> None:
    body, wanted = corpus.body(name), _wanted(name)
    if wanted.get("ends") != "complete":
        return
    reply = _check(name, [body], wanted)
    _check_echo(_APIS[Path(name).parent.name], reply, wanted)
    if len(body) < scale.pick(200_000, 20_000):
        _check(name, bytewise(body), wanted)
    rng = random.Random(name)
    for _ in range(scale.pick(10, 1)):
        _check(name, random_cut(body, rng), wanted)
    folded["streams with hosted tools, under every kind of cut"] += 1


def test_overlay_of_older_recordings(folded: Counter[str]) -> None:
    """The same for what older recordings have of it."""
    names = sorted(_overlay())
    for name in scale.some(names, 15):
        _check_stream(f"corpus/{name}", folded)


@each_row("name", _HOSTED)
def test_hosted_tools_of_recordings(name: str, folded: Counter[str]) -> None:
    """Parts, citations, files, counters and phases, whole and under cuts; and what must go back goes back."""
    _check_stream(name, folded)
