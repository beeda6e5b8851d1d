"""The pages of the documentation that use the lab: their code runs, and their commands exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from pages import Page, commands_of, skip_without_packages

ROOT = Path(__file__).resolve().parents[3]
WORDS = ["streamfold_lab", *(f"streamfold {name} " for name in commands_of("lab"))]
PAGES = [
    page.relative_to(ROOT).as_posix()
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if any(word in page.read_text("utf-8") for word in WORDS)
]


@pytest.mark.slow
@pytest.mark.asyncio
@pytest.mark.parametrize("name", PAGES)
async def test_every_block_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the lab installed, no command is passed over."""
    skip_without_packages(ROOT / name)
    await Page(ROOT / name, tmp_path, monkeypatch, capsys).run()
