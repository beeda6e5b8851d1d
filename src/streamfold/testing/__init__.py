"""Testing what is built on streamfold: models that follow a script, recordings that are played, cuts in every place.

The same without pytest is here; with it, the fixtures `scripted` and `replay` come by themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cuts import assert_any_cut, assert_any_text_cut, assert_recording
    from .fixtures import ReplayFixture, ScriptedFixture
    from .noted import NotedProvider, ScriptError
    from .replay_server import serve_replay
    from .replayed import ReplayProvider
    from .requests import SentRequest
    from .script import Answer, Step, call, fail, finish, pause, refuse, say, think, usage
    from .scripted import ScriptedProvider, Turn

__all__ = [
    "Answer",
    "NotedProvider",
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

_HOMES = {
    **dict.fromkeys(["assert_any_cut", "assert_any_text_cut", "assert_recording"], "cuts"),
    **dict.fromkeys(["ReplayFixture", "ScriptedFixture"], "fixtures"),
    **dict.fromkeys(["NotedProvider", "ScriptError"], "noted"),
    "ReplayProvider": "replayed",
    "serve_replay": "replay_server",
    "SentRequest": "requests",
    **dict.fromkeys(["ScriptedProvider", "Turn"], "scripted"),
    **dict.fromkeys(
        ["Answer", "Step", "call", "fail", "finish", "pause", "refuse", "say", "think", "usage"],
        "script",
    ),
}


def __getattr__(name: str) -> Any:
    # Imported with the first use: whoever folds bytes in a test needs no network, and pytest starts without any of it.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
