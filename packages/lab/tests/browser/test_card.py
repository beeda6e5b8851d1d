"""The report card of the doctor in a real browser, opened as a file."""

from __future__ import annotations

import pytest

pytest.importorskip("selenium", reason="selenium is not installed: nox -s browser brings it")

from selenium.webdriver.support.wait import WebDriverWait

from browsing import Browser
from examined import examine
from patients import Patient
from streamfold import faults
from streamfold.adapters.chat import ChatQuirks
from streamfold_lab.doctor import render_card

HOSTILE = "</script><script>window.owned = 1</script><!--<img src=x onerror='window.owned = 1'>\u2028&lt;"
# httpx on trio, when a stream is left before its end.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")


def page(patient: Patient, **others: object) -> str:
    return render_card([examine(patient, **others)])


@pytest.fixture(scope="module")
def card() -> str:
    return page(Patient(quirks=ChatQuirks(stream_usage=False), faults=[faults.garbage(after_events=3)], turns=1))


@pytest.mark.parametrize("width", [1280, 390], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_findings_are_listed(browser: Browser, card: str, width: int, scheme: str):
    """Each finding has its verdict and what was seen, and nothing is wider than the screen."""
    browser.open(card, width=width, touch=width < 500, scheme=scheme)
    assert browser.said("[data-probe=stream_usage] .verdict") == "set"
    assert "unknown parameter: stream_options" in browser.said("[data-probe=stream_usage] .saw")
    assert browser.said("[data-probe=garbage] .verdict") == "fault"
    assert "stream_usage = false" in browser.said(".profile")
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")


def test_a_finding_opens_its_stream_in_the_inspector(browser: Browser, card: str):
    """The timeline is drawn in a frame; request and answer are beside it."""
    browser.open(card)
    browser.click("[data-probe=garbage] .answers button")
    browser.driver.switch_to.frame(browser.find("#stream"))
    WebDriverWait(browser.driver, 10).until(lambda _: browser.said("#outcome"))
    assert browser.said("#outcome") == "finished: stop"
    assert "malformed_event" in browser.said("#problems")
    browser.driver.switch_to.default_content()
    browser.all("#viewer-choice button")[1].click()
    assert "POST /v1/chat/completions" in browser.said("#text")
    browser.click("#close")
    assert not browser.run("return document.getElementById('viewer').open")


def test_a_refused_request_shows_the_answer(browser: Browser, card: str):
    """What is no stream is shown as text."""
    browser.open(card)
    browser.all("[data-probe=stream_usage] .answers button")[1].click()
    browser.all("#viewer-choice button")[1].click()
    assert "unknown parameter: stream_options" in browser.said("#text")


def test_other_responses_are_counted(browser: Browser, card: str):
    """Behind a finding as documented is only a number, and behind the buttons of another one the number of the rest."""
    browser.open(card)
    assert browser.said("[data-probe=answers] .answers") == "2 responses"
    assert browser.said("[data-probe=stream_usage] .others") == "and 1 more"


def test_hostile_text_stays_text(browser: Browser):
    """Whatever a server writes runs nowhere, neither in the card nor in the inspector."""
    browser.open(page(Patient(echo=HOSTILE)))
    browser.click("[data-probe=reasoning] .answers button")
    browser.driver.switch_to.frame(browser.find("#stream"))
    WebDriverWait(browser.driver, 10).until(lambda _: browser.said("#outcome"))
    assert not browser.run("return 'owned' in window")
    browser.driver.switch_to.default_content()
    assert not browser.run("return 'owned' in window")
    assert "<img src=x" in browser.said("[data-probe=malformed] .saw")
    assert browser.run("return document.querySelectorAll('img').length") == 0
