"""The same call writes the same bytes, whatever was sent before."""

from __future__ import annotations

from itertools import product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streamfold import Message, StreamfoldError, assistant, system, tool, user
from streamfold.adapters import Adapter, PreparedRequest, find_adapter
from streamfold.requests import Options, Request
from tables import each_row

NAMES = ("anthropic", "chat", "gemini", "interactions", "kimi", "responses")


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
OPTIONS = [
    Options(),
    *[Options(temperature=value) for value in (0, 0.0, 1, 1.0, 0.5)],
    *[Options(extra_body={"top": value}) for value in (True, 1, 1.0)],
    Options(max_output_tokens=9, seed=1),
    Options(response_format="json"),
]


def prepared(adapter: Adapter, request: Request) -> PreparedRequest | str:
    """What becomes of a request, or why it can't be sent."""
    try:
        return adapter.prepare(request)
    except StreamfoldError as exc:
        return str(exc)


@each_row("name", NAMES)
def test_the_same_as_with_a_new_adapter(name: str) -> None:
    """Options that Python takes for equal are written as the caller wrote them."""
    used = find_adapter(name)()
    requests = [
        Request("m", tuple(messages), options=options, stream=stream, tools=tools)
        for messages, stream, tools, options in product(CONVERSATIONS, (True, False), ((), (weather,)), OPTIONS)
    ]
    for request in (*requests, *reversed(requests)):
        assert prepared(used, request) == prepared(find_adapter(name)(), request)


TEXTS = st.text(st.characters(exclude_categories=()), min_size=1, max_size=12) | st.sampled_from(
    [
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
    """The body has nothing of an earlier request, and the warnings are those of this one."""
    used = find_adapter(name)()
    for each in texts:
        request = Request("m", tuple(map(Message, roles, each)), options=Options(max_output_tokens=9, seed=1))
        assert prepared(used, request) == prepared(find_adapter(name)(), request)
