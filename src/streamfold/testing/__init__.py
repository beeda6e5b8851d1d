"""Test doubles and checks for applications and adapters: scripted models, replayed recordings, streams cut anywhere.

In pytest, the fixtures `scripted` and `replay` make the doubles. The doubles also work without pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

# Imported when they are needed: folding bytes needs no network code, and pytest starts without any of it.
_LATER = ("script", "assertions", "doubles", "scripted", "replay_server", "pytest_fixtures")


def __getattr__(name: str) -> Any:
    from importlib import import_module

    from ..public_names import set_public_module

    for module in _LATER if name in __all__ else ():
        if hasattr(found := import_module(f"{__name__}.{module}"), name):
            set_public_module(__name__, [value := getattr(found, name)])
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
