"""The page of an inspection: one file, no network, and text that stays text. tests/browser looks at it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from folding import DONE, call, entry, event, fin, text
from streamfold.recording import Recording
from streamfold_lab.inspection import inspect_stream, render_page

FIXTURES = Path(__file__).parents[3] / "fixtures"
HOSTILE = "</script><script>alert(1)</script><!--<img src=x onerror=alert(1)>\u2028\u2029&amp;\x00\ud83d"


class Elements(HTMLParser):
    """The elements of a page, and the text of those that hold some."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, text: str) -> None:
        if self.found and text.strip():
            self.texts.append((*self.found[-1], text))

    def text(self, tag: str, **attributes: str) -> str:
        return "".join(text for name, attrs, text in self.texts if name == tag and attrs == attributes)

    def tags(self) -> list[str]:
        return [tag for tag, _ in self.found]


def hostile_page() -> str:
    body = (
        text(HOSTILE[:-1])
        + b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n'
        + call(entry(0, HOSTILE[:-1], HOSTILE[:-1], HOSTILE[:-1]))
        + b"event: </script><script>\ndata: {}\n\n"
        + b": </script>\xff\n\n"
        + event({"error": {"message": HOSTILE[:-1]}})
    )
    return render_page(inspect_stream(body, name=HOSTILE, about={"notes": HOSTILE[:-1]}))


def data_of(page: str) -> Any:
    return json.loads(Elements(page).text("script", type="application/json", id="data"))


def test_hostile_text_makes_no_element():
    """Whatever is in a stream, the page has the same elements, and the data block holds no markup."""
    page = hostile_page()
    plain = render_page(inspect_stream(text("a") + DONE, name="a"))
    assert Elements(page).tags() == Elements(plain).tags()
    block = page[page.index('id="data">') + 10 :]
    block = block[: block.index("</script>")]
    assert not re.search("[<>&\u2028\u2029\ud800-\udfff]", block)
    page.encode()


def test_hostile_text_is_still_there():
    """What is escaped on its way in is what it was when the page reads it."""
    made = data_of(hostile_page())
    assert made["name"] == HOSTILE
    assert made["answer"]["text"].startswith("</script><script>alert(1)</script><!--<img")
    assert HOSTILE[:-1] in made["words"]


def test_a_name_is_only_a_name():
    """It takes the place of nothing in the page, whatever it looks like."""
    made = data_of(render_page(inspect_stream(DONE, name="$data $script ${body}")))
    assert (made["name"], made["answer"]["text"]) == ("$data $script ${body}", "")


def test_the_policy_allows_this_script_and_nothing_else():
    """The hashes are those of the page's own script and style; no source of anything is named."""
    page = render_page(inspect_stream(text("a") + DONE, name="a"))
    elements = Elements(page)
    (policy,) = [a["content"] for tag, a in elements.found if tag == "meta" and "http-equiv" in a]
    assert policy is not None
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    for name, tag in (("script-src", "script"), ("style-src", "style")):
        (inline,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert rules.pop(name) == f"'sha256-{base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()}'"
    assert rules == {"default-src": "'none'", "img-src": "data:", "base-uri": "'none'", "form-action": "'none'"}


def test_it_asks_for_nothing():
    """No element names another file, no style or script an address, and none makes HTML out of text."""
    page = render_page(inspect_stream(text("a") + DONE, name="a"))
    addresses = [
        a.get(name) for _, a in Elements(page).found for name in ("src", "href", "action", "data") if a.get(name)
    ]
    assert addresses == ["data:,"]
    assert not re.search(r"https?://|url\(|@import|fetch\(|XMLHttpRequest|WebSocket|sendBeacon|import\(", page)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function|\bon[a-z]+=", page)


def test_what_the_page_is_given():
    """Lanes, events with their steps, and the answer."""
    made = data_of(render_page(inspect_stream(call(entry(0, "a", "f", "{}")) + fin("tool_calls") + DONE, name="x/y")))
    assert [lane["key"] for lane in made["lanes"]] == ["call 0", "stream", "warning", "error"]
    number, kind, time, gap, piece, start, end, raw, told = made["events"][0]
    assert (number, made["words"][kind], time, gap, piece, start, end) == (1, "event", None, None, None, 0, len(raw))
    assert [
        (lane, made["words"][what], piece, made["words"][why], opens) for lane, what, piece, why, opens in told
    ] == [
        (1, "meta: c1, m", "", "", 0),
        (0, "name 'f', id 'a'", "{}", "no call is open: opens call 0 (f)", 1),
    ]
    assert made["outcome"] == {"how": "ok", "label": "finished: tool_calls", "message": ""}
    assert made["answer"]["calls"] == [{"name": "f", "id": "a", "arguments": "{}", "error": None, "number": 0}]
    assert made["timed"] is False


def test_times_are_drawn_where_they_are_known():
    """A recording with the network's pieces has a time axis; a broken one has its error."""
    recording = Recording.load(FIXTURES / "demo" / "reasoning_text")
    made = data_of(render_page(inspect_stream(recording.body, cuts=recording.cuts)))
    assert made["timed"] is True
    assert made["events"][1][2:5] == [0.0298, 0.0297, 2]
    broken = data_of(render_page(inspect_stream(text("a"), cuts=[(999, float("inf"))])))
    assert broken["outcome"]["label"] == "IncompleteStreamError"
    assert broken["timed"] is False
