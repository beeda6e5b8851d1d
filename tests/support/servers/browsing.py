"""A real browser for tests: Chromium with its driver.

STREAMFOLD_BROWSER=1 makes a missing browser a failure; `nox -s browser` sets it.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By

__all__ = ["CHROMIUM", "DRIVER", "REQUIRED", "Browser"]

REQUIRED = bool(os.environ.get("STREAMFOLD_BROWSER"))
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")


class Browser:
    """A browser with one page, and the few things that the tests do with it."""

    def __init__(self, folder: Path) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = str(CHROMIUM)
        flags = "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking"
        for flag in [*flags.split(), "disable-component-update", "disable-sync", f"user-data-dir={folder / 'profile'}"]:
            options.add_argument(f"--{flag}")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
        self.driver.execute_cdp_cmd("Performance.enable", {})
        self.folder = folder

    def open(
        self, page: str, *, width: int = 1280, height: int = 800, touch: bool = False, scheme: str = "light"
    ) -> None:
        command = self.driver.execute_cdp_cmd
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": touch}
        command("Emulation.setDeviceMetricsOverride", metrics)
        command("Emulation.setTouchEmulationEnabled", {"enabled": touch})
        command("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        self.driver.get(page if page.startswith("http://127.0.0.1:") else self._saved(page))
        self.settle()

    def _saved(self, page: str) -> str:
        file = self.folder / "page.html"
        file.write_text(page, "utf-8", newline="\n")
        return file.as_uri()

    def wait(self, selector: str, text: str = "", *, seconds: float = 20) -> None:
        """Waits until an element is there and its text has these words."""
        until = time.monotonic() + seconds
        script = "return [...document.querySelectorAll(arguments[0])].some((e) => e.innerText.includes(arguments[1]))"
        while not self.run(script, selector, text):
            assert time.monotonic() < until, f"no {selector} with {text!r}: {self.said('body')[:2000]}"
            time.sleep(0.02)

    def picture(self, file: Path) -> None:
        """Saves what is seen."""
        self.driver.save_screenshot(str(file))

    def settle(self) -> None:
        """Waits until what was asked for is drawn."""
        self.driver.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => setTimeout(done))")

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def find(self, selector: str) -> Any:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[Any]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def said(self, selector: str) -> str:
        return str(self.run("return document.querySelector(arguments[0]).innerText", selector))

    def click(self, selector: str) -> None:
        self.find(selector).click()
        self.settle()

    def press(self, *keys: str) -> None:
        ActionChains(self.driver).send_keys(*keys).perform()
        self.settle()

    def search(self, words: str) -> None:
        box = self.find("#search")
        box.clear()
        box.send_keys(words)
        self.settle()

    def lane(self, label: str) -> Any:
        return next(button for button in self.all(".label") if button.text.startswith(label))

    def rows(self) -> list[str]:
        return [" ".join(row.text.split()) for row in self.all(".row")]

    def metrics(self) -> dict[str, float]:
        """What the page has cost since it was opened, in milliseconds."""
        made = self.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        return {metric["name"]: metric["value"] * 1000 for metric in made}

    def requested(self) -> set[str]:
        """The schemes of everything that was asked for since the last time."""
        messages = [json.loads(line["message"])["message"] for line in self.driver.get_log("performance")]
        sent = [one["params"] for one in messages if one["method"] == "Network.requestWillBeSent"]
        return {params["request"]["url"].partition(":")[0] for params in sent}
