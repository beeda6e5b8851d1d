"""Every fixture folds to what is written beside it, however its bytes are cut."""

from __future__ import annotations

import importlib.util
import json
import random
import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest

from folding import bytewise, check_chunks, codes, random_cut
from streamfold import Reply, StreamChunk, StreamDecoder, StreamError, ToolCall
from streamfold.recording import Recording
from streamfold.values.replies import FinishReason

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "fixtures"
NAMES = sorted(f"{file.parent.name}/{file.stem}" for file in FOLDER.glob("*/*.sse"))


def load(name: str) -> Recording:
    return Recording.load(FOLDER / name)


def play(recording: Recording, pieces: Iterable[bytes]) -> Reply | StreamError:
    """The reply, or the error, of a recording in these pieces, after checking the promises about chunks."""
    decoder = StreamDecoder(recording.adapter, **recording.options())
    chunks: list[StreamChunk] = []
    try:
        for piece in pieces:
            chunks += decoder.feed(piece)
        chunks += decoder.close(interrupted=recording.interrupted)
    except StreamError as error:
        check_no_answer(chunks, error)
        return error
    check_chunks(chunks, decoder.reply)
    return decoder.reply


def check_no_answer(chunks: list[StreamChunk], error: StreamError) -> None:
    """What is true of every answer that failed: no call, no finished chunk, and the partial is all there was."""
    assert not any(chunk.finished or chunk.tool_calls for chunk in chunks)
    assert error.partial is not None
    assert error.partial.tool_calls == []
    assert error.partial.text == "".join(chunk.delta for chunk in chunks)


def seen(outcome: Reply | StreamError) -> dict[str, Any]:
    """An outcome in the words of `[expect]`: what it does not name is not in the answer."""
    if isinstance(outcome, StreamError):
        assert outcome.partial is not None
        found: dict[str, Any] = {"error": type(outcome).__name__, "message": outcome.message, **said(outcome.partial)}
    else:
        usage = outcome.usage
        counted = ("input_tokens", "output_tokens", "total_tokens", "cached_tokens", "reasoning_tokens")
        found = said(outcome) | {
            "finish_reason": outcome.finish_reason,
            "raw_finish_reason": outcome.raw_finish_reason,
            "usage": {name: getattr(usage, name) for name in counted if getattr(usage, name) is not None}
            if usage
            else None,
            "warnings": codes(outcome),
        }
    return {key: value for key, value in found.items() if value not in (None, "", [])}


def said(reply: Reply) -> dict[str, Any]:
    calls = [{"id": call.id, "name": call.name, "arguments": call.raw_arguments} for call in reply.tool_calls]
    return {"text": reply.text, "reasoning": reply.reasoning, "refusal": reply.refusal, "calls": calls}


def wanted(recording: Recording, outcome: dict[str, Any]) -> dict[str, Any]:
    """`[expect]` in full. A message is compared where one is written: ours may be reworded, a server's may not.

    A call without an id in it is one that was given a fresh id.
    """
    expect = dict(recording.expect)
    if "message" in outcome:
        expect.setdefault("message", outcome["message"])
    if "calls" in expect:
        made = [call["id"] for call in outcome.get("calls", [])]
        fresh = [call_id if re.fullmatch("call_[0-9a-f]{24}", call_id) else "" for call_id in made]
        expect["calls"] = [
            {"id": call_id, **call} for call_id, call in zip_longest(fresh, expect["calls"], fillvalue={})
        ]
    return expect


def test_there_are_fixtures() -> None:
    """An empty folder would make everything here pass: there are some of each kind, and each thing is shown by one."""
    recordings = [load(name) for name in NAMES]
    count = Counter(recording.source for recording in recordings)
    assert count["recorded"] >= 50
    assert count["documented"] >= 50
    assert count["synthesised"] >= 120
    assert {"demo/reasoning_text", "demo/parallel_calls"} <= set(NAMES)
    assert {recording.adapter for recording in recordings} == {"chat", "responses"}
    assert {recording.dialect for recording in recordings} == {
        "", "deepseek", "glm", "hermes", "kimi", "llama3", "mistral", "named", "qwen3coder", "required", "think"
    }  # fmt: skip
    expected = [recording.expect for recording in recordings]
    assert {expect.get("error") for expect in expected} == {
        None, "IncompleteStreamError", "UpstreamError", "ProtocolError", "EmptyResponseError"
    }  # fmt: skip
    assert {expect["finish_reason"] for expect in expected if "error" not in expect} == set(get_args(FinishReason))


@pytest.mark.parametrize("name", NAMES)
def test_folds_to_what_is_expected(name: str) -> None:
    """The whole body at once."""
    recording = load(name)
    outcome = seen(play(recording, [recording.body]))
    assert outcome == wanted(recording, outcome)


@pytest.mark.parametrize("name", NAMES)
def test_folds_the_same_byte_by_byte(name: str) -> None:
    """One byte at a time."""
    recording = load(name)
    assert seen(play(recording, bytewise(recording.body))) == seen(play(recording, [recording.body]))


@pytest.mark.parametrize("name", NAMES)
def test_folds_the_same_in_random_pieces(name: str) -> None:
    """Forty random cuts, and fewer of a large body: all fixtures together take seconds."""
    recording = load(name)
    whole = seen(play(recording, [recording.body]))
    rng = random.Random(name)
    for _ in range(min(40, 150_000 // (len(recording.body) + 1))):
        assert seen(play(recording, random_cut(recording.body, rng))) == whole


@pytest.mark.parametrize("name", NAMES)
def test_arguments_are_what_their_text_means(name: str) -> None:
    """The parsed arguments and the model's text agree, by the rules of `json`."""
    recording = load(name)
    outcome = play(recording, [recording.body])
    if isinstance(outcome, Reply):
        expected = [
            ToolCall(made.id, call["name"], meant(call["arguments"]), call["arguments"])
            for made, call in zip(outcome.tool_calls, recording.expect.get("calls", []), strict=True)
        ]
        assert outcome.tool_calls == expected


def meant(text: str) -> dict[str, Any]:
    """The arguments that a text is: none if it is empty or null, the text itself if it is no object."""
    with suppress(ValueError):
        value = json.loads(text or "{}", parse_constant=no_json)
        if isinstance(value, dict) or value is None:
            return value or {}
    return {"_raw": text, "_error": "invalid_json"}


def no_json(constant: str) -> None:
    """NaN and the infinities, which `json` takes."""
    raise ValueError(constant)


@pytest.mark.parametrize("name", NAMES)
def test_says_where_it_comes_from(name: str) -> None:
    """Each says what it shows, its source, origin and date, and what it is to fold to; a documented one has a link."""
    described = tomllib.loads((FOLDER / f"{name}.toml").read_text("utf-8"))
    assert {"adapter", "source", "shows", "origin", "date", "expect"} <= set(described)
    assert re.fullmatch(r"[A-Z`\d].{20,}\.", described["shows"])
    assert len(described["origin"]) > 20
    assert described["expect"]
    if described["source"] == "documented":
        assert described["link"].startswith("https://")
    elif described["source"] == "recorded":
        assert described["request"]


def test_no_description_without_a_body() -> None:
    """Each description describes something."""
    assert sorted(f"{file.parent.name}/{file.stem}" for file in FOLDER.glob("*/*.toml")) == NAMES


def test_the_page_is_up_to_date() -> None:
    """`fixtures/README.md` is what the descriptions make; `nox -s fixtures` writes it."""
    assert (FOLDER / "README.md").read_text("utf-8") == the_script().page()


def the_script() -> ModuleType:
    """The script that writes the page, which no package has."""
    spec = importlib.util.spec_from_file_location("fixtures_page", ROOT / "tools" / "fixtures_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# OpenAI's and its relatives' keys, bearer tokens, JSON web tokens, AWS, GitHub and Google keys, and named secrets.
SECRET = re.compile(
    rb"\bsk-[\w-]{8,}|bearer\s+\S{8,}|\beyJ[\w-]{10,}\.|\bAKIA[0-9A-Z]{12,}|\bgh[pousr]_\w{20,}|\bAIza[\w-]{20,}"
    rb"|(?:api[_-]?key|secret|password|set-cookie)\W{1,4}\w{6,}",
    re.IGNORECASE,
)


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*/*")), ids=lambda file: f"{file.parent.name}/{file.name}")
def test_holds_no_secret(file: Path) -> None:
    """Nothing that looks like a key is in a body or beside it."""
    assert not SECRET.findall(file.read_bytes())


def test_the_secret_pattern_would_notice() -> None:
    """The check above is not one that always passes."""
    for text in (
        b"Authorization: Bearer abcdefghijkl",
        b"sk-proj-0123456789",
        b'"api_key": "k0123456789"',
        b"AKIA0123456789ABCD",
    ):
        assert SECRET.search(text), text
