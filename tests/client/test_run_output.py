"""Runs of tools whose answer has a type."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from pydantic import BaseModel

import streamfold.sync
from streamfold import ConfigError, InvalidReplyError, StreamChunk, StreamfoldError, run_tools, tool
from streamfold.testing import ScriptedProvider, call


class Weather(BaseModel):
    celsius: int


@tool
def get_weather(city: str) -> dict[str, int]:
    """Returns the weather."""
    return {"celsius": 18}


CALL, GOOD, BAD = call("get_weather", city="Oslo"), '{"celsius": 18}', '{"celsius": "warm"}'


async def test_the_output_of_a_run() -> None:
    """It is the answer as a value; one that does not fit is requested again, and stays in the history."""
    model = ScriptedProvider(CALL, BAD, GOOD)
    run = run_tools(model, "How warm is it?", [get_weather], output_type=Weather)
    with pytest.raises(StreamfoldError, match="there is no output yet"):
        _ = run.output
    assert (await run).text == GOOD
    assert run.output == Weather(celsius=18)
    assert [message.role for message in run.messages] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert all("response_format" in request.body for request in model.requests)


async def test_other_types() -> None:
    """A type is what pydantic validates, and without one the answer is text."""
    run = run_tools(ScriptedProvider('{"value": [1, 2]}'), "Which?", [], output_type=list[int])
    await run
    assert run.output == [1, 2]
    plain = run_tools(ScriptedProvider("text"), "Which?", [])
    await plain
    with pytest.raises(StreamfoldError, match="the run has no output_type"):
        _ = plain.output
    with pytest.raises(ConfigError, match="output_type and response_format have the same meaning"):
        run_tools(ScriptedProvider(), "Which?", [], output_type=Weather, response_format=Weather)


@pytest.mark.parametrize(
    ("turns", "options"), [([BAD, BAD, BAD], {}), ([BAD, BAD], {"max_turns": 2}), ([CALL, BAD], {"max_turns": 2})]
)
async def test_no_answer_fits(turns: list[Any], options: dict[str, Any]) -> None:
    """After three answers, or the last turn, the error has the last reply; all chunks have come before it."""
    run = run_tools(ScriptedProvider(*turns), "How warm is it?", [get_weather], output_type=Weather, **options)
    chunks: list[StreamChunk] = []

    async def read() -> None:
        async for chunk in run:
            chunks.append(chunk)

    with pytest.raises(InvalidReplyError) as raised:
        await read()
    assert raised.value.reply is run.reply
    assert sum(chunk.finished for chunk in chunks) == len(turns)
    with pytest.raises(StreamfoldError, match="there is no output"):
        _ = run.output


@pytest.mark.one_loop
def test_the_output_of_a_synchronous_run() -> None:
    """The same, for synchronous code."""
    with streamfold.sync.Provider(ScriptedProvider(CALL, GOOD)) as provider:
        run = streamfold.sync.run_tools(provider, "How warm is it?", [get_weather], output_type=Weather)
        run.read()
    assert run.output == Weather(celsius=18)


FAILING = """
from streamfold import run_tools
from streamfold.testing import ScriptedProvider, call
import asyncio, logging, sys

def look() -> str:
    "Looks."
    raise RuntimeError("nothing there")

async def main() -> None:
    await run_tools(ScriptedProvider(call("look"), "ok"), "x", [look])

if "configured" in sys.argv:
    logging.basicConfig(format="own %(message)s")
asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("words", [[], ["configured"]])
def test_a_failing_tool_is_seen(words: list[str]) -> None:
    """Once, on standard error, whether logging is configured or not."""
    done = subprocess.run([sys.executable, "-c", FAILING, *words], capture_output=True, text=True, check=True)
    assert done.stderr.count("the tool look failed") == 1
    assert done.stderr.count("RuntimeError: nothing there") == 1
    assert done.stderr.startswith("own ") is bool(words)
