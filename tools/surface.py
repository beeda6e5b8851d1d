"""Writes `tests/project/surface.txt`: everything that is public, with its signature.

`python tools/surface.py` writes it; `tests/project/test_surface.py` fails while the file and the
code differ, so that nothing public changes unnoticed. `docs/stability.md` says what may change.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, is_typeddict

import streamfold
from streamfold import StreamfoldError, WarningCode

__all__ = ["FILE", "surface"]

FILE = Path(__file__).resolve().parents[1] / "tests" / "project" / "surface.txt"
# What people import besides `streamfold` itself: these names, or all that a module names in `__all__`.
MODULES: dict[str, list[str]] = {
    "streamfold.adapters": [],
    "streamfold.adapters.batches": [],
    "streamfold.client": [],
    "streamfold.config": [],
    "streamfold.engine": [],
    "streamfold.faults": [],
    "streamfold_gateway": ["gateway"],
    "streamfold_jobs": [],
    "streamfold.limits": [],
    "streamfold.middleware": [],
    "streamfold.net": [],
    "streamfold.recording": [],
    "streamfold.serving": [],
    "streamfold.stores": [],
    "streamfold.terminal": [],
    "streamfold.testing": [],
    "streamfold.tools": [],
    "streamfold.turn_cache": [],
    "streamfold.types": [],
    "streamfold_integrations.otel": [],
    "streamfold_integrations.agui": [],
    "streamfold_integrations.aisdk": [],
    "streamfold.sync": [],
    "streamfold_repair.httpx": [],
    "streamfold_repair.transport": [],
}
WITH_MEMBERS = {
    "Adapter",
    "Repaired",
    "Framing",
    "Prepared",
    "gateway",
    "otel_hooks",
    "RecordTransport",
    "ReplayTransport",
    "ScriptedProvider",
    "ReplayProvider",
}
WHOLE = [  # modules with all members
    *("streamfold.sync", "streamfold_integrations.agui", "streamfold_integrations.aisdk", "streamfold_jobs"),
    *(f"streamfold.{module}" for module in ("limits", "middleware", "net", "serving", "stores", "tools")),
    *("streamfold.turn_cache", "streamfold.types"),
]
KINDS: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def surface() -> str:
    """Returns the public surface as text, one name per line."""
    lines = ["# Everything that is public. Written by tools/surface.py: `python tools/surface.py`.", ""]
    lines += ["[streamfold]"]
    for name in streamfold.__all__:
        lines += _lines(name, getattr(streamfold, name))
    for module, names in MODULES.items():
        lines += ["", f"[{module}]"]
        found = import_module(module)
        for name in sorted(names or found.__all__):
            value = getattr(found, name)
            lines += _lines(name, value) if name in WITH_MEMBERS or module in WHOLE else [name]
    lines += ["", "[warning codes]", *sorted(get_args(WarningCode)), "", "[errors]", *_tree(StreamfoldError, 0)]
    return "\n".join(lines) + "\n"


def _lines(name: str, value: Any) -> Iterator[str]:
    if name == "__version__":
        yield name
    elif is_typeddict(value):
        yield f"{name}: TypedDict"
        yield from (f"    {key}: {_word(kind)}" for key, kind in value.__annotations__.items())
    elif inspect.isclass(value):
        yield f"class {name}{_bases(value)}{'' if 'Protocol' in _bases(value) else _signature(value)}"
        yield from sorted(_members(value))
    elif inspect.isfunction(value):
        yield f"{name}{_signature(value)}"
    elif all(isinstance(word, str) for word in get_args(value)) and value is not WarningCode:
        yield f"{name}: {', '.join(get_args(value))}".rstrip(": ")
    else:
        yield name


def _bases(kind: type) -> str:
    ours = [base.__name__ for base in kind.__bases__ if base.__name__ in streamfold.__all__]
    others = [base.__name__ for base in kind.__bases__ if base.__name__ in ("ValueError", "Exception", "Protocol")]
    return f"[{', '.join(ours + others)}]" if ours or others else ""


def _members(kind: type) -> Iterator[str]:
    """What can be used of an instance: methods, properties and fields. Those of its public bases stand there."""
    seen = set()
    public = [base for base in kind.__mro__[1:] if base.__name__ in streamfold.__all__]
    for base in kind.__mro__:
        if not base.__module__.startswith("streamfold") or any(base in known.__mro__ for known in public):
            continue
        names = [*vars(base), *getattr(base, "__annotations__", {})]
        for name in names:
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            value = inspect.getattr_static(kind, name, None)
            if isinstance(value, property):
                yield f"    {name}: property"
            elif isinstance(value, classmethod | staticmethod) or inspect.isfunction(value):
                yield f"    {name}{_signature(getattr(kind, name))}"
            else:
                yield f"    {name}"


def _signature(value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    parts, star = [], False
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            star = True
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        parts.append(_parameter(parameter))
    result = _word(signature.return_annotation)
    return f"({', '.join(parts)})" + (f" -> {result}" if result else "")


def _parameter(parameter: inspect.Parameter) -> str:
    annotation = _word(parameter.annotation)
    text = KINDS.get(parameter.kind, "") + parameter.name + (f": {annotation}" if annotation else "")
    if parameter.default is parameter.empty:
        return text
    default = repr(parameter.default)
    return f"{text} = {'...' if ' object at ' in default or 'factory' in default else default}"


def _word(annotation: Any) -> str:
    """An annotation as it was written; nothing for one that was made at run time, which Python versions show in ways
    of their own."""
    return annotation if isinstance(annotation, str) else str(getattr(annotation, "__forward_arg__", ""))


def _tree(kind: Any, depth: int) -> Iterator[str]:
    yield "    " * depth + kind.__name__
    for child in sorted(kind.__subclasses__(), key=lambda found: found.__name__):
        if child.__name__ in streamfold.__all__:
            yield from _tree(child, depth + 1)


if __name__ == "__main__":
    FILE.write_text(surface(), "utf-8")
