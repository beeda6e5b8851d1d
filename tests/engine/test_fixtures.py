"""Every fixture folds to what is written beside it, however its bytes are cut."""

from __future__ import annotations

import json
import random
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import pytest

import scale
from folding import bytewise, random_cut
from playing_recordings import play, seen, wanted
from scripts import loaded
from streamfold import Reply, StreamDecoder, StreamError, ToolCall
from streamfold.adapters import find_adapter
from streamfold.deltas import Delta
from streamfold.recording import Recording
from streamfold.types.replies import FinishReason
from tables import each_row

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "fixtures"
NAMES = sorted(f"{file.parent.name}/{file.stem}" for file in FOLDER.glob("*/*.sse"))


def load(name: str) -> Recording:
    return Recording.load(FOLDER / name)


def test_there_are_fixtures() -> None:
    """An empty folder would make everything here pass: there are some of each kind, and each thing is shown by one."""
    recordings = [load(name) for name in NAMES]
    count = Counter(recording.source for recording in recordings)
    assert count["recorded"] >= 50
    assert count["documented"] >= 50
    assert count["synthesised"] >= 120
    assert {"demo/reasoning_text", "demo/parallel_calls"} <= set(NAMES)
    assert {recording.adapter for recording in recordings} == {
        "anthropic", "chat", "gemini", "interactions", "responses",
    }  # fmt: skip
    assert {recording.dialect for recording in recordings} == {
        "", "deepseek", "glm", "hermes", "kimi", "llama3", "mistral", "named", "qwen3coder", "required", "think"
    }  # fmt: skip
    expected = [recording.expect for recording in recordings]
    assert {expect.get("error") for expect in expected} == {
        None, "IncompleteStreamError", "UpstreamError", "ProtocolError", "EmptyResponseError", "QuotaExceededError"
    }  # fmt: skip
    assert {expect["finish_reason"] for expect in expected if "error" not in expect} == set(get_args(FinishReason))


@each_row("name", NAMES)
def test_no_delta_is_changed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine changes no delta that an adapter has returned."""
    recording, returned = load(name), list[tuple[list[Delta], str]]()
    adapter = find_adapter(recording.adapter)()

    def noted(read: Callable[[Any], Iterable[Delta]]) -> Callable[[Any], list[Delta]]:
        def reading(payload: Any) -> list[Delta]:
            deltas = list(read(payload))
            returned.append((deltas, repr(deltas)))
            return deltas

        return reading

    monkeypatch.setattr(adapter, "decode", noted(adapter.decode))
    monkeypatch.setattr(adapter, "decode_body", noted(adapter.decode_body))
    decoder = StreamDecoder(adapter, **recording.options())
    with suppress(StreamError):
        decoder.feed(recording.body)
        decoder.close(interrupted=recording.interrupted)
    assert [repr(deltas) for deltas, _ in returned] == [before for _, before in returned]


@each_row("name", NAMES)
def test_folds_to_what_is_expected(name: str) -> None:
    """The whole body at once."""
    recording = load(name)
    outcome = seen(play(recording, [recording.body]))
    assert outcome == wanted(recording, outcome)


@each_row("name", NAMES)
def test_folds_the_same_byte_by_byte(name: str) -> None:
    """One byte at a time."""
    recording = load(name)
    assert seen(play(recording, bytewise(recording.body))) == seen(play(recording, [recording.body]))


@each_row("name", scale.some(NAMES, 50))
def test_folds_the_same_in_random_pieces(name: str) -> None:
    """Random cuts, and fewer of a large body."""
    recording = load(name)
    whole = seen(play(recording, [recording.body]))
    rng = random.Random(name)
    for _ in range(min(scale.pick(40, 5), 150_000 // (len(recording.body) + 1))):
        assert seen(play(recording, random_cut(recording.body, rng))) == whole


@each_row("name", NAMES)
def test_arguments_are_what_their_text_means(name: str) -> None:
    """The parsed arguments and the model's text agree, by the rules of `json`."""
    recording = load(name)
    outcome = play(recording, [recording.body])
    if isinstance(outcome, Reply):
        expected = [
            ToolCall(made.id, call["name"], meant(call["arguments"]), call["arguments"])
            if made.kind == "function"
            else ToolCall(made.id, call["name"], {"input": call["arguments"]}, call["arguments"], kind="custom")
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


@each_row("name", NAMES)
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
    assert (FOLDER / "README.md").read_text("utf-8") == loaded("tools/fixtures_page.py").page()


# OpenAI's and its relatives' keys, bearer tokens, JSON web tokens, AWS, GitHub and Google keys, and named secrets.
SECRET = re.compile(
    rb"\bsk-[\w-]{8,}|bearer\s+\S{8,}|\beyJ[\w-]{10,}\.|\bAKIA[0-9A-Z]{12,}|\bgh[pousr]_\w{20,}|\bAIza[\w-]{20,}"
    rb"|(?:api[_-]?key|secret|password|set-cookie)\W{1,4}\w{6,}",
    re.IGNORECASE,
)


def test_holds_no_secret() -> None:
    """Nothing that looks like a key is in a body or beside it."""
    found = {str(file): SECRET.findall(file.read_bytes()) for file in FOLDER.glob("*/*")}
    assert len(found) > 400
    assert not {file: keys for file, keys in found.items() if keys}


def test_the_secret_pattern_would_notice() -> None:
    """The check above is not one that always passes."""
    for text in (
        b"Authorization: Bearer abcdefghijkl",
        b"sk-proj-0123456789",
        b'"api_key": "k0123456789"',
        b"AKIA0123456789ABCD",
    ):
        assert SECRET.search(text), text
