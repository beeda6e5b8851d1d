"""The live page of the gateway in a real browser: growing lines, filters, timelines, fixtures, and hostile text."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("selenium", reason="selenium is not installed: nox -s browser brings it")

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from browsing import Browser
from folding import DONE, call, chunk, entry, fin, text
from served_apps import serving_app
from streamfold.recording import Recording
from streamfold_gateway import gateway
from streamfold_lab.live import LivePage

HOSTILE = "</script><script>window.owned = 1</script><!--<img src=x onerror='window.owned = 1'>\u2028&lt;\u202e\x1b[2J"
LONG = 10_000


def answers(question: str) -> Iterator[bytes]:
    if "hostile" in question:
        yield text(HOSTILE)
        yield call(entry(0, "<b>id</b>", "<img src=x onerror=alert(1)>", '{"x": "</script>"}'))
        yield from (fin("tool_calls"), DONE)
    elif "long" in question:
        yield chunk({"reasoning_content": "so many"})
        yield from (text(f"word {number} ") for number in range(LONG - 3))
        yield from (fin("stop"), DONE)
    elif "warn" in question:
        yield from (text("no reason"), DONE)
    elif "cut" in question:
        yield text("and then")
    else:
        yield from (text("Hello "), text("there"), fin("stop"), DONE)


class World:
    """A provider, the gateway before it, and its page; each request says in its question what it gets."""

    def __init__(self, stack: ExitStack, fixtures: Path) -> None:
        self.go_on = threading.Event()
        self.go_on.set()

        async def upstream(request: Request) -> StreamingResponse:
            question = str((await request.json())["messages"][-1]["content"])

            async def body() -> AsyncIterator[bytes]:
                for number, piece in enumerate(answers(question)):
                    yield piece
                    if number == 0 and "slow" in question:
                        while not self.go_on.is_set():
                            await _sleep(0.01)

            return StreamingResponse(body(), media_type="text/event-stream")

        provider = stack.enter_context(
            serving_app(Starlette(routes=[Route("/v1/chat/completions", upstream, methods=["POST"])]))
        )
        page = LivePage(fixtures=fixtures)
        models = {
            name: {"base_url": f"{provider}/v1", "model": name, "max_retries": 0, "adapter": "chat"}
            for name in ("small", "large<i>")
        }
        self.address = stack.enter_context(serving_app(page.around(gateway(models, hooks=page.hooks))))
        self.fixtures, self.path = fixtures, page.path

    def ask(self, question: str, model: str = "small") -> None:
        body = {"model": model, "stream": True, "messages": [{"role": "user", "content": question}]}
        with httpx.stream("POST", f"{self.address}/v1/chat/completions", json=body, timeout=60) as answer:
            for _ in answer.iter_bytes():
                pass


async def _sleep(seconds: float) -> None:
    import asyncio

    await asyncio.sleep(seconds)


@pytest.fixture
def world(visitor: Browser, tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(stack, tmp_path / "fixtures")
        visitor.driver.get("about:blank")  # else it asks a server that is gone


def shown(page: Browser) -> list[str]:
    return [str(found) for found in page.run(
        "return [...document.querySelectorAll('#list li')].filter((e) => !e.hidden).map((e) => e.dataset.number)"
    )]  # fmt: skip


def choose(page: Browser, box: str, value: Any) -> None:
    page.run(
        "const box = document.getElementById(arguments[0]);"
        "if (box.type === 'checkbox') box.checked = arguments[1]; else box.value = arguments[1];"
        "box.dispatchEvent(new Event('change'))",
        box,
        value,
    )


def test_a_line_grows_while_the_answer_streams(visitor: Browser, world: World) -> None:
    """The newest is on top; its state and its text change without a reload."""
    visitor.open(f"{world.address}{world.path}")
    visitor.wait("#empty", "No answers yet")
    world.ask("Hello")
    world.go_on.clear()
    asking = threading.Thread(target=world.ask, args=("slow",))
    asking.start()
    visitor.wait("li.streaming .text", "Hello")
    assert shown(visitor) == ["2", "1"]
    assert "there" not in visitor.said("li.streaming .text")
    assert visitor.said("#status") == "live"
    world.go_on.set()
    asking.join()
    visitor.wait("li.finished[data-number='2'] .text", "Hello there")


def test_filters(visitor: Browser, world: World) -> None:
    """By model, by warning, and errors alone."""
    for question, model in [("Hello", "small"), ("warn", "large<i>"), ("cut", "small"), ("Hello", "large<i>")]:
        world.ask(question, model)
    visitor.open(f"{world.address}{world.path}")
    visitor.wait("li[data-number='4']")
    assert shown(visitor) == ["4", "3", "2", "1"]
    choose(visitor, "model", "large<i>")
    assert shown(visitor) == ["4", "2"]
    choose(visitor, "warning", "*")
    assert shown(visitor) == ["2"]
    choose(visitor, "warning", "missing_finish_reason")
    assert shown(visitor) == ["2"]
    choose(visitor, "model", "")
    choose(visitor, "warning", "")
    choose(visitor, "errors", True)
    assert shown(visitor) == ["3"]
    assert "IncompleteStreamError" in visitor.said("li[data-number='3'] .notes")
    choose(visitor, "model", "large<i>")
    assert visitor.said("#empty") == "No answer passes the filters."


def test_ten_thousand_events(visitor: Browser, world: World) -> None:
    """The list follows, the timeline opens and has them all, and the page stays usable."""
    visitor.open(f"{world.address}{world.path}")
    asking = threading.Thread(target=world.ask, args=("long",))
    asking.start()
    visitor.wait("li .text", "word")
    asking.join()
    visitor.wait("li.finished .text", f"word {LONG - 4}", seconds=30)
    visitor.open(f"{world.address}/ui/answers/1{world.path[3:]}")
    assert f"{LONG:,} events" in visitor.said("#facts")
    assert visitor.said("#outcome") == "finished: stop"


def test_hostile_text_stays_text(visitor: Browser, world: World) -> None:
    """Neither the list nor the timeline runs what a model or a client wrote."""
    world.ask("hostile", "large<i>")
    visitor.open(f"{world.address}{world.path}")
    visitor.wait("li .text", "window.owned = 1")
    visitor.wait("li .calls", "<img src=x onerror=alert(1)>()")
    assert visitor.said("li .model") == "large<i>"
    assert visitor.run("return document.querySelectorAll('#list img, #list script, #list i, #list b').length") == 0
    visitor.click("li .open")
    visitor.wait("#outcome", "finished: tool_calls")
    assert "window.owned = 1" in visitor.said("#answer")
    assert visitor.run("return window.owned") is None


def test_save_as_fixture(visitor: Browser, world: World) -> None:
    """One click and a name; the button says where it is."""
    world.ask("Hello")
    visitor.open(f"{world.address}{world.path}")
    visitor.wait("li.finished .save:not([disabled])")
    visitor.find(".save").click()
    prompt = visitor.driver.switch_to.alert
    prompt.send_keys("from_page")
    prompt.accept()
    visitor.wait(".save", "Saved: ")
    assert Recording.load(world.fixtures / "from_page").expect["text"] == "Hello there"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits(visitor: Browser, world: World, scheme: str, width: int, tmp_path: Path) -> None:
    """Nothing is wider than the screen, and text stands out from what is behind it."""
    for question in ("Hello", "warn", "cut", "hostile"):
        world.ask(question, "large<i>" if question == "warn" else "small")
    visitor.open(f"{world.address}{world.path}", width=width, height=844, touch=width < 500, scheme=scheme)
    visitor.wait("li[data-number='4']")
    assert visitor.run("return document.documentElement.scrollWidth <= innerWidth")
    dark = visitor.run("return matchMedia('(prefers-color-scheme: dark)').matches")
    assert dark == (scheme == "dark")
    shades = visitor.run(
        "const of = (name) => getComputedStyle(document.querySelector(name)).color.match(/\\d+/g).map(Number);"
        "const back = getComputedStyle(document.querySelector('li')).backgroundColor.match(/\\d+/g).map(Number);"
        "const light = (c) => c.slice(0, 3).reduce((sum, v, i) => sum + [.2126, .7152, .0722][i] *"
        " (v / 255 <= .03928 ? v / 255 / 12.92 : ((v / 255 + .055) / 1.055) ** 2.4), 0);"
        "return ['.model', '.numbers', '.text', '.notes', '.state'].map((name) => {"
        " const [a, b] = [light(of(name)), light(back)].sort((x, y) => y - x); return (a + .05) / (b + .05); })"
    )
    assert min(shades) >= 4.5
    visitor.picture(tmp_path / "page.png")
