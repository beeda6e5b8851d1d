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

A fixture is the response of a server. `NAME.sse` contains the bytes of the body. `NAME.toml` contains their origin and
the expected result. The tests read each fixture in one piece, byte by byte and in random pieces. The command
`streamfold inspect fixtures/FOLDER/NAME.sse` explains each event of a fixture.
"""
_SOURCES = {
    "recorded": "a running server sent it: {engines} are from inference engines (llama.cpp, transformers), and"
    " {stand_ins} from servers that imitate hosted APIs (aimock, mock-ai-api, LiteLLM's proxy with them); none is"
    " from a hosted provider yet",
    "documented": "we wrote it from the API's documentation, with our own content",
    "synthesised": "we wrote it to show one behaviour or one defect of servers",
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
