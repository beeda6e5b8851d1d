"""What was found out about one question holds for the next one with the same settings, and for no other."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfold import ConfigError, Message, StreamfoldError, assistant, system, tool, user
from streamfold.adapters import Adapter, Prepared, find_adapter
from streamfold.adapters.chat import ChatAdapter
from streamfold.requests import Options, Request
from streamfold.values import ProtocolWarning
from tables import each_row

NAMES = ("anthropic", "chat", "gemini", "kimi", "responses")


@tool
def weather(city: str) -> str:
    """Says the weather."""
    return city


CONVERSATIONS: list[list[Message]] = [
    [user("Hi")],
    [user("Hello there")],
    [system("Be brief."), user("Hi")],
    [user("Hi"), system("Be brief.")],
    [system("Be brief.")],
    [user("")],
    [user("Hi", cache=True)],
    [Message("user", "Hi", name="ann")],
    [Message("user", "Hi", extras={"a": 1})],
    [user("Hi"), assistant("Yes?"), user("Why?")],
    [Message("developer", "Be brief."), user("Hi")],
]
BODIES = [Options(extra_body={"top": top}) for top in (True, 1)]
COLD, LONG, JSON = Options(temperature=0.5), Options(max_output_tokens=9, seed=1), Options(response_format="json")


def prepared(adapter: Adapter, request: Request) -> Prepared | str:
    """What becomes of a request, or why it can't be sent."""
    try:
        return adapter.prepare(request)
    except StreamfoldError as exc:
        return str(exc)


@each_row("name", NAMES)
def test_the_same_as_with_a_new_adapter(name: str) -> None:
    """Whatever was asked before, each request is sent as if it were the first one."""
    used = find_adapter(name)()
    requests = [
        Request("m", tuple(messages), options=options, stream=stream, tools=tools)
        for messages, options, stream, tools in product(
            CONVERSATIONS, (Options(), COLD, LONG, JSON, *BODIES), (True, False), ((), (weather,))
        )
    ]
    for request in (*requests, *reversed(requests)):
        assert prepared(used, request) == prepared(find_adapter(name)(), request)


def test_settings_that_are_equal_are_found_out_once() -> None:
    """A server that reads each request anew makes new options of each."""
    adapter = ChatAdapter()
    one, other = (Request("m", (user(text),), options=Options(temperature=0.5)) for text in ("Hi", "Hello"))
    assert adapter.prepare(one).request.options is adapter.prepare(other).request.options


TEXTS = st.text(st.characters(exclude_categories=()), min_size=1, max_size=12) | st.sampled_from(
    [
        "~ 0 of the texts ~",
        '"~ 1 of the texts ~"',
        '","content":"',
        "\\",
        '"',
        "\x00\n\u2028",
        "\ud83d",
        "\ud83d\udc4b",
        " ",
        "é",
    ]
)


@given(
    name=st.sampled_from(NAMES),
    roles=st.lists(st.sampled_from(["user", "system"]), min_size=1, max_size=4),
    texts=st.lists(st.lists(TEXTS, min_size=4, max_size=4), min_size=2, max_size=4),
)
def test_other_texts_are_written_as_by_a_new_adapter(name: str, roles: list[Any], texts: list[list[str]]) -> None:
    """Only the texts of a body are written anew, and it is the same to the byte, with the same warnings."""
    used = find_adapter(name)()
    for each in texts:
        request = Request("m", tuple(map(Message, roles, each)), options=LONG)
        assert prepared(used, request) == prepared(find_adapter(name)(), request)


@each_row("name", NAMES)
def test_of_a_plain_question_only_the_text_is_written(name: str) -> None:
    """The second one is not encoded."""
    adapter = find_adapter(name)()
    adapter.prepare(Request("m", (user("Hi"),), options=LONG))
    adapter.encode = None  # type: ignore[assignment, method-assign]
    assert b"Hello" in adapter.prepare(Request("m", (user("Hello"),), options=LONG)).body


def test_what_the_adapter_is_set_to_counts() -> None:
    """A copy with other quirks, as one that leaves out what was refused, finds out anew."""
    adapter = ChatAdapter()
    request = Request("m", (user("Hi"),), options=LONG)
    assert b'"seed"' in adapter.prepare(request).body
    adapter.quirks = ChatAdapter.Quirks(seed_field="random_seed", developer_role=False)
    assert b'"random_seed"' in adapter.prepare(request).body


def test_an_adapter_of_somebody_else_sees_every_text() -> None:
    """A subclass may look at the texts: it is asked each time."""

    class Shouting(ChatAdapter):
        def rewrite(self, request: Request) -> tuple[Request, list[ProtocolWarning]]:
            if request.messages[-1].content == "no":
                raise ConfigError("no")
            return super().rewrite(request)

    adapter = Shouting()
    options: dict[str, Any] = {"options": LONG}
    adapter.prepare(Request("m", (user("yes"),), **options))
    with pytest.raises(ConfigError, match=r"^no$"):
        adapter.prepare(Request("m", (user("no"),), **options))
