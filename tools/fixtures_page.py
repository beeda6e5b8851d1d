"""Writes `fixtures/README.md` from the descriptions of the fixtures.

`nox -s fixtures` runs it; `tests/engine/test_fixtures.py` fails when the page is older than what it is made from.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path

from streamfold.recording import Recording

__all__ = ["page"]

FOLDER = Path(__file__).parents[1] / "fixtures"
_HEAD = """\
<!-- Written by tools/fixtures_page.py: run `nox -s fixtures` instead of changing it here. -->

# The fixtures

Answers as servers send them: `NAME.sse` is the body, byte for byte; `NAME.toml` says where it comes from and what it
become when it is read. The tests read each one whole, byte by byte and in random pieces. `streamfold inspect
fixtures/FOLDER/NAME.sse` explains one event by event.
"""
_SOURCES = {
    "recorded": "as a running server sent it, {engines} by inference engines (llama.cpp, transformers) and {stand_ins}"
    " by stand-ins for hosted APIs (aimock, mock-ai-api, LiteLLM's proxy before them); none by a hosted provider yet",
    "documented": "written from the format's documentation, with content of our own",
    "synthesised": "written to show one behaviour, or one kind of damage, that servers are known for",
}


def page() -> str:
    """The whole page."""
    recordings = [Recording.load(file) for file in sorted(FOLDER.glob("*/*.sse"))]
    count = Counter[str | None](recording.source for recording in recordings)
    engines = sum(recording.source == "recorded" and _is_engine(recording.origin) for recording in recordings)
    stand_ins = count["recorded"] - engines
    sources = {name: words.format(engines=engines, stand_ins=stand_ins) for name, words in _SOURCES.items()}
    parts = [_HEAD, "\n".join(f"- **{name}** ({count[name]}): {words}" for name, words in sources.items())]
    for folder, group in groupby(recordings, key=lambda recording: recording.name.partition("/")[0]):
        parts += [f"## {folder}", "\n".join(_table(list(group)))]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _is_engine(origin: str) -> bool:
    """Returns whether a model answered, perhaps through a proxy."""
    return ("llama" in origin or "transformers" in origin) and "aimock" not in origin


def _table(recordings: list[Recording]) -> list[str]:
    lines = ["| name | source | read as | what it shows | origin | date |", "| --- | --- | --- | --- | --- | --- |"]
    for made in recordings:
        read_as = f"`{made.adapter}`" + (f" + `{made.dialect}`" if made.dialect else "")
        origin = f"<{made.link}>" if made.link else made.origin
        cells = [f"`{made.name}`", made.source or "", read_as, made.shows, origin, made.date]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return lines


if __name__ == "__main__":
    (FOLDER / "README.md").write_text(page(), "utf-8", newline="\n")
