"""The browser of these tests. They are skipped where there is none; `nox -s browser` brings what Python can."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from browsing import Browser


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    pytest.importorskip("selenium", reason="selenium is not installed: nox -s browser brings it")
    from browsing import CHROMIUM, DRIVER, REQUIRED, Browser

    if not (CHROMIUM and DRIVER) and not REQUIRED:
        pytest.skip("there is no chromium or no chromedriver")
    made = Browser(tmp_path_factory.mktemp("browser"))
    yield made
    made.driver.quit()


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """The browser; afterwards its console must be empty, and no network may have been asked for."""
    chromium.driver.get_log("browser")
    chromium.requested()
    yield chromium
    assert [line["message"] for line in chromium.driver.get_log("browser")] == []
    assert not chromium.requested() & {"http", "https", "ws", "wss", "ftp", "blob"}


@pytest.fixture
def visitor(chromium: Browser) -> Iterator[Browser]:
    """The browser for pages that a server sends; afterwards its console must be empty."""
    chromium.driver.get_log("browser")
    yield chromium
    said = [line["message"] for line in chromium.driver.get_log("browser")]
    assert [line for line in said if "favicon.ico" not in line] == []
