"""Counts what goes wrong now and writes `figures.toml`: `python -m strict_servers.figures` in `tests/`."""

from __future__ import annotations

from pathlib import Path

import anyio

from . import matrix, schema_matrix
from .conversations import TWISTS, conversations
from .rules import load_endpoints
from .schema_rules import load_schema_endpoints

FILE = Path(__file__).parent / "figures.toml"


async def _write() -> None:
    count = 2 * len(TWISTS)
    made = conversations(count)
    lines = [
        "# Written by `python -m strict_servers.figures`: faults by row and kind. All are to become 0.",
        f"conversations = {count}",
        "",
        "[histories]",
    ]
    for name, row in load_endpoints().items():
        found = await matrix.faults(row, made)
        lines.append(f"{name} = {{ " + ", ".join(f'"{kind}" = {n}' for kind, n in sorted(found.items())) + " }")
    lines += ["", "[schemas]"]
    for name, other in load_schema_endpoints().items():
        found = await schema_matrix.faults(other)
        lines.append(f"{name} = {{ " + ", ".join(f'"{kind}" = {n}' for kind, n in sorted(found.items())) + " }")
    FILE.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    anyio.run(_write)
