"""Helpers for tests of applications and adapters: scripted models, replayed recordings, and checks that split a stream
at any position.

In pytest, the fixtures `scripted` and `replay` create the models. The models also work without pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..public_names import import_later, set_public_module

if TYPE_CHECKING:
    from .assertions import assert_any_cut, assert_any_text_cut, assert_recording
    from .doubles import ProviderDouble, ReplayProvider, ScriptError, SentRequest
    from .pytest_fixtures import ReplayFixture, ScriptedFixture
    from .replay_server import serve_replay
    from .script import Answer, Step, call, fail, finish, pause, refuse, say, think, usage
    from .scripted import ScriptedProvider, Turn

__all__ = [
    "Answer",
    "ProviderDouble",
    "ReplayFixture",
    "ReplayProvider",
    "ScriptError",
    "ScriptedFixture",
    "ScriptedProvider",
    "SentRequest",
    "Step",
    "Turn",
    "assert_any_cut",
    "assert_any_text_cut",
    "assert_recording",
    "call",
    "fail",
    "finish",
    "pause",
    "refuse",
    "say",
    "serve_replay",
    "think",
    "usage",
]

_LATER = {  # imported when they are used: folding bytes needs no network code, and pytest starts without any of it
    ".assertions": ("assert_any_cut", "assert_any_text_cut", "assert_recording"),
    ".doubles": ("ProviderDouble", "ReplayProvider", "ScriptError", "SentRequest"),
    ".pytest_fixtures": ("ReplayFixture", "ScriptedFixture"),
    ".replay_server": ("serve_replay",),
    ".script": ("Answer", "Step", "call", "fail", "finish", "pause", "refuse", "say", "think", "usage"),
    ".scripted": ("ScriptedProvider", "Turn"),
}


def __getattr__(name: str) -> Any:
    set_public_module(__name__, [value := import_later(__name__, name, _LATER)])
    return value


def __dir__() -> list[str]:
    return __all__
