"""What docs/stability.md says of modules and of deprecated names is so."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import streamfold
from streamfold.public_names import Deprecated, warn_deprecated

ROOT = Path(__file__).parents[2]
ROWS = re.findall(
    r"^\| (`streamfold.+?) \|.*\| (\w+) \|$", (ROOT / "docs" / "stability.md").read_text("utf-8"), re.MULTILINE
)
SAID = r"^streamfold\.Model is deprecated, and version 9\.0 removes it: use streamfold\.ChatModel$"


def modules() -> dict[str, str]:
    """The modules of the table, and how stable they are."""
    found = {}
    for cell, stability in ROWS:
        for name in re.findall(r"`([\w.]+)`", cell):
            full = f"streamfold{name}" if name[0] == "." else name
            if full.count(".") < 2 and find_spec(full):  # no class; the lab may be absent
                found[full] = stability
    return found


def test_a_module_says_when_it_is_not_stable() -> None:
    """Whoever reads `help()` sees what the documentation says."""
    said = {}
    for name in modules():
        found = re.search(r"^(Provisional|Experimental):", import_module(name).__doc__ or "", re.MULTILINE)
        said[name] = found[1].lower() if found else "stable"
    assert len(said) >= 15
    assert said == modules()


def test_imports_print_nothing_and_warn_of_nothing() -> None:
    """Not even with all warnings on."""
    code = "import " + ", ".join(name for name in modules() if "lab" not in name)
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("", "")


class TestDeprecation:
    """Tried on a made change: `Model` is to become `ChatModel`, and goes with 9.0."""

    @pytest.fixture(autouse=True)
    def made(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(streamfold._DEPRECATED, "Model", Deprecated("streamfold.ChatModel", "9.0"))

    def test_the_old_name_works_and_names_the_new_one(self) -> None:
        with pytest.warns(DeprecationWarning, match=SAID):
            from streamfold import Model
        assert Model is streamfold.ChatModel

    def test_the_warning_is_at_the_line_that_uses_it(self) -> None:
        with pytest.warns(DeprecationWarning, match=SAID) as caught:
            streamfold.Model  # noqa: B018
        assert [warning.filename for warning in caught] == [__file__]

    def test_it_is_not_among_the_names_that_are_offered(self) -> None:
        assert "Model" not in dir(streamfold)

    def test_other_names_are_missing_as_before(self) -> None:
        with pytest.raises(AttributeError, match="module 'streamfold' has no attribute 'Nodel'"):
            streamfold.Nodel  # noqa: B018

    def test_a_parameter_that_goes(self) -> None:
        def ask(*, size: int = 0, length: int | None = None) -> int:
            if length is not None:
                warn_deprecated("the parameter length of ask()", "size", "9.0")
            return length or size

        def program() -> Any:
            return ask(length=3)

        with pytest.warns(
            DeprecationWarning,
            match=r"^the parameter length of ask\(\) is deprecated, and version 9.0 removes it: use size$",
        ) as caught:
            assert program() == 3
        assert caught[0].lineno == program.__code__.co_firstlineno + 1
