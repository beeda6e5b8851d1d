"""`examples/web_chat` in a real browser, with both protocols."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("selenium", reason="selenium is not installed: nox -s browser brings it")

from browsing import Browser
from served_apps import serving_app

FOLDER = Path(__file__).parents[2] / "examples" / "web_chat"


@pytest.fixture(scope="module")
def made() -> Iterator[tuple[str, Any]]:
    """The address of the example, and its application."""
    sys.path.insert(0, str(FOLDER))
    try:
        from app import make_app
        from script import make_model

        app = make_app(make_model())
        with serving_app(app) as address:
            yield address, app
    finally:
        sys.path.remove(str(FOLDER))
        for name in ("app", "script"):
            sys.modules.pop(name, None)


@pytest.fixture(params=["aisdk", "agui"])
def chat(visitor: Browser, made: tuple[str, Any], request: pytest.FixtureRequest) -> Browser:
    """The page, with one of the protocols."""
    made[1].state.notes["Shopping list"] = "milk"
    visitor.open(made[0])
    visitor.run(
        "const box = document.querySelector('#protocol'); box.value = arguments[0];"
        "box.dispatchEvent(new Event('change'))",
        request.param,
    )
    return visitor


def ask(chat: Browser, text: str) -> None:
    chat.find("#question").send_keys(text)
    chat.click("#send")


def idle(chat: Browser) -> None:
    chat.wait("#send:not([disabled])")


def test_text_comes_in_pieces(chat: Browser) -> None:
    """The page shows the text while it grows."""
    ask(chat, "Hello")
    chat.wait("article.assistant .text", "Ask")
    assert "break off." not in chat.said("article.assistant")
    chat.wait("article.assistant .text", "I can also break off.")
    idle(chat)


def test_parallel_calls_and_their_results(chat: Browser) -> None:
    """Reasoning, text, two calls with their results, and the text after them."""
    ask(chat, "How is the weather?")
    chat.wait("article.assistant .text", "here is what I found.")
    idle(chat)  # until then everything is drawn again and again
    assert [call.text for call in chat.all(".call .name")] == ["get_weather", "get_weather"]
    oslo, bergen = (result.text for result in chat.all(".call .result"))
    assert "Oslo" in oslo
    assert "Bergen" in bergen
    assert chat.said(".reasoning summary") == "Reasoning"
    ask(chat, "And again, the weather?")  # the conversation goes back and is understood
    chat.wait("article:nth-of-type(4) .text", "here is what I found.")


def test_an_approval(chat: Browser, made: tuple[str, Any]) -> None:
    """Nothing is deleted before the person has allowed it, and then once."""
    ask(chat, "Delete the shopping list")
    chat.wait(".call.asks .state", "needs your approval")
    idle(chat)
    assert "Shopping list" in made[1].state.notes
    chat.click(".allow")
    chat.wait("article.assistant .text", "here is what I found.")
    assert "deleted" in chat.said(".call .result")
    assert "Shopping list" not in made[1].state.notes


def test_a_denial(chat: Browser, made: tuple[str, Any]) -> None:
    """The model is told, and the note stays."""
    ask(chat, "Delete the shopping list")
    chat.wait(".call.asks .state", "needs your approval")
    idle(chat)
    chat.click(".deny")
    chat.wait("article.assistant .text", "Then I leave it.")
    assert chat.all(".call.denied")
    assert "Shopping list" in made[1].state.notes


def test_an_error_is_shown(chat: Browser) -> None:
    """What came before stays, and the page can go on."""
    ask(chat, "Please break")
    chat.wait(".error", "the provider broke off")
    assert "I begin and then" in chat.said("article.assistant")
    idle(chat)
    ask(chat, "Hello")
    chat.wait("article.assistant:last-of-type .text", "I can also break off.")


def test_stopping(chat: Browser) -> None:
    """The page leaves in the middle of an answer."""
    ask(chat, "Hello")
    chat.wait("article.assistant .text", "Ask")
    chat.click("#stop")
    idle(chat)
    assert not chat.all(".error")
