"""The page of an inspection in a real browser. Skipped where there is none; `nox -s browser` brings what Python can.

STREAMFOLD_BROWSER=1 makes a missing browser a failure.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from folding import DONE, call, chunk, entry, event, fin, text
from streamfold.recording import Recording
from streamfold_lab.inspection import inspect_stream, render_page

pytest.importorskip("selenium", reason="selenium is not installed: nox -s browser brings it")

from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.support.wait import WebDriverWait

from browsing import Browser

FIXTURES = Path(__file__).parents[4] / "fixtures"
HOSTILE = "</script><script>window.owned = 1</script><!--<img src=x onerror='window.owned = 1'>\u2028&lt;"


def page_of(name: str) -> str:
    recording = Recording.load(FIXTURES / name)
    return render_page(
        inspect_stream(recording.body, name=recording.name, adapter=recording.adapter, cuts=recording.cuts)
    )


def large(events: int = 10_000) -> str:
    """A page of this many events: reasoning, text, and two calls that are mixed, with times."""
    rng = random.Random(1)
    third = events // 3
    stream = [chunk({"reasoning_content": f"thought {number} "}) for number in range(third)]
    stream += [text(f"word {number} ") for number in range(third)]
    stream += [call(entry(index, f"functions.f:{index}", "f", "")) for index in (0, 1)]
    rest = events - len(stream) - 2
    arguments = ['{"x": "'] * 2 + [f"{number:06} " for number in range(rest - 4)] + ['"}'] * 2
    stream += [call(entry(number % 2, arguments=piece)) for number, piece in enumerate(arguments)]
    stream += [fin("tool_calls"), DONE]
    assert len(stream) == events
    cuts = [(len(one), rng.expovariate(50)) for one in stream]
    return render_page(inspect_stream(b"".join(stream), name="large/stream", cuts=cuts))


# --- What is shown ---------------------------------------------------------------------------------------------------


def test_the_first_look(browser: Browser):
    """Name, facts, outcome, one lane for each part of the answer, the events and the answer."""
    browser.open(page_of("demo/parallel_calls"))
    assert browser.driver.title == "demo/parallel_calls · streamfold inspect"
    assert browser.said("#facts").startswith("chat · 79 events · 20,225 bytes")
    assert browser.said("#outcome") == "finished: tool_calls"
    assert [" ".join(label.text.split()) for label in browser.all(".label")] == [
        "reasoning 26",
        "text 17",
        "get_weather 0 9",
        "get_weather 1 9",
        "search_flights 2 15",
        "stream 4",
    ]
    assert browser.rows()[1] == "2 reasoning Two"
    assert "Lisbon" in browser.said("#answer")


@pytest.mark.parametrize(
    ("name", "how"), [("kimi/parallel_calls", "ok"), ("kimi/length_in_call", "cut"), ("ends/eof_in_text", "failed")]
)
def test_how_it_ended_has_a_colour(browser: Browser, name: str, how: str):
    """An answer that was cut off looks like none that is whole, and like no error."""
    browser.open(page_of(name))
    shade = browser.run("return getComputedStyle(document.querySelector('#outcome')).color")
    one = {"ok": "--ok", "cut": "--warning", "failed": "--error"}[how]
    wanted = browser.run(
        "const made = document.body.appendChild(document.createElement('i'));"
        "made.style.color = `var(${arguments[0]})`;"
        "return getComputedStyle(made).color",
        one,
    )
    assert shade == wanted


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_is_drawn(browser: Browser, scheme: str, width: int):
    """The lanes have paint in their colours, nothing is wider than the screen, and text stands out from the page."""
    browser.open(page_of("demo/reasoning_text"), width=width, height=844, touch=width < 500, scheme=scheme)
    colors = browser.run(
        "const c = document.querySelector('#canvas'), pen = c.getContext('2d');"
        "const d = pen.getImageData(0, 0, c.width, c.height).data;"
        "const seen = new Set(); for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 150)"
        " seen.add([d[i] >> 4, d[i + 1] >> 4, d[i + 2] >> 4].join()); return [...seen]"
    )
    assert len(colors) >= 3
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
    ink, paper = browser.run("const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]")
    bright = [sum(map(int, color[4:-1].split(","))) for color in (ink, paper)]
    assert abs(bright[0] - bright[1]) > 500
    assert (bright[0] < bright[1]) == (scheme == "light")


def test_the_theme_can_be_switched(browser: Browser):
    """The button turns it round, whatever the system says, and the picture follows."""
    browser.open(page_of("kimi/parallel_calls"), scheme="dark")
    look = "return [getComputedStyle(document.body).backgroundColor, document.querySelector('#canvas').toDataURL()]"
    dark, drawn_dark = browser.run(look)
    browser.click("#theme")
    light, drawn_light = browser.run(look)
    browser.click("#theme")
    assert dark != light
    assert drawn_dark != drawn_light
    assert browser.run(look) == [dark, drawn_dark]


# --- What can be done ------------------------------------------------------------------------------------------------


def test_an_event_is_shown_when_it_is_clicked(browser: Browser):
    """Its number, its steps with their reasons, and its bytes, as sent or formatted; then the next one."""
    browser.open(page_of("kimi/parallel_calls"))
    browser.lane("get_time").click()
    browser.click(".row:nth-child(2)")
    assert browser.said("#event h2") == "Event 22"
    assert "index 1 is in use: continues call 1 (get_time)" in browser.said("#event")
    assert 'data: {"id":"chatcmpl-' in browser.said("#event .raw")
    browser.click("#event .choice button:nth-child(2)")
    assert '"arguments": "{\\"time"' in browser.said("#event .raw")
    browser.click("#event [aria-label='Next event']")
    assert browser.said("#event h2") == "Event 23"
    browser.click("#tab-answer")
    assert not browser.find("#event").is_displayed()
    assert browser.find("#answer").is_displayed()


def test_lanes_are_filters(browser: Browser):
    """One lane, two lanes, all of them again."""
    browser.open(page_of("kimi/parallel_calls"))
    browser.lane("get_time").click()
    assert {row.split()[1] for row in browser.rows()} == {"call"}
    assert browser.said("#count") == "6 of 34 events"
    browser.lane("stream").click()
    assert browser.said("#count") == "9 of 34 events"
    browser.click("#clear")
    assert browser.said("#count") == "34 events"


def test_search_finds_what_is_spread_over_events(browser: Browser):
    """A phrase of the text or of arguments is found although no event has all of it; so are names and raw bytes."""
    browser.open(page_of("kimi/parallel_calls"))
    for words, found in (("depend on each", 3), ("Africa/Nairobi", 3), ("prompt_tokens", 1), ("index 1 is in use", 5)):
        browser.search(words)
        assert browser.said("#count") == f"{found} of 34 events", words
    browser.search("Africa/Nairobi")
    assert [mark.text for mark in browser.all(".row mark")] == ["Afri", "ca/Nai", "robi"]
    browser.search("no such words")
    assert browser.said("#count") == "0 of 34 events"
    assert browser.rows() == []


def test_keys(browser: Browser):
    """Arrow keys walk through the list and the picture, a slash begins a search, Escape closes the event."""
    browser.open(page_of("kimi/parallel_calls"))
    browser.run("document.querySelector('#list').focus()")
    browser.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    assert browser.said("#event h2") == "Event 3"
    chosen = browser.find(".row[aria-selected=true]").get_attribute("id")
    assert browser.find("#list").get_attribute("aria-activedescendant") == chosen
    browser.press(Keys.END)
    assert browser.said("#event h2") == "Event 34"
    browser.run("document.querySelector('#plot').focus()")
    browser.press(Keys.ARROW_LEFT)
    assert browser.said("#event h2") == "Event 33"
    assert browser.find("#tip").is_displayed()
    assert browser.find("#plot").get_attribute("aria-valuetext").startswith("Event 33: ")
    browser.press(Keys.ESCAPE)
    assert not browser.find("#event").is_displayed()
    browser.press("/")
    assert browser.driver.switch_to.active_element.get_attribute("id") == "search"


def test_hovering_shows_the_raw_event(browser: Browser):
    """Over a mark of the picture stands its event; a click opens it."""
    browser.open(page_of("kimi/parallel_calls"))
    plot = browser.find("#plot")
    x = browser.run("const p = document.querySelector('#plot'); return p.clientWidth * (18.5 / 35) - p.clientWidth / 2")
    ActionChains(browser.driver).move_to_element_with_offset(plot, int(x), 0).perform()
    browser.settle()
    number = browser.said("#tip .tip-head")
    assert number in ("Event 18", "Event 19", "Event 20")
    assert 'data: {"id":' in browser.said("#tip pre")
    ActionChains(browser.driver).click().perform()
    browser.settle()
    assert browser.said("#event h2") == number


def test_zoom_and_axis(browser: Browser):
    """Zooming in, out and back, and the axis by time or by order, change the picture and break nothing."""
    browser.open(page_of("demo/reasoning_text"))
    look = "return document.querySelector('#canvas').toDataURL()"
    first = browser.run(look)
    browser.click("#zoom-in")
    near = browser.run(look)
    browser.click("#zoom-fit")
    assert near != first
    assert browser.run(look) == first
    browser.click("[data-axis=order]")
    assert browser.run(look) != first
    assert browser.said("#unit") == "event"


def test_a_tap_on_a_phone(browser: Browser):
    """A tap opens the raw event as a sheet that leaves room for the list; closed, the answer is there again."""
    browser.open(page_of("demo/parallel_calls"), width=390, height=844, touch=True)
    browser.run("document.querySelector('#list').scrollIntoView()")
    browser.settle()
    browser.click(".row:nth-child(3)")
    sheet = browser.run("const r = document.querySelector('#event').getBoundingClientRect(); return [r.top, r.bottom]")
    assert 844 * 0.3 < sheet[0] < 844
    assert sheet[1] == 844
    assert "data: {" in browser.said("#event .raw")
    browser.click("#event .close")
    assert not browser.find("#event").is_displayed()


# --- Hostile text ----------------------------------------------------------------------------------------------------


def test_hostile_text_stays_text(browser: Browser):
    """Markup in texts, names, ids, errors and the recording's own name is shown, and runs nowhere."""
    body = (
        text(HOSTILE)
        + call(entry(0, HOSTILE, HOSTILE, HOSTILE))
        + f"event: {HOSTILE}\ndata: {{}}\n\n: {HOSTILE}\n\n".encode()
        + event({"error": {"message": HOSTILE}})
    )
    browser.open(render_page(inspect_stream(body, name=HOSTILE, about={"notes": HOSTILE})))
    for position in range(len(browser.all(".row"))):
        browser.run("document.querySelectorAll('.row')[arguments[0]].click()", position)
        browser.settle()
    assert browser.run("return [window.owned, document.scripts.length, document.images.length]") == [None, 2, 0]
    assert browser.run("return document.querySelector('#name').textContent") == HOSTILE
    assert browser.run("return document.querySelector('#answer .said').textContent") == HOSTILE
    assert browser.run("return document.title.startsWith(arguments[0])", HOSTILE.replace("\u2028", " ")[:60])


def test_no_other_script_runs(browser: Browser):
    """Even if markup got into the page, the policy would not run it."""
    browser.open(page_of("kimi/parallel_calls"))
    browser.run("document.body.append(Object.assign(document.createElement('script'), {text: 'window.owned = 1'}))")
    assert browser.run("return window.owned") is None
    (refused,) = browser.driver.get_log("browser")
    assert "Content Security Policy" in refused["message"]


# --- Ten thousand events ---------------------------------------------------------------------------------------------


def test_what_opening_costs(browser: Browser, capsys: pytest.CaptureFixture[str]):
    """The largest fixture and ten thousand events are open soon; how soon is printed, beside a page without events.

    What is asserted depends on no machine: the script takes less than fifty times what reading the page's data takes.
    """
    largest = max(FIXTURES.glob("*/*.sse"), key=lambda file: file.stat().st_size)
    name = f"{largest.parent.name}/{largest.stem}"
    for _ in range(2):  # the first page that a browser opens costs more
        browser.open(render_page(inspect_stream(DONE)))
    empty = browser.metrics()
    for what, page in (("10,000 events", large()), (name, page_of(name))):
        browser.open(page)
        made = browser.metrics()
        script, work = made["ScriptDuration"], made["TaskDuration"] / max(empty["TaskDuration"], 1)
        with capsys.disabled():
            sys.stdout.write(
                f"\n{what}: {script:.0f} ms of script to open, all the work {work:.1f} times that of an empty page"
            )
        parsing = browser.run(
            "const text = document.querySelector('#data').textContent, start = performance.now();"
            "for (let n = 0; n < 10; n++) JSON.parse(text); return (performance.now() - start) / 10"
        )
        assert what == name or script < 50 * parsing


def test_ten_thousand_events(browser: Browser):
    """Only what is in view is in the page, and the end is one key away."""
    browser.open(large())
    assert len(browser.all(".row")) < 60
    browser.run("document.querySelector('#list').focus()")
    browser.press(Keys.END)
    assert browser.rows()[-1].startswith("10,000 ")
    assert len(browser.all(".row")) < 60
    browser.search("word 3000")
    assert browser.rows()[0].split()[0] == "6,334"


def test_the_work_per_step_does_not_grow_with_the_stream(browser: Browser):
    """Moving the selection in ten thousand events makes no more elements than in a thousand."""
    made = []
    for events in (1_000, 10_000):
        browser.open(large(events))
        browser.run(
            "window.added = 0; new MutationObserver((all) => all.forEach((one) => { added += one.addedNodes.length; }))"
            ".observe(document.body, { childList: true, subtree: true }); document.querySelector('#list').focus()"
        )
        browser.press(*[Keys.PAGE_DOWN] * 10)
        WebDriverWait(browser.driver, 10).until(lambda _: browser.run("return added > 0"))
        made.append(browser.run("return added"))
    assert made[1] <= made[0] * 1.2
