"""An agent that reads a shopping list from a picture, asks its tools, and answers in a form.

Which provider it asks is one line of `streamfold.toml`. There is nothing about any provider in here.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
from pydantic import BaseModel

from streamfold import Provider, image, run_tools, tool, user

HERE = Path(__file__).resolve().parent
PRICES = {"apples": 0.40, "bread": 2.50}
STOCK = {"apples": 12, "bread": 0}


@tool
def get_price(product: str) -> float:
    """The price of one piece, in euros.

    Args:
        product: its name, in small letters.
    """
    return PRICES[product]


@tool
def in_stock(product: str, quantity: int) -> bool:
    """Whether there are that many.

    Args:
        product: its name, in small letters.
        quantity: how many are wanted.
    """
    return STOCK[product] >= quantity


class Item(BaseModel):
    product: str
    quantity: int
    unit_price: float


class Order(BaseModel):
    """What is on the list, and what it costs together."""

    items: list[Item]
    total: float
    available: bool


async def main() -> None:
    ask = "What is on this list, what does it cost together, and are there enough apples?"
    question = [user(ask, image(HERE / "shopping_list.png"))]
    async with (
        Provider.from_config(config=HERE / "streamfold.toml") as provider,
        run_tools(provider, question, [get_price, in_stock], response_format=Order) as run,
    ):
        print(f"asking {provider.name}", file=sys.stderr)
        async for chunk in run:
            for call in chunk.tool_calls or ():
                print(f"calls {call.name} {call.arguments}")
    for number, reply in enumerate(run.replies, 1):
        for warning in reply.warnings:
            print(f"turn {number}: {warning.code}: {warning.detail}", file=sys.stderr)
    print(run.reply.parse_as(Order).model_dump_json(indent=2))


if __name__ == "__main__":
    anyio.run(main)
