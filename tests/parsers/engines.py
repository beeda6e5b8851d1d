"""The parsers of engines that serve these models, run without the engines: `nox -s parsers`.

SGLang's readers are modules of an engine that needs a GPU. They are loaded with what is around them replaced by stubs.
"""

from __future__ import annotations

import enum
import importlib
import json
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamfold import Tool

Parser = Callable[[str, tuple[Tool, ...]], list[tuple[str, Any]]]

SGLANG = {
    "harmony": ("gpt_oss_detector", "GptOssDetector"),
    "dsml": ("deepseekv4_detector", "DeepSeekV4Detector"),
    "kimi3": ("kimik3_detector", "KimiK3Detector"),
    "minimax": ("minimax_m2", "MinimaxM2Detector"),
    "minimax3": ("minimax_m3", "MinimaxM3Detector"),
    "gemma4": ("gemma4_detector", "Gemma4Detector"),
    "lfm2": ("lfm2_detector", "Lfm2Detector"),
    "cohere": ("cohere_command4_detector", "CohereCommand4Detector"),
}


def parsers() -> dict[tuple[str, str], Parser]:
    """Those that can be run here, by engine and dialect."""
    found: dict[tuple[str, str], Parser] = {}
    if parser := _harmony():
        found["openai-harmony", "harmony"] = parser
    if parser := _melody():
        found["cohere-melody", "cohere"] = parser
    if "STREAMFOLD_SGLANG" in os.environ:
        _stub_sglang(Path(os.environ["STREAMFOLD_SGLANG"]))
        for dialect, (module, name) in SGLANG.items():
            detector = getattr(importlib.import_module(f"sglang.srt.function_call.{module}"), name)
            found["SGLang", dialect] = _sglang(detector)
    return found


def _harmony() -> Parser | None:
    try:
        import openai_harmony as harmony

        encoding = harmony.load_harmony_encoding("HarmonyGptOss")  # fetches its vocabulary, or finds it
    except Exception:  # of several libraries; its cases are skipped
        return None

    def parse(text: str, tools: tuple[Tool, ...]) -> list[tuple[str, Any]]:
        tokens = encoding.encode(text.removeprefix("<|start|>assistant"), allowed_special="all")
        messages = encoding.parse_messages_from_completion_tokens(tokens, harmony.Role.ASSISTANT)
        calls = [message for message in messages if message.recipient]
        return [(call.recipient.removeprefix("functions."), json.loads(call.content[0].text)) for call in calls]

    return parse


def _melody() -> Parser | None:
    try:
        import cohere_melody
    except ImportError:
        return None

    def parse(text: str, tools: tuple[Tool, ...]) -> list[tuple[str, Any]]:
        result = cohere_melody.PyFilter.cmd4().process_full_text(text)
        return [(call.name, json.loads(call.arguments or "{}")) for call in result.tool_calls]

    return parse


def _sglang(detector: Any) -> Parser:
    protocol = sys.modules["sglang.srt.entrypoints.openai.protocol"]

    def parse(text: str, tools: tuple[Tool, ...]) -> list[tuple[str, Any]]:
        given = [
            protocol.Tool(function=protocol.Function(name=tool.name, parameters=dict(tool.parameters)))
            for tool in tools
        ]
        calls = detector().detect_and_parse(text, given).calls
        return [(call.name, json.loads(call.parameters)) for call in calls]

    return parse


class _Anything:
    """Stands for whatever is asked of it: a setting that is on."""

    def __getattr__(self, name: str) -> _Anything:
        return self

    def __call__(self, *args: Any, **options: Any) -> _Anything:
        return self

    def get(self, *args: Any) -> bool:
        return True


def _something(name: str) -> Any:
    """Stands for whatever is imported from a module that is not there."""
    if name.startswith("__"):
        raise AttributeError(name)
    return Any


def _stub_sglang(folder: Path) -> None:
    from pydantic import BaseModel

    class Function(BaseModel):
        name: str | None = None
        description: str | None = None
        parameters: Any = None
        strict: bool = False

    class AnyTool(BaseModel):
        type: str = "function"
        function: Function

    def module(name: str, **members: Any) -> None:
        made = types.ModuleType(name)
        made.__path__ = [str(folder / name.replace(".", "/"))]
        made.__dict__.update(members)
        made.__dict__.setdefault("__getattr__", _something)
        sys.modules[name] = made

    for name in ("", ".srt", ".srt.entrypoints", ".srt.entrypoints.openai", ".srt.function_call", ".srt.parser"):
        module(f"sglang{name}")
    module("sglang.srt.entrypoints.openai.protocol", Tool=AnyTool, Function=Function)
    level = enum.IntEnum("ToolStrictLevel", {"OFF": 0, "FUNCTION": 1, "PARAMETER": 2})
    module("sglang.srt.environ", envs=_Anything(), ToolStrictLevel=level)
    module("xgrammar", get_model_structural_tag=None)
    module("xgrammar.structural_tag")
