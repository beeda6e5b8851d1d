"""Numbers in a usage object that can't be counts: none of them is counted, on any wire format."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from odd_usage import LOST, MEMBERS, ODD, STREAMS
from streamfold import Provider, StreamDecoder, Usage
from tables import each_row


def read(adapter: str, stream: str) -> Any:
    decoder = StreamDecoder(adapter)
    decoder.feed(stream.encode())
    decoder.close()
    return decoder.reply


@each_row(("adapter", "member"), MEMBERS)
def test_only_counts_are_counted(adapter: str, member: str) -> None:
    """Of a usage with one odd number, all others are counted, and a warning names it."""
    right = read(adapter, STREAMS[adapter]).usage
    name = member.partition(":")[0]
    for odd in ODD:
        reply = read(adapter, STREAMS[adapter].replace(member, f"{name}:{odd}"))
        expected = {each: getattr(right, each) for each in Usage.__dataclass_fields__ if each != "raw"}
        expected |= {each: {} if each in ("tools", "details") else None for each in LOST[adapter][member]}
        assert {each: getattr(reply.usage, each) for each in expected} == expected, odd
        assert [warning.code for warning in reply.warnings] == ["usage_invalid"], odd
        assert name.strip('"').partition("_")[0].removeprefix("num") in reply.warnings[0].detail
        assert reply.usage + reply.usage
        assert reply.text == "Hi"


@each_row("adapter", STREAMS)
def test_usual_numbers_are_counted_without_a_warning(adapter: str) -> None:
    """Null and zero are what many servers send, and a float without a fraction is a count."""
    for member in LOST[adapter]:
        name = member.partition(":")[0]
        for usual in ("null", "0", "2.0", "99999999999"):
            reply = read(adapter, STREAMS[adapter].replace(member, f"{name}:{usual}"))
            assert reply.warnings == [], (member, usual)


PRICES = {"input": 1.0, "output": 2.0, "cache_write_1h": 3.0, "reported": "cost"}


@each_row(("adapter", "member"), MEMBERS)
def test_an_odd_number_costs_nothing_and_gives_nothing_back(adapter: str, member: str) -> None:
    """`Reply.cost` is None or what the other counts cost: it never raises, and is never negative or infinite."""
    prices = Provider.from_config({"base_url": "http://u/v1", "adapter": adapter, "model": "m", "prices": PRICES})
    for odd in ODD:
        reply = read(adapter, STREAMS[adapter].replace(member, f"{member.partition(':')[0]}:{odd}"))
        (facts,) = prices.facts().endpoints
        assert facts.prices
        pricing = facts.prices("m")
        assert pricing
        cost = pricing.cost(reply)
        assert cost is None or Decimal(0) <= cost.amount <= Decimal(3), odd
