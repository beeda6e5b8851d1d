"""Agents that hand a conversation over to each other: a function of one returns the next.

Ported from a program on OpenAI's SDK; docs/guides/ports.md says what became of it.
`python handoffs.py "I want my money back for order 17"`
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from inspect import signature
from typing import Any

from streamfold import ChatModel, InvalidToolArgumentsError, Message, Provider, StreamChunk, system, tool, tool_result

_CONTEXT = "context"  # functions that have it get what the agents share; the model does not see it


@dataclass(frozen=True)
class Agent:
    """Who speaks: instructions, functions, and a model if it is not that of the others."""

    name: str
    instructions: str | Callable[[Mapping[str, Any]], str]
    functions: tuple[Callable[..., Any], ...] = ()
    model: str | None = None
    tool_choice: Any = "auto"
    parallel_tool_calls: bool | None = None


@dataclass(frozen=True)
class Result:
    """What a function returns that does more than answer."""

    value: str = ""
    agent: Agent | None = None
    context: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass
class Conversation:
    """A conversation of several agents.

    Attributes:
        agent: who speaks next.
        messages: what was said, without instructions.
        context: what the agents share.
    """

    provider: ChatModel
    agent: Agent
    messages: list[Message] = field(default_factory=list[Message])
    context: dict[str, Any] = field(default_factory=dict[str, Any])

    async def answer(self, most_turns: int = 20) -> AsyncIterator[tuple[Agent, StreamChunk]]:
        """Yields the chunks of all turns, each with who says it, until somebody calls no function."""
        for _ in range(most_turns):
            agent = self.agent
            said = agent.instructions
            instructions = said(self.context) if callable(said) else said
            tools = {function.__name__: tool(self._seen(function)) for function in agent.functions}
            async with self.provider.chat_stream(
                [system(instructions), *self.messages],
                [*tools.values()],
                tool_choice=agent.tool_choice if tools else "auto",
                parallel_tool_calls=agent.parallel_tool_calls if tools else None,
                model=agent.model,
            ) as stream:
                async for chunk in stream:
                    yield agent, chunk
            reply = stream.reply
            self.messages.append(reply.message)
            if not reply.tool_calls:
                return
            for call in reply.tool_calls:
                if call.name not in tools:
                    self.messages.append(tool_result(call, f"there is no function {call.name}", error=True))
                    continue
                try:
                    given = await tools[call.name].call(call)
                except InvalidToolArgumentsError as error:
                    self.messages.append(tool_result(call, str(error), error=True))
                    continue
                result = _result(given)
                self.messages.append(tool_result(call, result.value))
                self.context |= result.context
                self.agent = result.agent or self.agent

    def _seen(self, function: Callable[..., Any]) -> Callable[..., Any]:
        has = _CONTEXT in signature(function).parameters
        return partial(function, **{_CONTEXT: self.context}) if has else function


def _result(given: Any) -> Result:
    match given:
        case Result():
            return given
        case Agent():
            return Result(json.dumps({"agent": given.name}), given)
        case _:
            return Result(str(given))


def to_refunds() -> Agent:
    """Hands over to the agent for refunds."""
    return REFUNDS


def refund(order: int, context: dict[str, Any]) -> Result:
    """Pays an order back."""
    return Result(f"order {order} of {context['customer']} is paid back", context={"refunded": order})


REFUNDS = Agent("refunds", lambda context: f"You pay back. The customer is {context['customer']}.", (refund,))
FRONT = Agent("front", "Find out what the customer wants, and hand over.", (to_refunds,))


async def main(question: str) -> None:
    async with Provider.from_config() as provider:
        talk = Conversation(provider, FRONT, [Message("user", question)], {"customer": "Ann"})
        async for _, chunk in talk.answer():
            print(chunk.delta, end="", flush=True)
        print(f"\n[{talk.agent.name}] {talk.context}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
