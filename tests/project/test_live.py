"""`nox -s live` asks real providers where there are keys; here it asks recordings on loopback, right and wrong ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scripts import loaded
from streamfold.recording import Recording
from streamfold.testing import serve_replay

live = loaded("tools/live.py")

KEY = "sk-test-0123456789abcdef"


def events(*deltas: dict[str, Any], finish: str) -> bytes:
    """An answer on Chat Completions."""
    choices = [{"delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"delta": {}, "finish_reason": finish})
    usage = {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}
    bodies = [{"id": "a", "object": "chat.completion.chunk", "choices": [{"index": 0, **one}]} for one in choices]
    bodies.append({"id": "a", "object": "chat.completion.chunk", "choices": [], "usage": usage})
    return b"".join(b"data: %s\n\n" % json.dumps(body).encode() for body in bodies) + b"data: [DONE]\n\n"


def called(number: int, arguments: str) -> dict[str, Any]:
    """A call of the tool, whole, in one delta."""
    function = {"name": "get_temperature", "arguments": arguments}
    return {"tool_calls": [{"index": number, "id": f"c{number}", "type": "function", "function": function}]}


CALLS = events(called(0, '{"city": "Oslo"}'), called(1, '{"city": "Lima"}'), finish="tool_calls")
WORDS = events({"content": "-3 in Oslo, "}, {"content": f"24 in Lima. {KEY}"}, finish="stop")


async def recorded(folder: Path, *answers: bytes) -> list[str]:
    """What is wrong with a conversation of these answers."""
    made = [Recording(name=f"made/{number}", body=body) for number, body in enumerate(answers)]
    async with serve_replay(made, match="any", speed="instant") as url:
        return await live.record("groq:openai/gpt-oss-120b", folder, base_url=url, api_key=KEY)


async def test_a_conversation_becomes_two_fixtures_without_the_key(tmp_path: Path) -> None:
    """Even where the model repeats the key, no file has it; both recordings fold to what the program got."""
    wrong = await recorded(tmp_path, CALLS, WORDS)
    assert wrong == []
    first, last = (Recording.load(tmp_path / "groq" / name) for name in ("live_tools", "live_tools-2"))
    assert [call["arguments"] for call in first.expect["calls"]] == ['{"city": "Oslo"}', '{"city": "Lima"}']
    assert last.expect["text"].startswith("-3 in Oslo, 24 in Lima.")
    assert {first.source, last.source} == {"recorded"}
    assert first.shows
    assert KEY not in "".join(path.read_text("utf-8") for path in tmp_path.rglob("*.*"))


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ([WORDS], "the first answer has 0 calls and ends with 'stop'"),
        ([events(called(0, '{"town": 1}'), finish="tool_calls")], """get_temperature was called with '{"town": 1}'"""),
        ([CALLS, CALLS], "the last answer ends with 'tool_calls' and has the text ''"),
        ([CALLS[: len(CALLS) // 2]], "IncompleteStreamError"),
    ],
)
async def test_what_is_wrong_is_said(tmp_path: Path, answers: list[bytes], problem: str) -> None:
    """A model or server that does not keep to its protocol makes no fixture."""
    assert any(problem in said for said in await recorded(tmp_path, *answers))


def test_without_keys_it_says_what_it_would_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A line for each hosted provider of the catalogue, nothing sent, nothing written."""
    for one in live.candidates():
        for variable in (*one.keys, *one.places):
            monkeypatch.delenv(variable, raising=False)
    assert live.main([], tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(list(live.candidates())) + 1
    assert "kimi: not asked; with MOONSHOT_API_KEY or MOONSHOTAI_API_KEY or KIMI_API_KEY set, " in "\n".join(lines)
    assert list(tmp_path.iterdir()) == []
    assert live.main(["ollama"], tmp_path) == 1  # of this machine, not hosted
