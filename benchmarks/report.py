"""From the runs to the table: medians, spread, ratios to the floor of the same round, and the targets."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import Any

from environments import FLOOR, PEERS

__all__ = ["Line", "best_peer", "lines", "table"]

# How much of the floor's CPU an event may take, by delivery. Gemini's API has no targets.
TARGETS = {
    "streamfold": {"one": 2.0, "bulk": 3.5, "live": 1.4},
    "streamfold-aiohttp": {"one": 0.7, "bulk": 3.0, "live": 0.8},
}
MARKUP = 0.3  # more than that where markup is read as well
PEER_TARGETS = {"one": 1.0, "bulk": 1.0}  # how many times streamfold the best peer takes
TITLES = {"one": "one event per HTTP chunk", "bulk": "HTTP chunks of 16 KiB", "live": "live, one event at a time"}


@dataclass(frozen=True)
class Line:
    """One contestant with one answer in one delivery.

    Attributes:
        us: microseconds of CPU per event, the median of the rounds; low, high: the least and the most.
        ratio: to the floor, the median of the ratios within the rounds; least, most: their ends.
        quiet: the ratio of the least to the floor's least. Where others use the machine too, this is the steadier.
        result: "right", "markup unread", "wrong" or "failed".
    """

    contestant: str
    payload: str
    delivery: str
    result: str
    us: float = 0.0
    low: float = 0.0
    high: float = 0.0
    ratio: float | None = None
    least: float | None = None
    most: float | None = None
    quiet: float | None = None
    detail: str = ""

    @property
    def target(self) -> float | None:
        api = self.payload.partition("-")[0]
        least = TARGETS.get(self.contestant, {}).get(self.delivery)
        return None if least is None or api == "gemini" else least + (MARKUP if api == "kimi" else 0)


def lines(found: dict[str, Any]) -> list[Line]:
    """One line for each contestant and scenario, in the order in which they were measured."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    floor: dict[tuple[str, str, int], float] = {}
    for run in found["runs"]:
        groups[run["payload"], run["delivery"], run["contestant"]].append(run)
        if run["contestant"] == FLOOR and "us_per_event" in run:
            floor[run["payload"], run["delivery"], run["round"]] = run["us_per_event"]
    order = {name: number for number, name in enumerate(found["versions"])}
    made = [_line(*key, runs, floor) for key, runs in groups.items()]
    scenarios = list(dict.fromkeys((line.payload, line.delivery) for line in made))
    return sorted(made, key=lambda line: (scenarios.index((line.payload, line.delivery)), order[line.contestant]))


def _line(
    name: str, delivery: str, contestant: str, runs: list[dict[str, Any]], floor: dict[tuple[str, str, int], float]
) -> Line:
    results = {run["result"] for run in runs}
    for bad in ("failed", "wrong"):
        if bad in results:
            return Line(contestant, name, delivery, bad, detail=next(filter(None, (r.get("error") for r in runs)), ""))
    costs = [run["us_per_event"] for run in runs]
    keys = [(name, delivery, run["round"]) for run in runs]
    pairs = [(cost, floor[key]) for cost, key in zip(costs, keys, strict=True) if key in floor]
    if not pairs:
        return Line(contestant, name, delivery, "failed", detail="the floor did")
    ratios = [cost / beside for cost, beside in pairs]
    return Line(
        contestant,
        name,
        delivery,
        runs[0]["result"],
        median(costs),
        min(costs),
        max(costs),
        median(ratios),
        min(ratios),
        max(ratios),
        min(costs) / min(beside for _, beside in pairs),
    )


def best_peer(found: list[Line], name: str, delivery: str) -> Line | None:
    """The cheapest of the peers that got the answer right."""
    peers = [
        line
        for line in found
        if (line.payload, line.delivery) == (name, delivery) and line.contestant in PEERS and line.result == "right"
    ]
    return min(peers, key=lambda line: line.us, default=None)


def table(found: dict[str, Any]) -> str:
    """The whole of it as text."""
    made = lines(found)
    out = [
        f"CPU per event, Python {found['python']}: medians over the rounds [least .. most], and the ratio of the least"
    ]
    for name, delivery in dict.fromkeys((line.payload, line.delivery) for line in made):
        out.append(f"\n{name}, {TITLES[delivery]}")
        here = [line for line in made if (line.payload, line.delivery) == (name, delivery)]
        out += [_shown(line) for line in here]
        ours = next((line for line in here if line.contestant == "streamfold"), None)
        peer = best_peer(made, name, delivery)
        if ours and ours.ratio and peer and peer.ratio:
            judged = _judged(times := peer.ratio / ours.ratio, PEER_TARGETS.get(delivery), least=True)
            out.append(f"  best peer {peer.contestant}: {times:.1f} times streamfold{judged}")
    return "\n".join(out)


def _shown(line: Line) -> str:
    begin = f"  {line.contestant:24s}"
    if line.ratio is None:
        return f"{begin} {line.result}: {line.detail}"
    unread = "   (markup unread)" if line.result == "markup unread" else ""
    cost = f"{line.us:8.1f} us [{line.low:6.1f} .. {line.high:6.1f}]"
    ratio = f"{line.ratio:6.2f}x floor [{line.least:5.2f} .. {line.most:5.2f}] {line.quiet:6.2f}x"
    return f"{begin} {cost} {ratio}{_judged(line.ratio, line.target)}{unread}"


def _judged(value: float, target: float | None, *, least: bool = False) -> str:
    if target is None:
        return ""
    met = value >= target if least else value <= target
    return f"   target {'>=' if least else '<='} {target:g}: {'met' if met else 'MISSED'}"
