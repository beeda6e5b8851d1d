"""Writes the tables of docs/concepts/warnings.md, from the comments beside `WarningCode`."""

from __future__ import annotations

import re
from pathlib import Path

import streamfold

PAGE = Path(__file__).resolve().parents[1] / "docs" / "concepts" / "warnings.md"
TYPES = Path(streamfold.__file__).parent / "types"  # which may be installed elsewhere
GROUP, CODE = re.compile(r"^    # (.+)$"), re.compile(r'^    "(\w+)",(?:  # (.+))?$')
BEGIN = "<!-- from here on by `python tools/warnings_page.py` -->\n"


def warning_codes() -> list[tuple[str, str, str]]:
    """Returns (group, code, meaning) for each warning code."""
    text = (TYPES / "warnings.py").read_text("utf-8")
    _, _, listed = text.partition("WarningCode = Literal[\n")
    group, above, codes = "", "", []
    for line in listed.partition("\n]")[0].splitlines():
        if code := CODE.match(line):
            codes.append((group, code[1], code[2] or above))
            above = ""
        elif heading := GROUP.match(line):
            # A heading is one short line; a longer comment belongs to the code below it.
            if len(heading[1]) < 30 and not above:
                group = heading[1]
            else:
                above = f"{above} {heading[1]}".strip()
    return codes


def page() -> str:
    """Returns the page with its tables, one for each group of codes."""
    lines: list[str] = []
    last = None
    for group, code, meaning in warning_codes():
        if group != last:
            lines += ["", f"## {group[:1].upper()}{group[1:]}", "", "| code | meaning |", "|---|---|"]
            last = group
        lines.append(f"| `{code}` | {meaning[:1].upper()}{meaning[1:]} |")
    head, _, _ = PAGE.read_text("utf-8").partition(BEGIN)
    return head + BEGIN + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    print(f"wrote {PAGE}")
