"""The browser of these tests."""

from browser_fixtures import browser, chromium

__all__ = ["browser", "chromium"]
