"""Compares the endpoints of the catalogue with what four packages say of them, and checks the list of decisions.

`endpoints_of_peers.toml` beside this file has both. `nox -s facts` installs the packages for that alone and lists what
they no longer say; the test of the list needs none of them. Nothing is changed: a person decides.

    python tools/endpoints_drift.py [FOLDER OF node_modules]
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from streamfold.config.catalogue import catalogue_values
from streamfold.config.file import read_profile

__all__ = ["Contradiction", "contradictions", "literals", "undecided", "unsaid"]

LIST = Path(__file__).with_name("endpoints_of_peers.toml")
# The package that tells where those of Python are installed; the AI SDK's are below the folder of Node's.
_PYTHON = {"litellm": "litellm", "pydantic-ai": "pydantic_ai", "langchain": "langchain_core"}


@dataclass(frozen=True, slots=True)
class Contradiction:
    """What a package says otherwise of an endpoint.

    Attributes:
        about: "address", "keys", "adapter", "auth_scope", or a quirk.
        there, here: what the package and the catalogue say.
    """

    row: str
    package: str
    about: str
    there: Any
    here: Any


def read_list() -> dict[str, Any]:
    """Returns the list."""
    return tomllib.loads(LIST.read_text("utf-8"))


def contradictions(said: list[dict[str, Any]]) -> Iterator[Contradiction]:
    """Yields what packages say otherwise than the catalogue."""
    for one in said:
        row = one["row"]
        ours = catalogue_values(row)
        keys = ours.get("api_key_env", ())
        adapter = ours.get("adapter", "chat").replace("kimi", "chat")  # Chat Completions with Kimi's rules
        pairs = {
            "address": (one.get("address"), ours["base_url"]),
            "keys": (one.get("keys"), keys),
            "adapter": (one["adapter"], adapter),
            "auth_scope": (one.get("auth_scope"), ours.get("auth_scope")),
            **{name: (value, _quirk(row, name)) for name, value in one.get("quirks", {}).items()},
        }
        for about, (there, here) in pairs.items():
            if there is None:
                continue
            if about == "address":
                same = _plain(there) == _plain(here)
            else:
                same = there[0] in here if about == "keys" else there == here
            if not same:
                yield Contradiction(row, one["package"], about, there, here)


def undecided(listed: dict[str, Any]) -> list[Contradiction]:
    """Returns the contradictions without a decision."""
    decided = {(one["row"], one["about"], package) for one in listed["decided"] for package in one["packages"]}
    return [found for found in contradictions(listed["said"]) if (found.row, found.about, found.package) not in decided]


def literals(one: dict[str, Any]) -> list[str]:
    """Returns what must be in the files of a package."""
    texts = (one.get("address"), *one.get("keys", ()), one.get("auth_scope"), *one.get("quirks", {}).values())
    return [text for text in texts if text]


def unsaid(said: list[dict[str, Any]], folders: dict[str, Path]) -> Iterator[str]:
    """Yields what packages that are installed no longer say.

    Args:
        folders: where each package's files are.
    """
    for one in said:
        if (folder := folders.get(one["package"])) is None:
            continue
        files = [folder / name for name in one["files"]]
        texts = [file.read_text("utf-8", "replace") for file in files if file.is_file()]
        for text in literals(one):
            if not any(text in content for content in texts):
                yield f"{one['row']}: {one['package']} no longer says {text!r} in {', '.join(one['files'])}"


def _quirk(row: str, name: str) -> Any:
    """Returns what the row says of a difference in requests, or what its adapter assumes."""
    adapter: Any = read_profile(row).make_adapter()
    return getattr(adapter.quirks, name)


def _plain(address: str) -> str:
    """Returns an address without its scheme, with a star for each of its variables."""
    return re.sub(r"\$?\{[^}]*\}|<[^>]*>", "*", address).rstrip("/").partition("://")[2] or address


def _folders(node: str | None) -> dict[str, Path]:
    found = {name: find_spec(package) for name, package in _PYTHON.items()}
    folders = {name: Path(spec.origin).parents[1] for name, spec in found.items() if spec and spec.origin}
    return folders | ({"ai-sdk": Path(node)} if node else {})


if __name__ == "__main__":
    listed = read_list()
    folders = _folders(sys.argv[1] if len(sys.argv) > 1 else None)
    lines = [*unsaid(listed["said"], folders), *(f"undecided: {found}" for found in undecided(listed))]
    print("\n".join([f"compared with: {', '.join(sorted(folders))}", *lines]))
    sys.exit(1 if lines else 0)
