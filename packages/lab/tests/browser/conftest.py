"""The browser of these tests."""

from browser_fixtures import browser, chromium, visitor

__all__ = ["browser", "chromium", "visitor"]
