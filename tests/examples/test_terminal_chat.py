"""The chat of the guide: it remembers, and Ctrl-C ends an answer or the program."""

from __future__ import annotations

import builtins
import re
from pathlib import Path
from typing import Any

import pytest

import streamfold.sync
from streamfold.testing import ScriptedProvider, fail, pause, say

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "chat.md"


def test_a_conversation(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Each question is sent with what was said before: with the part of an interrupted answer, without a failed one."""
    found = re.search(r"```py\n(# chat\.py.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert found is not None
    model = ScriptedProvider("Paris.", [say("It has"), pause(0.01), say(" many rivers.")], fail(500), "Yes.")
    monkeypatch.setattr(streamfold.sync.Provider, "from_config", lambda *_: streamfold.sync.Provider(model))
    questions = iter(["Capital of France?", "And its rivers?", "Hello?", "Are you there?"])
    shown = builtins.print

    def ask(_: str) -> str:
        try:
            return next(questions)
        except StopIteration:
            raise EOFError from None

    def interrupting(*values: Any, **options: Any) -> None:
        shown(*values, **options)
        if values == (" has",):
            raise KeyboardInterrupt

    program: dict[str, Any] = {"input": ask, "print": interrupting, "__name__": "chat"}
    exec(compile(found[1], "chat.py", "exec"), program)
    program["main"]()
    assert [(message.role, message.text) for message in model.requests[-1].messages[1:]] == [
        ("user", "Capital of France?"),
        ("assistant", "Paris."),
        ("user", "And its rivers?"),
        ("assistant", "It has"),
        ("user", "Are you there?"),
    ]
    written = capsys.readouterr().out
    assert written.startswith("Paris.\nIt has\n")
    assert written.endswith("Yes.\n")
