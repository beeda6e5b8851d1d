"""Shows the doctests of docstrings as code, wherever in a docstring they stand."""

from __future__ import annotations

import re
from typing import Any

import griffe

DOCTEST = re.compile(r"(?:^>>> .*\n(?:^(?!>>> |\s*$).+\n?|^>>> .*\n?)*)", re.MULTILINE)


class Doctests(griffe.Extension):
    """Puts a fence around each doctest."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Changes the docstring of one object."""
        if obj.docstring and ">>> " in obj.docstring.value:
            text = obj.docstring.value + "\n"
            obj.docstring.value = DOCTEST.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", text)
