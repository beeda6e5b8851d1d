"""What is public is written down, so that no change of it goes unnoticed."""

from __future__ import annotations

import difflib
import functools
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from streamfold.public_names import is_data

JSON = {  # where `Any` is JSON data, or what a user's own function takes and returns
    "dict[str, Any]",
    "Mapping[str, Any]",
    "Callable[..., Any]",
    "Callable[[Any], T]",
    "Callable[[Any], object]",
    "Iterable[Any]",
    "list[Any]",
    "**data: Any",
    "**options: Any",  # the settings of `[gateway]`, which are TOML
    "json() -> Any",
    "any(name: str) -> Any",  # a member of a JSON object
    "parse_object(text: str) -> Any",
    "camel_case(value: Any) -> Any",
    "replace_non_finite(value: Any) -> Any",
    "**members: Any",
    *(
        f"{name}: Any"
        for name in ("body", "choice", "content", "filter", "forwarded", "input", "item", "payload", "state", "value")
    ),
    "response_format: Any",  # as it was given: a model, a schema or a word
    "batches() -> Any",  # made by the client, which stands above
    "resume() -> Any",  # a stream of `streamfold` or of `streamfold.sync`, as the answer was
}
ROOT = Path(__file__).resolve().parents[2]
WRITTEN = ROOT / "tests" / "project" / "surface.txt"


def test_the_public_surface_is_what_is_written_down() -> None:
    """Names, signatures, members, warning codes and the tree of errors."""
    code = "import sys; sys.path.insert(0, 'tools'); import surface; sys.stdout.write(surface.surface())"
    # In a process of its own: tests define errors and adapters too.
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, encoding="utf-8", check=True)
    lines = difflib.unified_diff(
        WRITTEN.read_text("utf-8").splitlines(),
        run.stdout.splitlines(),
        "written down",
        "in the code",
        lineterm="",
        n=0,
    )
    difference = "\n".join(lines)
    assert not difference, (
        "the public surface has changed: if that is meant, run `python tools/surface.py`,"
        f" and see docs/stability.md and CHANGELOG.md\n{difference}"
    )


def test_public_signatures_say_their_types() -> None:
    """`Any` stands in a public signature only where the value is JSON data."""
    longest_first = sorted(JSON, key=len, reverse=True)
    for line in WRITTEN.read_text("utf-8").splitlines():
        left = functools.reduce(lambda text, known: text.replace(known, ""), longest_first, line)
        unknown = re.search(r"\bAny\b", left)
        assert unknown is None, line


def test_public_classes_name_their_public_module() -> None:
    """A traceback, a repr and a pickle name the module from which users import the class."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        from surface import MODULES
    finally:
        sys.path.remove(str(ROOT / "tools"))
    for module in ("streamfold", "streamfold.testing", *MODULES):
        public = import_module(module)
        for name in public.__all__:
            value = getattr(public, name)
            if isinstance(value, type) and value.__module__.startswith("streamfold") and not is_data(value):
                assert value.__module__ in ("streamfold", *MODULES, module), name
                assert getattr(import_module(value.__module__), value.__name__) is value
