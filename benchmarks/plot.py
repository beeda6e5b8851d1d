"""The picture of the results: what a chunk costs, as a multiple of the bare loop, for everybody and every delivery.

python plot.py RESULTS.json TARGET.svg
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from report import TITLES, lines

OURS = ("streamfold", "streamfold-aiohttp")
PLAIN = ("chat-text", "chat-calls", "responses-text", "responses-calls")  # what everybody reads
COLOURS = {"one": "#3b6ea5", "bulk": "#9dbbd8", "live": "#d9a441"}


def ratios(found: dict[str, Any]) -> dict[str, dict[str, float]]:
    """For each contestant and delivery, the geometric mean over the answers that it got right."""
    kept: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for line in lines(found):
        if line.payload in PLAIN and line.result == "right" and line.ratio:
            kept[line.contestant][line.delivery].append(line.ratio)
    return {name: {delivery: geometric_mean(values) for delivery, values in of.items()} for name, of in kept.items()}


def draw(found: dict[str, Any], target: Path) -> None:
    means = {name: of for name, of in ratios(found).items() if name != "bare"}
    names = sorted(means, key=lambda name: means[name].get("one", 0), reverse=True)
    height = 0.26
    figure = Figure(figsize=(8, 0.9 + 0.62 * len(names)))
    axes = figure.subplots()
    for place, (delivery, colour) in enumerate(COLOURS.items()):
        rows = [(at, means[name][delivery]) for at, name in enumerate(names) if delivery in means[name]]
        bars = axes.barh(
            [at + (1 - place) * height for at, _ in rows],
            [ratio for _, ratio in rows],
            height,
            color=colour,
            label=TITLES[delivery],
        )
        axes.bar_label(bars, [f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}" for _, ratio in rows], padding=3, size=8)
    axes.axvline(1, color="#666666", linewidth=1)
    axes.text(1, len(names) - 0.45, "bare httpx loop", ha="center", size=8, color="#666666")
    axes.set_xscale("log")
    axes.set_xlim(0.3, 2 * max(max(of.values()) for of in means.values()))
    axes.set_ylim(-0.5, len(names) - 0.2)
    axes.set_yticks(range(len(names)), names)
    for label in axes.get_yticklabels():
        label.set_fontweight("bold" if label.get_text() in OURS else "normal")
    ticks = [tick for tick in (0.5, 1, 2, 5, 10, 20, 50) if tick < axes.get_xlim()[1]]
    axes.set_xticks(ticks, [f"{tick:g}x" for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(
        "CPU time of the client per chunk, as a multiple of the bare httpx loop (log scale; less is better)"
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower right", frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    mpl.rcParams["svg.fonttype"] = "none"  # text stays text: small, and sharp in every theme
    mpl.rcParams["svg.hashsalt"] = "streamfold"  # the same results make the same file
    draw(json.loads(Path(sys.argv[1]).read_text("utf-8")), Path(sys.argv[2]))
