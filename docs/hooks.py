"""Fills in pages made from other files (providers, the changelog), and writes the whole site as text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import streamfold

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path(streamfold.__file__).parent  # which may be installed elsewhere


def providers() -> str:
    """Returns the catalogue's page, without links to files that are not part of the documentation."""
    page = (ROOT / "providers" / "README.md").read_text("utf-8")
    page = re.sub(r"\[([^\]]+)\]\([\w-]+\.toml\)", r"\1", page)
    page = re.sub(r"<(https://[^>]+)>", r"[docs](\1)", page)  # addresses would fill half of the table
    return page[page.index("## ") :]  # providers.md has an introduction of its own


def changelog() -> str:
    """Returns the changelog without its title."""
    text = re.sub(r"\A# .*\n", "", (ROOT / "CHANGELOG.md").read_text("utf-8"))
    return text.replace("](docs/", "](")  # it stands one folder above


PARTS = {"providers": providers, "changelog": changelog}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replaces `<!-- include: NAME -->` by the part of that name."""
    return re.sub(r"<!-- include: ([\w-]+) -->", lambda found: PARTS[found[1]](), markdown)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Names the page in a class, for style sheets; the search finds guides before the reference."""
    name = page.file.src_uri.removesuffix(".md").replace("/", "-")
    later = page.file.src_uri.startswith(("reference/", "bugs", "changelog", "history"))
    boost = 0.1 if later else 2 if page.file.src_uri.startswith(("guides/", "quickstart")) else 1
    page.meta.setdefault("search", {"boost": boost})
    return f'<div class="page-{name}">\n{html}\n</div>'


def on_post_build(config: Any, **_: Any) -> None:
    """Writes `llms.txt` (https://llmstxt.org), which lists the pages, and `llms-full.txt`, which has them."""
    site = Path(config["site_dir"])
    pages = list(_pages(config["nav"]))
    (site / "llms.txt").write_text(llms_index(config["site_name"], config["site_description"], pages), "utf-8")
    texts = (on_page_markdown((ROOT / "docs" / path).read_text("utf-8")) for _, path in pages)
    guide = (PACKAGE / "AGENTS.md").read_text("utf-8")
    (site / "llms-full.txt").write_text(
        "\n\n".join(_HIDDEN.sub("", text).strip() for text in (guide, *texts)) + "\n", "utf-8"
    )


_HIDDEN = re.compile(r"^<!-- .*? -->\n", re.M | re.S)  # notes for the tests of the pages


def _pages(entries: list[Any], section: str = "") -> Iterator[tuple[str, str]]:
    """Returns (title, path) of each page of the navigation; the titles of sections stand before."""
    for entry in entries:
        ((title, inside),) = entry.items()
        if isinstance(inside, list):
            yield from _pages(inside, f"{section}{title}: ")
        elif not inside.startswith("reference/"):  # their text is made from docstrings
            yield section + title, inside


def llms_index(name: str, description: str, pages: list[tuple[str, str]]) -> str:
    """Returns the list of pages for language models."""
    links = [f"- [{title}]({path.removesuffix('index.md').removesuffix('.md') or '.'}/)" for title, path in pages]
    return "\n".join(
        [
            f"# {name}",
            "",
            f"> {description}",
            "",
            "[All of it as one text](llms-full.txt)",
            "",
            "## Pages",
            "",
            *links,
            "",
        ]
    )
