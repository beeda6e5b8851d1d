"""The ports of programs written on other libraries: each does what the program did, with a scripted model."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from streamfold import ContextLengthError, Message
from streamfold.testing import ScriptedProvider, call, fail

pytest.importorskip("handoffs", reason="the examples are not part of what is installed")

from handoffs import FRONT, REFUNDS, Agent, Conversation
from research import Research, Source
from shell_agent import AGAIN, DONE, ShellAgent

# --- a shell ----------------------------------------------------------------------------------------------------------


def bash(command: str) -> str:
    return f"I try it.\n\n```bash\n{command}\n```"


def test_a_task_in_a_shell(tmp_path: Path) -> None:
    """Commands run one by one, an answer without one is asked for again, and the record has it all."""
    script = ScriptedProvider(
        bash("echo one > a; cat a; exit 3"), "What now?", bash("sleep 9"), bash(f"echo {DONE}; cat a"),
        provider={"adapter": "chat", "prices": {"input": 1_000_000, "output": 0}},
    )  # fmt: skip
    agent = ShellAgent(script, tmp_path, seconds=0.3, record=tmp_path / "record.json")
    assert agent.run("Write a.") == ("done", "one\n")
    said = [message.content for message in agent.messages if message.role == "user"]
    assert said[1:3] == ["<status>3</status>\n<output>\none\n</output>", AGAIN.format(number=0)]
    assert str(said[3]).startswith("<status>it took too long")
    assert DONE in (tmp_path / "record.json").read_text()


def test_limits_of_the_shell(tmp_path: Path) -> None:
    """Steps, costs and a conversation that became too long end it; nothing runs after that."""
    assert ShellAgent(ScriptedProvider(then=bash("true")), tmp_path, most_steps=2).run("x") == ("steps", "")
    full = ContextLengthError("too long")
    assert ShellAgent(ScriptedProvider([fail(full)]), tmp_path).run("x") == ("context", "")
    spent = ShellAgent(ScriptedProvider(then=bash("true")), tmp_path, cost=Decimal(4))
    assert spent.run("x") == ("cost", "")
    assert len(spent.messages) == 2


# --- agents that hand over --------------------------------------------------------------------------------------------


async def spoken(talk: Conversation) -> dict[str, str]:
    said: dict[str, str] = {}
    async for agent, chunk in talk.answer():
        said[agent.name] = said.get(agent.name, "") + chunk.delta
    return said


async def test_a_conversation_is_handed_over() -> None:
    """The next agent speaks with its own instructions and functions; what they share is not shown to the model."""
    script = ScriptedProvider(
        ["One moment. ", call("to_refunds")], [call("refund", order=17), call("lost")], "It is paid back."
    )
    talk = Conversation(script, FRONT, [Message("user", "Order 17.")], {"customer": "Ann"})
    assert await spoken(talk) == {"front": "One moment. ", "refunds": "It is paid back."}
    assert (talk.agent, talk.context) == (REFUNDS, {"customer": "Ann", "refunded": 17})
    first, second, third = (request.body for request in script.requests)
    assert [one["messages"][0]["content"] for one in (first, second)] == [
        FRONT.instructions, "You pay back. The customer is Ann.",
    ]  # fmt: skip
    assert second["tools"][0]["function"]["parameters"]["properties"].keys() == {"order"}
    results = [message["content"] for message in third["messages"] if message["role"] == "tool"]
    assert results == ['{"agent": "refunds"}', "order 17 of Ann is paid back", "Error: there is no function lost"]


async def test_arguments_that_do_not_fit_are_told() -> None:
    """The function does not run, and the conversation goes on."""
    script = ScriptedProvider([call("refund", order="many")], "Which order?")
    talk = Conversation(script, REFUNDS, [Message("user", "Hi")], {"customer": "Ann"})
    assert await spoken(talk) == {"refunds": "Which order?"}
    assert "refunded" not in talk.context
    assert "order" in str(script.requests[1].body["messages"][-1]["content"])
    alone = Conversation(ScriptedProvider("Hello."), Agent("alone", "Greet."), [Message("user", "Hi")])
    assert await spoken(alone) == {"alone": "Hello."}


# --- research ---------------------------------------------------------------------------------------------------------


async def test_research_in_rounds() -> None:
    """Each round searches for what the summary does not say yet; the report has every page once."""
    asked: list[str] = []

    async def search(query: str) -> list[Source]:
        asked.append(query)
        return [Source("Cells", "http://c", "Cells repair."), Source(query, f"http://{len(asked)}", "More.")]

    script = ScriptedProvider(
        '{"query": "cells", "rationale": "r"}', "Cells repair.", '{"gap": "how", "query": "enzymes"}', "By enzymes."
    )
    report = await Research(script, search, rounds=2).run("Repair")
    assert asked == ["cells", "enzymes"]
    assert report == (
        "## Repair\n\nBy enzymes.\n\n### Sources\n\n- Cells: http://c\n- cells: http://1\n- enzymes: http://2"
    )


async def test_a_model_that_keeps_to_no_form() -> None:
    """The search goes on with a query of its own making."""
    asked: list[str] = []

    async def search(query: str) -> list[Source]:
        asked.append(query)
        return []

    await Research(ScriptedProvider(then="I'd search for it."), search, rounds=1).run("Repair")
    assert asked == ["more about Repair"]
