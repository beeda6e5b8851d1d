"""The page of evidence says what its script makes; the script finds what is wrong with a stream, and only that."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import corpus
from scripts import loaded
from tables import each_row

HERE = Path(__file__).parents[2]
# Kinds that a program of the corpus has counted as well, by its names for them.
TAGS = {
    "chat-finish-twice": "finish_reason_repeated",
    "chat-finish-changes": "finish_reason_changes",
    "chat-stop-with-calls": "stop_with_tool_calls",
    "chat-no-index": "tool_index_missing",
    "chat-parts": "content_list_of_parts",
    "chat-message": "message_beside_delta",
    "chat-usage-twice": "usage_in_several_chunks",
    "responses-item-id": "item_id_varies_between_events",
    "messages-block": "block_never_stopped",
    "messages-after": "ping_after_stop",
}
CHUNK = '{"id": "a", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": %s, "finish_reason": %s}]}'
CALL = '{"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]}'


@pytest.fixture(name="script", scope="module")
def evidence() -> Any:
    return loaded("tools/evidence.py")


def kinds(script: Any, api: str, *data: str) -> set[str]:
    """The deviations of a stream with these events."""
    body = "".join(f"data: {line}\n\n" for line in data).encode()
    return set(script._FINDERS[api](script.split(body, script.Stream(api, "x", False))))


@pytest.mark.skipif(not (HERE / "src").is_dir(), reason="the page counts files of the checkout")
def test_the_page_is_up_to_date(script: Any) -> None:
    """Its figures are those that are counted here; of what grows with every fixture, it says no more than there is."""
    page, made = script.PAGE.read_text("utf-8"), script.page()
    grows = [text.partition("## Written tests")[2].partition("\n## ")[0] for text in (page, made)]
    assert page.replace(grows[0], "") == made.replace(grows[1], ""), "run `python tools/evidence.py`"
    said, counted = ([int(number) for number in re.findall(r"\d+", text)] for text in grows)
    assert [number for number, most in zip(said, counted, strict=True) if number > most] == []


def test_the_corpus_is_read(script: Any) -> None:
    """Every stream of the corpus, by every API, with as many of each kind as another program has counted."""
    streams = script.recorded_streams(corpus.folder() / "corpus")
    assert {stream.api for stream in streams} == set(script.APIS)
    assert [stream for stream in streams if not stream.read] == []
    ours = Counter(kind for stream in streams for kind in stream.deviations)
    assert ours.keys() <= script.KINDS.keys()
    theirs = Counter[str]()
    for name in script.MANIFESTS[:2]:
        for entry in corpus.read_json(f"corpus/{name}"):
            theirs.update(f"{entry['wire']}:{tag}" for tag in entry["quirks"])
    apis = {kind: script.KINDS[kind][0] for kind in TAGS}
    found = {kind: ours[kind] >= theirs[f"{apis[kind]}:{tag}"] > 0 for kind, tag in TAGS.items()}
    assert [kind for kind, right in found.items() if not right] == []


def test_a_wrong_expectation_is_noticed(script: Any) -> None:
    """What is counted as read right is what was compared."""
    events = [CHUNK % (CALL, "null"), CHUNK % ("{}", '"tool_calls"'), "[DONE]"]
    body = "".join(f"data: {event}\n\n" for event in events).encode()
    right = {"text": "", "reasoning": None, "tool_calls": [{"name": "f", "arguments": {}}]}
    assert script.is_read("chat", body, right)
    for wrong in (
        {"text": "x"},
        {"reasoning": "x"},
        {"tool_calls": []},
        {"tool_calls": [{"name": "g", "arguments": {}}]},
    ):
        assert not script.is_read("chat", body, {**right, **wrong})


def test_a_stream_by_the_documentation_has_no_deviation(script: Any) -> None:
    """One text, one call, the finish reason, usage in a chunk of its own, `[DONE]`."""
    usage = '{"id": "a", "object": "chat.completion.chunk", "choices": [], "usage": {"total_tokens": 3}}'
    ends = CHUNK % ("{}", '"tool_calls"')
    assert (
        kinds(script, "chat", CHUNK % ('{"content": "Hi"}', "null"), CHUNK % (CALL, "null"), ends, usage, "[DONE]")
        == set()
    )


@each_row(
    ("data", "found"),
    [
        ([CHUNK % ("{}", '"stop"')], {"chat-done"}),
        ([CHUNK % ('{"content": "a"}', "null"), "[DONE]"], {"chat-no-finish"}),
        (
            [CHUNK % ("{}", '"stop"'), CHUNK % ('{"content": "a"}', '"length"'), "[DONE]"],
            {"chat-finish-twice", "chat-finish-changes", "chat-after-finish"},
        ),
        ([CHUNK % (CALL, '"stop"'), "[DONE]"], {"chat-stop-with-calls"}),
        ([CHUNK % (CALL.replace('"index": 0, ', ""), '"tool_calls"'), "[DONE]"], {"chat-no-index"}),
        ([CHUNK % (CALL.replace('"index": 0', '"index": 1'), '"tool_calls"'), "[DONE]"], {"chat-first-index"}),
        ([CHUNK % (CALL, "null"), CHUNK % (CALL, '"tool_calls"'), "[DONE]"], {"chat-repeated"}),
        ([CHUNK % (CALL.replace('"c"', '""'), '"tool_calls"'), "[DONE]"], {"chat-no-call-id"}),
        ([CHUNK % ('{"content": [{"type": "text", "text": "a"}]}', '"stop"'), "[DONE]"], {"chat-parts"}),
        (['{"error": {"message": "no"}}', "[DONE]"], {"chat-error"}),
        ([(CHUNK % ("{}", '"stop"')).replace('"a"', '""'), "[DONE]"], {"chat-ids"}),
    ],
)
def test_each_deviation_is_found(script: Any, data: list[str], found: set[str]) -> None:
    """One stream for each kind, with that kind and no other."""
    assert kinds(script, "chat", *data) == found


@each_row(
    ("output", "result"),
    [
        (
            "=== 3 passed, 1 skipped in 2.00s ===\n==== 2 failed, 4 passed, 9 deselected in 100.01s (0:01:40) ====",
            "7 passed, 2 failed, 1 skipped",
        ),
        ("12 passed in 1.00s\n", "12 passed"),
        ("openai (openai==3.54.0): 40 pass without us, 39 of them with us\n  1: ids\n", "openai: 39 of 40"),
    ],
)
def test_results_of_runs(script: Any, output: str, result: str) -> None:
    """Failures are never left out of a result."""
    assert script.result_of(output) == result


def test_without_a_corpus_its_section_stays(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Someone without the corpus can make the rest of the page again."""
    monkeypatch.setattr(script, "os", SimpleNamespace(environ={}))
    section = script.PAGE.read_text("utf-8").partition("## Recorded streams")[2].partition("\n## ")[0]
    assert "| **all** |" in section
    assert section in script.page()
