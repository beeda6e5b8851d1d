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
    """Loads the tools that the option `--tools` names: `tools.json`, `MODULE`, `FILE.py`, `MODULE:NAME,NAME` or
    `FILE.py:NAME,NAME`.

    Without names, the tools are all functions that the module defines, except those whose name begins with `_`.

    Raises:
        ConfigError: the file, module or function doesn't exist, or isn't a tool.
    """
    if spec.endswith(".json"):
        if to_run:
            raise ConfigError(
                f"--run-tools: {spec} describes tools, but has no functions. Name functions: --tools MODULE:NAME,NAME"
            )
        value = read_json(Path(spec))
        if not isinstance(value, list):
            raise ConfigError(f"{spec}: must be a list of tools, not {type(value).__name__}")
        return [as_tool(tool) for tool in value]
    place, _, names = spec.rpartition(":")
    if len(place) > 1:
        module = _module(place)
        return [_tool(module, place, name.strip()) for name in names.split(",")]
    module = _module(spec)  # in `C:\tools.py`, no name follows the colon
    members = [value for name, value in vars(module).items() if not name.startswith("_")]
    own = [
        each for each in members if isinstance(each, Tool) or (isfunction(each) and each.__module__ == module.__name__)
    ]
    if not own:
        raise ConfigError(f"--tools: {spec} defines no functions")
    return own


def _module(place: str) -> ModuleType:
    """Imports a module by its file name or its module name. Like `python -m`, also finds modules in the working
    directory.
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


def _tool(module: ModuleType, place: str, name: str) -> ToolLike:
    found: Any = getattr(module, name, None)
    if found is None:
        names = [each for each in vars(module) if not each.startswith("_")]
        raise ConfigError(f"--tools: {place} has no {name!r}{did_you_mean(name, names)}")
    return as_tool(found)
