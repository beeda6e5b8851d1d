"""The documentation's site in a real browser: narrow and wide, light and dark, read by people and by axe-core."""

from __future__ import annotations

import functools
import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("selenium", reason="selenium is not installed: nox -s browser brings it")
pytest.importorskip("mkdocs", reason="mkdocs is not installed: nox -s browser brings it")

from browsing import REQUIRED, Browser

ROOT = Path(__file__).parents[2]
AXE = os.environ.get("STREAMFOLD_AXE")  # axe-core's axe.min.js
PAGES = [
    *("", "quickstart/", "guides/tools/", "guides/gateway/", "guides/own-endpoint/"),
    *("failures/", "options-table/", "reference/client/", "changelog/"),
]
CHECK = """
const said = (node) => node.html.slice(0, 160) + " " + node.any.map((one) => one.message);
axe.run(document, {runOnly: ["wcag2a", "wcag2aa"]}).then((result) =>
  arguments[0](result.violations.map((one) => [one.id, one.nodes.slice(0, 4).map(said)])))
"""
WIDTHS = {"phone": 390, "desktop": 1280}


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def opened(visitor: Browser, address: str, scheme: str, width: str = "desktop") -> None:
    """Opens a page as a new visitor does: the site remembers which colours somebody has chosen."""
    visitor.open(address, width=WIDTHS[width], scheme=scheme)
    visitor.run("localStorage.clear()")
    visitor.open(address, width=WIDTHS[width], scheme=scheme)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("page", PAGES)
def test_a_page(visitor: Browser, site: str, page: str, width: str, scheme: str) -> None:
    """It fits its window, its console stays empty, its colours are the visitor's, and its links lead somewhere."""
    opened(visitor, f"{site}/{page}", scheme, width)
    assert visitor.run("return document.documentElement.scrollWidth") <= WIDTHS[width]
    assert visitor.run("return document.querySelector('h1').innerText.trim()")
    dark = visitor.run("return document.body.getAttribute('data-md-color-scheme')") == "slate"
    assert dark == (scheme == "dark")
    links = "[...document.querySelectorAll('article a[href]')].map((a) => a.href)"
    inside = visitor.run(f"return {links}.filter((href) => href.startsWith(arguments[0]))", site)
    lost = "return [...new Set(arguments[0])].filter((href) => {const x = new XMLHttpRequest();"
    lost += " x.open('HEAD', href.split('#')[0], false); x.send(); return x.status !== 200})"
    assert visitor.run(lost, inside[:40]) == []


@pytest.mark.skipif(not AXE and not REQUIRED, reason="STREAMFOLD_AXE names no axe.min.js: nox -s browser brings it")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_everybody_can_read_it(visitor: Browser, site: str, page: str, scheme: str) -> None:
    """Contrast, names, roles, order of headings: what axe-core finds by the rules of WCAG 2 A and AA."""
    opened(visitor, f"{site}/{page}", scheme)
    visitor.run(Path(str(AXE)).read_text("utf-8"))
    found = visitor.driver.execute_async_script(CHECK)
    assert found == []


@pytest.mark.parametrize("word", ["retry", "approve", "timeout"])
def test_the_search_finds_guides_first(visitor: Browser, site: str, word: str) -> None:
    """A person who searches for a task reads how it is done before the names in the reference."""
    visitor.open(f"{site}/?q={word}", width=WIDTHS["desktop"])
    visitor.wait(".md-search-result__item > a")
    assert "/guides/" in visitor.find(".md-search-result__item > a").get_attribute("href")
