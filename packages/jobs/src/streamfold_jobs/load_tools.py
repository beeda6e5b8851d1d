"""Loads tools from a JSON file or from functions of a Python module."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from inspect import isfunction
from pathlib import Path
from types import ModuleType
from typing import Any

from streamfold import ConfigError, Tool
from streamfold.config import did_you_mean
from streamfold.terminal import read_json
from streamfold.tools import as_tool
from streamfold.types import ToolLike


def read_tools(spec: str, *, to_run: bool) -> Sequence[ToolLike]:
    """Loads tools from a specification: `tools.json`, `MODULE`, `FILE.py`, `MODULE:NAME,NAME` or `FILE.py:NAME,NAME`.

    If the specification has no names, the tools are all functions that the module defines, except functions whose name
    begins with `_`.

    Raises:
        ConfigError: the file, module or function doesn't exist, or isn't a tool.
    """
    if spec.endswith(".json"):
        if to_run:
            raise ConfigError(
                f"--run-tools: {spec} describes tools, but has no functions. Name functions: --tools MODULE:NAME,NAME"
            )
        return _described(Path(spec))
    place, mark, names = spec.rpartition(":") if _has_names(spec) else (spec, "", "")
    module = _module(place)
    found = [_tool(module, place, name) for name in names.split(",")] if mark else _functions(module)
    if not found:
        raise ConfigError(f"--tools: {place} defines no functions")
    return found


def _has_names(spec: str) -> bool:
    head, mark, _ = spec.rpartition(":")
    return bool(mark) and len(head) > 1  # C:\tools.py has none


def _described(path: Path) -> Sequence[ToolLike]:
    value = read_json(path)
    if not isinstance(value, list):
        raise ConfigError(f"{path}: must be a list of tools, not {type(value).__name__}")
    return [as_tool(tool) for tool in value]


def _module(place: str) -> ModuleType:
    """Imports a module by its file name or its module name. As with `python -m`, the working directory is searched
    too.
    """
    try:
        if not place.endswith(".py"):
            sys.path.insert(0, str(Path.cwd()))
            return importlib.import_module(place)
        path = Path(place)
        path.stat()  # raises an error with the file's name
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise ConfigError(f"--tools: {place} can't be read as Python")
        module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except (OSError, ConfigError):
        raise
    except Exception as error:  # of the user's own code
        raise ConfigError(f"--tools: {place}: {type(error).__name__}: {error}") from error
    return module


def _functions(module: ModuleType) -> list[ToolLike]:
    own = (value for name, value in vars(module).items() if not name.startswith("_"))
    return [
        value for value in own if isinstance(value, Tool) or (isfunction(value) and value.__module__ == module.__name__)
    ]


def _tool(module: ModuleType, place: str, name: str) -> ToolLike:
    found: Any = getattr(module, name.strip(), None)
    if found is None:
        names = [name for name in vars(module) if not name.startswith("_")]
        raise ConfigError(f"--tools: {place} has no {name.strip()!r}{did_you_mean(name.strip(), names)}")
    return as_tool(found)
